//! `cannery stor sign`

use std::path::Path;
use std::time::Duration;

use cannery_serve::encode_component;
use data_encoding::BASE64;

use super::Context;
use crate::api_client::{ApiClient, RemotePath};
use crate::cli::stor::SignedMethod;
use crate::failure::{ExitCode, Failure};
use crate::private_key::PrivateKey;

/// Servers refuse more.
const LIFETIME_MAX: Duration = Duration::from_secs(7 * 86_400);

/// The address of an object that whoever has it may use for `lifetime`.
pub(super) fn signed_address(
    client: &ApiClient,
    path: &RemotePath,
    key: &Path,
    lifetime: Duration,
    method: SignedMethod,
    context: &Context,
) -> Result<String, Failure> {
    if lifetime > LIFETIME_MAX || lifetime.as_secs() == 0 {
        let message = "a signed address is good for a second at least and 7 days at most";
        let next = "say another time in --expires";
        return Err(Failure::new(ExitCode::Usage, "invalid", message, next));
    }
    let key = PrivateKey::read(key)?;
    let url = client.address(path);
    let port = url.port().map(|port| format!(":{port}"));
    let host = format!(
        "{}{}",
        url.host_str().unwrap_or_default(),
        port.unwrap_or_default()
    );
    let lifetime = i64::try_from(lifetime.as_secs()).unwrap_or_default();
    let expires = context.clock.now().as_second() + lifetime;
    // In the order in which the server sorts them.
    let query = [
        ("algorithm", key.algorithm().to_owned()),
        ("expires", expires.to_string()),
        (
            "keyId",
            format!("/{}/keys/{}", path.user, key.fingerprint()),
        ),
        ("method", method.name().to_owned()),
    ];
    let query = query.map(|(name, value)| format!("{name}={}", encode_component(&value)));
    let query = query.join("&");
    let text = format!("{}\n{host}\n{}\n{query}", method.name(), url.path());
    let signature = encode_component(&BASE64.encode(&key.sign(text.as_bytes())?));
    Ok(format!("{url}?{query}&signature={signature}"))
}
