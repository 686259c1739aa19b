//! A double of the part of the GCS XML API that the `object_store` crate speaks, in this process.
//!
//! No GCS emulator has that API whole. This one proves how we use the client, not how Google behaves: conditions on the
//! generation are exact and atomic, listings are paged at 1000, parts below 5 MiB are refused, ETags follow the content
//! only. Copies are refused.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, get};
use cannery_runtime::Clock;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::{Error, Result};

mod list;
mod object;
#[cfg(test)]
mod tests;
mod upload;
mod xml;

use object::Object;
use upload::Upload;

/// One request may carry a part or a small object.
const BODY_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The double, with one empty bucket.
#[derive(Debug)]
pub struct GcsDouble {
    address: SocketAddr,
    bucket: String,
    store: Arc<Store>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Store {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buckets: HashMap<String, BTreeMap<String, Object>>,
    uploads: HashMap<String, Upload>,
    /// Of the newest object or upload; never reused.
    last_number: u64,
}

impl GcsDouble {
    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(Error::io("listen for the GCS double"))?;
        let address = listener
            .local_addr()
            .map_err(Error::io("name the GCS double's port"))?;
        let bucket = "cannery".to_owned();
        let mut state = State::default();
        state.buckets.insert(bucket.clone(), BTreeMap::new());
        let store = Arc::new(Store {
            clock: Clock::real(),
            state: Mutex::new(state),
        });
        let router = router(Arc::clone(&store));
        let serving = tokio::spawn(async move {
            drop(axum::serve(listener, router).await);
        });
        Ok(Self {
            address,
            bucket,
            store,
            serving,
        })
    }

    /// `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The bucket that exists.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The text of a service account key that leads a client here without asking for a token. The client must allow
    /// plain HTTP.
    #[must_use]
    pub fn service_account_key(&self) -> String {
        json!({
            "gcs_base_url": self.url(),
            "disable_oauth": true,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        })
        .to_string()
    }

    /// How many multipart uploads were neither completed nor aborted.
    #[must_use]
    pub fn open_uploads(&self) -> usize {
        self.store.state().uploads.len()
    }
}

impl Drop for GcsDouble {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Store {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

fn router(store: Arc<Store>) -> Router {
    Router::new()
        .route("/{bucket}", get(list::list))
        .route("/{bucket}/{*key}", any(object::dispatch))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(store)
}
