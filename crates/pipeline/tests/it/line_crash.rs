//! A worker that is killed at every effect, from the first look to the last sweep. Whoever comes next ends with the same bytes in
//! the lake and the same rows in the catalog as if nobody had died.
//!
//! An effect is what changes the lake or the journal; they are counted together. The commits of the catalog lie between
//! them: each death is before an effect, with all commits until then, or after it, with none of those that follow.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::Catalog;
use cannery_formats::Key;
use cannery_formats::can::CannedObject;
use cannery_journal::worker::Worker;
use cannery_journal::{Declaration, Engine, Memory, Status};
use cannery_lake::Lake;
use cannery_pipeline::discover::{Discoverer, Reach};
use cannery_pipeline::line::{self, Line, Timing};
use cannery_runtime::Rng;
use cannery_testkit::long_run;
use flate2::read::MultiGzDecoder;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::can_kit::{Objects, Texts, Works, bucket, lake_on, some_reports};
use crate::line::{check, fill};
use crate::line_kit::{Mill, sanitised};
use crate::mortal_journal::MortalJournal;
use crate::troubled::{Death, Life, Troubled};

const MINUTE: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(600);
const TIMING: Timing = Timing {
    gather: MINUTE,
    gather_min: MINUTE,
    sweep_grace: GRACE,
    debounce: Duration::from_secs(10),
};
/// So many looks at work that goes on are minutes.
const LOOKS_MAX: u32 = 100_000;

/// What the worker finds to do, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Reports, a bundle and an hour are there.
    First,
    /// More reports of the same kinds have come.
    More,
    /// The day is over: the bucket is sealed, and what was replaced is swept.
    Night,
    Over,
}

/// A bucket, the journal and the catalog outlive every worker.
struct World {
    mill: Mill,
    memory: Arc<Memory>,
    more: Texts,
    act: Act,
    expected: BTreeMap<String, Vec<u8>>,
}

fn few() -> Vec<(String, Vec<u8>)> {
    let all = some_reports(5).into_iter();
    all.filter(|(name, _)| name.contains("-ndt-") || name.ends_with(".yaml"))
        .collect()
}

impl World {
    async fn new() -> Self {
        let mut mill = Mill::new(Works::in_memory()).await;
        mill.timing = TIMING;
        let (first, more): (Vec<_>, Vec<_>) = few()
            .into_iter()
            .enumerate()
            .partition(|(at, _)| at % 2 == 0);
        let texts = |some: Vec<(usize, (String, Vec<u8>))>| -> Texts {
            some.into_iter().map(|(_, report)| report).collect()
        };
        let (first, more) = (texts(first), texts(more));
        let mut expected = fill(&mill.works, &first).await;
        for (name, text) in &more {
            sanitised(name, text, bucket(), &mut expected);
        }
        // Work over which very many workers die is on the dead list in the end; here it is none of its fault.
        let declaration = Declaration {
            timeouts_max: 200,
            ..line::declaration()
        };
        let memory = Memory::new(declaration, mill.clock(), Rng::seeded(1));
        Self {
            mill,
            memory: Arc::new(memory),
            more,
            act: Act::First,
            expected,
        }
    }

    /// A worker starts, and works until everything is over or it dies; whether it lived to see that.
    async fn live(&mut self, life: &Life, concurrency: usize) -> bool {
        let engine = Arc::clone(&self.memory) as Arc<dyn Engine>;
        self.mill.journal = MortalJournal::of_life(engine, life);
        let file = self.mill.works.scratch.path().join("catalog.db");
        let address = format!("sqlite:{}", file.display());
        self.mill.catalog = Catalog::open(&address, self.mill.clock()).await.unwrap();
        let store = Troubled::of_life(Arc::clone(&self.mill.works.store), life.clone());
        let lake = lake_on(Arc::new(store), Duration::from_secs(600));
        let mut tasks = JoinSet::new();
        let is_over = tokio::select! {
            biased;
            () = life.dead.cancelled() => false,
            () = self.acts(&lake, concurrency, &mut tasks) => true,
        };
        tasks.shutdown().await;
        is_over
    }

