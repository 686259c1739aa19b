//! `If-Range`: a part of an object is only worth something to who has the rest of the same one.

use http::HeaderMap;
use http::header::IF_RANGE;

/// Whether a `Range` counts: there is no `If-Range`, or it names this very object by its tag or its date.
pub(super) fn lets_range(headers: &HeaderMap, etag: &str, mtime_us: i64) -> bool {
    let mut values = headers.get_all(IF_RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return !headers.contains_key(IF_RANGE);
    };
    let text = value.to_str().unwrap_or_default().trim();
    // With or without quotes, as everywhere; a weak tag says nothing of bytes.
    if text == etag
        || text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            == Some(etag)
    {
        return true;
    }
    jiff::fmt::rfc2822::parse(text)
        .is_ok_and(|date| date.timestamp().as_second() == mtime_us.div_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_object_is_continued() {
        for (text, expected) in [
            ("\"abc\"", true),
            ("abc", true),
            ("W/\"abc\"", false),
            ("\"abd\"", false),
            ("Thu, 01 Jan 1970 00:00:05 GMT", true),
            ("Thu, 01 Jan 1970 00:00:06 GMT", false),
            ("Thu, 01 Jan 1970 00:00:04 GMT", false),
            ("", false),
        ] {
            let headers: HeaderMap = [(IF_RANGE, text.parse().unwrap())].into_iter().collect();
            assert_eq!(lets_range(&headers, "abc", 5_999_999), expected, "{text}");
        }
        assert!(lets_range(&HeaderMap::new(), "abc", 0));
        let mut both = HeaderMap::new();
        for _ in 0..2 {
            both.append(IF_RANGE, "abc".parse().unwrap());
        }
        assert!(!lets_range(&both, "abc", 0));
    }
}
