//! DuckDB, which shares nothing with us, reads what `cannery export duckdb` names.

use std::path::Path;
use std::process::Command;

use cannery_testkit::tools;

use crate::archive_inspection::{Bucket, DATE};
use crate::program::{Ran, ran};

/// Runs a script of SQL in DuckDB, then some Python that sees the connection as `db`.
pub(crate) fn duckdb(folder: &Path, sql: &str, then: &str) -> Ran {
    let script = format!(
        "import duckdb, json\nsql = open('{sql}').read()\nparsed = duckdb.extract_statements(sql)\n\
         db = duckdb.connect()\n{then}\n"
    );
    let mut command = Command::new(tools::python("python").unwrap());
    command.args(["-c", &script]).current_dir(folder);
    ran(&mut command)
}

const QUESTIONS: &str = "db.execute(sql)\n\
    views = sorted(row[0] for row in db.execute(\"select view_name from duckdb_views() where not internal\").fetchall())\n\
    rows = sum(db.execute(f'select count(*) from \"{view}\"').fetchone()[0] for view in views if view != 'archive_index')\n\
    ids = db.execute(\"select count(*), count(distinct id), count(distinct index_file) from archive_index where type = 'datum'\").fetchone()\n\
    dates = db.execute(f'select distinct bucket_date from \"{views[0]}\"').fetchall() if len(views) > 1 else []\n\
    print(json.dumps([views, rows, ids, [str(date[0]) for date in dates]]))";

#[test]
fn archives_in_zstd_are_read_line_by_line_and_indexes_always() {
    let bucket = Bucket::new(", codec: {name: zstd}");
    let all = bucket.run(&["ls", "--files"]).json();
    let plain = all.iter().filter(|file| {
        let name = file["facts"]["name"].as_str().unwrap();
        name.ends_with(".zst") && !name.ends_with(".tar.zst")
    });
    let expected: u64 = plain
        .clone()
        .map(|file| file["measurements"].as_u64().unwrap())
        .sum();
    assert!(plain.count() > 1 && expected > 1, "{all:?}");
    let ran = bucket.run(&["export", "duckdb", "--no-catalog", "--out", "lake.sql"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let exported = &ran.json()[0];
    assert_eq!(exported["indexes"], all.len());
    let script = std::fs::read_to_string(bucket.place.path("lake.sql")).unwrap();
    assert!(
        !script.contains('*') || !script.contains("*."),
        "no pattern: {script}"
    );
    let read = duckdb(&bucket.place.path(""), "lake.sql", QUESTIONS);
    assert_eq!(read.code, 0, "{}", read.all());
    let answer: serde_json::Value = serde_json::from_str(&read.stdout).unwrap();
    let measurements = bucket.expected.measurements;
    let once = measurements - bucket.expected.duplicates;
    assert_eq!(answer[1], expected);
    assert_eq!(
        answer[2],
        serde_json::json!([measurements, once, all.len()])
    );
    assert_eq!(answer[3], serde_json::json!([DATE]));

    // Another time, another kind.
    let few = bucket.run(&["export", "duckdb", "--no-catalog", "--to", DATE]);
    assert!(!few.stdout.contains("view"), "{}", few.stdout);
    let of_kind = bucket.run(&["export", "duckdb", "--kind", "web_connectivity"]);
    assert!(of_kind.stdout.contains("attach '"), "{}", of_kind.stdout);
    let others = of_kind.stdout.matches(".zst").count();
    assert!(others > 0 && others < script.matches(".zst").count());
}

/// DuckDB does not read LZ4: the script says so, and has the indexes.
#[test]
fn archives_in_lz4_have_their_indexes_only() {
    let bucket = Bucket::new("");
    let ran = bucket.run(&["export", "duckdb", "--out", "lake.sql"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(ran.json()[0]["archives"], 0);
    let script = std::fs::read_to_string(bucket.place.path("lake.sql")).unwrap();
    assert!(
        script.contains("DuckDB reads neither LZ4 nor tar"),
        "{script}"
    );
    // Attaching needs an extension that DuckDB downloads; what is before it is there without.
    let then = format!(
        "for part in parsed[:-1]: db.execute(part)\nassert 'attach' in parsed[-1].query.lower()\n{}",
        QUESTIONS.replacen("db.execute(sql)\n", "", 1)
    );
    let read = duckdb(&bucket.place.path(""), "lake.sql", &then);
    assert_eq!(read.code, 0, "{}", read.all());
    let answer: serde_json::Value = serde_json::from_str(&read.stdout).unwrap();
    assert_eq!(answer[0], serde_json::json!(["archive_index"]));
    assert_eq!(answer[2][0], bucket.expected.measurements);
}
