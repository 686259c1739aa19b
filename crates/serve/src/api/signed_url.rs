//! Addresses that a user has signed, for somebody who has no credential: one method or a few, one object, for a while.

use data_encoding::BASE64;
use http::header::HOST;
use http::request::Parts;
use jiff::SignedDuration;

use super::Api;
use super::address::ApiAddress;
use super::caller::{Caller, refused};
use super::error::ApiError;
use super::query::Query;
use super::signature::{algorithm, expiry, find_key};

/// How long such an address is good at most.
const LIFETIME_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Who signed the address.
pub(super) async fn identify(
    api: &Api,
    request: &Parts,
    address: &ApiAddress,
    query: &Query,
) -> Result<Caller, ApiError> {
    let field = |name: &str| {
        query
            .get(name)
            .ok_or_else(|| refused(&format!("the signed address lacks the parameter `{name}`")))
    };
    let (key_id, signature) = (field("keyId")?, field("signature")?);
    let algorithm = algorithm(field("algorithm")?)?;
    let expires = expiry(field("expires")?)
        .ok_or_else(|| refused("`expires` of the signed address is no time in seconds"))?;
    let now = api.parts.clock.now();
    if expires <= now {
        return Err(refused(
            "the signed address has expired; ask for another one",
        ));
    }
    if expires.duration_since(now) > LIFETIME_MAX {
        return Err(refused(
            "the signed address is good for more than 7 days, which is not accepted",
        ));
    }
    let method = query.get("method").unwrap_or(request.method.as_str());
    if !method
        .split(',')
        .any(|method| method == request.method.as_str())
    {
        return Err(refused("the signed address is not for this method"));
    }
    let mut hosts = request.headers.get_all(HOST).iter();
    let (Some(Ok(host)), None) = (hosts.next().map(|host| host.to_str()), hosts.next()) else {
        return Err(refused("the request has no `Host`, or two"));
    };
    let text = format!(
        "{method}\n{host}\n{}\n{}",
        request.uri.path(),
        signed_query(query)
    );
    let (user, key) = find_key(api, key_id).await?;
    let signature = BASE64
        .decode(signature.as_bytes())
        .map_err(|_| refused("the signature is not base64"))?;
    if !key.verifies(algorithm, text.as_bytes(), &signature) {
        return Err(refused(
            "the signature is not the key's of this address; no part of it may be changed",
        ));
    }
    let path = address.path.clone();
    Ok(Caller::SignedAddress { user, path })
}

/// Every other parameter, sorted and encoded as the signer did.
fn signed_query(query: &Query) -> String {
    let mut pairs: Vec<&(String, String)> = query.pairs().iter().collect();
    pairs.retain(|(name, _)| name != "signature");
    // The original's client sorts as people do, small and capital letters together.
    pairs.sort_by_key(|(name, _)| (name.to_lowercase(), name.clone()));
    let encoded = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode_component(name), encode_component(value)));
    encoded.collect::<Vec<_>>().join("&")
}

/// Everything but letters, digits and `-._~` as `%XX`.
#[must_use]
pub fn encode_component(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a text takes any text");
        }
    }
    encoded
}