    async fn acts(&mut self, lake: &Lake, concurrency: usize, tasks: &mut JoinSet<()>) {
        let line = self.mill.line_on(lake);
        line.prepare().await.unwrap();
        let name = "test";
        let worker = Worker::new(
            self.mill.journal.clone(),
            name,
            self.mill.clock(),
            Rng::seeded(2),
        );
        let run = worker
            .concurrency(concurrency)
            .run(line.clone(), CancellationToken::new());
        tasks.spawn(async { drop(run.await) });
        while self.act != Act::Over {
            if self.act == Act::More {
                self.mill.works.fill(&self.more).await;
            }
            self.act_out(lake, &line).await;
            self.act = match self.act {
                Act::First => Act::More,
                Act::More => Act::Night,
                Act::Night | Act::Over => Act::Over,
            };
        }
    }

    /// Looks for work as a worker does that starts, and does all of it, whenever it is due.
    async fn act_out(&self, lake: &Lake, line: &Line) {
        let mill = &self.mill;
        if self.act == Act::Night {
            let night = "2017-01-02T00:00:30Z".parse::<jiff::Timestamp>().unwrap();
            let left = night.duration_since(mill.clock().now());
            mill.simulated
                .advance(left.try_into().unwrap_or_default())
                .await;
        }
        let mut plant = mill.works.plant(lake);
        plant.clock = mill.clock();
        let inputs = mill.works.inputs(lake);
        let journal = mill.journal.clone();
        let discoverer = Discoverer::new(plant, inputs, journal, Rng::seeded(1), GRACE);
        discoverer.discover(Reach::Whole).await.unwrap();
        line.catch_up().await.unwrap();
        let mut looks = 0;
        loop {
            let alive = mill.alive().await;
            if alive.is_empty() {
                return;
            }
            looks += 1;
            assert!(looks < LOOKS_MAX, "stuck with {alive:?} in {:?}", self.act);
            let is_idle = |(_, status): &(String, Status)| *status == Status::Waiting;
            if alive.iter().all(is_idle) {
                mill.simulated.advance(MINUTE / 2).await;
            } else {
                #[allow(clippy::disallowed_methods, reason = "the stages run on real threads")]
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// Nobody hears of the dead: their leases run out.
    async fn mourn(&self) {
        let lease = line::declaration().lease;
        self.mill.simulated.advance(lease + MINUTE / 60).await;
    }

    /// Lives until everything is over; how often it died.
    async fn through(
        &mut self,
        concurrency: usize,
        mut death: impl FnMut() -> Option<Death>,
    ) -> u64 {
        let mut deaths = 0;
        while !self.live(&Life::new(death()), concurrency).await {
            deaths += 1;
            self.mourn().await;
        }
        deaths
    }

    async fn objects(&self) -> Objects {
        let mut objects = Objects::new();
        for entry in self.mill.works.lake.list_all(None).await.unwrap() {
            let object = self.mill.works.lake.get(&entry.key, 1 << 30).await;
            let bytes = object.unwrap().bytes.to_vec();
            let bytes = match entry.key.as_canned() {
                Some((_, CannedObject::OpenIndex(_))) => without_times(&bytes),
                _ if entry.key == Key::autoclaved_current() => without_since(&bytes),
                _ => bytes,
            };
            objects.insert(entry.key.to_string(), bytes);
        }
        objects
    }

    /// The same lake, the same catalog, and nothing left to do.
    async fn compare(&self, reference: &Self, context: &str) {
        let (ours, theirs) = (self.objects().await, reference.objects().await);
        let keys = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&ours), keys(&theirs), "{context}");
        for (key, bytes) in &ours {
            assert!(*bytes == theirs[key], "{context}: {key} has other bytes");
        }
        let differences = self.mill.catalog.differences(&reference.mill.catalog);
        assert_eq!(differences.await.unwrap(), [], "{context}");
        assert_eq!(self.mill.alive().await, [], "{context}");
        assert_eq!(self.mill.dead().await, BTreeMap::new(), "{context}");
        self.expect_no_scratch(context).await;
        let line = self.mill.line().await;
        let caught = line.catch_up().await.unwrap();
        assert!(!caught.is_behind(), "{context}: {caught:?}");
    }

    /// A thread of somebody who is dead may be at work for a moment longer.
    async fn expect_no_scratch(&self, context: &str) {
        for _ in 0..500 {
            if self.mill.works.has_no_scratch_left() {
                return;
            }
            #[allow(clippy::disallowed_methods, reason = "other threads take real time")]
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{context}: scratch files are left");
    }
}

/// An index says when its inputs came, for which every world's store has times of its own; those of an index, which is
/// compressed, even change its size.
fn without_times(index: &[u8]) -> Vec<u8> {
    let mut text = String::new();
    let mut unpacked = MultiGzDecoder::new(index);
    unpacked.read_to_string(&mut text).unwrap();
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        for input in line["inputs"].as_array_mut().into_iter().flatten() {
            let input = input.as_object_mut().unwrap();
            input.retain(|field, _| field == "key");
        }
        lines.extend(format!("{line}\n").into_bytes());
    }
    lines
}

/// Since when the rules are in force depends on who died before.
fn without_since(current: &[u8]) -> Vec<u8> {
    let mut current: serde_json::Value = serde_json::from_slice(current).unwrap();
    current.as_object_mut().unwrap().remove("since");
    current.to_string().into_bytes()
}

/// A world in which nobody dies, and how many effects it takes.
async fn reference() -> (World, u64) {
    let mut world = World::new().await;
    let life = Life::new(None);
    assert!(world.live(&life, 1).await);
    check(&world.mill, &world.expected).await;
    let objects = world.objects().await;
    let is_sealed = objects.contains_key(Key::canned_index(bucket()).as_str());
    let is_open =
        |key: &String| key.starts_with("canned/") && key.split('.').any(|part| part.len() == 16);
    assert!(
        is_sealed && !objects.keys().any(is_open),
        "{:?}",
        objects.keys()
    );
    assert!(
        world
            .mill
            .told
            .all()
            .iter()
            .any(|it| it.key.starts_with("sweep/"))
    );
    (world, life.requests())
}

#[tokio::test]
async fn a_worker_killed_at_any_effect_leaves_nothing_that_the_next_does_not_mend() {
    let (reference, effects) = reference().await;
    assert!(effects > 60, "{effects}");
    let (step, mut killed) = (if long_run() { 1 } else { 10 }, 0);
    for after_effect in [false, true] {
        // Others in each half, so that a tenth sees as much as it can.
        let first = if after_effect { 1 + step / 2 } else { 1 };
        for request in (first..=effects).step_by(usize::try_from(step).unwrap()) {
            let death = Death {
                request,
                after_effect,
            };
            let mut deaths = vec![death];
            let mut world = World::new().await;
            let died = world.through(1, || deaths.pop()).await;
            let context = format!("{death:?} of {effects}");
            assert_eq!(died, 1, "{context}");
            world.compare(&reference, &context).await;
            killed += 1;
        }
    }
    println!(
        "result: archive, a worker killed once in each of {killed} lives, before or after one of {effects} effects: same bytes, same catalog"
    );
}

/// Four at once, and none of them lives long.
#[tokio::test]
async fn workers_that_never_live_long_come_to_the_same_end() {
    let (reference, effects) = reference().await;
    let seeds = if long_run() { 20 } else { 2 };
    let mut died = 0;
    for seed in 0..seeds {
        let rng = Rng::seeded(seed);
        let mut world = World::new().await;
        let lives = || {
            Some(Death {
                request: 4 + rng.below(12),
                after_effect: rng.below(2) == 0,
            })
        };
        let deaths = world.through(4, lives).await;
        assert!(deaths > 3, "{deaths}");
        world.compare(&reference, &format!("seed {seed}")).await;
        died += deaths;
    }
    println!(
        "result: archive, {died} deaths of workers in {seeds} runs of about {effects} effects: same bytes, same catalog"
    );
}
