//! What all rows share: the folder, a lake in it, the clock, and how much to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_formats::Key;
use cannery_lake::{DiskStore, Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_runtime::{Clock, RealDisk, Rng};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;

/// How much a round does, and how many rounds there are.
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) puts: u64,
    pub(crate) reads: u64,
    pub(crate) listed_folders: u64,
    pub(crate) large_bytes: u64,
}

const FULL: Effort = Effort {
    rounds: 7,
    puts: 320,
    reads: 5_000,
    listed_folders: 100,
    large_bytes: 256 * MIB,
};

const QUICK: Effort = Effort {
    rounds: 1,
    puts: 32,
    reads: 100,
    listed_folders: 5,
    large_bytes: 80 * MIB,
};

/// A temporary folder on the file system of cargo's output, and the means to work in it.
pub(crate) struct Bench {
    folder: TempDir,
    clock: Clock,
    pub(crate) effort: Effort,
    pub(crate) rng: Rng,
    pub(crate) runtime: Runtime,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
        Self {
            // Cargo's own folder for this, on the disk that holds its output.
            folder: TempDir::with_prefix_in("bench-lake-", env!("CARGO_TARGET_TMPDIR")).unwrap(),
            clock: Clock::real(),
            effort: if quick { QUICK } else { FULL },
            rng: Rng::seeded(1),
            runtime: Runtime::new().unwrap(),
        }
    }

    /// A new folder.
    pub(crate) fn folder(&self) -> PathBuf {
        let folder = self.folder.path().join(self.rng.id());
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    pub(crate) fn content(&self, bytes: u64) -> Vec<u8> {
        let mut content = vec![0; usize::try_from(bytes).unwrap()];
        self.rng.fill(&mut content);
        content
    }

    /// `amount` by the seconds that `work` takes.
    pub(crate) fn rate(&self, amount: u64, work: impl FnOnce()) -> f64 {
        let start = self.clock.elapsed();
        work();
        amount as f64 / self.clock.since(start).as_secs_f64()
    }

    pub(crate) fn lake(&self, folder: &Path) -> Lake {
        Lake::new(Parts {
            id: "bench".into(),
            url: format!("file:{}", folder.display()),
            store: Arc::new(DiskStore::new(Arc::new(RealDisk), folder, self.rng.clone())),
            prefix: String::new(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            retry: RetryPolicy::default(),
            metrics: LakeMetrics::default(),
        })
        .unwrap()
    }
}

/// A file name that was not used before in this run.
pub(crate) fn fresh_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{:08}.json", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The key of `name` in the folder of a day, as most objects have it.
pub(crate) fn key(name: &str) -> Key {
    Key::new(format!("feed/2026/11/15/{name}")).unwrap()
}
