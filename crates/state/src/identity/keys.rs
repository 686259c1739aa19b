//! SSH public keys of users, and the signatures that they verify.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ECDSA_P521_SHA512_ASN1, ED25519,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use cannery_database::{Error, Row, settle};
use cannery_formats::UserName;
use jiff::Timestamp;
use md5::{Digest as _, Md5};
use serde::Serialize;
use ssh_key::public::{EcdsaPublicKey, KeyData};

use super::users::{known, moment};
use super::{IdentityError, IdentityErrorKind};
use crate::state::State;

/// Shorter RSA keys are refused.
const RSA_BITS_MIN: usize = 2048;
/// More than that nobody verifies here.
const RSA_BITS_MAX: usize = 8192;

/// How something was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureAlgorithm {
    /// `rsa-sha256`.
    RsaSha256,
    /// `rsa-sha512`.
    RsaSha512,
    /// `ecdsa-sha256`, with a key on the curve P-256.
    EcdsaSha256,
    /// `ecdsa-sha384`, with a key on the curve P-384.
    EcdsaSha384,
    /// `ecdsa-sha512`, with a key on the curve P-521.
    EcdsaSha512,
    /// `ed25519-sha512`.
    Ed25519,
}

/// The text is not an algorithm that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm;

impl FromStr for SignatureAlgorithm {
    type Err = UnknownAlgorithm;

    /// Reads its name in small or capital letters.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "rsa-sha256" => Self::RsaSha256,
            "rsa-sha512" => Self::RsaSha512,
            "ecdsa-sha256" => Self::EcdsaSha256,
            "ecdsa-sha384" => Self::EcdsaSha384,
            "ecdsa-sha512" => Self::EcdsaSha512,
            "ed25519-sha512" => Self::Ed25519,
            _ => return Err(UnknownAlgorithm),
        })
    }
}

/// A public key of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UserKey {
    /// The MD5 of the key as SSH shows it: `2d:4a:…`.
    pub fingerprint: String,
    /// The key, as in a `.pub` file, without its comment.
    pub public_key: String,
    /// Its comment.
    pub comment: String,
    /// When it was added.
    pub added: Timestamp,
}

impl UserKey {
    /// Reads the text of a `.pub` file.
    ///
    /// # Errors
    /// `Invalid` for what is not a key, or one that is too weak.
    pub fn parse(text: &str, added: Timestamp) -> Result<Self, IdentityError> {
        let invalid = |message: String| IdentityError::new(IdentityErrorKind::Invalid, message);
        let key = ssh_key::PublicKey::from_openssh(text.trim()).map_err(|error| {
            invalid(format!(
                "cannot read the SSH public key: {error}; give the file that ends in `.pub`"
            ))
        })?;
        if let Some(fault) = fault_of(key.key_data()) {
            return Err(invalid(format!("cannot use the SSH public key: {fault}")));
        }
        let comment = key.comment().to_owned();
        let bare = ssh_key::PublicKey::new(key.key_data().clone(), "");
        let unwritable = |error| invalid(format!("cannot write the SSH public key: {error}"));
        let blob = bare.to_bytes().map_err(unwritable)?;
        Ok(Self {
            fingerprint: fingerprint(&blob),
            public_key: bare.to_openssh().map_err(unwritable)?,
            comment,
            added,
        })
    }

    /// Whether `signature` is this key's of `text`. The algorithm must fit the kind of the key.
    #[must_use]
    pub fn verifies(&self, algorithm: SignatureAlgorithm, text: &[u8], signature: &[u8]) -> bool {
        let Ok(key) = ssh_key::PublicKey::from_openssh(&self.public_key) else {
            return false;
        };
        verifies(key.key_data(), algorithm, text, signature)
    }

    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            fingerprint: row.text(0)?,
            public_key: row.text(1)?,
            comment: row.text(2)?,
            added: moment(row.int(3)?),
        })
    }
}

impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.fingerprint)
    }
}

