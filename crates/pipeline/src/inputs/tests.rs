use cannery_runtime::disk::{create_dir_all, write_durably};

use super::*;

const REPORT: &str = "20161231T000030Z-US-AS7922-ndt-20161231T000031Z_AS7922_m-0.2.0-probe.json";
const BUNDLE: &str = "autoload/v1/ndt/scamper1/2026/11/14/20261115T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl.gz";
const INDEX: &str = "autoload/v1/ndt/index1/2026/11/14/20261115T182403.850914Z-scamper1-mlab1-lga01-ndt-index1.jsonl.gz";

fn what(key: &str) -> Option<What> {
    What::of(&Key::new(key).unwrap())
}

fn shown(key: &str) -> Option<(String, Option<String>)> {
    let what = what(key)?;
    let name = what.text_name().map(|name| name.to_string());
    Some((what.kind().to_string(), name))
}

#[test]
fn the_key_says_what_an_object_holds() {
    let report = format!("2017-01-01/{REPORT}");
    for (key, kind, name) in [
        (
            format!("reports-raw/{report}"),
            "ndt",
            Some(report.as_str()),
        ),
        (
            "reports-raw/2017-01-01/odd name".into(),
            "unknown",
            Some("2017-01-01/odd name"),
        ),
        (
            BUNDLE.into(),
            "spool-scamper1",
            BUNDLE
                .strip_prefix("autoload/")
                .and_then(|rest| rest.strip_suffix(".gz")),
        ),
        (
            "f/2026/11/15/18/f_20261115T18Z.tar.gz".into(),
            "feed-f",
            None,
        ),
    ] {
        let expected = (kind.to_owned(), name.map(str::to_owned));
        assert_eq!(shown(&key), Some(expected), "{key}");
    }
    for key in [
        INDEX,
        "reports-raw/x",
        "reports-raw/2017-01-01/a/b",
        "f/2026/11/15/18/.deleted.json",
        "f/2026/11/15/18/notes.txt",
        "canned/2017-01-01/index.json.gz",
        "cannery.json",
    ] {
        assert_eq!(shown(key), None, "{key}");
    }
}

#[test]
fn the_time_follows_from_the_name() {
    for (kind, name, time) in [
        (
            "ndt",
            format!("2017-01-01/{REPORT}"),
            "2016-12-31T00:00:30Z",
        ),
        ("unknown", "2017-01-01/x".into(), "2017-01-01T00:00:00Z"),
        (
            "spool-scamper1",
            BUNDLE["autoload/".len()..BUNDLE.len() - 3].into(),
            "2026-11-15T18:24:03Z",
        ),
        (
            "feed-f",
            format!(
                "f/2026-11-15/18/f_20261115T182403.850Z_{}.json",
                "a".repeat(26)
            ),
            "2026-11-15T18:24:03Z",
        ),
        (
            "feed-f",
            "f/2026-11-15/18/a/b".into(),
            "2026-11-15T18:00:00Z",
        ),
        ("feed-f", "odd".into(), "1970-01-01T00:00:00Z"),
        ("unknown", "1900-01-01/x".into(), "1970-01-01T00:00:00Z"),
    ] {
        let expected: Timestamp = time.parse().unwrap();
        let found = time_of(&kind.parse().unwrap(), &TextName::new(&*name).unwrap());
        assert_eq!(Ok(found), u64::try_from(expected.as_second()), "{name}");
    }
}

#[test]
fn a_folder_has_the_shape_of_the_lake() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("reports");
    assert_eq!(in_folder(&root, None).unwrap(), []);
    for (date, name) in [
        ("2017-01-01", REPORT),
        ("2017-01-01", ".half"),
        ("2017-01-02", "x"),
        ("notes", "x"),
    ] {
        create_dir_all(&RealDisk, &root.join(date)).unwrap();
        write_durably(&RealDisk, &root.join(date).join(name), b"abc").unwrap();
    }
    create_dir_all(&RealDisk, &root.join("2017-01-02/folder")).unwrap();
    let keys = |bucket: Option<&str>| {
        let bucket = bucket.map(|bucket| bucket.parse().unwrap());
        let mut found = in_folder(&root, bucket).unwrap();
        found.sort();
        assert!(found.iter().all(|found| found.stored_bytes == 3));
        found
            .into_iter()
            .map(|found| found.key.to_string())
            .collect::<Vec<_>>()
    };
    let first = format!("reports-raw/2017-01-01/{REPORT}");
    assert_eq!(keys(None), [&*first, "reports-raw/2017-01-02/x"]);
    assert_eq!(keys(Some("2017-01-01")), [first]);
    assert!(keys(Some("2017-01-03")).is_empty());
}
