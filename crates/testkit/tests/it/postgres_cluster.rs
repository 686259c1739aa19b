use std::path::Path;
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_testkit::postgres::PostgresCluster;

use crate::postgres::sql;

const WAITING: &str =
    "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query ~ '^insert'";

/// Waits until a commit on the primary waits for a standby.
async fn a_commit_waits(primary: &str) {
    let clock = Clock::real();
    while sql(primary, WAITING).await.unwrap() != "1" {
        clock.sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn commits_need_a_standby_and_outlive_the_primary() {
    let mut cluster = PostgresCluster::start().await.unwrap();
    let url = cluster.create_database("tried").await.unwrap();
    sql(&url, "create table t (n int)").await.unwrap();
    sql(&url, "insert into t values (1)").await.unwrap();

    cluster.stop_standbys();
    let primary = cluster.primary_url();
    let waiting = tokio::spawn({
        let url = format!("{url}&options=-cstatement_timeout%3D100ms");
        async move { sql(&url, "insert into t values (2)").await }
    });
    a_commit_waits(&primary).await;
    // Five times the time-out of the statement, which does not reach as far as the commit.
    Clock::real().sleep(Duration::from_millis(500)).await;
    assert_eq!(sql(&primary, WAITING).await.unwrap(), "1");
    assert!(!waiting.is_finished());
    cluster.start_standbys().await.unwrap();
    waiting.await.unwrap().unwrap();

    cluster.kill_primary();
    sql(&primary, "select 1").await.unwrap_err();
    sql(&url, "select 1").await.unwrap_err();
    cluster.promote().await.unwrap();
    assert_ne!(cluster.primary_url(), primary);
    assert_eq!(sql(&url, "select sum(n) from t").await.unwrap(), "3");
    sql(&url, "insert into t values (3)").await.unwrap();
    assert_eq!(sql(&url, "select sum(n) from t").await.unwrap(), "6");
    let again = cluster.promote().await.unwrap_err().to_string();
    assert!(again.starts_with("cannot promote a standby"), "{again}");

    let folder = sql(&url, "show data_directory").await.unwrap();
    assert!(Path::new(&folder).exists());
    drop(cluster);
    sql(&url, "select 1").await.unwrap_err();
    assert!(!Path::new(&folder).exists());
}
