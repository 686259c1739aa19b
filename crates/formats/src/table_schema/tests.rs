use super::*;
use proptest::prelude::*;

fn datatype(text: &str) -> Vec<Field> {
    parse_datatype(text.as_bytes()).unwrap()
}

fn table(text: &str) -> TableSchema {
    TableSchema::of(&datatype(text), false)
}

#[test]
fn a_table_is_printed_exactly_so() {
    let fields = datatype(
        r#"[{"type":"INT64","name":"n","mode":"nullable","description":"how many"},
            {"name":"r","type":"STRUCT","mode":"REPEATED","fields":[{"name":"d","type":"Range","rangeElementType":{"type":"DATE"}}]}]"#,
    );
    let printed = TableSchema::of(&fields, true).to_bytes();
    assert_eq!(
        String::from_utf8(printed.clone()).unwrap(),
        include_str!("../../fixtures/table_schema/with-id.json")
    );
    assert_eq!(
        TableSchema::parse(&printed),
        Ok(TableSchema::of(&fields, true))
    );
    let index = TableSchema::index1();
    assert_eq!(
        String::from_utf8(index.to_bytes()).unwrap(),
        include_str!("../../fixtures/table_schema/index1.json")
    );
    assert_eq!(TableSchema::parse(&index.to_bytes()), Ok(index));
}

#[test]
fn the_rows_of_an_index_fit_its_table() {
    let line = crate::spool::IndexLine {
        filename: "2026/11/15/a.json".to_owned(),
        size: u64::from(u32::MAX),
        sha256: crate::Digest::of(b""),
        time_added: "2026-11-15T18:24:03Z".parse().unwrap(),
    };
    let mut raw = Vec::new();
    line.append_to(&mut raw);
    let index = TableSchema::index1();
    assert_eq!(RowCheck::new(index.datatype_fields()).fits(&raw), Ok(()));
}

