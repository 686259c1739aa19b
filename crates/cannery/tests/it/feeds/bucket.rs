//! A bucket of an S3 server, read without the product.

use std::collections::BTreeSet;

use cannery_runtime::RealDisk;
use cannery_runtime::disk::create_dir_all;
use cannery_testkit::s3::{S3Access, S3Server};
use futures::StreamExt as _;

use crate::program::Place;

/// The server wants one, and does not look at it.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 Credential=testkey/20261115/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

const TRIES_MAX: usize = 50;
const DOWNLOADS_AT_ONCE: usize = 8;

pub(super) struct Bucket {
    access: S3Access,
    client: reqwest::Client,
    _server: S3Server,
}

impl Bucket {
    /// An empty one of a server of its own.
    pub(super) async fn new() -> Self {
        let server = S3Server::moto().await.unwrap();
        Self {
            access: server.access().clone(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            _server: server,
        }
    }

    pub(super) fn config(&self, prefix: &str) -> String {
        let S3Access {
            endpoint,
            region,
            bucket,
            key_id,
            secret,
        } = &self.access;
        format!(
            "prefix: {prefix}, bucket: {bucket}, endpoint_url: \"{endpoint}\", region_name: {region}, \
             aws_access_key_id: {key_id}, aws_secret_access_key: {secret}"
        )
    }

    /// The keys below a prefix, without it.
    pub(super) fn keys(&self, prefix: &str) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        let mut after = String::new();
        loop {
            let query = format!("?list-type=2&prefix={prefix}/&start-after={after}");
            let page = block_on(self.get(&query)).expect("the bucket is there");
            let page = String::from_utf8(page).unwrap();
            let found = page.split("<Key>").skip(1);
            let found: Vec<&str> = found.map(|rest| rest.split('<').next().unwrap()).collect();
            let own = |key: &&str| {
                key.strip_prefix(prefix)?
                    .strip_prefix('/')
                    .map(str::to_owned)
            };
            keys.extend(found.iter().filter_map(own));
            match found.last() {
                Some(last) if page.contains("<IsTruncated>true") => after = (*last).to_owned(),
                Some(_) | None => return keys,
            }
        }
    }

    /// Brings the objects to a folder of the prefix's name. One that is named for its content is brought once.
    pub(super) fn download(&self, prefix: &str, keys: &BTreeSet<String>, place: &Place) {
        let folder = place.path(prefix);
        let is_new = |key: &&String| !is_named_for_content(key) || !folder.join(key).exists();
        let wanted = keys.iter().filter(is_new);
        let gets = wanted.map(|key| async move {
            let content = self.get(&format!("/{prefix}/{key}")).await;
            (key, content)
        });
        let gets = futures::stream::iter(gets).buffer_unordered(DOWNLOADS_AT_ONCE);
        for (key, content) in block_on(gets.collect::<Vec<_>>()) {
            let Some(content) = content else {
                continue;
            };
            create_dir_all(&RealDisk, folder.join(key).parent().unwrap()).unwrap();
            place.write(&format!("{prefix}/{key}"), content);
        }
    }

    /// An object, unless it is gone.
    async fn get(&self, rest: &str) -> Option<Vec<u8>> {
        let S3Access {
            endpoint, bucket, ..
        } = &self.access;
        let url = format!("{endpoint}/{bucket}{rest}");
        for _ in 0..TRIES_MAX {
            let get = self.client.get(&url).header("authorization", SIGNATURE);
            let answer = get.send().await.unwrap();
            match answer.status().as_u16() {
                200 => return Some(answer.bytes().await.unwrap().to_vec()),
                404 => return None,
                // It trips over changes that others make while it lists.
                500 => {}
                status => panic!("{url}: {status}"),
            }
        }
        panic!("{url} fails again and again");
    }
}

/// `f_20261115T18Z_<26 characters>.tar.gz`, not `f_20261115T18Z.tar.gz`.
fn is_named_for_content(key: &str) -> bool {
    key.rsplit('/').next().unwrap().matches('_').count() == 2
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(work)
}
