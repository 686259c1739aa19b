use cannery_testkit::postgres::Postgres;
use cannery_testkit::tools;
use tokio::process::Command;

pub(crate) async fn sql(url: &str, statement: &str) -> Result<String, String> {
    let psql = tools::postgres("psql").unwrap();
    let output = Command::new(psql)
        .args(["-X", "-A", "-t", "-c", statement, url])
        .output()
        .await
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

#[tokio::test]
async fn a_cluster_survives_restarts_and_crashes_and_leaves_nothing() {
    let mut postgres = Postgres::start().await.unwrap();
    let url = postgres.create_database("tried").await.unwrap();
    sql(&url, "create table t (n int)").await.unwrap();
    sql(&url, "insert into t values (1)").await.unwrap();

    postgres.restart().await.unwrap();
    sql(&url, "insert into t values (2)").await.unwrap();

    postgres.kill();
    sql(&url, "select 1").await.unwrap_err();
    postgres.restart().await.unwrap();
    assert_eq!(sql(&url, "select sum(n) from t").await.unwrap(), "3");

    let folder = sql(&postgres.url(), "show data_directory").await.unwrap();
    assert!(std::path::Path::new(&folder).exists());
    drop(postgres);
    sql(&url, "select 1").await.unwrap_err();
    assert!(!std::path::Path::new(&folder).exists());
}

#[tokio::test]
async fn settings_are_passed_on() {
    let postgres = Postgres::start_with(&[("fsync", "on"), ("max_connections", "17")])
        .await
        .unwrap();
    assert_eq!(sql(&postgres.url(), "show fsync").await.unwrap(), "on");
    assert_eq!(
        sql(&postgres.url(), "show max_connections").await.unwrap(),
        "17"
    );
}

#[tokio::test]
async fn a_durable_one_lies_where_it_is_told_and_syncs() {
    let parent = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(parent.path(), open).unwrap();
    let postgres = Postgres::durable(parent.path(), &[("max_connections", "17")])
        .await
        .unwrap();
    let url = postgres.url();
    let folder = sql(&url, "show data_directory").await.unwrap();
    let parent = parent.path().canonicalize().unwrap();
    assert!(std::path::Path::new(&folder).starts_with(parent));
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(sql(&url, &format!("show {setting}")).await.unwrap(), "on");
    }
    assert_eq!(sql(&url, "show max_connections").await.unwrap(), "17");

    let pgbench = Postgres::program("pgbench").unwrap();
    let output = Command::new(pgbench)
        .args(["-i", "-q", "-s", "1", &url])
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Postgres::program("no-such-program").unwrap_err();
}
