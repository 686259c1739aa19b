//! What each server makes of conditions, held so that a new version that changes it is noticed.

use cannery_testkit::s3::{S3Access, S3Server};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, UpdateVersion};

pub(crate) fn s3(access: &S3Access) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(&access.endpoint)
        .with_allow_http(true)
        .with_region(&access.region)
        .with_bucket_name(&access.bucket)
        .with_access_key_id(&access.key_id)
        .with_secret_access_key(&access.secret)
        .build()
        .unwrap()
}

/// Creates, reads, and creates again.
pub(crate) async fn second_create(store: &dyn ObjectStore, key: &str) -> Result<(), Error> {
    let key = Path::from(key);
    store
        .put_opts(&key, "one".into(), PutMode::Create.into())
        .await?;
    assert_eq!(store.get(&key).await?.bytes().await?, "one");
    store
        .put_opts(&key, "two".into(), PutMode::Create.into())
        .await
        .map(drop)
}

/// Updates by the right version, then by the stale one.
pub(crate) async fn two_updates(store: &dyn ObjectStore, key: &str) -> [Result<(), Error>; 2] {
    let key = Path::from(key);
    let put = store.put(&key, "one".into()).await.unwrap();
    let mode = PutMode::Update(UpdateVersion {
        e_tag: put.e_tag,
        version: put.version,
    });
    let right = store
        .put_opts(&key, "two".into(), mode.clone().into())
        .await;
    let stale = store.put_opts(&key, "three".into(), mode.into()).await;
    [right.map(drop), stale.map(drop)]
}

pub(crate) fn already_exists(result: &Result<(), Error>) {
    assert!(
        matches!(result, Err(Error::AlreadyExists { .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn moto_keeps_conditions() {
    let server = S3Server::moto().await.unwrap();
    let store = s3(server.access());
    already_exists(&second_create(&store, "a").await);
    let [right, stale] = two_updates(&store, "b").await;
    right.unwrap();
    assert!(
        matches!(stale, Err(Error::Precondition { .. })),
        "{stale:?}"
    );
    server.access().create_bucket("another").await.unwrap();
}

#[tokio::test]
async fn rclone_ignores_conditions() {
    let server = S3Server::rclone().await.unwrap();
    let store = s3(server.access());
    second_create(&store, "a").await.unwrap();
    let [right, stale] = two_updates(&store, "b").await;
    right.unwrap();
    stale.unwrap();
    let mut stranger = server.access().clone();
    stranger.secret = "wrong".into();
    s3(&stranger)
        .put(&Path::from("c"), "x".into())
        .await
        .unwrap_err();
}
