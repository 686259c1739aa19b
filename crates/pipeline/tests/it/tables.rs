//! Rows of features and tables by date follow what changed: the data, their definitions, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cannery_journal::Query;
use cannery_pipeline::line::Ended;

use crate::can_kit::{Works, bucket, key_of, some_reports};
use crate::line_kit::{FEATURES, Mill};

const HOUR: Duration = Duration::from_secs(3_600);
const TIME: &str = "time:\n  - {at: measurement_start_time, format: \"%Y-%m-%d %H:%M:%S\"}\n";

/// A mill whose reports are loaded, and whose tables are computed.
async fn loaded(mut mill: Mill) -> Mill {
    mill.features = format!("{TIME}{FEATURES}");
    mill.works.fill(&some_reports(6)).await;
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    assert_eq!(
        (mill.alive().await, mill.dead().await),
        (vec![], BTreeMap::new())
    );
    assert!(!mill.rows("aggregate_per_name").await.is_empty());
    assert_eq!(mill.catalog.touched_dates().await.unwrap(), [""; 0]);
    mill
}

async fn in_a_file() -> Mill {
    loaded(Mill::new(Works::in_memory()).await).await
}

/// The work of a stage that waits.
async fn waiting(mill: &Mill, stage: &str) -> BTreeSet<String> {
    let entries = mill.journal.list(Query::all()).await.unwrap().entries;
    let keys = entries.iter().map(|entry| entry.key.to_string());
    keys.filter(|key| key.starts_with(stage)).collect()
}

fn aggregates(dates: &[String]) -> BTreeSet<String> {
    let keys = dates.iter().map(|date| format!("aggregate/{date}/-/-"));
    keys.collect()
}

#[tokio::test]
async fn an_aggregate_that_is_defined_anew_is_computed_for_all_dates() {
    let mut mill = in_a_file().await;
    let before = mill.rows("aggregate_per_name").await;
    mill.features = mill.features.replace(
        "  - table: per_name\n    version: 1",
        "  - table: per_name\n    version: 2",
    );
    mill.features = mill.features.replace("count(*)", "1000 + count(*)");
    // Who made it known dies before it adds the work.
    drop(mill.line().await);
    assert_eq!(mill.rows("aggregate_per_name").await, [""; 0]);
    let line = mill.line().await;
    let dates = mill.catalog.dates().await.unwrap();
    let caught = line.catch_up().await.unwrap();
    assert_eq!(caught.to_aggregate, dates.len() as u64);
    assert!(
        caught.is_behind() && caught.to_centrifuge == 0,
        "{caught:?}"
    );
    assert_eq!(waiting(&mill, "aggregate/").await, aggregates(&dates));
    assert_eq!(line.catch_up().await.unwrap().to_aggregate, 0, "it waits");
    mill.work(line.clone(), HOUR).await;
    let after = mill.rows("aggregate_per_name").await;
    assert_eq!(after.len(), before.len());
    let count = |row: &String| {
        let (_, last) = row.trim_end_matches(']').rsplit_once(',').unwrap();
        last.parse::<u64>().unwrap()
    };
    assert!(after.iter().all(|row| count(row) > 1_000), "{after:?}");
    assert_eq!(mill.catalog.touched_dates().await.unwrap(), [""; 0]);
    assert!(!line.catch_up().await.unwrap().is_behind());
}

