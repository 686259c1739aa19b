//! Durations such as `5s` and sizes such as `20MiB`, as a person writes them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration: a whole number and `ms`, `s`, `m`, `h` or `d`; several add up, as in `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

const UNITS_OF_TIME: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("ms", 1),
    ("m", 60_000),
    ("s", 1_000),
];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || {
            format!(
                "`{text}` is not a duration; write for example `500ms`, `5s`, `2m`, `1h30m` or `1d`"
            )
        };
        let mut rest = text;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let (unit, ms) = UNITS_OF_TIME
                .iter()
                .find(|(unit, _)| rest.starts_with(unit))
                .ok_or_else(wrong)?;
            rest = &rest[unit.len()..];
            total = number
                .checked_mul(*ms)
                .and_then(|part| total.checked_add(part))
                .ok_or_else(wrong)?;
        }
        if text.is_empty() {
            Err(wrong())
        } else {
            Ok(Self(Duration::from_millis(total)))
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, ms) in [
            ("d", 86_400_000),
            ("h", 3_600_000),
            ("m", 60_000),
            ("s", 1_000),
            ("ms", 1),
        ] {
            if rest >= ms {
                write!(f, "{}{unit}", rest / ms)?;
                rest %= ms;
            }
        }
        Ok(())
    }
}

/// A number of bytes: a whole number and nothing, `KiB`, `MiB`, `GiB`, `TiB`, or `kB`, `MB`, `GB`, `TB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

const UNITS_OF_SIZE: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("`{text}` is not a size; write for example `20MiB`, `1GiB` or `5000000`");
        let digits = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
        let unit = match text[digits..].trim() {
            "" => 1,
            unit => {
                UNITS_OF_SIZE
                    .iter()
                    .find(|(name, _)| *name == unit)
                    .ok_or_else(wrong)?
                    .1
            }
        };
        number.checked_mul(unit).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS_OF_SIZE
            .iter()
            .take(4)
            .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit))
        {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Both read from text and written as text.
macro_rules! as_text {
    ($type:ident, $name:literal, $kind:tt, $description:literal, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $kind, "description": $description, "pattern": $pattern })
            }
        }
    };
}

as_text!(
    Span,
    "Duration",
    "string",
    "A duration such as 500ms, 5s, 2m, 1h30m or 1d",
    "^([0-9]+(ms|s|m|h|d))+$"
);
as_text!(
    Bytes,
    "Bytes",
    ["string", "integer"],
    "A size such as 20MiB, 1GB or 5000000",
    "^[0-9]+ ?([KMGT]iB|[kMGT]?B)?$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print_as_a_person_writes_them() {
        for (text, ms) in [
            ("5s", 5_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("0s", 0),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(ms));
            assert_eq!(span.to_string(), text);
        }
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "5 s",
            "5x",
            "1.5h",
            "99999999999999999999d",
            "9999999999999999d",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_read_and_print_as_a_person_writes_them() {
        for (text, bytes) in [("20MiB", 20 << 20), ("1GiB", 1 << 30), ("5000", 5_000)] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!(size.0, bytes);
            assert_eq!(size.to_string(), text);
        }
        assert_eq!("5 MB".parse(), Ok(Bytes(5_000_000)));
        for text in ["", "MiB", "-1", "1.5GiB", "5 mb", "99999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
