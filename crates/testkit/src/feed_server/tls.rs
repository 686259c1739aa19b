//! Who the server says it is.

use std::fmt;
use std::io;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::{Error, Result};

/// A certificate, and the authority that signed it.
#[derive(Clone)]
pub struct Identity {
    authority_pem: String,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// Valid for names and addresses, today and for a long time.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn valid(names: &[&str]) -> Result<Self> {
        Self::until(names, 2100)
    }

    /// As [`Identity::valid`], but its time is over.
    ///
    /// # Errors
    /// When no certificate can be made.
    pub fn expired(names: &[&str]) -> Result<Self> {
        Self::until(names, 2001)
    }

    fn until(names: &[&str], year: i32) -> Result<Self> {
        let failed = |error: rcgen::Error| Error::failed("make a certificate", &error);
        let authority_key = KeyPair::generate().map_err(failed)?;
        let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_pem = authority.self_signed(&authority_key).map_err(failed)?.pem();
        let authority = Issuer::new(authority, authority_key);

        let key = KeyPair::generate().map_err(failed)?;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut own = CertificateParams::new(names).map_err(failed)?;
        own.not_before = date_time_ymd(2000, 1, 1);
        own.not_after = date_time_ymd(year, 1, 1);
        let own = own.signed_by(&key, &authority).map_err(failed)?;
        let config = config(own.der().clone(), key.serialize_der());
        Ok(Self {
            authority_pem,
            config: Arc::new(config.map_err(|error| Error::failed("use TLS", &error))?),
        })
    }

    /// What a client must trust to trust this server.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    pub(super) async fn accept(self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.config).accept(stream).await
    }
}

fn config(
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
) -> std::result::Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
        )
}
