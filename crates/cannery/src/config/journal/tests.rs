use std::time::Duration;

use super::*;
use crate::config::environment::Environment;
use crate::config::{Config, Origin};

fn parse(text: &str) -> Result<Config, ConfigError> {
    let variables =
        [("TIMES", "7"), ("MERGE", "off")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    Config::parse(text, &Environment::all(variables), None, &Origin::Here)
}

fn journal(text: &str, name: &str) -> JournalSettings {
    parse(text).unwrap().journals[name].clone()
}

#[test]
fn the_default_journal_is_always_there_and_is_the_default_declaration() {
    let config = parse("").unwrap();
    let names: Vec<_> = config.journals.keys().collect();
    assert_eq!(names, ["default", "pipeline"]);
    let default = &config.journals["default"];
    assert_eq!(default.declaration(), Declaration::default());
    assert_eq!(default.engine, EngineAddress::Embedded);
    assert_eq!(
        journal("journals:\n  a:\n", "a"),
        *default,
        "a name alone is enough"
    );
}

#[test]
fn every_key_is_read() {
    let all = "journals:\n  a:\n    engine: postgres://u@h/db\n    lease: 30s\n    timeouts_max: 3\n    max_delay: 5m\n    \
               period: 1mo\n    on_empty: truncate\n    expiry: 2d\n    merge: off\n    wipe: true\n    key: [path]\n    \
               fields: {path: string, size: u64}\n";
    let settings = journal(all, "a");
    assert_eq!(settings.engine.to_string(), "postgres://u@h/db");
    let expected = Declaration {
        key: vec!["path".to_owned()],
        fields: [
            ("path".to_owned(), FieldType::String),
            ("size".to_owned(), FieldType::U64),
        ]
        .into(),
        lease: Duration::from_secs(30),
        timeouts_max: 3,
        max_delay: Some(Duration::from_secs(300)),
        period: Period::Month,
        on_empty: OnEmpty::Truncate,
        expiry: Some(Duration::from_secs(172_800)),
        merge: false,
        wipe: true,
    };
    assert_eq!(settings.declaration(), expected);
}

#[test]
fn switches_are_read_as_every_kind_of_yaml_writes_them() {
    for (text, merge) in [
        ("on", true),
        ("off", false),
        ("true", true),
        ("false", false),
        ("yes", true),
        ("no", false),
        ("'on'", true),
        ("\"off\"", false),
        ("Off", false),
        ("{{ env.MERGE }}", false),
    ] {
        let text = format!("journals:\n  a:\n    merge: {text}\n");
        assert_eq!(journal(&text, "a").merge, merge, "{text}");
    }
    let count = journal("journals: {a: {timeouts_max: {{ env.TIMES }}}}\n", "a");
    assert_eq!(count.timeouts_max, 7);
}

#[test]
fn the_others_inherit_what_they_do_not_say() {
    let text = "journals:\n  default: {lease: 10s, expiry: 1d, max_delay: 1m, key: [p], fields: {p: string}}\n  \
                a: {expiry: none}\n  b: {fields: {q: u64}}\n  c: {key: [], fields: {}}\n";
    let config = parse(text).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| &config.journals[name]);
    assert_eq!(
        (a.lease.to_string().as_str(), a.expiry),
        ("10s", OrNone(None))
    );
    assert_eq!((&a.key[..], a.fields.len()), (&["p".to_owned()][..], 1));
    assert!(b.key.is_empty() && b.fields.contains_key("q") && b.fields.len() == 1);
    assert!(c.key.is_empty() && c.fields.is_empty());
    assert_eq!(c.max_delay.0.unwrap().to_string(), "1m");
}

