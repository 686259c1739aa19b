//! The binary on real S3 servers.

use cannery_testkit::s3::{S3Access, S3Server};

use crate::program::{Place, Ran, assert_text, http_get};

fn write_config(place: &Place, access: &S3Access) {
    let S3Access {
        endpoint,
        region,
        bucket,
        key_id,
        secret,
    } = access;
    place.write(
        "s3.yml",
        format!(
            "object_storage:\n- id: main\n  bucket: {bucket}\n  endpoint_url: {endpoint}\n  region_name: {region}\n  \
             aws_access_key_id: {key_id}\n  aws_secret_access_key: {secret}\n"
        ),
    );
}

async fn run(place: &std::sync::Arc<Place>, arguments: &'static [&'static str]) -> Ran {
    let place = place.clone();
    tokio::task::spawn_blocking(move || place.run(arguments))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_and_wrong_credentials_have_codes_of_their_own() {
    let moto = S3Server::moto().await.unwrap();
    let place = std::sync::Arc::new(Place::new());
    write_config(
        &place,
        &S3Access {
            bucket: "nowhere".into(),
            ..moto.access().clone()
        },
    );
    for (name, arguments) in [
        (
            "bucket_missing_ls",
            &["lake", "ls", "--config-file", "s3.yml"][..],
        ),
        (
            "bucket_missing_put",
            &["lake", "put", "k", "s3.yml", "--config-file", "s3.yml"],
        ),
        (
            "bucket_missing_up",
            &["up", "--listen", "127.0.0.1:0", "--config-file", "s3.yml"],
        ),
    ] {
        let ran = run(&place, arguments).await;
        assert_eq!(ran.code, 10, "{}", ran.snapshot());
        assert_text(name, &ran);
    }
    let rclone = S3Server::rclone().await.unwrap();
    write_config(
        &place,
        &S3Access {
            secret: "canary-wrong-secret".into(),
            ..rclone.access().clone()
        },
    );
    let ran = run(&place, &["lake", "ls", "--config-file", "s3.yml"]).await;
    assert_eq!(ran.code, 12, "{}", ran.snapshot());
    assert_text("credentials_wrong", &ran);
    let loud = run(&place, &["lake", "ls", "-vvv", "--config-file", "s3.yml"]).await;
    assert!(!loud.all().contains("canary"), "{}", loud.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_warns_of_versioning_and_of_a_store_that_lies() {
    let moto = S3Server::moto().await.unwrap();
    let place = std::sync::Arc::new(Place::new());
    write_config(&place, moto.access());
    let ran = run(&place, &["doctor", "--config-file", "s3.yml"]).await;
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    assert!(
        ran.stdout.contains("bucket versioning is off"),
        "{}",
        ran.stdout
    );
    let rclone = S3Server::rclone().await.unwrap();
    write_config(&place, rclone.access());
    let ran = run(&place, &["doctor", "--config-file", "s3.yml"]).await;
    assert!(
        ran.stdout.contains("does not honour create-if-absent"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        run(&place, &["lake", "probe", "--config-file", "s3.yml"])
            .await
            .code,
        20
    );
    assert_eq!(
        run(
            &place,
            &["lake", "put", "k", "s3.yml", "--config-file", "s3.yml"]
        )
        .await
        .code,
        0
    );
    place.write("other", "other");
    let ran = run(
        &place,
        &["lake", "put", "k", "other", "--config-file", "s3.yml"],
    )
    .await;
    assert_eq!(
        ran.code,
        1,
        "what is there was replaced: {}",
        ran.snapshot()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_runs_on_s3() {
    let moto = S3Server::moto().await.unwrap();
    let place = std::sync::Arc::new(Place::new());
    write_config(&place, moto.access());
    let up = {
        let place = place.clone();
        tokio::task::spawn_blocking(move || place.up(&["--config-file", "s3.yml"]))
            .await
            .unwrap()
    };
    assert!(http_get(&up.url("readyz")).contains("200 OK"));
    assert_eq!(
        run(
            &place,
            &["lake", "put", "a/k", "s3.yml", "--config-file", "s3.yml"]
        )
        .await
        .code,
        0
    );
    assert!(
        run(&place, &["lake", "ls", "--config-file", "s3.yml"])
            .await
            .stdout
            .contains("a/k")
    );
    assert_eq!(up.stop().0, 0);
}

/// A lake that dies under a running process is where errors quote requests.
#[cfg(feature = "sim")]
#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown_when_a_lake_goes_down() {
    use crate::program::advance;
    let moto = S3Server::moto().await.unwrap();
    let place = std::sync::Arc::new(Place::with_clock());
    let canaries = S3Access {
        key_id: "canary-key-id".into(),
        secret: "canary-secret".into(),
        ..moto.access().clone()
    };
    write_config(&place, &canaries);
    let up = {
        let place = place.clone();
        tokio::task::spawn_blocking(move || place.up(&["-vvv", "--config-file", "s3.yml"]))
            .await
            .unwrap()
    };
    drop(moto);
    let ended = tokio::task::spawn_blocking(move || {
        advance(&place, &up, "503");
        let pages = ["", "metrics", "status.json", "readyz"].map(|page| http_get(&up.url(page)));
        (pages.join("\n"), up.log())
    });
    let (pages, log) = ended.await.unwrap();
    assert!(
        pages.contains("503") && log.contains("the lake cannot be used"),
        "{log}"
    );
    assert!(
        !pages.contains("canary") && !log.contains("canary"),
        "{pages}\n{log}"
    );
}
