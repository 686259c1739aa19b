//! As `stores`, for the servers of the long run.

use cannery_testkit::azurite::{self, Azurite};
use cannery_testkit::ceph::Ceph;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::path::Path;
use object_store::{Error, ObjectStoreExt as _};

use crate::stores::{already_exists, s3, second_create, two_updates};

#[tokio::test]
async fn azurite_keeps_conditions() {
    if !cannery_testkit::long_run() {
        return;
    }
    let server = Azurite::start().await.unwrap();
    let store = MicrosoftAzureBuilder::new()
        .with_endpoint(server.endpoint().to_owned())
        .with_allow_http(true)
        .with_account(azurite::ACCOUNT)
        .with_access_key(azurite::ACCOUNT_KEY)
        .with_container_name(server.container())
        .build()
        .unwrap();
    already_exists(&second_create(&store, "a").await);
    let [right, stale] = two_updates(&store, "b").await;
    right.unwrap();
    assert!(
        matches!(stale, Err(Error::Precondition { .. })),
        "{stale:?}"
    );
    server.create_container("another").await.unwrap();
    server.create_container("another").await.unwrap_err();
}

#[tokio::test]
async fn ceph_creates_once_but_refuses_every_update() {
    if !cannery_testkit::long_run() {
        return;
    }
    let server = Ceph::start().await.unwrap();
    let store = s3(server.access());
    already_exists(&second_create(&store, "a").await);
    let [right, stale] = two_updates(&store, "b").await;
    assert!(
        matches!(right, Err(Error::Precondition { .. })),
        "{right:?}"
    );
    assert!(
        matches!(stale, Err(Error::Precondition { .. })),
        "{stale:?}"
    );
    let mut stranger = server.access().clone();
    stranger.secret = "wrong".into();
    s3(&stranger)
        .put(&Path::from("c"), "x".into())
        .await
        .unwrap_err();
}