#[tokio::test]
async fn a_feature_of_a_newer_version_is_taken_out_of_every_file_again() {
    let mut mill = in_a_file().await;
    let rows = mill.rows("feature_seen").await;
    let before = mill.rows("aggregate_per_name").await;
    mill.features = mill.features.replacen("version: 1", "version: 2", 1);
    mill.features = mill.features.replacen(
        "(.test_name // \"none\")",
        "(.test_name // \"none\" | tostring | ascii_upcase)",
        1,
    );
    let line = mill.line().await;
    let caught = line.catch_up().await.unwrap();
    let files = mill.files().await.len() as u64;
    assert_eq!((caught.to_autoclave, caught.to_centrifuge), (0, files));
    mill.work(line.clone(), HOUR).await;
    let upper = |row: &String| row.contains("NDT");
    let after = mill.rows("feature_seen").await;
    assert_eq!(after.len(), rows.len());
    assert!(
        after.iter().any(upper) && !rows.iter().any(upper),
        "{after:?}"
    );
    let after = mill.rows("aggregate_per_name").await;
    assert!(
        after.iter().any(upper) && !before.iter().any(upper),
        "{after:?}"
    );
    assert!(!line.catch_up().await.unwrap().is_behind());
    // One that is compatible is only noted.
    mill.features = mill
        .features
        .replacen("version: 2", "version: 3\n    min_compatible: 2", 1);
    let line = mill.line().await;
    assert_eq!(line.catch_up().await.unwrap().to_centrifuge, files);
    let told = mill.told.all().len();
    mill.work(line.clone(), HOUR).await;
    let told = mill.told.all().split_off(told);
    assert!(
        told.iter().all(|it| it.key.starts_with("centrifuge/")),
        "{told:?}"
    );
    assert!(!line.catch_up().await.unwrap().is_behind());
}

#[tokio::test]
async fn tables_that_wait_are_not_lost_with_the_journal() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.works.fill(&some_reports(6)).await;
    mill.discover().await;
    let line = mill.line().await;
    // Longer than it takes to load, shorter than what computing waits for.
    mill.timing.debounce = HOUR;
    let slow = mill.line().await;
    mill.work(slow, HOUR / 4).await;
    let dates = mill.catalog.dates().await.unwrap();
    assert_eq!(waiting(&mill, "aggregate/").await, aggregates(&dates));
    assert_eq!(mill.rows("aggregate_per_name").await, [""; 0]);
    mill.drop_journal();
    drop(line);
    let line = mill.line().await;
    let caught = line.catch_up().await.unwrap();
    assert_eq!(caught.to_aggregate, dates.len() as u64);
    mill.work(line, 2 * HOUR).await;
    for key in aggregates(&dates) {
        assert_eq!(mill.told.of(&key), [Ended::Done], "{key}");
    }
    assert!(!mill.rows("aggregate_per_name").await.is_empty());
}

/// A report of long ago arrives today: the tables of its dates are computed, and no others.
async fn a_late_report(mill: Mill) {
    let mill = loaded(mill).await;
    let before = mill.rows("aggregate_per_name").await;
    let told = mill.told.all().len();
    let name = format!(
        "{}/20161231T235959Z-US-AS7922-ndt-late-0.2.0-probe.json",
        bucket()
    );
    let dates = ["2015-03-01", "2015-03-07"];
    let lines = dates.iter().map(|date| {
        format!(
            "{{\"test_name\":\"ndt\",\"measurement_start_time\":\"{date} 10:00:00\",\"late\":1}}\n"
        )
    });
    let text: String = lines.collect();
    mill.works.put(&key_of(&name), text.as_bytes()).await;
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    let ran = mill.told.all().split_off(told);
    let ran = ran.iter().filter(|it| it.key.starts_with("aggregate/"));
    let ran: Vec<(String, Ended)> = ran.map(|it| (it.key.clone(), it.ended.clone())).collect();
    let expected = dates.map(|date| (format!("aggregate/{date}/-/-"), Ended::Done));
    assert_eq!(ran, expected, "exactly these, once each");
    let new = dates.map(|date| format!("[\"{date}\",\"ndt\",1]"));
    let after: BTreeSet<String> = mill.rows("aggregate_per_name").await.into_iter().collect();
    assert_eq!(after, before.into_iter().chain(new).collect());
    let files = mill.files().await;
    assert!(
        files.iter().all(|file| file.starts_with("2017-01-01/")),
        "{files:?}"
    );
    assert!(!mill.line().await.catch_up().await.unwrap().is_behind());
}

#[tokio::test]
async fn a_report_of_long_ago_touches_the_tables_of_its_dates_alone() {
    a_late_report(Mill::new(Works::in_memory()).await).await;
}

#[cfg(feature = "real-servers")]
#[tokio::test]
async fn the_same_in_postgresql() {
    let server = cannery_testkit::postgres::Postgres::start().await.unwrap();
    let url = server.create_database("late").await.unwrap();
    a_late_report(Mill::with_catalog_at(Works::in_memory(), &url).await).await;
}
