use super::*;

fn declared() -> Declaration {
    let fields = [
        ("path", FieldType::String),
        ("size", FieldType::U64),
        ("blob", FieldType::Bytes),
        ("when", FieldType::Time),
    ];
    Declaration {
        key: vec!["path".into()],
        fields: fields.map(|(name, kind)| (name.to_owned(), kind)).into(),
        ..Declaration::default()
    }
}

fn entry(data: &str) -> NewEntry {
    NewEntry {
        data: Some(Data::from_json(data.to_owned()).unwrap()),
        ..NewEntry::default()
    }
}

const NOW: Date = Date::from_millis(1_000);

#[test]
fn declared_fields_make_the_key() {
    let add = declared()
        .admit(entry(r#"{"path":"/a","size":3}"#), NOW)
        .unwrap();
    assert_eq!(add.key.as_str(), "/a");
    let two = Declaration {
        key: vec!["path".into(), "size".into()],
        ..declared()
    };
    let add = two.admit(entry(r#"{"size":3,"path":"/a"}"#), NOW).unwrap();
    assert_eq!(add.key.as_str(), r#"["/a",3]"#);
}

#[test]
fn what_is_not_declared_is_refused() {
    let wrong = [
        (
            r#"{"path":"/a","sise":3}"#,
            "the field `sise` is not declared",
        ),
        (
            r#"{"path":"/a","size":-3}"#,
            "the field `size` is not of its declared type u64",
        ),
        (
            r#"{"path":"/a","blob":"%"}"#,
            "the field `blob` is not of its declared type bytes",
        ),
        (
            r#"{"path":"/a","when":"soon"}"#,
            "the field `when` is not of its declared type time",
        ),
        (r#"{"size":3}"#, "the key field `path` is missing"),
        (
            r#"[1]"#,
            "the data is not an object with the declared fields",
        ),
        (
            r#"{"path":"/a","path":"/b"}"#,
            "the data is not what was expected: the field `path` is there twice at line 1 column 25",
        ),
        (r#"{"path":""}"#, "the key is empty"),
    ];
    for (data, message) in wrong {
        assert_eq!(
            declared().admit(entry(data), NOW).unwrap_err().message,
            message
        );
    }
    let named = NewEntry {
        key: Some("/b".into()),
        ..entry(r#"{"path":"/a"}"#)
    };
    assert!(declared().admit(named, NOW).is_err());
}

#[test]
fn without_fields_any_json_goes_but_the_key_must_be_named() {
    let plain = Declaration::default();
    assert_eq!(
        plain.admit(entry("[1]"), NOW).unwrap_err().message,
        "the entry has no `key`"
    );
    let add = plain.admit(NewEntry::new("k", Data::null()), NOW).unwrap();
    assert_eq!(
        (add.insertion, add.process, add.expiration),
        (NOW, NOW, Expiration::NEVER)
    );
}

#[test]
fn expiry_counts_from_the_insertion_date() {
    let short = Declaration {
        expiry: Some(Duration::from_secs(1)),
        ..Declaration::default()
    };
    let add = short.admit(NewEntry::new("k", Data::null()), NOW).unwrap();
    assert_eq!(add.expiration, Expiration::at(Date::from_millis(2_000)));
}

#[test]
fn a_declaration_survives_being_stored_and_a_wrong_one_is_refused() {
    let text = serde_json::to_string(&declared()).unwrap();
    assert_eq!(
        serde_json::from_str::<Declaration>(&text).unwrap(),
        declared()
    );
    let wrong = [
        Declaration {
            lease: Duration::ZERO,
            ..declared()
        },
        Declaration {
            timeouts_max: 255,
            ..declared()
        },
        Declaration {
            key: vec!["nope".into()],
            ..declared()
        },
        Declaration {
            key: vec!["path".into(), "path".into()],
            ..declared()
        },
    ];
    for declaration in wrong {
        assert!(declaration.check().is_err(), "{declaration:?}");
    }
}