#[test]
fn a_mistake_names_its_place() {
    for (text, reason) in [
        (
            "journals:\n  a:\n    leese: 5s\n",
            "line 3: `journals.a`: unknown key `leese`; did you mean `lease`?",
        ),
        (
            "journals:\n  a:\n    lease: 5\n",
            "line 3: `journals.a.lease`: `5` is not a duration",
        ),
        (
            "journals:\n  a:\n    expiry: never\n",
            "line 3: `journals.a.expiry`: `never` is not a duration",
        ),
        (
            "journals:\n  a:\n    engine: mysql://h\n",
            "line 3: `journals.a.engine`: `mysql://h` is not an engine",
        ),
        (
            "journals:\n  a:\n    merge: maybe\n",
            "line 3: `journals.a.merge`: `maybe` is neither on nor off",
        ),
        (
            "journals:\n  a:\n    merge: 5\n",
            "line 3: `journals.a.merge`: expected on or off, found a number",
        ),
        (
            "journals:\n  a:\n    period: 1w\n",
            "line 3: `journals.a.period`: `1w` is not one of `1h`, `1d`, `1mo`, `none`",
        ),
        (
            "journals:\n  a:\n    fields: {x: int}\n",
            "line 3: `journals.a.fields.x`: `int` is not one of `bool`",
        ),
        (
            "journals:\n  a: {timeouts_max: 255}\n",
            "`journals.a`: `timeouts_max` must be at most 254",
        ),
        (
            "journals:\n  a: {timeouts_max: 1000}\n",
            "`journals.a`: `timeouts_max` must be at most 254",
        ),
        (
            "journals:\n  a: {timeouts_max: -1}\n",
            "`journals.a.timeouts_max`: expected u64, found a number",
        ),
        (
            "journals:\n  a: {lease: 0s}\n",
            "`journals.a`: `lease` must lie between 1 ms and a year",
        ),
        (
            "journals:\n  a: {key: [x]}\n",
            "`journals.a`: the key field `x` is not among the declared fields",
        ),
        ("journals: [a]\n", "line 1: `journals`: expected a map"),
        (
            "journals:\n  A: {}\n",
            "`A` is not the name of a journal: 1 to 64",
        ),
        ("journals:\n  ../x: {}\n", "is not the name of a journal"),
        ("journals:\n  .x: {}\n", "is not the name of a journal"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(
            error.contains(reason),
            "{text:?}\n  got    {error}\n  wanted {reason}"
        );
    }
    assert!(check_name(&"a".repeat(64)).is_ok() && check_name(&"a".repeat(65)).is_err());
    assert!(check_name("").is_err() && check_name("0.a_b-c").is_ok());
}

#[test]
fn what_is_shown_can_be_read_again() {
    let text = "journals:\n  default: {max_delay: 1m}\n  a: {merge: off, period: none, key: [p], fields: {p: time}}\n";
    let config = parse(text).unwrap();
    let shown = serde_saphyr::to_string(&config).unwrap();
    assert_eq!(parse(&shown).unwrap(), config, "{shown}");
}

#[test]
fn the_journal_of_the_pipeline_is_as_the_pipeline_needs_it() {
    let shown = "journals:\n  default: {engine: postgres://u@h/db, expiry: 1d, merge: off, key: [a], fields: {a: string}}\n\
                 \n  pipeline: {lease: 30s}\npipeline: {debounce: 1s, max_delay: 7s}\n";
    let settings = journal(shown, "pipeline");
    assert_eq!(settings.engine.to_string(), "postgres://u@h/db");
    let expected = Declaration {
        lease: Duration::from_secs(30),
        max_delay: Some(Duration::from_secs(7)),
        ..Declaration::default()
    };
    assert_eq!(settings.declaration(), expected);
    for wrong in [
        "merge: off",
        "max_delay: 1s",
        "expiry: 1d",
        "fields: {a: string}",
    ] {
        let error = parse(&format!("journals: {{pipeline: {{{wrong}}}}}")).unwrap_err();
        assert!(
            error.to_string().contains("`pipeline.max_delay`"),
            "{error}"
        );
    }
}
