use super::*;

const FULL: &str = r#"
version: 7            # a comment
data_format_versions: [0.1.0, 0.2.0]
time:
  - {at: measurement_start_time, format: "%Y-%m-%d %H:%M:%S"}
  - {at: start_time, format: epoch}
tables:
  bridges: {file: bridges.yml}
rules:
  - {op: rename, at: [test_name], map: {a: b, c: d}}
  - {op: rename_keys, map: {start_time: test_start_time}, data_format_versions: [none, 0.1.0]}
  - {op: nest, keep: [id], into: test_keys}
  - {op: null_fill, at: [a, b.c]}
  - {op: stamp, at: [bucket_date], from: bucket_date}
  - {op: stamp, at: [note], text: hello}
  - {op: content_id, at: [id]}
  - {op: epoch_to_time, at: [t], unit: ms, format: "%Y"}
  - {op: bytes}
  - {op: drop, at: [x], kinds: [ndt, spool-*]}
  - {op: redact, at: [y], pattern: "[0-9]+"}
  - {op: hmac, at: [z], domain: z}
  - {op: truncate_ip, at: [probe_ip], v4: 16}
  - {op: lookup, at: [input], table: bridges, missing: keep}
"#;

const BRIDGES: &str = "version: 3\nentries: {a: b, c: {d: 1}}\n";

fn parse(text: &str) -> Result<Rules, RulesError> {
    Rules::parse(text, |file| match file {
        "bridges.yml" => Ok(BRIDGES.to_owned()),
        _ => Err("there is no such file".to_owned()),
    })
}

fn with_table(table: &str) -> Result<Rules, RulesError> {
    Rules::parse(FULL, |_| Ok(table.to_owned()))
}

#[test]
fn every_operation_is_read() {
    let rules = parse(FULL).unwrap();
    assert_eq!(rules.version(), "7");
    assert_eq!(rules.meaning.rules.len(), 14);
    assert_eq!(rules.tables().collect::<Vec<_>>(), [("bridges", "3")]);
    assert!(matches!(
        rules.meaning.rules[12].op,
        Op::TruncateIp { v4: 16, v6: 48 }
    ));
}

#[test]
fn the_hash_is_of_the_meaning() {
    let hash = parse(FULL).unwrap().hash();
    // By value: archives lie under it, so it must not change with the program.
    assert_eq!(hash, "1ff1b7bd");
    assert_eq!(Rules::none().hash(), "f10ac9dc");
    let same = [
        FULL.replace("# a comment", "# another"),
        FULL.replace("version: 7 ", "version: 8 "),
        FULL.replace("{a: b, c: d}", "{c: d, a: b}"),
        FULL.replace("[0.1.0, 0.2.0]", "[0.2.0, 0.1.0]"),
        FULL.replace("at: [probe_ip], v4: 16", "v6: 48, v4: 16, at: [probe_ip]"),
    ];
    for text in same {
        assert_eq!(parse(&text).unwrap().hash(), hash, "{text}");
    }
    let other = [
        FULL.replace("v4: 16", "v4: 24"),
        FULL.replace("{a: b, c: d}", "{a: b, c: e}"),
        FULL.replace("[0-9]+", "[0-9]*"),
        FULL.replace("at: [x]", "at: [x.y]"),
        FULL.replace("kinds: [ndt, spool-*]", "kinds: [ndt]"),
        FULL.replace("  - {op: bytes}\n", ""),
        FULL.replace("format: epoch}", "format: epoch_ms}"),
    ];
    for text in other {
        assert_ne!(parse(&text).unwrap().hash(), hash, "{text}");
    }
    let table = |text: &str| with_table(text).unwrap().hash();
    assert_eq!(table(&format!("# new\n{BRIDGES}")), hash);
    assert_ne!(table(&BRIDGES.replace("a: b", "a: x")), hash);
    assert_ne!(table(&BRIDGES.replace("version: 3", "version: 4")), hash);
}

