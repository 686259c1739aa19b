use futures::{StreamExt as _, TryStreamExt as _};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::path::Path;
use object_store::{
    Attribute, ClientOptions, Error as StoreError, GetOptions, GetRange, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, UpdateVersion,
};

use super::*;

fn client(double: &GcsDouble, bucket: &str) -> GoogleCloudStorage {
    GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_service_account_key(double.service_account_key())
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()
        .unwrap()
}

async fn start() -> (GcsDouble, GoogleCloudStorage) {
    let double = GcsDouble::start().await.unwrap();
    let store = client(&double, double.bucket());
    (double, store)
}

#[tokio::test]
async fn conditions_on_the_generation_are_kept() {
    let (_double, store) = start().await;
    let key = Path::from("a/b & <c>");
    let created = store
        .put_opts(&key, "one".into(), PutMode::Create.into())
        .await
        .unwrap();
    let again = store
        .put_opts(&key, "two".into(), PutMode::Create.into())
        .await;
    assert!(
        matches!(again, Err(StoreError::AlreadyExists { .. })),
        "{again:?}"
    );

    let update = PutMode::Update(UpdateVersion {
        e_tag: None,
        version: created.version,
    });
    store
        .put_opts(&key, "three".into(), update.clone().into())
        .await
        .unwrap();
    let stale = store.put_opts(&key, "four".into(), update.into()).await;
    assert!(
        matches!(stale, Err(StoreError::Precondition { .. })),
        "{stale:?}"
    );
    assert_eq!(
        store.get(&key).await.unwrap().bytes().await.unwrap(),
        "three"
    );
}

#[tokio::test]
async fn of_many_creators_one_wins() {
    let (_double, store) = start().await;
    for round in 0..20 {
        let key = Path::from(format!("race-{round}"));
        let create = |i: usize| store.put_opts(&key, i.to_string().into(), PutMode::Create.into());
        let results = futures::future::join_all((0..8).map(create)).await;
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    }
}

#[tokio::test]
async fn ranges_and_heads() {
    let (_double, store) = start().await;
    let key = Path::from("digits");
    store.put(&key, "0123456789".into()).await.unwrap();
    let part = async |range: GetRange| {
        let options = GetOptions {
            range: Some(range),
            ..GetOptions::default()
        };
        store
            .get_opts(&key, options)
            .await
            .unwrap()
            .bytes()
            .await
            .unwrap()
    };
    assert_eq!(part(GetRange::Bounded(2..5)).await, "234");
    assert_eq!(part(GetRange::Offset(7)).await, "789");
    assert_eq!(part(GetRange::Suffix(2)).await, "89");
    assert!(store.get_range(&key, 10..12).await.is_err());
    let meta = store.head(&key).await.unwrap();
    assert_eq!(meta.size, 10);
    assert!(meta.version.is_some() && meta.e_tag.is_some());
    let known = GetOptions {
        if_none_match: meta.e_tag,
        ..GetOptions::default()
    };
    let known = store.get_opts(&key, known).await;
    assert!(
        matches!(known, Err(StoreError::NotModified { .. })),
        "{known:?}"
    );
}

#[tokio::test]
async fn what_is_missing_is_said_to_be() {
    let (double, store) = start().await;
    let key = Path::from("gone");
    store.put(&key, "x".into()).await.unwrap();
    store.delete(&key).await.unwrap();
    for error in [
        store.get(&key).await.err(),
        store.head(&key).await.err(),
        store.delete(&key).await.err(),
    ] {
        assert!(
            matches!(error, Some(StoreError::NotFound { .. })),
            "{error:?}"
        );
    }
    let elsewhere = client(&double, "no-such-bucket");
    assert!(elsewhere.list(None).next().await.unwrap().is_err());
    assert!(elsewhere.put(&key, "x".into()).await.is_err());
}

