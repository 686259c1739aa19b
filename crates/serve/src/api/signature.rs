//! Requests that are signed with the SSH key of a user: `Authorization: Signature keyId="…",algorithm="…",signature="…"`.
//!
//! The signed text is the one `Date` header. It must be of these minutes, so that what was overheard is soon worth nothing.

use cannery_state::identity::{SignatureAlgorithm, User, UserKey};
use data_encoding::BASE64;
use http::HeaderMap;
use http::header::DATE;
use jiff::{SignedDuration, Timestamp};

use super::Api;
use super::caller::{Caller, refused, scopes_of_a_key};
use super::error::ApiError;

/// By how much the clocks of a client and of the server may differ.
const SKEW: SignedDuration = SignedDuration::from_secs(300);

/// The user and the key that a `keyId` names: `/<user>/keys/<fingerprint>`.
pub(super) async fn find_key(api: &Api, key_id: &str) -> Result<(User, UserKey), ApiError> {
    let unknown =
        || refused("the key of the signature is unknown; add it with `cannery user key add`");
    let parts: Vec<&str> = key_id.split('/').collect();
    let ["", name, "keys", fingerprint] = parts[..] else {
        return Err(refused(
            "the key of the signature must be named `/<user>/keys/<fingerprint>`",
        ));
    };
    let state = &api.parts.state;
    let user = state.user(name).await?.ok_or_else(unknown)?;
    let key = state
        .key(&user.id, fingerprint)
        .await?
        .ok_or_else(unknown)?;
    Ok((user, key))
}

pub(super) fn algorithm(text: &str) -> Result<SignatureAlgorithm, ApiError> {
    text.parse().map_err(|_| {
        refused("the algorithm of the signature is not one of rsa-sha256, ecdsa-sha256 and ed25519-sha512")
    })
}

/// Who signed the request.
pub(super) async fn identify(
    api: &Api,
    headers: &HeaderMap,
    fields: &str,
) -> Result<Caller, ApiError> {
    let fields = Fields::parse(fields)?;
    if !fields.headers.eq_ignore_ascii_case("date") {
        return Err(refused("the signature must be of the header `date` alone"));
    }
    let date = signed_date(api, headers)?;
    let (user, key) = find_key(api, fields.key_id).await?;
    let signature = BASE64
        .decode(fields.signature.as_bytes())
        .map_err(|_| refused("the signature is not base64"))?;
    let text = format!("date: {date}");
    if !key.verifies(algorithm(fields.algorithm)?, text.as_bytes(), &signature) {
        return Err(refused(
            "the signature is not the key's of this date by this algorithm",
        ));
    }
    Ok(Caller::User {
        user,
        scopes: scopes_of_a_key(),
    })
}

/// The one `Date`, which is of these minutes.
fn signed_date<'a>(api: &Api, headers: &'a HeaderMap) -> Result<&'a str, ApiError> {
    let mut dates = headers.get_all(DATE).iter();
    let (Some(date), None) = (dates.next(), dates.next()) else {
        return Err(refused("a signed request has exactly one `Date` header"));
    };
    let date = date
        .to_str()
        .map_err(|_| refused("the `Date` header is no text"))?;
    let moment = jiff::fmt::rfc2822::parse(date)
        .map(|zoned| zoned.timestamp())
        .map_err(|_| refused("the `Date` header is no date"))?;
    let now = api.parts.clock.now();
    let apart = moment.duration_since(now).abs();
    if apart > SKEW {
        return Err(refused(&format!(
            "the request was signed at {moment:.0}, and here it is {now:.0}: more than five minutes apart; set the clock, and sign again"
        )));
    }
    Ok(date)
}

/// What stands in the header.
struct Fields<'a> {
    key_id: &'a str,
    algorithm: &'a str,
    headers: &'a str,
    signature: &'a str,
}

impl<'a> Fields<'a> {
    /// Reads `name="value",…`.
    fn parse(text: &'a str) -> Result<Self, ApiError> {
        let mut fields = Self {
            key_id: "",
            algorithm: "",
            headers: "date",
            signature: "",
        };
        let mut seen: Vec<&str> = Vec::new();
        let mut rest = text.trim();
        let broken = || refused("the header `Authorization: Signature` cannot be read");
        while !rest.is_empty() {
            let (name, after) = rest.split_once("=\"").ok_or_else(broken)?;
            let (value, after) = after.split_once('"').ok_or_else(broken)?;
            let name = name.trim();
            if seen.contains(&name) {
                return Err(broken());
            }
            seen.push(name);
            match name {
                "keyId" => fields.key_id = value,
                "algorithm" => fields.algorithm = value,
                "headers" => fields.headers = value,
                "signature" => fields.signature = value,
                _ => {}
            }
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(more) => more.trim_start(),
                None if after.is_empty() => after,
                None => return Err(broken()),
            };
        }
        Ok(fields)
    }
}

/// The moment of a signed address: seconds since 1970.
pub(super) fn expiry(text: &str) -> Option<Timestamp> {
    Timestamp::from_second(text.parse().ok()?).ok()
}
