//! Where the next page of a listing begins, as a text that the client hands back: the place, and a sum by which it is told from
//! a name.

use cannery_formats::Digest;
use data_encoding::BASE64URL_NOPAD;

const PREFIX: &str = "pt1.";
const SUM_CHARS: usize = 16;

/// A place behind an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageToken {
    pub(super) mtime_us: i64,
    pub(super) name: String,
}

fn sum(directory: &str, place: &str) -> String {
    let digest = Digest::of(format!("{directory}\n{place}").as_bytes()).to_string();
    digest.chars().take(SUM_CHARS).collect()
}

impl PageToken {
    /// Good for this directory alone.
    pub(super) fn to_text(&self, directory: &str) -> String {
        let place = format!("{}/{}", self.mtime_us, self.name);
        let sum = sum(directory, &place);
        format!("{PREFIX}{sum}{}", BASE64URL_NOPAD.encode(place.as_bytes()))
    }

    /// Nothing for what is not a token for this directory: it is a name then.
    pub(super) fn from_text(text: &str, directory: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        let (claimed, place) = rest.split_at_checked(SUM_CHARS)?;
        let place = String::from_utf8(BASE64URL_NOPAD.decode(place.as_bytes()).ok()?).ok()?;
        let (mtime_us, name) = place.split_once('/')?;
        (sum(directory, &place) == claimed).then_some(())?;
        Some(Self {
            mtime_us: mtime_us.parse().ok()?,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_directory_and_a_name_is_no_token() {
        let token = PageToken {
            mtime_us: -5,
            name: "a/ä %41".to_owned(),
        };
        let text = token.to_text("/stor/d");
        assert_eq!(PageToken::from_text(&text, "/stor/d"), Some(token));
        assert_eq!(PageToken::from_text(&text, "/stor/e"), None);
        for name in ["", "a", "pt1.", "pt1.abc", &text[1..], &format!("{text}A")] {
            assert_eq!(PageToken::from_text(name, "/stor/d"), None, "{name}");
        }
    }
}