fn fingerprint(blob: &[u8]) -> String {
    let sum = Md5::digest(blob);
    let pairs: Vec<String> = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// How many bits a number has.
fn bits(number: &[u8]) -> usize {
    let zeros = number
        .first()
        .map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - zeros
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kinds of the crate are open, and all others are refused"
)]
fn fault_of(key: &KeyData) -> Option<String> {
    match key {
        KeyData::Rsa(rsa) => {
            let bits = bits(rsa.n.as_positive_bytes().unwrap_or_default());
            (!(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits)).then(|| {
                format!("it has {bits} bits; {RSA_BITS_MIN} to {RSA_BITS_MAX} can be used")
            })
        }
        KeyData::Ecdsa(_) | KeyData::Ed25519(_) => None,
        other => Some(format!(
            "its kind is {}; use RSA, ECDSA or Ed25519",
            other.algorithm()
        )),
    }
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "a pair that is not listed does not fit"
)]
fn verifies(key: &KeyData, algorithm: SignatureAlgorithm, text: &[u8], signature: &[u8]) -> bool {
    use SignatureAlgorithm as A;
    let by_point =
        |algorithm, point: &[u8]| UnparsedPublicKey::new(algorithm, point).verify(text, signature);
    let verified = match (key, algorithm) {
        (KeyData::Rsa(rsa), A::RsaSha256 | A::RsaSha512) => {
            let (Some(n), Some(e)) = (rsa.n.as_positive_bytes(), rsa.e.as_positive_bytes()) else {
                return false;
            };
            let parameters = match algorithm {
                A::RsaSha256 => &RSA_PKCS1_2048_8192_SHA256,
                _ => &RSA_PKCS1_2048_8192_SHA512,
            };
            RsaPublicKeyComponents { n, e }.verify(parameters, text, signature)
        }
        (KeyData::Ecdsa(key @ EcdsaPublicKey::NistP256(_)), A::EcdsaSha256) => {
            by_point(&ECDSA_P256_SHA256_ASN1, key.as_sec1_bytes())
        }
        (KeyData::Ecdsa(key @ EcdsaPublicKey::NistP384(_)), A::EcdsaSha384) => {
            by_point(&ECDSA_P384_SHA384_ASN1, key.as_sec1_bytes())
        }
        (KeyData::Ecdsa(key @ EcdsaPublicKey::NistP521(_)), A::EcdsaSha512) => {
            by_point(&ECDSA_P521_SHA512_ASN1, key.as_sec1_bytes())
        }
        (KeyData::Ed25519(key), A::Ed25519) => {
            UnparsedPublicKey::new(&ED25519, key.as_ref()).verify(text, signature)
        }
        _ => return false,
    };
    verified.is_ok()
}

const COLUMNS: &str = "fingerprint, public_key, comment, added_ms";

impl State {
    /// Gives a user a public key; one that the user has already stays as it is.
    ///
    /// # Errors
    /// `Invalid` for what is not such a key, `Absent`, `Database`.
    pub async fn add_key(&self, user: &UserName, text: &str) -> Result<UserKey, IdentityError> {
        let now = moment(self.clock.now().as_millisecond());
        let key = UserKey::parse(text, now)?;
        let mut session = self.database.begin().await?;
        let added = async {
            let user = known(session.as_mut(), user.as_str()).await?;
            let sql = "insert into account_key (account, fingerprint, public_key, comment, added_ms) \
                       values ($1, $2, $3, $4, $5) on conflict do nothing";
            let values = vec![
                user.id.into(),
                key.fingerprint.as_str().into(),
                key.public_key.as_str().into(),
                key.comment.as_str().into(),
                now.as_millisecond().into(),
            ];
            session.execute(sql, values).await?;
            Ok(())
        };
        let added = added.await;
        settle::<(), IdentityError>(session, added).await?;
        Ok(key)
    }

    /// The public keys of a user, in the order in which they were added.
    ///
    /// # Errors
    /// `Absent`, `Database`.
    pub async fn keys(&self, user: &UserName) -> Result<Vec<UserKey>, IdentityError> {
        let mut session = self.database.reader().await?;
        let user = known(session.as_mut(), user.as_str()).await?;
        let sql = format!(
            "select {COLUMNS} from account_key where account = $1 order by added_ms, fingerprint"
        );
        let rows = session.query(&sql, vec![user.id.into()]).await?;
        Ok(rows
            .iter()
            .map(UserKey::from_row)
            .collect::<Result<_, _>>()?)
    }

    /// The key of that fingerprint of the user with that id.
    ///
    /// # Errors
    /// By kind.
    pub async fn key(&self, account: &str, fingerprint: &str) -> Result<Option<UserKey>, Error> {
        let sql =
            format!("select {COLUMNS} from account_key where account = $1 and fingerprint = $2");
        let mut session = self.database.reader().await?;
        let values = vec![account.into(), fingerprint.into()];
        let rows = session.query(&sql, values).await?;
        rows.first().map(UserKey::from_row).transpose()
    }

    /// Takes a key from a user: what it signed is worth nothing from now on.
    ///
    /// # Errors
    /// `Absent`, `Database`.
    pub async fn remove_key(
        &self,
        user: &UserName,
        fingerprint: &str,
    ) -> Result<(), IdentityError> {
        let mut session = self.database.writer().await?;
        let account = known(session.as_mut(), user.as_str()).await?.id;
        let sql = "delete from account_key where account = $1 and fingerprint = $2";
        let removed = session
            .execute(sql, vec![account.into(), fingerprint.into()])
            .await?;
        (removed > 0).then_some(()).ok_or_else(|| {
            let shown = fingerprint.escape_debug();
            IdentityError::absent(format!("user `{user}` has no key `{shown}`"))
        })
    }
}

#[cfg(test)]
mod tests;
