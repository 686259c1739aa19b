//! The private half of an SSH key, as `ssh-keygen` writes it, for signing addresses.

use std::path::{Path, PathBuf};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair as RsaKeyPair;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256,
};
use cannery_runtime::RealDisk;
use cannery_runtime::disk::read;
use cannery_state::identity::{SignatureAlgorithm, UserKey};
use jiff::Timestamp;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use ssh_key::private::{EcdsaKeypair, KeypairData};

use crate::failure::{ExitCode, Failure};

const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A key that can sign.
pub(crate) struct PrivateKey {
    secret: SecretHalf,
    public: UserKey,
    file: PathBuf,
}

enum SecretHalf {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
}

impl PrivateKey {
    /// Reads the key in `file`, and its public half in `file.pub`.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let mut public_file = file.as_os_str().to_owned();
        public_file.push(".pub");
        let public = text(Path::new(&public_file))?;
        let public = UserKey::parse(&public, Timestamp::default())?;
        Ok(Self {
            secret: parse(&text(file)?).map_err(|why| unusable(file, why))?,
            public,
            file: file.to_owned(),
        })
    }

    /// The MD5 fingerprint of its public half.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.public.fingerprint
    }

    /// How it signs, as requests name it.
    pub(crate) fn algorithm(&self) -> &'static str {
        match self.secret {
            SecretHalf::Rsa(_) => "rsa-sha256",
            SecretHalf::Ecdsa(_) => "ecdsa-sha256",
            SecretHalf::Ed25519(_) => "ed25519-sha512",
        }
    }

    /// Signs a text; what its public half would not accept is an error.
    pub(crate) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, Failure> {
        let random = SystemRandom::new();
        let signature = match &self.secret {
            SecretHalf::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                let signed = key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature);
                signed.map(|()| signature)
            }
            SecretHalf::Ecdsa(key) => key.sign(&random, text).map(|it| it.as_ref().to_vec()),
            SecretHalf::Ed25519(key) => Ok(key.sign(text).as_ref().to_vec()),
        };
        let signature = signature.map_err(|_| unusable(&self.file, "it cannot sign"))?;
        let algorithm: SignatureAlgorithm =
            self.algorithm().parse().expect("one of the known names");
        if !self.public.verifies(algorithm, text, &signature) {
            return Err(unusable(
                &self.file,
                "the file `.pub` beside it is of another key",
            ));
        }
        Ok(signature)
    }
}

/// Reads what `ssh-keygen` and OpenSSL write.
fn parse(text: &str) -> Result<SecretHalf, &'static str> {
    if text.contains("BEGIN OPENSSH PRIVATE KEY") {
        return parse_openssh(text);
    }
    let unknown = "it is not a private key, or one with a passphrase";
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| unknown)?;
    let (rsa, ecdsa, ed25519) = match &key {
        PrivateKeyDer::Pkcs1(der) => (
            RsaKeyPair::from_der(der.secret_pkcs1_der()).ok(),
            None,
            None,
        ),
        PrivateKeyDer::Sec1(der) => {
            let der = der.secret_sec1_der();
            let key = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, der);
            (None, key.ok(), None)
        }
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            let ecdsa = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der);
            let ed25519 = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
            (RsaKeyPair::from_pkcs8(der).ok(), ecdsa.ok(), ed25519.ok())
        }
        _ => (None, None, None),
    };
    let rsa = rsa.map(|key| SecretHalf::Rsa(Box::new(key)));
    let ecdsa = ecdsa.map(|key| SecretHalf::Ecdsa(Box::new(key)));
    let ed25519 = ed25519.map(|key| SecretHalf::Ed25519(Box::new(key)));
    let known = rsa.or(ecdsa).or(ed25519);
    known.ok_or("it is none of RSA, ECDSA on P-256, and Ed25519")
}

fn parse_openssh(text: &str) -> Result<SecretHalf, &'static str> {
    let key = ssh_key::PrivateKey::from_openssh(text).map_err(|_| "it is damaged")?;
    let damaged = |_| "it is damaged";
    match key.key_data() {
        KeypairData::Encrypted(_) => Err("it has a passphrase"),
        KeypairData::Ed25519(key) => {
            let key =
                Ed25519KeyPair::from_seed_and_public_key(key.private.as_ref(), key.public.as_ref());
            Ok(SecretHalf::Ed25519(Box::new(key.map_err(damaged)?)))
        }
        KeypairData::Ecdsa(EcdsaKeypair::NistP256 { public, private }) => {
            let kind = &ECDSA_P256_SHA256_ASN1_SIGNING;
            let (private, public) = (private.as_slice(), public.as_bytes());
            let key = EcdsaKeyPair::from_private_key_and_public_key(kind, private, public);
            Ok(SecretHalf::Ecdsa(Box::new(key.map_err(damaged)?)))
        }
        // The file lacks two of the numbers that our library wants.
        KeypairData::Rsa(_) => {
            Err("an RSA key must be in the PEM format: `ssh-keygen -p -m PEM -f FILE` converts it")
        }
        _ => Err("it is none of RSA, ECDSA on P-256, and Ed25519"),
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    let text = read(&RealDisk, file, FILE_BYTES_MAX)
        .map_err(|error| unusable(file, &error.to_string()))?;
    String::from_utf8(text).map_err(|_| unusable(file, "it is not a text"))
}

fn unusable(file: &Path, why: &str) -> Failure {
    let message = format!("cannot use the key `{}`: {why}", file.display());
    let next = "name the file of a private key that has its public half beside it, in a file of the same name and `.pub`";
    Failure::new(ExitCode::Usage, "key_unusable", message, next)
}