#[test]
fn errors_say_where_and_what_next() {
    let mut texts = String::new();
    for text in [
        "",
        "rules: []",
        "version: 1\nrule: []",
        "version: 1\nversion: 2",
        "version: 1\nrules:\n  - {at: [a]}",
        "version: 1\nrules:\n  - op: erase\n    at: [a]",
        "version: 1\nrules:\n  - op: drop",
        "version: 1\nrules:\n  - op: drop\n    at: []",
        "version: 1\nrules:\n  - op: drop\n    at: [a]\n    pattern: x",
        "version: 1\nrules:\n  - op: drop\n    at:\n      - a\n      - b..c",
        "version: 1\nrules:\n  - op: null_fill\n    at: [\"a[]\"]",
        "version: 1\nrules:\n  - op: redact\n    at: [a]\n    pattern: '(x'",
        "version: 1\nrules:\n  - op: truncate_ip\n    at: [a]\n    v4: 33",
        "version: 1\nrules:\n  - op: truncate_ip\n    at: [a]\n    v4: many",
        "version: 1\nrules:\n  - op: stamp\n    at: [a]",
        "version: 1\nrules:\n  - op: stamp\n    at: [a]\n    from: clock",
        "version: 1\nrules:\n  - op: epoch_to_time\n    at: [a]\n    unit: min",
        "version: 1\nrules:\n  - op: epoch_to_time\n    at: [a]\n    format: '%!'",
        "version: 1\nrules:\n  - op: lookup\n    at: [a]\n    table: bridges",
        "version: 1\ntables:\n  t: {file: nowhere.yml}",
        "version: 1\ntables: {b: {file: bridges.yml}}\nrules:\n  - {op: lookup, at: [a], table: b, missing: drop}",
        "version: 1\ntables: {b: {file: bridges.yml}}\nrules:\n  - {op: lookup, at: [a], table: b, pattern: x}",
        "version: 1\nrules:\n  - op: drop\n    at: [a]\n    data_format_versions: [0.9.0]",
        "version: 1\nrules:\n  - op: drop\n    at: [a]\n    kinds: ['a*b']",
        "version: 1\nrules:\n  - op: rename_keys\n    map: {a: c, b: c}",
        "version: 1\ntime:\n  - {at: 'a[]', format: epoch}",
        "version: 1\ntime:\n  - {at: a, format: iso}",
        "version: [",
    ] {
        let error = parse(text).unwrap_err();
        texts += &format!("{}\n    {error}\n", text.replace('\n', "⏎"));
    }
    insta::assert_snapshot!(texts);
}

#[test]
fn hostile_files_are_refused_quickly() {
    let mut bomb = String::from("version: 1\nx0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..12 {
        let before = n - 1;
        bomb += &format!(
            "x{n}: &a{n} [{}]\n",
            vec![format!("*a{before}"); 10].join(",")
        );
    }
    assert!(parse(&bomb).is_err());
    assert!(parse(&"[".repeat(10_000)).is_err());
    assert!(parse(&"#".repeat(2 << 20)).is_err());
    assert!(with_table(&bomb).is_err());
    assert!(with_table("").is_err());
    // Stars that cross in every way: 2^n nodes.
    let mut crossing = "version: 1\nrules:\n  - op: drop\n    at:\n".to_owned();
    for n in 0..20 {
        let steps: Vec<String> = (0..20)
            .map(|m| {
                if n == m {
                    format!("k{m}")
                } else {
                    "*".to_owned()
                }
            })
            .collect();
        crossing += &format!("      - '{}'\n", steps.join("."));
    }
    let error = parse(&crossing).unwrap_err().to_string();
    assert!(error.contains("name the keys instead"), "{error}");
}

#[test]
fn a_large_table_is_read() {
    let mut table = "version: 1\nentries:\n".to_owned();
    for n in 0..100_000 {
        table += &format!("  10.{}.{}.{}: bridge{n}\n", n >> 16, n >> 8 & 255, n & 255);
    }
    assert_eq!(
        with_table(&table).unwrap().meaning.tables["bridges"]
            .entries
            .len(),
        100_000
    );
}
