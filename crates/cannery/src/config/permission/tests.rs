use std::io::Write as _;

use super::*;
use crate::config::Config;
use crate::config::environment::Environment;

const FILES: [(&str, &str); 11] = [
    ("workspace: /srv/theirs", "workspace"),
    ("workspace: theirs", "workspace"),
    ("catalog: sqlite:c.db", "catalog"),
    ("state: sqlite:/srv/s.db", "state"),
    (
        "object_storage: [{url: 'memory:'}, {url: 'file:/home'}]",
        "object_storage.1.url",
    ),
    (
        "object_storage: [{url: 'file:./x'}]",
        "object_storage.0.url",
    ),
    (
        "spools: [{experiment: ndt, home: /home, datatypes: [{name: a}]}]",
        "spools.0.home",
    ),
    (
        "spools: [{experiment: ndt, datatypes: [{name: a}, {name: b, schema_file: x.json}]}]",
        "spools.0.datatypes.1.schema_file",
    ),
    (
        "pipeline: {inputs: [{feeds: all}, {reports: /home}], reports_remove: true}",
        "pipeline.inputs.1.reports",
    ),
    ("pipeline: {rules: /etc/rules.yml}", "pipeline.rules"),
    ("pipeline: {features: features.yml}", "pipeline.features"),
];

const PRIVATE: &str = "feeds: [{id: a, url: 'https://e.com/'}, {id: b, url: 'http://169.254.169.254/', allow_private: true}]";

fn read(text: &str, workspace: Option<&str>, origin: &Origin) -> Result<Config, String> {
    let workspace = workspace.map(Path::new);
    Config::parse(text, &Environment::all([]), workspace, origin).map_err(|error| error.to_string())
}

/// With a name of the node that spools can have on every machine.
fn named(text: &str, origin: &Origin) -> Result<Config, String> {
    read(&format!("node: mlab1-lga01\n{text}\n"), None, origin)
}

fn elsewhere(allowed: &[Permission]) -> Origin {
    Origin::Elsewhere(allowed.to_vec())
}

#[test]
fn a_configuration_from_elsewhere_names_a_file_only_where_that_is_allowed() {
    for (text, key) in FILES {
        for allowed in [&[][..], &[Permission::Private]] {
            let error = named(text, &elsewhere(allowed)).unwrap_err();
            let begin = format!("`{key}`: a configuration from a URL may not name a file");
            assert!(error.starts_with(&begin), "{text}: {error}");
            assert!(error.ends_with("`--config-allow files`"), "{error}");
        }
        let here = named(text, &Origin::Here);
        assert!(here.is_ok(), "{text}: {here:?}");
        assert_eq!(named(text, &elsewhere(&[Permission::Files])), here);
    }
}

#[test]
fn a_configuration_from_elsewhere_collects_from_here_only_where_that_is_allowed() {
    for allowed in [&[][..], &[Permission::Files]] {
        let error = named(PRIVATE, &elsewhere(allowed)).unwrap_err();
        let begin = "`feeds.1.allow_private`: a configuration from a URL may not collect";
        assert!(error.starts_with(begin), "{error}");
        assert!(error.ends_with("`--config-allow private`"), "{error}");
    }
    let here = named(PRIVATE, &Origin::Here);
    assert!(here.is_ok(), "{here:?}");
    assert_eq!(named(PRIVATE, &elsewhere(&[Permission::Private])), here);
    let plain = PRIVATE.replace("true", "false");
    assert!(named(&plain, &elsewhere(&[])).is_ok());
}

#[test]
fn the_name_of_a_node_comes_from_a_file_only_where_that_is_allowed() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"mlab2-lga01\n").unwrap();
    let text = format!("node: '@{}'\n", file.path().display());
    let error = read(&text, None, &elsewhere(&[])).unwrap_err();
    assert!(
        error.starts_with("`node`: a configuration from a URL may not name a file"),
        "{error}"
    );
    let allowed = elsewhere(&[Permission::Files]);
    assert_eq!(read(&text, None, &allowed).unwrap().node, "mlab2-lga01");
    assert!(read("node: '@/etc/hostname'\n", None, &elsewhere(&[])).is_ok());
}

#[test]
fn defaults_are_no_files_that_somebody_elsewhere_names() {
    let here = read("", None, &Origin::Here).unwrap();
    assert_eq!(read("", None, &elsewhere(&[])).unwrap(), here);
    for text in [
        "spools: [{experiment: ndt, datatypes: [{name: a}]}]",
        "object_storage: [{id: main, prefix: p}, {url: 's3://b'}]",
        "pipeline: {inputs: [{reports: 'lake:reports-raw'}]}",
        "pipeline: {reports_remove: true}",
        "catalog: postgres://u@h/d",
    ] {
        let read = named(text, &elsewhere(&[]));
        assert!(read.is_ok(), "{text}: {read:?}");
    }
}

#[test]
fn the_workspace_of_the_command_line_wins_wherever_the_configuration_is_from() {
    let text = "workspace: /srv/theirs\n";
    let config = read(text, Some("ours"), &elsewhere(&[])).unwrap();
    assert_eq!(config.workspace, Path::new("ours"));
}
