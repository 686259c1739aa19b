//! The same suite over HTTP, on real servers.

use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::{Address, Credentials, ErrorKind, PutNew, RetryPolicy, probe};
use cannery_runtime::{Clock, PrivateUrl, RealDisk, Rng, Secret};
use cannery_testkit::azurite;
use cannery_testkit::proxy::{Fault, FaultProxy};
use cannery_testkit::s3::{S3Access, S3Server};

use crate::conformance::{conforms, conforms_without_versions};
use crate::engines::Engine;

fn engine(access: &S3Access) -> Engine {
    let address = Address::S3 {
        bucket: access.bucket.clone(),
        endpoint: Some(PrivateUrl::new(&access.endpoint)),
        region: Some(access.region.clone()),
    };
    let credentials = Credentials {
        access_key_id: Some(Secret::new(&access.key_id)),
        secret_access_key: Some(Secret::new(&access.secret)),
        ..Credentials::default()
    };
    open(&address, &credentials)
}

fn open(address: &Address, credentials: &Credentials) -> Engine {
    let store = address
        .open(credentials, Arc::new(RealDisk), Rng::from_os())
        .unwrap();
    Engine {
        store,
        url: address.url(),
    }
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_s3_server_conforms() {
    let server = S3Server::moto().await.unwrap();
    conforms(&engine(server.access())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_is_told_from_a_missing_object() {
    let server = S3Server::moto().await.unwrap();
    let lake = engine(&S3Access {
        bucket: "nowhere".into(),
        ..server.access().clone()
    })
    .lake("");
    assert_eq!(
        lake.get(&key("x"), 100).await.unwrap_err().kind,
        ErrorKind::StoreMissing
    );
    assert_eq!(
        lake.put_new(&key("x"), b"x".to_vec())
            .await
            .unwrap_err()
            .kind,
        ErrorKind::StoreMissing
    );
    assert_eq!(
        lake.list_all(None).await.unwrap_err().kind,
        ErrorKind::StoreMissing
    );
    assert_eq!(
        probe::probe(&lake).await.unwrap_err().kind,
        ErrorKind::StoreMissing
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lost_on_the_wire_is_settled_by_reading() {
    let server = S3Server::moto().await.unwrap();
    let upstream = server
        .access()
        .endpoint
        .trim_start_matches("http://")
        .parse()
        .unwrap();
    let proxy = FaultProxy::start(upstream).await.unwrap();
    let endpoint = format!("http://{}", proxy.address());
    let retry = RetryPolicy {
        attempt: Duration::from_secs(2),
        ..RetryPolicy::default()
    };
    let lake = engine(&S3Access {
        endpoint,
        ..server.access().clone()
    })
    .lake_with("", retry, Clock::real());
    proxy.set_times(Fault::SwallowAnswer, 1).await;
    assert_eq!(
        lake.put_new(&key("lost/answer"), b"x".to_vec())
            .await
            .unwrap(),
        PutNew::Same
    );
    proxy.set_times(Fault::CutAnswer, 1).await;
    assert_eq!(
        lake.put_new(&key("cut"), b"x".to_vec()).await.unwrap(),
        PutNew::Same
    );
    assert!(proxy.fired() >= 2);
    let honest = engine(server.access()).lake("");
    assert_eq!(honest.list_all(None).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_google_double_conforms() {
    let server = cannery_testkit::gcs::GcsDouble::start().await.unwrap();
    let address = Address::Gs {
        bucket: server.bucket().to_owned(),
    };
    let key = Secret::new(server.service_account_key());
    let allow = ("GOOGLE_ALLOW_HTTP".to_owned(), Secret::new("true"));
    let environment = vec![("GOOGLE_SERVICE_ACCOUNT_KEY".to_owned(), key), allow];
    conforms(&open(
        &address,
        &Credentials {
            environment,
            ..Credentials::default()
        },
    ))
    .await;
    assert_eq!(
        server.open_uploads(),
        0,
        "an upload was neither completed nor aborted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_ignores_conditions_is_found_out_and_still_usable() {
    let server = S3Server::rclone().await.unwrap();
    let lake = engine(server.access()).lake("");
    let report = probe::probe(&lake).await.unwrap();
    println!(
        "result: probe of rclone: {}",
        serde_json::to_string(&report).unwrap()
    );
    assert!(
        !report.honours().create && !report.honours().update,
        "{report:?}"
    );
    assert_eq!(report.weaknesses().len(), 2, "{report:?}");
    assert_eq!(
        lake.put_new(&key("x"), b"x".to_vec()).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(
        lake.put_new(&key("x"), b"x".to_vec()).await.unwrap(),
        PutNew::Same
    );
    assert_eq!(
        lake.put_new(&key("x"), b"y".to_vec()).await.unwrap(),
        PutNew::Different
    );
    let version = lake.get(&key("x"), 10).await.unwrap().version;
    assert_eq!(
        lake.put_if_version(&key("x"), &version, "y".into())
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
}

/// The servers of the long run: more to install, slower to start.
mod long {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_azure_emulator_conforms() {
        if !cannery_testkit::long_run() {
            return;
        }
        let server = azurite::Azurite::start().await.unwrap();
        let address = Address::Az {
            container: server.container().to_owned(),
            endpoint: Some(PrivateUrl::new(server.endpoint())),
        };
        let environment = vec![
            (
                "AZURE_STORAGE_ACCOUNT_NAME".to_owned(),
                Secret::new(azurite::ACCOUNT),
            ),
            (
                "AZURE_STORAGE_ACCOUNT_KEY".to_owned(),
                Secret::new(azurite::ACCOUNT_KEY),
            ),
        ];
        conforms(&open(
            &address,
            &Credentials {
                environment,
                ..Credentials::default()
            },
        ))
        .await;
        println!("result: lake conformance on the Azure emulator: passed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn ceph_is_found_out() {
        if !cannery_testkit::long_run() {
            return;
        }
        let server = cannery_testkit::ceph::Ceph::start().await.unwrap();
        let lake = engine(server.access()).lake("");
        let report = probe::probe(&lake).await.unwrap();
        println!(
            "result: probe of Ceph: {}",
            serde_json::to_string(&report).unwrap()
        );
        assert!(report.honours().create, "{report:?}");
        assert!(!report.honours().update, "{report:?}");
        conforms_without_versions(&engine(server.access())).await;
        println!("result: lake conformance on Ceph, without versions: passed");
        assert_eq!(
            lake.put_new(&key("x"), b"x".to_vec()).await.unwrap(),
            PutNew::Created
        );
        assert_eq!(
            lake.put_new(&key("x"), b"y".to_vec()).await.unwrap(),
            PutNew::Different
        );
    }
}
