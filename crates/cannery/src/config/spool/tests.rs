use super::*;
use crate::config::environment::Environment;
use crate::config::{Config, Origin};

fn parse(text: &str) -> Result<Config, ConfigError> {
    let environment = Environment::all(Vec::new());
    Config::parse(text, &environment, None, &Origin::Here)
}

const PLAIN: &str =
    "node: mlab1-lga01\nspools:\n  - experiment: ndt\n    datatypes: [{name: foo1}]\n";

#[test]
fn what_is_left_out_has_a_default() {
    let config = parse(PLAIN).unwrap();
    let spool = &config.spools[0];
    assert_eq!(spool.home, Path::new("cannery-data/spool"));
    assert_eq!(
        spool.datatypes[0].schema_file,
        Path::new("cannery-data/spool/datatypes/foo1.json")
    );
    assert_eq!(spool.bundle_bytes_max, Bytes(20 << 20));
    assert_eq!(spool.min_file_age.to_string(), "2h");
    assert_eq!(spool.extensions, [".json"]);
    assert_eq!(spool.bad_files.to_string(), "quarantine");
    assert_eq!(
        spool.folder(&config.workspace),
        Path::new("cannery-data/collect/ndt")
    );
}

#[test]
fn what_was_checked_is_what_was_written() {
    let config = parse(PLAIN).unwrap();
    let spool = &config.spools[0];
    let again = SpoolConfig::check(spool.to_raw(), &config.workspace);
    assert_eq!(again.as_ref(), Ok(spool));
}

#[test]
fn flags_win_over_the_configuration_and_leave_the_rest() {
    let config = parse(PLAIN).unwrap();
    let said = RawSpool {
        id_column: Some(true),
        bad_files: Some(BadFilesWord(BadFiles::Keep)),
        ..RawSpool::default()
    };
    let raw = config.spools[0].to_raw().overlaid(said);
    let spool = SpoolConfig::check(raw, &config.workspace).unwrap();
    assert!(spool.id_column);
    assert_eq!(spool.bad_files.to_string(), "keep");
    assert_eq!(spool.datatypes, config.spools[0].datatypes);
}

#[test]
fn what_cannot_work_is_refused_with_the_key() {
    let cases = [
        ("datatypes: [{name: foo1}]", "`experiment` is missing"),
        (
            "experiment: NDT\n    datatypes: [{name: foo1}]",
            "`experiment`",
        ),
        ("experiment: ndt", "`datatypes` is empty"),
        (
            "experiment: ndt\n    datatypes: [{name: index1}]",
            "`datatypes`",
        ),
        (
            "experiment: ndt\n    datatypes: [{name: a1}, {name: a1}]",
            "twice",
        ),
        (
            "experiment: ndt\n    object_home: autoload/v2\n    datatypes: [{name: a1}]",
            "`object_home`",
        ),
        (
            "experiment: ndt\n    extensions: [json]\n    datatypes: [{name: a1}]",
            "`extensions`",
        ),
        (
            "experiment: ndt\n    scan_interval: 0s\n    datatypes: [{name: a1}]",
            "`scan_interval`",
        ),
        (
            "experiment: ndt\n    bundle_bytes_max: 0\n    datatypes: [{name: a1}]",
            "`bundle_bytes_max`",
        ),
        (
            "experiment: ndt\n    bad_files: eat\n    datatypes: [{name: a1}]",
            "quarantine, delete, keep",
        ),
    ];
    for (spool, expected) in cases {
        let text = format!("node: mlab1-lga01\nspools:\n  - {spool}\n");
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn one_experiment_has_one_spool() {
    let text = format!("{PLAIN}  - experiment: ndt\n    datatypes: [{{name: bar1}}]\n");
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("two spools"), "{error}");
}

#[test]
fn a_node_that_object_names_cannot_hold_matters_only_to_spools() {
    let named = |rest: &str| parse(&format!("node: a-b-c\n{rest}"));
    assert!(named("").is_ok());
    let error = named("spools: [{experiment: ndt, datatypes: [{name: foo1}]}]").unwrap_err();
    assert!(error.to_string().contains("set `node`"), "{error}");
}
