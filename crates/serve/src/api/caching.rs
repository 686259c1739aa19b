//! What caches may do with an answer.
//!
//! A signed address or a cookie is not `Authorization`, so that a shared cache would keep what is private unless it is told not
//! to: whatever the owner stored, an answer from a private area never invites one.

use http::header::{CACHE_CONTROL, VARY};
use http::{HeaderMap, HeaderValue};

/// Nothing is kept unless the owner says so.
const PRIVATE: &str = "private, no-store";
/// Anybody may keep it, and asks each time whether it is still so.
const PUBLIC: &str = "no-cache";

/// Sets the headers for an object that has `stored` as its `Cache-Control`.
pub(super) fn describe(is_public: bool, stored: Option<&str>, headers: &mut HeaderMap) {
    let text = match (is_public, stored) {
        (true, Some(stored)) => stored.to_owned(),
        (true, None) => PUBLIC.to_owned(),
        (false, Some(stored)) => made_private(stored),
        (false, None) => PRIVATE.to_owned(),
    };
    let text = HeaderValue::try_from(text);
    headers.insert(
        CACHE_CONTROL,
        text.unwrap_or(HeaderValue::from_static(PRIVATE)),
    );
    if !is_public {
        let credentials = HeaderValue::from_static("authorization, cookie");
        headers.insert(VARY, credentials);
    }
}

/// The directives of the owner without those that let a shared cache keep the answer.
fn made_private(stored: &str) -> String {
    let directives = stored.split(',').map(str::trim).filter(|directive| {
        let name = directive.split('=').next().unwrap_or_default().trim();
        let is_shared = ["public", "private", "s-maxage"]
            .iter()
            .any(|shared| name.eq_ignore_ascii_case(shared));
        !name.is_empty() && !is_shared
    });
    let directives: Vec<&str> = ["private"].into_iter().chain(directives).collect();
    directives.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_answer_never_invites_a_shared_cache() {
        for (is_public, stored, expected) in [
            (false, None, "private, no-store"),
            (false, Some("max-age=60"), "private, max-age=60"),
            (
                false,
                Some("Public, max-age=60, S-MaxAge=9"),
                "private, max-age=60",
            ),
            (false, Some("public"), "private"),
            (false, Some("private"), "private"),
            (false, Some(",, no-cache"), "private, no-cache"),
            (true, None, "no-cache"),
            (true, Some("public, max-age=60"), "public, max-age=60"),
        ] {
            let mut headers = HeaderMap::new();
            describe(is_public, stored, &mut headers);
            assert_eq!(headers[CACHE_CONTROL], expected, "{stored:?}");
            assert_eq!(headers.contains_key(VARY), !is_public);
        }
    }
}
