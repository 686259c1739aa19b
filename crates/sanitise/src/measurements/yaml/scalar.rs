//! What a YAML scalar means.

use granit_parser::{ScalarStyle, Tag};

use crate::scan::{Scan, Start};

/// What a scalar is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// This JSON: null, a truth value or a number.
    Plain(String),
    /// A string.
    Text,
    /// The bytes of a `!!binary`.
    Bytes(Vec<u8>),
    NotBase64,
}

/// What a scalar is by its tag and, if it has none, by how it looks. Tags that name classes of programs are not obeyed.
pub(super) fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Resolved {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => plain(text),
            _ => Resolved::Text,
        };
    };
    match tag.suffix_in_namespace("tag:yaml.org,2002:").as_deref() {
        Some("null" | "bool" | "int" | "float") => plain(text),
        Some("python/none" | "python/bool" | "python/int" | "python/long" | "python/float") => {
            plain(text)
        }
        Some("binary") => binary(text),
        _ => Resolved::Text,
    }
}

fn binary(text: &str) -> Resolved {
    let letters: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    match data_encoding::BASE64.decode(&letters) {
        Ok(bytes) => Resolved::Bytes(bytes),
        Err(_) => Resolved::NotBase64,
    }
}

fn plain(text: &str) -> Resolved {
    let word = match text {
        "" | "~" | "null" | "Null" | "NULL" => Some("null"),
        "true" | "True" | "TRUE" => Some("true"),
        "false" | "False" | "FALSE" => Some("false"),
        _ => None,
    };
    let json = word.map(str::to_owned).or_else(|| number(text));
    json.map_or(Resolved::Text, Resolved::Plain)
}

/// The number as JSON writes it, with the same digits.
fn number(text: &str) -> Option<String> {
    let unsigned = match text.strip_prefix('+') {
        Some(rest) if rest.starts_with(['-', '+']) => return None,
        Some(rest) => rest,
        None => text,
    };
    if is_json_number(unsigned) {
        return Some(unsigned.to_owned());
    }
    let (sign, digits) = match unsigned.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unsigned),
    };
    if let Some(hex) = digits.strip_prefix("0x") {
        let is_hex = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(hex, 16).ok().filter(|_| is_hex)?;
        return Some(format!("{sign}{number}"));
    }
    // `.5` and `5.` are numbers to YAML.
    let fraction = digits
        .strip_prefix('.')
        .map(|rest| format!("{sign}0.{rest}"));
    let whole = digits
        .strip_suffix('.')
        .map(|rest| format!("{sign}{rest}.0"));
    fraction.or(whole).filter(|json| is_json_number(json))
}

fn is_json_number(text: &str) -> bool {
    let starts = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if !starts {
        return false;
    }
    let mut scan = Scan::of_text(text);
    scan.peek() == Ok(Start::Number) && scan.value().is_ok() && scan.at_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_look_like_what_they_are() {
        for (text, json) in [
            ("", "null"),
            ("~", "null"),
            ("True", "true"),
            ("12", "12"),
            ("+12", "12"),
            ("-0.50", "-0.50"),
            ("1.0e+20", "1.0e+20"),
            ("9007199254740993", "9007199254740993"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("5.", "5.0"),
            ("0xff", "255"),
        ] {
            assert_eq!(plain(text), Resolved::Plain(json.into()), "{text}");
        }
        for text in [
            "yes",
            "007",
            ".inf",
            ".nan",
            "1_000",
            "12:30",
            "1.2.3",
            "-",
            "+",
            ".",
            "0x",
            "0x+1",
            "1e",
            "--1",
            "+-1",
            "1 ",
            "2012-01-01",
            "nUll",
        ] {
            assert_eq!(plain(text), Resolved::Text, "{text}");
        }
    }
}
