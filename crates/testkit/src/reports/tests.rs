use std::collections::BTreeSet;

use super::*;

fn all(options: Options) -> Vec<Report> {
    bucket(options).collect()
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let options = Options::default();
    let contents = |options| {
        all(options)
            .into_iter()
            .map(|report| (report.name, report.content))
    };
    assert!(contents(options).eq(contents(options)));
    let other = Options { seed: 2, ..options };
    assert!(
        contents(options)
            .zip(contents(other))
            .all(|(one, two)| one != two)
    );
}

#[test]
fn lines_are_what_is_expected_of_them() {
    let options = Options::default();
    let mut total = Expected::default();
    let mut tests = BTreeSet::new();
    for report in all(options) {
        total += report.expected;
        tests.insert(report.name.split('-').nth(3).unwrap().to_owned());
        assert_eq!(report.content.len() as u64, report.expected.bytes);
        if !report.name.ends_with(".json") {
            continue;
        }
        let mut seen = BTreeSet::new();
        let (mut good, mut again) = (0, 0);
        for line in report
            .content
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let value = serde_json::from_slice::<serde_json::Value>(line);
            let twice = String::from_utf8_lossy(line)
                .matches("\"probe_ip\"")
                .count()
                == 2;
            if value.is_ok_and(|value| value.is_object()) && !twice {
                good += 1;
                again += usize::from(!seen.insert(line.to_vec()));
            }
        }
        assert_eq!(
            (good, again),
            (report.expected.measurements, report.expected.duplicates),
            "{}",
            report.name
        );
    }
    assert_eq!(total.reports, 12);
    assert_eq!(total.measurements, 12 * 5 + 2 + 3);
    assert_eq!(
        (
            total.duplicates,
            total.bad,
            total.unknown_versions,
            total.not_utf8
        ),
        (3, 10, 2, 2)
    );
    assert!(tests.len() >= 11 - 1, "{tests:?}");
}

#[test]
fn a_bucket_is_written_as_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let expected = write_bucket(folder.path(), "2017-01-01", Options::default()).unwrap();
    let files = std::fs::read_dir(folder.path().join("2017-01-01")).unwrap();
    let bytes: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(bytes, expected.bytes);
}

#[test]
fn the_large_report_is_large() {
    let options = Options {
        json_reports: 0,
        yaml_reports: 0,
        large: true,
        ..Options::default()
    };
    let reports = all(options);
    assert_eq!(reports.len(), 1);
    assert!(reports[0].content.len() > 64 * 1024 * 1024);
}

#[test]
fn pages_have_the_size_of_real_ones() {
    let lines: Vec<Vec<u8>> = web_connectivity_json(20_000_000).collect();
    let bytes: usize = lines.iter().map(Vec::len).sum();
    assert!((20_000_000..20_100_000).contains(&bytes));
    let mean = bytes / lines.len();
    assert!((10_000..20_000).contains(&mean), "{mean}");
    for line in lines.iter().take(400) {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert!(value["test_keys"]["requests"][0]["response"]["body"].is_string());
    }
}
