//! Values that must never be printed, and the last line of defence that removes them from any text that leaves the process.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{PoisonError, RwLock};

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// A shorter value would blank out ordinary words wherever [`redact`] meets them.
const REDACT_BYTES_MIN: usize = 6;

static KNOWN: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// A password, key or token. It prints as `***` in every form; only [`Secret::expose`] gives the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value and makes [`redact`] know it.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        let value = value.into();
        remember(&value);
        Self(value)
    }

    /// The same for the value of a header: what follows its scheme, such as `Bearer`, is secret by itself.
    #[must_use]
    pub fn header(value: impl Into<String>) -> Self {
        let secret = Self::new(value);
        if let Some((_, credentials)) = secret.0.split_once(' ') {
            remember(credentials.trim());
            let decoded = data_encoding::BASE64.decode(credentials.trim().as_bytes());
            let text = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            for part in text.iter().flat_map(|text| text.splitn(2, ':')) {
                remember(part);
            }
        }
        secret
    }

    /// Wraps a value that is not secret enough for [`redact`] to look for, such as the name of a region.
    #[must_use]
    pub fn unremembered(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl serde::Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// A URL whose user information and query may carry secrets: they are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateUrl(String);

impl PrivateUrl {
    /// Wraps a URL and makes [`redact`] know its user information and the values of its query.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let parts = Parts::of(&url);
        for user_part in parts.user.into_iter().flat_map(|user| user.split(':')) {
            remember(user_part);
        }
        if let Some(user) = parts.user {
            remember(&as_basic(user));
        }
        let pairs = parts.query.into_iter().flat_map(|query| query.split('&'));
        for pair in pairs.chain(parts.fragment) {
            remember(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
        Self(url)
    }

    /// The whole URL, for making the request.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// User information as a request carries it, which a server may send back.
fn as_basic(user: &str) -> String {
    let user = percent_decoded(user);
    let colon = if user.contains(':') { "" } else { ":" };
    data_encoding::BASE64.encode(format!("{user}{colon}").as_bytes())
}

struct Parts<'a> {
    before_user: &'a str,
    user: Option<&'a str>,
    host_and_path: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Self {
        let (before_fragment, fragment) = match url.split_once('#') {
            Some((before, fragment)) => (before, Some(fragment)),
            None => (url, None),
        };
        let (address, query) = match before_fragment.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (before_fragment, None),
        };
        let start = address.find("://").map_or(0, |at| at + 3);
        let (before_user, rest) = address.split_at(start);
        let authority_end = rest.find('/').unwrap_or(rest.len());
        // A password with a slash in it ends the authority too early; what looks like `user:password@` is taken for one.
        let user_end = rest[..authority_end]
            .rfind('@')
            .or_else(|| rest.rfind('@').filter(|at| rest[..*at].contains(':')));
        match user_end {
            Some(at) => Self {
                before_user,
                user: Some(&rest[..at]),
                host_and_path: &rest[at + 1..],
                fragment,
                query,
            },
            None => Self {
                before_user,
                user: None,
                host_and_path: rest,
                fragment,
                query,
            },
        }
    }
}

impl fmt::Display for PrivateUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Parts::of(&self.0);
        f.write_str(parts.before_user)?;
        if parts.user.is_some() {
            write!(f, "{MASK}@")?;
        }
        f.write_str(parts.host_and_path)?;
        if parts.query.is_some() || parts.fragment.is_some() {
            write!(f, "?{MASK}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for PrivateUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for PrivateUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Remembers a value in every form in which it may leave: as it is, as in JSON, and decoded as in a URL.
fn remember(value: &str) {
    if value.len() < REDACT_BYTES_MIN {
        return;
    }
    let in_json = serde_json::to_string(value).expect("a text is JSON");
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.insert(in_json[1..in_json.len() - 1].to_owned());
    known.insert(percent_decoded(value));
    known.insert(value.to_owned());
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            Some(_) | None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `text` with every known secret masked: for errors of foreign code, which may quote a URL or a header.
///
/// The address of a database for people: without the password, which is remembered as a secret. Everything else stays,
/// above all the user, whose name is an ordinary word.
///
/// A password that nobody encoded may hold any character: it ends at the last `@` of all.
#[must_use]
pub fn without_password(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(start);
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    let user = user.map(|user| match user.split_once(':') {
        Some((name, password)) => {
            drop(Secret::new(password));
            format!("{name}:{MASK}@")
        }
        None => format!("{user}@"),
    });
    let place = match place.split_once('?') {
        Some((place, query)) => {
            let pairs: Vec<String> = query.split('&').map(pair_without_password).collect();
            format!("{place}?{}", pairs.join("&"))
        }
        None => place.to_owned(),
    };
    format!("{scheme}{}{place}", user.unwrap_or_default())
}

fn pair_without_password(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) if name.to_ascii_lowercase().contains("pass") => {
            drop(Secret::new(value));
            format!("{name}={MASK}")
        }
        Some(_) | None => pair.to_owned(),
    }
}

/// Everything that leaves the process as text (log, page, error) passes through here; types are the first line of defence,
/// this is the second.
#[must_use]
pub fn redact(text: &str) -> String {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let mut clean = text.to_owned();
    // Longest first, so that a secret inside another one does not leave its ends behind.
    let mut secrets: Vec<&String> = known
        .iter()
        .filter(|secret| clean.contains(secret.as_str()))
        .collect();
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in secrets {
        clean = clean.replace(secret.as_str(), MASK);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_a_mask_in_every_form() {
        let secret = Secret::new("canary-4711");
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(serde_json::to_string(&secret).unwrap(), "\"***\"");
        assert_eq!(redact("key canary-4711 rejected"), "key *** rejected");
    }

    #[test]
    fn what_a_server_sends_back_of_a_request_is_hidden() {
        drop(PrivateUrl::new("https://canary-me:canary%2Dbasic@h/"));
        let basic = data_encoding::BASE64.encode(b"canary-me:canary-basic");
        assert_eq!(redact(&format!("Basic {basic}")), "Basic ***");
        drop(Secret::header("Bearer canary-bearer"));
        assert_eq!(redact("token canary-bearer"), "token ***");
        let basic = data_encoding::BASE64.encode(b"canary-you:canary-word");
        drop(Secret::header(format!("Basic {basic}")));
        assert_eq!(redact(&format!("{basic} canary-word")), "*** ***");
    }

    #[test]
    fn a_url_keeps_its_place_and_loses_its_secrets() {
        let url =
            PrivateUrl::new("https://me:canary-pass@host:9000/a/b?token=canary-token&x=1#frag");
        assert_eq!(url.to_string(), "https://***@host:9000/a/b?***");
        assert_eq!(redact("GET canary-pass canary-token"), "GET *** ***");
        assert!(
            !PrivateUrl::new("https://u:canary/p@h/x")
                .to_string()
                .contains("canary")
        );
        let odd = PrivateUrl::new("https://h/?t=canary%2Dcoded#canary-fragment");
        assert_eq!(odd.to_string(), "https://h/?***");
        assert_eq!(
            redact("canary-coded canary%2Dcoded canary-fragment"),
            "*** *** ***"
        );
        drop(Secret::new("canary\"quoted"));
        assert_eq!(
            redact("{\"key\":\"canary\\\"quoted\"}"),
            "{\"key\":\"***\"}"
        );
        assert_eq!(
            PrivateUrl::new("s3://bucket/prefix").to_string(),
            "s3://bucket/prefix"
        );
        assert_eq!(PrivateUrl::new("file:./lake").to_string(), "file:./lake");
    }

    #[test]
    fn the_address_of_a_database_loses_its_password_and_nothing_else() {
        for (url, shown) in [
            ("postgres://u@h/db", "postgres://u@h/db"),
            (
                "postgres://u:pw-1111?x@h:5432/db",
                "postgres://u:***@h:5432/db",
            ),
            (
                "postgres://u:pw-2222@x?y@h/db?sslmode=require",
                "postgres://u:***@h/db?sslmode=require",
            ),
            (
                "postgres://h/db?user=u&password=pw-3333",
                "postgres://h/db?user=u&password=***",
            ),
        ] {
            assert_eq!(without_password(url), shown);
            assert!(!redact(url).contains("pw-"), "{url}");
        }
    }
}
