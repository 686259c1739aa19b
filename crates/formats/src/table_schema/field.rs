//! A column, and the types BigQuery knows.

/// A column, or a field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name. BigQuery compares names without regard to case.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Whether it may, must or can repeatedly be there.
    pub mode: Mode,
    /// For people.
    pub description: Option<String>,
    /// The fields of a record; empty for every other type.
    pub fields: Vec<Field>,
}

/// A type. An alias is its type: `INT64` is [`Kind::Integer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `STRING`.
    String,
    /// `BYTES`, in base64.
    Bytes,
    /// `INTEGER` or `INT64`.
    Integer,
    /// `FLOAT` or `FLOAT64`.
    Float,
    /// `BOOLEAN` or `BOOL`.
    Boolean,
    /// `TIMESTAMP`: an instant.
    Timestamp,
    /// `RECORD` or `STRUCT`, with fields.
    Record,
    /// `DATE`.
    Date,
    /// `TIME`: of any day.
    Time,
    /// `DATETIME`: a date and time of no known zone.
    Datetime,
    /// `NUMERIC` or `DECIMAL`.
    Numeric,
    /// `BIGNUMERIC` or `BIGDECIMAL`.
    Bignumeric,
    /// `GEOGRAPHY`.
    Geography,
    /// `INTERVAL`.
    Interval,
    /// `JSON`: anything.
    Json,
    /// `RANGE` of something.
    Range(RangeElement),
}

/// What a range is a range of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeElement {
    /// `DATE`.
    Date,
    /// `DATETIME`.
    Datetime,
    /// `TIMESTAMP`.
    Timestamp,
}

/// How often a value is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Once or not at all.
    #[default]
    Nullable,
    /// Once.
    Required,
    /// As an array, which may be empty.
    Repeated,
}

impl Field {
    /// A field that is no record.
    #[must_use]
    pub fn new(name: &str, kind: Kind, mode: Mode) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            mode,
            description: None,
            fields: Vec::new(),
        }
    }

    /// A record of `fields`.
    #[must_use]
    pub fn record(name: &str, mode: Mode, fields: Vec<Self>) -> Self {
        Self {
            fields,
            ..Self::new(name, Kind::Record, mode)
        }
    }

    /// Whether BigQuery takes `name` for this field.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Type and mode for a message: `STRING REQUIRED`, `RANGE of DATE`.
    pub(super) fn in_words(&self) -> String {
        let mut words = self.kind.name().to_owned();
        if let Kind::Range(element) = self.kind {
            words = format!("{words} of {}", element.name());
        }
        match self.mode {
            Mode::Nullable => words,
            mode => format!("{words} {}", mode.name()),
        }
    }
}

impl Kind {
    /// The type of a name or alias, in any case. A `RANGE` needs the type of its ends besides.
    pub(super) fn of(name: &str, range: Option<RangeElement>) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "STRING" => Self::String,
            "BYTES" => Self::Bytes,
            "INTEGER" | "INT64" => Self::Integer,
            "FLOAT" | "FLOAT64" => Self::Float,
            "BOOLEAN" | "BOOL" => Self::Boolean,
            "TIMESTAMP" => Self::Timestamp,
            "RECORD" | "STRUCT" => Self::Record,
            "DATE" => Self::Date,
            "TIME" => Self::Time,
            "DATETIME" => Self::Datetime,
            "NUMERIC" | "DECIMAL" => Self::Numeric,
            "BIGNUMERIC" | "BIGDECIMAL" => Self::Bignumeric,
            "GEOGRAPHY" => Self::Geography,
            "INTERVAL" => Self::Interval,
            "JSON" => Self::Json,
            "RANGE" => Self::Range(range?),
            _ => return None,
        })
    }

    /// The name it is printed with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Integer => "INTEGER",
            Self::Float => "FLOAT",
            Self::Boolean => "BOOLEAN",
            Self::Timestamp => "TIMESTAMP",
            Self::Record => "RECORD",
            Self::Date => "DATE",
            Self::Time => "TIME",
            Self::Datetime => "DATETIME",
            Self::Numeric => "NUMERIC",
            Self::Bignumeric => "BIGNUMERIC",
            Self::Geography => "GEOGRAPHY",
            Self::Interval => "INTERVAL",
            Self::Json => "JSON",
            Self::Range(_) => "RANGE",
        }
    }
}

impl RangeElement {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "DATE" => Self::Date,
            "DATETIME" => Self::Datetime,
            "TIMESTAMP" => Self::Timestamp,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Date => "DATE",
            Self::Datetime => "DATETIME",
            Self::Timestamp => "TIMESTAMP",
        }
    }
}

impl Mode {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "NULLABLE" => Self::Nullable,
            "REQUIRED" => Self::Required,
            "REPEATED" => Self::Repeated,
            _ => return None,
        })
    }

    /// The name it is printed with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nullable => "NULLABLE",
            Self::Required => "REQUIRED",
            Self::Repeated => "REPEATED",
        }
    }
}