#[tokio::test]
async fn listings_are_whole_over_many_pages() {
    let (_double, store) = start().await;
    for number in 0..2_300 {
        let folder = if number % 2 == 0 { "even" } else { "odd" };
        let key = Path::from(format!("n/{folder}/{number:05}"));
        store.put(&key, PutPayload::default()).await.unwrap();
    }
    store.put(&Path::from("other"), "x".into()).await.unwrap();
    let prefix = Path::from("n");
    let names = async |stream: futures::stream::BoxStream<
        'static,
        object_store::Result<object_store::ObjectMeta>,
    >| {
        let objects: Vec<_> = stream.try_collect().await.unwrap();
        objects
            .into_iter()
            .map(|object| object.location.to_string())
            .collect::<Vec<_>>()
    };
    let all = names(store.list(Some(&prefix))).await;
    assert_eq!(all.len(), 2_300);
    assert!(all.is_sorted_by(|a, b| a < b));
    let offset = Path::from("n/odd/02001");
    assert_eq!(
        names(store.list_with_offset(Some(&prefix), &offset))
            .await
            .len(),
        149
    );

    let folders = store.list_with_delimiter(Some(&prefix)).await.unwrap();
    assert_eq!(
        folders.common_prefixes,
        [Path::from("n/even"), Path::from("n/odd")]
    );
    let root = store.list_with_delimiter(None).await.unwrap();
    assert_eq!((root.objects.len(), root.common_prefixes.len()), (1, 1));
}

#[tokio::test]
async fn uploads_in_parts_appear_whole_or_not_at_all() {
    let (double, store) = start().await;
    let key = Path::from("big");
    let part = || PutPayload::from(vec![7; 5 * 1024 * 1024]);
    let mut upload = store.put_multipart(&key).await.unwrap();
    upload.put_part(part()).await.unwrap();
    assert_eq!(double.open_uploads(), 1);
    upload.abort().await.unwrap();
    assert_eq!(double.open_uploads(), 0);
    assert!(store.head(&key).await.is_err());

    let mut options = PutMultipartOptions::default();
    options
        .attributes
        .insert(Attribute::ContentType, "text/x-cannery".into());
    let mut upload = store.put_multipart_opts(&key, options).await.unwrap();
    upload.put_part(part()).await.unwrap();
    upload.put_part("tail".into()).await.unwrap();
    let done = upload.complete().await.unwrap();
    let found = store.get(&key).await.unwrap();
    assert_eq!(
        found.attributes.get(&Attribute::ContentType),
        Some(&"text/x-cannery".into())
    );
    assert_eq!(found.meta.version, done.version);
    let content = found.bytes().await.unwrap();
    assert_eq!(content.len(), 5 * 1024 * 1024 + 4);
    assert!(content.ends_with(b"\x07tail"));
}

#[tokio::test]
async fn small_parts_before_the_last_are_refused() {
    let (_double, store) = start().await;
    let mut upload = store.put_multipart(&Path::from("big")).await.unwrap();
    upload.put_part("too small".into()).await.unwrap();
    upload.put_part("tail".into()).await.unwrap();
    let error = upload.complete().await.unwrap_err();
    assert!(format!("{error:?}").contains("EntityTooSmall"), "{error:?}");
}

#[tokio::test]
async fn metadata_comes_back() {
    let (_double, store) = start().await;
    let key = Path::from("tagged");
    let mut options = PutOptions::default();
    let name = Attribute::Metadata("lake".into());
    options.attributes.insert(name.clone(), "seven".into());
    store.put_opts(&key, "x".into(), options).await.unwrap();
    let found = store.get(&key).await.unwrap();
    assert_eq!(found.attributes.get(&name), Some(&"seven".into()));
}

#[tokio::test]
async fn a_copy_is_refused_instead_of_faked() {
    let (_double, store) = start().await;
    let key = Path::from("from");
    store.put(&key, "x".into()).await.unwrap();
    assert!(store.copy(&key, &Path::from("to")).await.is_err());
    assert!(store.head(&Path::from("to")).await.is_err());
}
