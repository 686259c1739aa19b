//! Conditions that are put together from a filter.

use cannery_database::Value;

use super::Cursor;

/// Conditions and their parameters, joined by `and`.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    parts: Vec<String>,
    params: Vec<Value>,
}

impl Conditions {
    /// `left <something> $n`.
    pub(super) fn compare(&mut self, left: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.params.push(value.into());
            self.parts.push(format!("{left} ${}", self.params.len()));
        }
    }

    pub(super) fn equal(&mut self, left: &str, value: Option<impl Into<Value>>) {
        self.compare(&format!("{left} ="), value);
    }

    /// `left in` the ids of a table where something is the value, from an id on.
    pub(super) fn among(&mut self, left: &str, table: &str, value: Option<&str>, from: i64) {
        if let Some(value) = value {
            self.params.extend([Value::from(value), Value::from(from)]);
            let last = self.params.len();
            self.parts.push(format!(
                "{left} in (select id from {table} = ${} and id >= ${last})",
                last - 1
            ));
        }
    }

    /// `exists` a row of a table that also fulfils what is added `within`; nothing when that is nothing.
    pub(super) fn exists(&mut self, rows: &str, within: impl FnOnce(&mut Self)) {
        let before = self.parts.len();
        within(self);
        let more = self.parts.split_off(before);
        if !more.is_empty() {
            let more = more.join(" and ");
            self.parts
                .push(format!("exists (select 1 from {rows} and {more})"));
        }
    }

    /// Without a parameter.
    pub(super) fn always(&mut self, condition: &str) {
        self.parts.push(condition.to_owned());
    }

    /// Everything after a page.
    pub(super) fn after(&mut self, first: &str, second: &str, cursor: Option<Cursor>) {
        if let Some(cursor) = cursor {
            self.params
                .extend([cursor.first, cursor.second].map(Value::from));
            let last = self.params.len();
            self.parts
                .push(format!("({first}, {second}) > (${}, ${last})", last - 1));
            // What an index can be entered with.
            self.parts.push(format!("{first} >= ${}", last - 1));
        }
    }

    pub(super) fn sql(&self) -> String {
        if self.parts.is_empty() {
            return "1 = 1".to_owned();
        }
        self.parts.join(" and ")
    }

    /// The place of one more parameter.
    pub(super) fn next(&self) -> String {
        format!("${}", self.params.len() + 1)
    }

    pub(super) fn params(self) -> Vec<Value> {
        self.params
    }
}
