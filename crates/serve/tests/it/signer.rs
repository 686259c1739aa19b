//! A user's key, and what is signed with it.

use std::net::SocketAddr;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use cannery_formats::UserName;
use cannery_state::State;
use data_encoding::BASE64;
use jiff::Timestamp;

/// An Ed25519 key of a user.
pub(crate) struct Signer {
    key: Ed25519KeyPair,
    /// `/<user>/keys/<fingerprint>`.
    pub(crate) key_id: String,
}

impl Signer {
    /// The key of that seed, which the user is given.
    pub(crate) async fn of(state: &State, user: &str, seed: u8) -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        let mut blob = Vec::new();
        for part in [&b"ssh-ed25519"[..], key.public_key().as_ref()] {
            blob.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            blob.extend(part);
        }
        let text = format!("ssh-ed25519 {}", BASE64.encode(&blob));
        let name = UserName::new(user).unwrap();
        let added = state.add_key(&name, &text).await.unwrap();
        Self {
            key,
            key_id: format!("/{user}/keys/{}", added.fingerprint),
        }
    }

    pub(crate) fn sign(&self, text: &str) -> String {
        BASE64.encode(self.key.sign(text.as_bytes()).as_ref())
    }

    /// The headers of a signed request.
    pub(crate) fn headers(&self, date: Timestamp) -> String {
        let date = http_date(date);
        let signature = self.sign(&format!("date: {date}"));
        authorization(&date, &self.key_id, "ed25519-sha512", &signature)
    }

    /// The query of a signed address.
    pub(crate) fn query(&self, method: &str, host: SocketAddr, path: &str, expires: i64) -> String {
        let pairs = [
            ("algorithm", "ed25519-sha512".to_owned()),
            ("expires", expires.to_string()),
            ("keyId", self.key_id.clone()),
            ("method", method.to_owned()),
        ];
        let query: Vec<String> = pairs
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        let query = query.join("&");
        let signature = self.sign(&format!("{method}\n{host}\n{path}\n{query}"));
        format!("{query}&signature={}", encode(&signature))
    }
}

pub(crate) fn authorization(date: &str, key_id: &str, algorithm: &str, signature: &str) -> String {
    format!(
        "date: {date}\r\nauthorization: Signature keyId=\"{key_id}\",algorithm=\"{algorithm}\",headers=\"date\",signature=\"{signature}\"\r\n"
    )
}

pub(crate) fn http_date(moment: Timestamp) -> String {
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    printer.timestamp_to_rfc9110_string(&moment).unwrap()
}

pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
