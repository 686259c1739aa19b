//! TLS: the certificate and the key of a listener, read again when their files change.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cannery_runtime::Clock;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often the files are looked at, at most: when a client connects.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The files that a listener speaks TLS with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate in PEM, followed by those of the authorities between it and one that clients know.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

/// Why TLS cannot be spoken with some files, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// What tells that a file was replaced.
type FileStamp = Option<(u64, i64, i64, u64)>;

/// The two files as they were.
type Stamp = [FileStamp; 2];

fn stamp(files: &TlsFiles) -> Stamp {
    [&files.certificate, &files.key].map(|file| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
    })
}

/// TLS on one listener.
pub(crate) struct Tls {
    files: TlsFiles,
    clock: Clock,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    /// What the files were when they were last read, whether or not they could be used.
    stamp: Stamp,
    checked: Duration,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] says what to do.
    pub(crate) fn load(files: &TlsFiles, clock: &Clock) -> Result<Arc<Self>, TlsError> {
        // Taken before: a file that is replaced meanwhile is read again.
        let stamp = stamp(files);
        let loaded = Loaded {
            config: read(files)?,
            stamp,
            checked: clock.elapsed(),
        };
        Ok(Arc::new(Self {
            files: files.clone(),
            clock: clock.clone(),
            loaded: Mutex::new(loaded),
        }))
    }

    /// The handshake with a client, for a bounded time.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.current().await);
        let handshake = acceptor.accept(stream);
        let done = self.clock.timeout(HANDSHAKE_TIMEOUT, handshake).await;
        done.unwrap_or_else(|timed_out| {
            Err(io::Error::new(
                io::ErrorKind::TimedOut,
                timed_out.to_string(),
            ))
        })
    }

    async fn current(self: &Arc<Self>) -> Arc<ServerConfig> {
        let is_due = {
            let mut loaded = self.lock();
            let is_due = self.clock.since(loaded.checked) >= CHECK_INTERVAL;
            if is_due {
                loaded.checked = self.clock.elapsed();
            }
            is_due
        };
        if is_due {
            let tls = Arc::clone(self);
            if let Err(error) = tokio::task::spawn_blocking(move || tls.reload()).await {
                tracing::error!(%error, "reading the certificate panicked");
            }
        }
        Arc::clone(&self.lock().config)
    }

    /// Takes files that have changed into use, or goes on with what it has.
    fn reload(&self) {
        let now = stamp(&self.files);
        if self.lock().stamp == now {
            return;
        }
        let read = read(&self.files);
        let mut loaded = self.lock();
        loaded.stamp = now;
        match read {
            Ok(config) => {
                loaded.config = config;
                tracing::info!(certificate = %self.files.certificate.display(), "took a new certificate into use");
            }
            Err(error) => {
                tracing::error!(%error, "cannot use the new certificate; going on with the old one");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let TlsFiles { certificate, key } = files;
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let certificates =
        certificates.map_err(|error| unreadable("certificate", certificate, &error))?;
    if certificates.is_empty() {
        let error = pem::Error::NoItemsFound;
        return Err(unreadable("certificate", certificate, &error));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| unreadable("private key", key, &error))?;
    let unfit = |error: rustls::Error| {
        let (certificate, key) = (certificate.display(), key.display());
        TlsError(match error {
            rustls::Error::InconsistentKeys(_) => format!(
                "the private key `{key}` does not belong to the certificate `{certificate}`; name the key that the first certificate of the file was made for"
            ),
            error => format!(
                "cannot use the certificate `{certificate}` with the key `{key}`: {error}; make them again"
            ),
        })
    };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the errors of the crate are open"
)]
fn unreadable(what: &str, file: &Path, error: &pem::Error) -> TlsError {
    let file = file.display();
    TlsError(match error {
        pem::Error::Io(error) => format!(
            "cannot read the {what} `{file}`: {error}; name a PEM file that this user may read"
        ),
        pem::Error::NoItemsFound => format!(
            "there is no {what} in `{file}`; it must be a PEM file, with a line `-----BEGIN … -----`"
        ),
        error => format!(
            "cannot read the {what} `{file}`: it is no sound PEM file ({error}); make it again"
        ),
    })
}

#[cfg(test)]
mod tests;
