//! A server with the API, two users, and a lake that can be made to fail.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::UserName;
use cannery_lake::fault::{FaultStore, Faults};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_objects::{Namespace, NamespaceParts};
use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_serve::{ApiParts, ApiSlot, ServedLakes};
use cannery_state::State;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

use crate::client::{Answer, request, send};
use crate::demo::{Demo, Part, start};

/// How the server is set up.
pub(crate) struct Setup {
    pub(crate) is_proxied: bool,
    pub(crate) clock: Clock,
    pub(crate) sections: Vec<Part>,
    /// The lake is a folder, and not memory.
    pub(crate) has_folder: bool,
    pub(crate) disk_reserve: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            is_proxied: false,
            clock: Clock::real(),
            sections: Vec::new(),
            has_folder: false,
            disk_reserve: 0,
        }
    }
}

/// A server with the users `ann` and `bob`.
pub(crate) struct ApiDemo {
    pub(crate) demo: Demo,
    pub(crate) slot: ApiSlot,
    pub(crate) state: State,
    pub(crate) mirrors: Arc<Mirrors>,
    /// What the lake meets from now on.
    pub(crate) faults: Faults,
    /// Headers with a token of `ann` that may do everything to her objects.
    pub(crate) ann: String,
    pub(crate) bob: String,
    /// Where its files are; `lake` is that of the lake.
    pub(crate) folder: TempDir,
}

pub(crate) async fn token(state: &State, user: &str, scopes: &str) -> String {
    let name = UserName::new(user).unwrap();
    let scopes = scopes.parse().unwrap();
    let issued = state
        .create_token(&name, &scopes, None, &Rng::from_os())
        .await;
    format!(
        "authorization: Bearer {}\r\n",
        issued.unwrap().text.expose()
    )
}

/// The status and the code of an error.
pub(crate) fn code(answer: &Answer) -> (u16, String) {
    let code = answer.json()["code"].as_str().unwrap().to_owned();
    (answer.status, code)
}

fn lake(folder: Option<PathBuf>, clock: &Clock, rng: &Rng, faults: &Faults) -> Lake {
    let url = folder
        .as_ref()
        .map(|folder| format!("file:{}", folder.display()));
    let store: Arc<dyn ObjectStore> = match folder {
        Some(folder) => Arc::new(DiskStore::new(Arc::new(RealDisk), folder, rng.clone())),
        None => Arc::new(InMemory::new()),
    };
    let store = FaultStore::new(store, faults.clone(), clock.clone());
    let parts = Parts {
        id: "main".into(),
        url: url.unwrap_or_else(|| "memory:".into()),
        store: Arc::new(store),
        prefix: String::new(),
        clock: clock.clone(),
        rng: rng.clone(),
        // What fails, fails at once.
        retry: RetryPolicy {
            deadline: Duration::ZERO,
            ..RetryPolicy::default()
        },
        metrics: LakeMetrics::default(),
    };
    Lake::new(parts).unwrap()
}

impl Setup {
    pub(crate) async fn start(self) -> ApiDemo {
        let folder = tempfile::tempdir().unwrap();
        let (clock, rng, faults) = (self.clock, Rng::from_os(), Faults::none());
        let file = folder.path().join("state.sqlite");
        let state = State::open(file.to_str().unwrap(), clock.clone())
            .await
            .unwrap();
        for name in ["ann", "bob"] {
            state
                .add_user(&UserName::new(name).unwrap(), &rng)
                .await
                .unwrap();
        }
        let in_folder = self.has_folder.then(|| folder.path().join("lake"));
        if let Some(folder) = &in_folder {
            create_dir_all(&RealDisk, folder).unwrap();
        }
        let lake = lake(in_folder, &clock, &rng, &faults);
        let mirrors = Arc::new(Mirrors::new(vec![lake]).unwrap());
        let namespace = Namespace::open(NamespaceParts {
            state: state.clone(),
            mirrors: Arc::clone(&mirrors),
            uploads: folder.path().join("uploads"),
            disk: Arc::new(RealDisk),
            disk_reserve: self.disk_reserve,
            object_bytes_max: cannery_objects::OBJECT_BYTES_MAX,
            clock: clock.clone(),
            rng: rng.clone(),
        });
        let parts = ApiParts {
            state: state.clone(),
            namespace: Arc::new(namespace.await.unwrap()),
            lakes: ServedLakes {
                archives: mirrors.first().clone(),
                raw: mirrors.first().clone(),
            },
            clock: clock.clone(),
            rng,
            is_proxied: self.is_proxied,
        };
        let slot = ApiSlot::default();
        slot.open(parts);
        let demo = start(clock, "edge-1", self.sections, |builder| builder.api(&slot)).await;
        ApiDemo {
            demo,
            slot,
            ann: token(&state, "ann", "read,write").await,
            bob: token(&state, "bob", "read,write").await,
            state,
            mirrors,
            faults,
            folder,
        }
    }
}

impl ApiDemo {
    pub(crate) async fn start() -> Self {
        Setup::default().start().await
    }

    /// A request of `ann`.
    pub(crate) async fn ask(&self, method: &str, path: &str, more: &str) -> Answer {
        let headers = format!("{}{more}", self.ann);
        self.ask_as(&headers, method, path).await
    }

    /// A request with these headers.
    pub(crate) async fn ask_as(&self, headers: &str, method: &str, path: &str) -> Answer {
        request(self.demo.address, method, path, headers).await
    }

    pub(crate) async fn put(&self, path: &str, more: &str, body: &str) -> Answer {
        let (ann, address, length) = (&self.ann, self.demo.address, body.len());
        let text = format!(
            "PUT {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n{ann}{more}\r\n{body}"
        );
        send(address, text.as_bytes()).await
    }

    pub(crate) async fn make(&self, path: &str) {
        let directory = "content-type: application/json; type=directory\r\n";
        assert_eq!(self.put(path, directory, "").await.status, 204);
    }
}
