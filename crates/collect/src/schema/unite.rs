//! What several schemas are together.

use cannery_formats::table_schema::{Conflict, TableSchema, Union, union};

use super::error::SchemaError;

/// A schema and where it is from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sourced<'a> {
    pub(super) schema: &'a TableSchema,
    pub(super) source: &'a str,
}

/// Our schema and those of the mirrors as one: in the order of the first mirror, then what others add, ours last.
pub(super) fn unite(
    ours: Sourced<'_>,
    mirrors: &[Sourced<'_>],
) -> Result<TableSchema, SchemaError> {
    let mut together: Option<TableSchema> = None;
    for (position, next) in mirrors.iter().enumerate() {
        let before = &mirrors[..position];
        together = Some(join(together, *next, before).map_err(|(conflict, other)| {
            SchemaError::MirrorsDisagree {
                conflict: Box::new(conflict),
                one: next.source.to_owned(),
                other,
            }
        })?);
    }
    join(together, ours, mirrors).map_err(|(conflict, theirs)| SchemaError::Changed {
        conflict: Box::new(conflict),
        ours: ours.source.to_owned(),
        theirs,
    })
}

/// Adds `next` to what those `before` it are together, or says with which of them it is at odds.
fn join(
    together: Option<TableSchema>,
    next: Sourced<'_>,
    before: &[Sourced<'_>],
) -> Result<TableSchema, (Conflict, String)> {
    let Some(together) = together else {
        return Ok(next.schema.clone());
    };
    match union(next.schema, &together) {
        Ok(Union::Same | Union::Theirs) => Ok(together),
        Ok(Union::Wider(wider)) => Ok(wider),
        Err(_) => Err(before
            .iter()
            .find_map(|other| {
                let conflict = union(next.schema, other.schema).err()?;
                Some((conflict, other.source.to_owned()))
            })
            .expect(
                "each field of a union is one of its parts' fields, so one part has the conflict",
            )),
    }
}

#[cfg(test)]
mod tests {
    use cannery_formats::table_schema::{Field, Kind, Mode};
    use proptest::prelude::*;

    use super::*;

    fn table(names: &[&str]) -> TableSchema {
        let field = |name: &&str| Field::new(name, Kind::String, Mode::Nullable);
        let fields: Vec<Field> = names.iter().map(field).collect();
        TableSchema::of(&fields, false)
    }

    fn names(table: &TableSchema) -> Vec<&str> {
        let fields = table.datatype_fields().iter();
        fields.map(|field| field.name.as_str()).collect()
    }

    fn from<'a>(source: &'a str, schema: &'a TableSchema) -> Sourced<'a> {
        Sourced { schema, source }
    }

    #[test]
    fn the_first_mirror_gives_the_order_and_ours_comes_last() {
        let (ours, one, two) = (table(&["d", "a"]), table(&["b", "a"]), table(&["c", "B"]));
        let mirrors = [from("one", &one), from("two", &two)];
        let united = unite(from("ours", &ours), &mirrors).unwrap();
        assert_eq!(names(&united), ["b", "a", "c", "d"]);
    }

    #[test]
    fn without_any_mirror_it_is_ours() {
        let ours = table(&["a"]);
        assert_eq!(unite(from("ours", &ours), &[]).unwrap(), ours);
    }

    #[test]
    fn a_conflict_names_the_mirror_that_has_it() {
        let (plain, a) = (table(&["b"]), table(&["a"]));
        let repeated = TableSchema::of(&[Field::new("A", Kind::Integer, Mode::Repeated)], false);
        let mirrors = [from("one", &plain), from("two", &a)];
        let error = unite(from("ours", &repeated), &mirrors).unwrap_err();
        let SchemaError::Changed {
            conflict,
            ours,
            theirs,
        } = &error
        else {
            panic!("{error}");
        };
        assert_eq!((ours.as_str(), theirs.as_str()), ("ours", "two"));
        assert_eq!(conflict.path, "raw.a");
        assert_eq!(
            error.to_string(),
            "cannot settle the table schema: field `raw.a` is INTEGER REPEATED in `ours` and STRING in `two`; \
             the type and mode of a field stay for ever: undo the change, or give the field a new name"
        );
        let mirrors = [
            from("one", &a),
            from("two", &plain),
            from("three", &repeated),
        ];
        let error = unite(from("ours", &plain), &mirrors)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("field `raw.a` is INTEGER REPEATED in `three` and STRING in `one`"),
            "{error}"
        );
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![4 => Just(Kind::String), 1 => Just(Kind::Integer)]
    }

    fn mode() -> impl Strategy<Value = Mode> {
        prop_oneof![6 => Just(Mode::Nullable), 1 => Just(Mode::Required), 1 => Just(Mode::Repeated)]
    }

    fn leaves() -> impl Strategy<Value = Vec<Field>> {
        let leaf = (prop::sample::select(vec!["a", "b", "c"]), kind(), mode());
        let leaf = leaf.prop_map(|(name, kind, mode)| Field::new(name, kind, mode));
        prop::collection::vec(leaf, 1..4).prop_map(|mut fields| {
            let mut seen = Vec::new();
            fields.retain(|field: &Field| {
                let new = !seen.contains(&field.name);
                seen.push(field.name.clone());
                new
            });
            fields
        })
    }

    fn tables() -> impl Strategy<Value = TableSchema> {
        (leaves(), prop::option::of((mode(), leaves()))).prop_map(|(mut fields, record)| {
            if let Some((mode, below)) = record {
                fields.push(Field::record("r", mode, below));
            }
            TableSchema::of(&fields, false)
        })
    }

    proptest! {
        /// What `join` relies on when it looks for the culprit.
        #[test]
        fn tables_that_agree_in_pairs_agree_together(all in prop::collection::vec(tables(), 2..5)) {
            let sourced: Vec<_> = all.iter().map(|table| from("x", table)).collect();
            let agree = all
                .iter()
                .enumerate()
                .all(|(at, one)| all[..at].iter().all(|other| union(one, other).is_ok()));
            let united = unite(sourced[0], &sourced[1..]);
            prop_assert_eq!(united.is_ok(), agree);
            if let Ok(united) = united {
                for table in &all {
                    prop_assert!(matches!(union(table, &united), Ok(Union::Same | Union::Theirs)));
                }
            }
        }
    }
}
