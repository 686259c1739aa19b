//! Dates and times as BigQuery reads them.

use jiff::civil::Date;

/// `2026-11-15`.
pub(super) fn is_date(text: &str) -> bool {
    date_of(text).is_some()
}

/// `18:24:03.850914`.
pub(super) fn is_time(text: &str) -> bool {
    is_time_with(text, 6)
}

/// `2026-11-15T18:24:03.850914`, or with a space for the `T`.
pub(super) fn is_datetime(text: &str) -> bool {
    split(text).is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// The same with up to nine digits, and a zone. The first and the last day there is could leave the range by the
/// distance of their zone from UTC, so they must have none.
pub(super) fn is_timestamp(text: &str) -> bool {
    let Some((date, rest)) = split(text) else {
        return false;
    };
    let zone_at = rest
        .find(|it: char| !matches!(it, '0'..='9' | ':' | '.'))
        .unwrap_or(rest.len());
    let (time, zone) = rest.split_at(zone_at);
    let is_utc = matches!(zone, "" | "Z" | " UTC" | "+00:00" | "-00:00");
    let edge =
        |date: Date| [(1, 1, 1), (9999, 12, 31)].contains(&(date.year(), date.month(), date.day()));
    is_time_with(time, 9)
        && (is_utc || is_offset(zone))
        && date_of(date).is_some_and(|date| is_utc || !edge(date))
}

fn split(text: &str) -> Option<(&str, &str)> {
    let (date, rest) = text.split_at_checked(10)?;
    let time = rest.strip_prefix(['T', ' '])?;
    Some((date, time))
}

fn date_of(text: &str) -> Option<Date> {
    let bytes: &[u8; 10] = text.as_bytes().try_into().ok()?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *bytes else {
        return None;
    };
    let year = i16::from(pair(y1, y2)?) * 100 + i16::from(pair(y3, y4)?);
    let date = Date::new(year, pair(m1, m2)?, pair(d1, d2)?).ok()?;
    (year >= 1).then_some(date)
}

fn is_time_with(text: &str, digits_max: usize) -> bool {
    let (clock, fraction) = match text.split_once('.') {
        None => (text, None),
        Some((clock, fraction)) => (clock, Some(fraction)),
    };
    let fraction_fits = fraction.is_none_or(|digits| {
        (1..=digits_max).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *clock.as_bytes() else {
        return false;
    };
    let below = |tens, ones, end| pair(tens, ones).is_some_and(|number| number < end);
    fraction_fits && below(h1, h2, 24) && below(m1, m2, 60) && below(s1, s2, 60)
}

/// `+01:00`, up to 14 hours.
fn is_offset(text: &str) -> bool {
    let [b'+' | b'-', h1, h2, b':', m1, m2] = *text.as_bytes() else {
        return false;
    };
    match (pair(h1, h2), pair(m1, m2)) {
        (Some(hours), Some(minutes)) => {
            minutes < 60 && (hours < 14 || (hours == 14 && minutes == 0))
        }
        _ => false,
    }
}

fn pair(tens: u8, ones: u8) -> Option<i8> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
    i8::try_from(digit(tens)? * 10 + digit(ones)?).ok()
}
