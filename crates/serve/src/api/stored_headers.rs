//! The headers that are stored with an object and answered with it: a list of what is allowed.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::ApiError;

/// What they may take together.
const BYTES_MAX: usize = 4 * 1024;

/// What an object is when nobody says.
const UNKNOWN_TYPE: &str = "application/octet-stream";

fn is_stored(name: &str) -> bool {
    matches!(name, "content-type" | "content-encoding" | "cache-control") || name.starts_with("m-")
}

/// The headers of a request that are stored.
pub(super) fn from_request(headers: &HeaderMap) -> Result<BTreeMap<String, String>, ApiError> {
    let mut stored = BTreeMap::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let name = name.as_str();
        if !is_stored(name) {
            continue;
        }
        let value = value.to_str().map_err(|_| {
            ApiError::invalid(format!(
                "the header `{name}` has other characters than visible ASCII"
            ))
        })?;
        bytes += name.len() + value.len();
        if name == "content-type" && says_what_we_say(value) {
            return Err(ApiError::invalid(
                "the content type of an object cannot say `type=directory` or `type=link`",
            ));
        }
        if stored.contains_key(name) {
            return Err(ApiError::invalid(format!(
                "the header `{name}` is there twice"
            )));
        }
        stored.insert(name.to_owned(), value.to_owned());
    }
    if bytes > BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "the headers to be stored have {bytes} bytes, and {BYTES_MAX} are the most"
        )));
    }
    Ok(stored)
}

/// Clients take such a type for our word on what a path is.
fn says_what_we_say(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let mut parameters = value.split(';').map(str::trim);
    parameters.any(|parameter| matches!(parameter, "type=directory" | "type=link"))
}

pub(super) fn set_default_type(stored: &mut BTreeMap<String, String>) {
    stored
        .entry("content-type".to_owned())
        .or_insert_with(|| UNKNOWN_TYPE.to_owned());
}

/// Takes over what says how the bytes of an object are read, unless something else is given.
pub(super) fn keep_what_bytes_are(
    stored: &BTreeMap<String, String>,
    given: &mut BTreeMap<String, String>,
) {
    for name in ["content-type", "content-encoding"] {
        if let Some(value) = stored.get(name) {
            given
                .entry(name.to_owned())
                .or_insert_with(|| value.clone());
        }
    }
}

/// Puts them into an answer.
pub(super) fn answer(stored: &BTreeMap<String, String>, headers: &mut HeaderMap) {
    for (name, value) in stored {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value))
            && is_stored(name.as_str())
        {
            headers.insert(name, value);
        }
    }
}
