//! The schema of a table in BigQuery: what a loader makes of the rows of a datatype.
//!
//! A datatype's own schema file lists the fields of `raw`; a table has the standard columns around them.

mod field;
mod fit;
mod parse;
mod print;
mod union;

pub use field::{Field, Kind, Mode, RangeElement};
pub use fit::{Misfit, RowCheck};
pub use parse::{RECORDS_DEEP_MAX, SchemaFault, parse_datatype};
pub use union::{Conflict, Union, union};

/// The columns of a table. Names are unique, ignoring case, at every depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    fields: Vec<Field>,
}

impl TableSchema {
    /// The table of a datatype whose own fields, as [`parse_datatype`] gives them, are `datatype`.
    #[must_use]
    pub fn of(datatype: &[Field], id_column: bool) -> Self {
        let required = |name: &str, kind| Field::new(name, kind, Mode::Required);
        let archiver = ["Version", "GitCommit", "ArchiveURL", "Filename"];
        let archiver = archiver.map(|name| required(name, Kind::String));
        let mut fields = vec![required("date", Kind::Date)];
        if id_column {
            // Not REQUIRED: a table that was made without it can still get it.
            fields.push(Field::new("id", Kind::String, Mode::Nullable));
        }
        fields.push(Field::record("archiver", Mode::Required, archiver.into()));
        fields.push(Field::record("raw", Mode::Nullable, datatype.to_vec()));
        Self { fields }
    }

    /// The table of the indexes, if they are loadable.
    #[must_use]
    pub fn index1() -> Self {
        let columns = [
            ("Filename", Kind::String),
            ("Size", Kind::Integer),
            ("SHA256", Kind::String),
            ("TimeAdded", Kind::Timestamp),
        ];
        let columns = columns.map(|(name, kind)| Field::new(name, kind, Mode::Required));
        Self::of(&columns, false)
    }

    /// The columns, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The fields of `raw`: what a row is checked against once this schema is that of the lake.
    #[must_use]
    pub fn datatype_fields(&self) -> &[Field] {
        let raw = self.fields.iter().find(|field| field.is_named("raw"));
        raw.map_or(&[], |raw| &raw.fields)
    }

    /// Reads a table schema, such as that of the lake.
    ///
    /// # Errors
    /// [`SchemaFault`] names the field and what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, SchemaFault> {
        parse::table(text).map(|fields| Self { fields })
    }

    /// The bytes of the schema: a JSON array, one space of indentation, keys sorted, `NULLABLE` left out.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        print::to_bytes(&self.fields)
    }
}

#[cfg(test)]
mod tests;
