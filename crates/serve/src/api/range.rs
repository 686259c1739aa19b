//! `Range`: one range of bytes.

use std::ops::Range;

use http::header::{CONTENT_RANGE, RANGE};
use http::{HeaderMap, StatusCode};

use super::error::{ApiError, ErrorCode};

/// The bytes that a request is for; `None` for all of them: without the header, with one that is not understood, and of an
/// empty object.
pub(super) fn range(headers: &HeaderMap, bytes: u64) -> Result<Option<Range<u64>>, ApiError> {
    let text = headers.get(RANGE).and_then(|value| value.to_str().ok());
    let Some(spec) = text.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return Ok(None);
    };
    let Some((first, last)) = spec
        .split_once('-')
        .filter(|_| !spec.contains(',') && bytes > 0)
    else {
        return Ok(None);
    };
    let unsatisfiable = || {
        let message = format!(
            "the object has {bytes} bytes, and nothing of the range `{}`",
            spec.chars().take(60).collect::<String>()
        );
        let code = ErrorCode::RequestedRangeNotSatisfiable;
        ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, code, message)
            .with_header(CONTENT_RANGE, format!("bytes */{bytes}"))
    };
    // A number beyond all objects is one all the same.
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    match (first.trim(), last.trim()) {
        ("", "") => Ok(None),
        ("", suffix) => match number(suffix) {
            None => Ok(None),
            Some(0) => Err(unsatisfiable()),
            Some(suffix) => Ok(Some(bytes.saturating_sub(suffix)..bytes)),
        },
        (first, last) => {
            let end = if last.is_empty() {
                Some(u64::MAX)
            } else {
                number(last)
            };
            match (number(first), end) {
                (Some(first), Some(last)) if first > last => Ok(None),
                (Some(first), Some(_)) if first >= bytes => Err(unsatisfiable()),
                (Some(first), Some(last)) => Ok(Some(first..last.saturating_add(1).min(bytes))),
                _ => Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str, bytes: u64) -> Option<Result<Range<u64>, u16>> {
        let headers: HeaderMap = [(RANGE, text.parse().unwrap())].into_iter().collect();
        match range(&headers, bytes) {
            Ok(range) => range.map(Ok),
            Err(error) => Some(Err(error.status.as_u16())),
        }
    }

    #[test]
    fn one_range_is_clamped_and_everything_else_is_the_whole() {
        for (text, expected) in [
            ("bytes=0-0", Some(Ok(0..1))),
            ("bytes=2-4", Some(Ok(2..5))),
            ("bytes=2-", Some(Ok(2..10))),
            ("bytes=2-99999999999999999999", Some(Ok(2..10))),
            ("bytes=2-18446744073709551615", Some(Ok(2..10))),
            ("bytes=-3", Some(Ok(7..10))),
            ("bytes=-30", Some(Ok(0..10))),
            ("bytes=10-", Some(Err(416))),
            ("bytes=-0", Some(Err(416))),
            ("bytes=5-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=-", None),
            ("bytes=a-b", None),
            ("lines=1-2", None),
        ] {
            assert_eq!(asked(text, 10), expected, "{text}");
        }
        assert_eq!(asked("bytes=0-5", 0), None);
        assert_eq!(asked("bytes=-5", 0), None);
    }
}
