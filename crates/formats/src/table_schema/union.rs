//! What two schemas are together. Nodes of different versions share a table: none may take a field from another.

use super::TableSchema;
use super::field::{Field, Mode};

/// How our schema and that of the lake go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Union {
    /// Both have the same fields. Nothing is to be written.
    Same,
    /// The lake's has all of ours, and more. Nothing is to be written.
    Theirs,
    /// This is to be written in place of the lake's.
    Wider(TableSchema),
}

/// A field that cannot be what both want.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field `{path}` is {ours} here and {theirs} there")]
pub struct Conflict {
    /// Which field, such as `raw.a.b`.
    pub path: String,
    /// Its type and mode with us.
    pub ours: String,
    /// Its type and mode in the lake.
    pub theirs: String,
}

const MISSING: &str = "missing";

/// Our schema and that of the lake as one, in the lake's order with our new fields behind.
///
/// A field that one has and the other has not is kept, unless it is `REQUIRED` in a record that both have: BigQuery refuses
/// a new one, and our rows without one that the lake wants would fail its load. The lake's spelling and description of a
/// field stay; a description it lacks is added.
///
/// # Errors
/// [`Conflict`] when a field differs in type or mode, or is such a `REQUIRED` one.
pub fn union(ours: &TableSchema, theirs: &TableSchema) -> Result<Union, Conflict> {
    let mut merge = Merge::default();
    let fields = merge.fields(&ours.fields, &theirs.fields, "")?;
    Ok(match merge {
        Merge {
            ours_adds: true, ..
        } => Union::Wider(TableSchema { fields }),
        Merge {
            theirs_has_more: true,
            ..
        } => Union::Theirs,
        Merge { .. } => Union::Same,
    })
}

#[derive(Default)]
struct Merge {
    ours_adds: bool,
    theirs_has_more: bool,
}

impl Merge {
    fn fields(
        &mut self,
        ours: &[Field],
        theirs: &[Field],
        path: &str,
    ) -> Result<Vec<Field>, Conflict> {
        let find =
            |fields: &'_ [Field], name: &str| fields.iter().position(|field| field.is_named(name));
        let mut union = Vec::with_capacity(ours.len().max(theirs.len()));
        for theirs in theirs {
            let path = join(path, &theirs.name);
            union.push(match find(ours, &theirs.name) {
                Some(at) => self.field(&ours[at], theirs, &path)?,
                None if theirs.mode == Mode::Required => {
                    return Err(conflict(&path, None, Some(theirs)));
                }
                None => {
                    self.theirs_has_more = true;
                    theirs.clone()
                }
            });
        }
        for ours in ours
            .iter()
            .filter(|ours| find(theirs, &ours.name).is_none())
        {
            if ours.mode == Mode::Required {
                return Err(conflict(&join(path, &ours.name), Some(ours), None));
            }
            self.ours_adds = true;
            union.push(ours.clone());
        }
        Ok(union)
    }

    fn field(&mut self, ours: &Field, theirs: &Field, path: &str) -> Result<Field, Conflict> {
        if (ours.kind, ours.mode) != (theirs.kind, theirs.mode) {
            return Err(conflict(path, Some(ours), Some(theirs)));
        }
        let fields = self.fields(&ours.fields, &theirs.fields, path)?;
        let described = theirs.description.is_none() && ours.description.is_some();
        self.ours_adds |= described;
        let description = if described { ours } else { theirs };
        Ok(Field {
            name: theirs.name.clone(),
            kind: theirs.kind,
            mode: theirs.mode,
            description: description.description.clone(),
            fields,
        })
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        return name.to_owned();
    }
    format!("{path}.{name}")
}

fn conflict(path: &str, ours: Option<&Field>, theirs: Option<&Field>) -> Conflict {
    let in_words = |field: Option<&Field>| field.map_or(MISSING.to_owned(), Field::in_words);
    Conflict {
        path: path.to_owned(),
        ours: in_words(ours),
        theirs: in_words(theirs),
    }
}
