//! Text from anybody, and times for people.

/// Longer texts are cut: they are for a person to recognise, not to read whole.
pub(super) const CHARS_MAX: usize = 240;

/// A text that shows what it holds: control characters, and those that turn or hide what stands beside them, become `�`; what
/// is too long is cut.
#[must_use]
pub fn clean(text: &str) -> String {
    clean_to(text, CHARS_MAX)
}

/// [`clean`], for a text that is worth more characters than most.
pub(crate) fn clean_to(text: &str, chars_max: usize) -> String {
    let mut shown: String = text.chars().take(chars_max).map(visible).collect();
    if text.chars().nth(chars_max).is_some() {
        shown.push('…');
    }
    shown
}

/// [`clean`], for a text that must not be cut, such as a command to copy.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(visible).collect()
}

/// The character, or a mark in its place.
fn visible(c: char) -> char {
    if commands(c) { '\u{fffd}' } else { c }
}

/// Whether a character does something to the text around it instead of being seen.
fn commands(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A whole number with a comma before every three digits.
pub(super) fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const YEAR: u64 = 365 * 86_400;

/// A time span in its two largest units.
#[must_use]
pub fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        86_400..YEAR => format!("{days} d {} h", hours % 24),
        YEAR.. => format!("{} y {} d", days / 365, days % 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_its_two_largest_units() {
        let spans = [
            0,
            59,
            60,
            3_599,
            3_600,
            7_499,
            86_399,
            86_400,
            900_000,
            YEAR + 90_000,
        ]
        .map(span);
        let expected = [
            "0 s",
            "59 s",
            "1 min",
            "59 min",
            "1 h 0 min",
            "2 h 4 min",
            "23 h 59 min",
            "1 d 0 h",
            "10 d 10 h",
            "1 y 1 d",
        ];
        assert_eq!(spans, expected);
    }

    #[test]
    fn text_cannot_command_the_screen_and_is_cut() {
        assert_eq!(clean("plain ü 漢"), "plain ü 漢");
        assert_eq!(
            clean("a\u{1b}[31m\nb\u{202e}c\u{200b}\u{9b}"),
            "a�[31m�b�c��"
        );
        let long = "ü".repeat(CHARS_MAX);
        assert_eq!(clean(&long), long);
        let cut = clean(&(long.clone() + "x"));
        assert_eq!(cut, long + "…");
    }
}
