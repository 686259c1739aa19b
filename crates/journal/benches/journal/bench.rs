//! What all measurements share: the folder, the clock, the entries, and how much to do.

use std::cell::OnceCell;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_journal::embedded::{Embedded, Place};
use cannery_journal::{Data, Declaration, Journal, NewEntry};
use cannery_runtime::{Clock, RealDisk, Rng};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::server::Server;

/// The parts that `CANNERY_BENCH_ONLY` may name.
const PARTS: [&str; 8] = [
    "embedded",
    "postgres",
    "sqlite",
    "beanstalkd",
    "pgbench",
    "wake",
    "space",
    "held",
];

/// The bytes of the data of every entry and of every job.
pub(crate) const DATA_BYTES: usize = 200;

/// How much is done.
pub(crate) struct Effort {
    /// How often each side has its turn, after one that does not count.
    pub(crate) rounds: usize,
    /// How long a turn is.
    pub(crate) turn: Duration,
    pub(crate) wakes: u64,
    /// Over how long the wake-ups are spread.
    pub(crate) wake_spread: Duration,
    /// How long an opened journal is left alone before it counts as idle. A server tells of what a connection did up to
    /// ten seconds later.
    pub(crate) settling: Duration,
    /// How long an idle journal is watched.
    pub(crate) idle: Duration,
    pub(crate) drained: u64,
    pub(crate) opened: u64,
    pub(crate) held: u64,
}

const FULL: Effort = Effort {
    rounds: 3,
    turn: Duration::from_millis(900),
    wakes: 1_000,
    wake_spread: Duration::from_secs(5),
    settling: Duration::from_secs(12),
    idle: Duration::from_secs(20),
    drained: 1_000_000,
    opened: 2_000_000,
    held: 500_000,
};

const QUICK: Effort = Effort {
    rounds: 1,
    turn: Duration::from_millis(200),
    wakes: 100,
    wake_spread: Duration::from_secs(1),
    settling: Duration::from_secs(1),
    idle: Duration::from_secs(3),
    drained: 20_000,
    opened: 40_000,
    held: 5_000,
};

/// A temporary folder on the file system of cargo's output, and the means to work in it.
pub(crate) struct Bench {
    // Dropped before the folder and the runtime that it needs.
    server: OnceCell<Server>,
    folder: TempDir,
    only: Option<Vec<String>>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) effort: Effort,
    pub(crate) runtime: Runtime,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
        // Cargo's own folder for this, on the disk that holds its output.
        let folder =
            TempDir::with_prefix_in("bench-journal-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        // PostgreSQL may have to run as another user.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        Self {
            server: OnceCell::new(),
            folder,
            only: chosen(),
            clock: Clock::real(),
            rng: Rng::seeded(1),
            effort: if quick { QUICK } else { FULL },
            runtime: Runtime::new().unwrap(),
        }
    }

    /// Whether a part was asked for, or nothing in particular.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| only.iter().any(|name| name == part))
    }

    /// A new folder.
    pub(crate) fn folder(&self) -> PathBuf {
        let folder = self.folder.path().join(self.rng.id());
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    /// The one PostgreSQL of the run, started when it is first asked for.
    pub(crate) fn server(&self) -> &Server {
        self.server
            .get_or_init(|| Server::start(&self.runtime, self.folder.path()))
    }

    /// A journal of the embedded engine as everybody gets it.
    pub(crate) fn embedded(&self, folder: PathBuf) -> Arc<Embedded> {
        let place = Place {
            disk: Arc::new(RealDisk),
            dir: folder,
            owner: "bench".to_owned(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
        };
        self.runtime
            .block_on(Embedded::open(place, Some(Declaration::default())))
            .unwrap()
    }

    pub(crate) fn journal(&self, engine: Arc<Embedded>) -> Journal {
        Journal::new("bench", engine)
    }

    /// Until when a turn of this length lasts.
    pub(crate) fn until(&self, turn: Duration) -> Deadline {
        Deadline {
            clock: self.clock.clone(),
            at: self.clock.elapsed() + turn,
        }
    }

    /// How many seconds `work` takes.
    pub(crate) fn seconds(&self, work: impl FnOnce()) -> f64 {
        let start = self.clock.elapsed();
        work();
        self.clock.since(start).as_secs_f64()
    }
}

fn chosen() -> Option<Vec<String>> {
    let only = std::env::var("CANNERY_BENCH_ONLY").ok()?;
    let names: Vec<String> = only
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if let Some(name) = names.iter().find(|name| !PARTS.contains(&name.as_str())) {
        panic!("`CANNERY_BENCH_ONLY` names no part `{name}`; there are: {PARTS:?}");
    }
    (!names.is_empty()).then_some(names)
}

/// The end of a turn.
#[derive(Clone)]
pub(crate) struct Deadline {
    clock: Clock,
    at: Duration,
}

impl Deadline {
    pub(crate) fn is_past(&self) -> bool {
        self.clock.elapsed() >= self.at
    }
}

/// A key of 12 bytes that was not used before in this run. One does not follow the other: keys that come sorted are kind
/// to a tree, and the keys of a journal do not.
pub(crate) fn fresh_key() -> String {
    const KEYS: u64 = 1 << 44;
    // Odd, so that no two numbers become one.
    const SCATTER: u64 = 0x9e3_779b_97f5;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("k{:011x}", number.wrapping_mul(SCATTER) % KEYS)
}

/// Data of the size that all sides keep: a JSON text.
pub(crate) fn text() -> String {
    format!("\"{}\"", "x".repeat(DATA_BYTES - 2))
}

pub(crate) fn entries(count: u64) -> Vec<NewEntry> {
    let data = Data::from_json(text()).unwrap();
    (0..count)
        .map(|_| NewEntry::new(fresh_key(), data.clone()))
        .collect()
}
