//! Points on the earth, in well-known text. Everything else takes geometry on a sphere to judge.

use super::number;

pub(super) fn is_points(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    if let Some(rest) = upper.strip_prefix("POINT") {
        in_parentheses(rest).is_some_and(is_point)
    } else if let Some(rest) = upper.strip_prefix("MULTIPOINT") {
        in_parentheses(rest).is_some_and(|points| points.split(',').all(is_point))
    } else {
        false
    }
}

fn in_parentheses(text: &str) -> Option<&str> {
    text.trim_start_matches(' ')
        .strip_prefix('(')?
        .strip_suffix(')')
}

/// Longitude and latitude, in degrees.
fn is_point(text: &str) -> bool {
    let mut parts = text.split(' ').filter(|part| !part.is_empty());
    match (parts.next(), parts.next(), parts.next()) {
        (Some(longitude), Some(latitude), None) => {
            is_within(longitude, 180.0) && is_within(latitude, 90.0)
        }
        _ => false,
    }
}

fn is_within(number: &str, degrees: f64) -> bool {
    number::is_number(number) && number.parse::<f64>().is_ok_and(|it| it.abs() <= degrees)
}