#[test]
fn aliases_are_their_types() {
    for (alias, name) in [
        ("INT64", "INTEGER"),
        ("FLOAT64", "FLOAT"),
        ("BOOL", "BOOLEAN"),
        ("DECIMAL", "NUMERIC"),
        ("BIGDECIMAL", "BIGNUMERIC"),
        ("timestamp", "TIMESTAMP"),
    ] {
        let of = |name| table(&format!(r#"[{{"name":"a","type":"{name}"}}]"#));
        assert_eq!(of(alias), of(name));
        assert_eq!(union(&of(alias), &of(name)), Ok(Union::Same));
    }
    for name in [
        "STRING",
        "BYTES",
        "DATE",
        "TIME",
        "DATETIME",
        "GEOGRAPHY",
        "INTERVAL",
        "JSON",
    ] {
        let fields = datatype(&format!(r#"[{{"name":"a","type":"{name}"}}]"#));
        assert_eq!(fields[0].kind.name(), name);
    }
}

#[test]
fn faults_name_the_field() {
    let deep = |levels: usize| {
        let open = r#"[{"name":"r","type":"RECORD","fields":"#.repeat(levels);
        open + r#"[{"name":"x","type":"STRING"}]"# + &"}]".repeat(levels)
    };
    assert!(parse_datatype(deep(RECORDS_DEEP_MAX - 1).as_bytes()).is_ok());
    let too_deep = deep(RECORDS_DEEP_MAX);
    for (text, path, reason) in [
        ("", "", "not JSON"),
        ("{}", "", "array of fields"),
        ("[]", "raw", "no fields"),
        ("[1]", "raw[0]", "JSON object"),
        (r#"[{"type":"STRING"}]"#, "raw[0]", "no `name`"),
        (r#"[{"name":"a"}]"#, "raw.a", "no `type`"),
        (
            r#"[{"name":"a","type":"TEXT"}]"#,
            "raw.a",
            "unknown type `TEXT`",
        ),
        (r#"[{"name":"a","type":1}]"#, "raw.a", "must be a text"),
        (
            r#"[{"name":"a","type":"STRING","mode":"MAYBE"}]"#,
            "raw.a",
            "unknown mode `MAYBE`",
        ),
        (
            r#"[{"name":"a","type":"STRING","maxLength":"5"}]"#,
            "raw.a",
            "unknown property `maxLength`",
        ),
        (r#"[{"name":"a","type":"RECORD"}]"#, "raw.a", "no fields"),
        (
            r#"[{"name":"a","type":"RECORD","fields":[]}]"#,
            "raw.a",
            "no fields",
        ),
        (
            r#"[{"name":"a","type":"STRING","fields":[{"name":"b","type":"STRING"}]}]"#,
            "raw.a",
            "only a RECORD",
        ),
        (
            r#"[{"name":"a","type":"RECORD","fields":[{"name":"b","type":"X"}]}]"#,
            "raw.a.b",
            "unknown type",
        ),
        (
            r#"[{"name":"a","type":"DATE"},{"name":"A","type":"DATE"}]"#,
            "raw.A",
            "comes twice",
        ),
        (
            r#"[{"name":"a-b","type":"DATE"}]"#,
            "raw.a-b",
            "letters, digits",
        ),
        (r#"[{"name":"","type":"DATE"}]"#, "raw.", "letters, digits"),
        (
            r#"[{"name":"1a","type":"DATE"}]"#,
            "raw.1a",
            "letters, digits",
        ),
        (
            r#"[{"name":"_partitionTime","type":"DATE"}]"#,
            "raw._partitionTime",
            "for itself",
        ),
        (
            r#"[{"name":"a","type":"RANGE"}]"#,
            "raw.a",
            "needs a `rangeElementType`",
        ),
        (
            r#"[{"name":"a","type":"RANGE","rangeElementType":{"type":"TIME"}}]"#,
            "raw.a",
            "DATETIME or TIMESTAMP",
        ),
        (
            r#"[{"name":"a","type":"DATE","rangeElementType":{"type":"DATE"}}]"#,
            "raw.a",
            "only a RANGE",
        ),
        (
            &too_deep,
            &format!("raw{}", ".r".repeat(RECORDS_DEEP_MAX)),
            "more than 15 records",
        ),
    ] {
        let fault = parse_datatype(text.as_bytes()).unwrap_err();
        assert_eq!(fault.path, path, "{text}: {fault}");
        assert!(fault.reason.contains(reason), "{text}: {fault}");
    }
    let long = format!(r#"[{{"name":"{}","type":"DATE"}}]"#, "a".repeat(301));
    assert!(parse_datatype(long.as_bytes()).is_err());
    let table = TableSchema::parse(
        br#"[{"name":"raw","type":"RECORD","fields":[{"name":"x","type":"Y"}]}]"#,
    );
    assert_eq!(table.unwrap_err().path, "raw.x");
}

#[test]
fn a_field_of_either_side_is_kept() {
    let ours = table(
        r#"[{"name":"A","type":"STRING"},{"name":"c","type":"RECORD","mode":"REPEATED","fields":[{"name":"x","type":"DATE","mode":"REQUIRED"}]}]"#,
    );
    let theirs = table(r#"[{"name":"b","type":"FLOAT"},{"name":"a","type":"STRING"}]"#);
    let Union::Wider(wider) = union(&ours, &theirs).unwrap() else {
        panic!("our field is missing there");
    };
    let names: Vec<_> = wider
        .datatype_fields()
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["b", "a", "c"]);
    assert_eq!(union(&ours, &wider), Ok(Union::Theirs));
    assert_eq!(union(&theirs, &wider), Ok(Union::Theirs));
    assert_eq!(union(&wider, &wider), Ok(Union::Same));
    // The `id` column can come later, and stays when it goes.
    let fields = theirs.datatype_fields();
    let [with, without] = [true, false].map(|id| TableSchema::of(fields, id));
    assert!(matches!(union(&with, &without), Ok(Union::Wider(_))));
    assert_eq!(union(&without, &with), Ok(Union::Theirs));
}

#[test]
fn a_description_is_added_but_never_fought_over() {
    let described = |text: &str| {
        table(&format!(
            r#"[{{"name":"a","type":"DATE","description":"{text}"}}]"#
        ))
    };
    let bare = table(r#"[{"name":"a","type":"DATE"}]"#);
    assert_eq!(
        union(&described("x"), &bare),
        Ok(Union::Wider(described("x")))
    );
    assert_eq!(union(&bare, &described("x")), Ok(Union::Same));
    assert_eq!(union(&described("x"), &described("y")), Ok(Union::Same));
}

#[test]
fn conflicts_name_the_field_and_both_types() {
    for (ours, theirs, message) in [
        (
            r#"{"name":"a","type":"STRING"}"#,
            r#"{"name":"A","type":"INT64"}"#,
            "field `raw.A` is STRING here and INTEGER there",
        ),
        (
            r#"{"name":"a","type":"DATE"}"#,
            r#"{"name":"a","type":"DATE","mode":"REPEATED"}"#,
            "field `raw.a` is DATE here and DATE REPEATED there",
        ),
        (
            r#"{"name":"a","type":"DATE","mode":"REQUIRED"}"#,
            r#"{"name":"b","type":"DATE"}"#,
            "field `raw.a` is DATE REQUIRED here and missing there",
        ),
        (
            r#"{"name":"b","type":"DATE"}"#,
            r#"{"name":"a","type":"DATE","mode":"REQUIRED"}"#,
            "field `raw.a` is missing here and DATE REQUIRED there",
        ),
        (
            r#"{"name":"a","type":"RANGE","rangeElementType":{"type":"DATE"}}"#,
            r#"{"name":"a","type":"RANGE","rangeElementType":{"type":"DATETIME"}}"#,
            "field `raw.a` is RANGE of DATE here and RANGE of DATETIME there",
        ),
        (
            r#"{"name":"r","type":"RECORD","fields":[{"name":"x","type":"BOOL"}]}"#,
            r#"{"name":"r","type":"RECORD","fields":[{"name":"x","type":"TIME"}]}"#,
            "field `raw.r.x` is BOOLEAN here and TIME there",
        ),
    ] {
        let [ours, theirs] = [ours, theirs].map(|field| table(&format!("[{field}]")));
        assert_eq!(union(&ours, &theirs).unwrap_err().to_string(), message);
    }
}

/// Fields with few names in two spellings. With `agreeing`, the same name is always the same type.
fn fields(agreeing: bool) -> impl Strategy<Value = Vec<Field>> {
    let name = || prop::sample::select(vec!["a", "A", "b", "c", "C", "d"]);
    let mode = prop::sample::select(vec![
        Mode::Nullable,
        Mode::Nullable,
        Mode::Repeated,
        Mode::Required,
    ]);
    let kind = prop::sample::select(vec![Kind::String, Kind::Integer, Kind::Date]);
    let leaf = (name(), kind, mode.clone()).prop_map(move |(name, kind, mode)| {
        let (kind, mode) = if agreeing {
            (Kind::String, Mode::Nullable)
        } else {
            (kind, mode)
        };
        Field::new(name, kind, mode)
    });
    let field = leaf.prop_recursive(3, 30, 4, move |inner| {
        let rname = prop::sample::select(vec!["r", "R", "s"]);
        (rname, prop::collection::vec(inner, 1..4), mode.clone()).prop_map(
            move |(name, fields, mode)| {
                let mode = if agreeing { Mode::Repeated } else { mode };
                Field::record(name, mode, unique(fields))
            },
        )
    });
    prop::collection::vec(field, 1..5).prop_map(unique)
}

fn unique(fields: Vec<Field>) -> Vec<Field> {
    let mut kept: Vec<Field> = Vec::new();
    for field in fields {
        if !kept.iter().any(|other| other.is_named(&field.name)) {
            kept.push(field);
        }
    }
    kept
}

/// Every field with its path, ignoring case and order.
fn paths(fields: &[Field], parent: &str) -> std::collections::BTreeSet<(String, Kind, Mode)> {
    fields
        .iter()
        .flat_map(|field| {
            let path = format!("{parent}.{}", field.name.to_lowercase());
            let mut below = paths(&field.fields, &path);
            below.insert((path, field.kind, field.mode));
            below
        })
        .collect()
}

fn both(ours: &TableSchema, theirs: &TableSchema) -> Result<TableSchema, Conflict> {
    Ok(match union(ours, theirs)? {
        Union::Same | Union::Theirs => theirs.clone(),
        Union::Wider(wider) => wider,
    })
}

fn holds_everything(ours: &TableSchema, theirs: &TableSchema, together: &TableSchema) {
    let [ours_paths, theirs_paths, all] = [ours, theirs, together].map(|it| paths(it.fields(), ""));
    assert_eq!(&ours_paths | &theirs_paths, all);
    assert_eq!(
        union(ours, theirs) == Ok(Union::Same),
        ours_paths == theirs_paths
    );
    assert_eq!(union(together, together), Ok(Union::Same));
    for part in [ours, theirs] {
        assert_eq!(
            both(part, together).as_ref(),
            Ok(together),
            "it would be written again and again"
        );
    }
    assert_eq!(
        TableSchema::parse(&together.to_bytes()).as_ref(),
        Ok(together)
    );
}

proptest! {
    #[test]
    fn a_union_is_the_same_from_both_sides_and_loses_nothing(a in fields(false), b in fields(false), agreeing in [fields(true), fields(true)]) {
        for [a, b] in [[a, b], agreeing] {
            let [a, b] = [a, b].map(|fields| TableSchema::of(&fields, false));
            match (both(&a, &b), both(&b, &a)) {
                (Ok(one), Ok(other)) => {
                    holds_everything(&a, &b, &one);
                    prop_assert_eq!(paths(one.fields(), ""), paths(other.fields(), ""));
                }
                (Err(one), Err(other)) => {
                    prop_assert!(!one.path.is_empty() && !other.path.is_empty());
                }
                (one, other) => prop_assert!(false, "{one:?} but {other:?}"),
            }
        }
    }

    #[test]
    fn nodes_that_agree_never_conflict(a in fields(true), b in fields(true)) {
        let [a, b] = [a, b].map(|fields| TableSchema::of(&fields, true));
        prop_assert!(union(&a, &b).is_ok());
    }
}
