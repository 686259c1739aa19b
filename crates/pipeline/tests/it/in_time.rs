//! How long it takes until what is in the lake can be read, with the settings that nobody chose: everything runs as in the
//! product, on a clock of its own, while reports, bundles and hours keep coming and buckets are sealed and swept.

use std::collections::BTreeMap;
use std::time::Duration;

use cannery_formats::feed::Codec;
use cannery_formats::{BucketDate, Key, Uid};
use cannery_journal::{Date, Query, Status};
use cannery_pipeline::discover::Discoverer;
use cannery_pipeline::line::{DEBOUNCE_MIN, Ended, GRACE, Timing};
use cannery_pipeline::measurement;
use cannery_runtime::Rng;
use cannery_runtime::clock::SimulatedClock;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::can_kit::{Works, key_of};
use crate::kit::upload_of;
use crate::line::gzip;
use crate::line_kit::{Mill, sanitised};

const STEP: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(600);
/// So many looks at work that goes on are minutes.
const LOOKS_MAX: u32 = 200_000;

/// A measurement that is in the lake, with what may be read of it: the bucket in it is the day on which it is found.
struct Arrived {
    at: Duration,
    texts: Vec<Vec<u8>>,
}

/// Everything that runs in the product: a worker, the discoverer's loop, and who catches up.
struct Stream {
    mill: Mill,
    /// The discoverer has a clock that goes with the others', so that one can see whether it sleeps.
    looking: SimulatedClock,
    tasks: JoinSet<()>,
    number: u32,
    waiting: BTreeMap<Uid, Arrived>,
    read: BTreeMap<Uid, Vec<Vec<u8>>>,
    longest: BTreeMap<&'static str, Duration>,
}

/// Waits, in real time, until something is so; whether it is.
async fn until(mut is_so: impl AsyncFnMut() -> bool) -> bool {
    for _ in 0..LOOKS_MAX {
        if is_so().await {
            return true;
        }
        #[allow(clippy::disallowed_methods, reason = "the stages run on real threads")]
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

impl Stream {
    async fn start(timing: Timing) -> Self {
        let mut mill = Mill::new(Works::in_memory()).await;
        mill.timing = timing;
        let looking = SimulatedClock::starting_at(mill.clock().now());
        let line = mill.line().await;
        let mut plant = mill.works.plant(&mill.works.lake);
        plant.clock = looking.clock();
        let inputs = mill.works.inputs(&mill.works.lake);
        let journal = mill.journal.clone();
        let discoverer = Discoverer::new(plant, inputs, journal, Rng::seeded(3), GRACE)
            .every(timing.look_every())
            .heeding(line.refusals());
        let (worker, stop) = (mill.worker(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let (worked, stopped) = (line.clone(), stop.clone());
        tasks.spawn(async move { drop(worker.run(worked, stopped).await) });
        let stopped = stop.clone();
        tasks.spawn(async move { discoverer.run(stopped).await });
        tasks.spawn(async move { line.keep_up(stop).await });
        // Time that passes before its first pause would pass during its first look.
        let is_asleep = until(async || looking.sleepers() > 0).await;
        assert!(is_asleep, "the discoverer does not begin");
        Self {
            mill,
            looking,
            tasks,
            number: 0,
            waiting: BTreeMap::new(),
            read: BTreeMap::new(),
            longest: BTreeMap::new(),
        }
    }

    fn now(&self) -> Timestamp {
        self.mill.clock().now()
    }

    fn day(&self) -> String {
        self.now().strftime("%Y-%m-%d").to_string()
    }

    /// Notes what must be readable, ten minutes from now at the latest.
    fn expect(&mut self, textname: &str, text: &[u8]) {
        let mut uids = BTreeMap::<String, Vec<Vec<u8>>>::new();
        let today: BucketDate = self.day().parse().unwrap();
        let tomorrow = self.now() + jiff::SignedDuration::from_hours(24);
        let tomorrow = tomorrow.strftime("%Y-%m-%d").to_string();
        for bucket in [today, tomorrow.parse().unwrap()] {
            let mut lines = BTreeMap::new();
            sanitised(textname, text, bucket, &mut lines);
            for (uid, line) in lines {
                uids.entry(uid).or_default().push(line);
            }
        }
        assert!(!uids.is_empty(), "{textname}");
        let at = self.mill.clock().elapsed();
        for (uid, texts) in uids {
            let before = self
                .waiting
                .insert(uid.parse().unwrap(), Arrived { at, texts });
            assert!(before.is_none(), "{textname} is not new");
        }
    }

    async fn report(&mut self) {
        let (number, time) = (self.number, self.now().strftime("%Y%m%dT%H%M%SZ"));
        let test = ["ndt", "web_connectivity", "dash"][number as usize % 3];
        let name = format!(
            "{}/{time}-US-AS7922-{test}-r{number}-0.2.0-probe.json",
            self.day()
        );
        let text =
            format!("{{\"test_name\":\"{test}\",\"number\":{number}}}\n{{\"second\":{number}}}\n");
        self.mill.works.put(&key_of(&name), text.as_bytes()).await;
        self.expect(&name, text.as_bytes());
    }

    async fn bundle(&mut self) {
        let (folder, time) = (
            self.now().strftime("%Y/%m/%d"),
            self.now().strftime("%Y%m%dT%H%M%S"),
        );
        let name = format!(
            "v1/ndt/scamper1/{folder}/{time}.{:06}Z-scamper1-mlab1-lga01-ndt-data.jsonl",
            self.number
        );
        let rows = format!("{{\"row\":{}}}\n", self.number);
        let key = Key::new(format!("autoload/{name}.gz")).unwrap();
        self.mill.works.put(&key, &gzip(rows.as_bytes())).await;
        self.expect(&name, rows.as_bytes());
    }

    /// An hour of today; of each there is one at most.
    async fn hour(&mut self, hour: u32) {
        let hour = format!("{}T{:02}Z", self.now().strftime("%Y%m%d"), hour % 24);
        let upload = upload_of(hour.parse().unwrap(), "a", Codec::Gzip);
        self.mill.works.put(&upload.key, &upload.bytes).await;
        let name = format!("f/{}/{}/a", self.day(), &hour[9..11]);
        self.expect(&name, b"body of a");
    }

    /// Lets time pass, for everybody.
    async fn pass(&self, time: Duration) {
        let end = self.mill.clock().elapsed() + time;
        while self.mill.clock().elapsed() < end {
            self.pass_for_who_looks(STEP).await;
            self.mill.simulated.advance(STEP).await;
            self.quiet().await;
        }
    }

    /// Lets time pass for the discoverer, but none while it looks: a look during which time jumped would be taken for one that
    /// took long, and the next one at everything would come late.
    async fn pass_for_who_looks(&self, time: Duration) {
        let clock = self.looking.clock();
        let end = clock.elapsed() + time;
        while clock.elapsed() < end {
            let next = self.looking.next_deadline().unwrap_or(end).min(end);
            self.looking.advance(next - clock.elapsed()).await;
            let is_asleep = until(async || self.looking.sleepers() > 0).await;
            assert!(is_asleep, "the discoverer looks for ever");
        }
    }

    /// Waits until nobody is at work: that takes real time, and none of the simulated.
    async fn quiet(&self) {
        if !until(async || !self.is_working().await).await {
            let (alive, told) = (self.mill.alive().await, self.mill.told.all());
            panic!("stuck with {alive:?} after {:?}", told.last());
        }
    }

    /// Whether something is in hand, or due: who is to take it may not have come to it yet.
    async fn is_working(&self) -> bool {
        let now = Date::from(self.now());
        let page = self.mill.journal.list(Query::all()).await.unwrap();
        page.entries.iter().any(|entry| match entry.status {
            Status::Processing | Status::Blocked => true,
            Status::Waiting => entry.meta.process <= now,
            Status::Dead => false,
        })
    }

    async fn text(&self, uid: &Uid) -> Option<Vec<u8>> {
        let (lake, catalog) = (&self.mill.works.lake, &self.mill.catalog);
        let read = measurement::read(lake, catalog, uid).await.unwrap();
        read.map(|read| read.text)
    }

    /// Reads what has not been read yet; nothing may wait for too long.
    async fn look(&mut self, context: &'static str) {
        let now = self.mill.clock().elapsed();
        for uid in self.waiting.keys().copied().collect::<Vec<_>>() {
            let waited = now - self.waiting[&uid].at;
            let Some(text) = self.text(&uid).await else {
                let (time, alive) = (self.now(), self.mill.alive().await);
                assert!(
                    waited < LIMIT,
                    "{context}: {uid} waits for {waited:?} at {time}: {alive:?}"
                );
                continue;
            };
            let arrived = self.waiting.remove(&uid).unwrap();
            assert!(arrived.texts.contains(&text), "{context}: {uid} is another");
            self.read.insert(uid, arrived.texts);
            let longest = self.longest.entry(context).or_default();
            *longest = waited.max(*longest);
        }
    }

    /// A report every half minute, a bundle every two, an hour every five, until then.
    async fn flow(&mut self, context: &'static str, until: &str) {
        let until: Timestamp = until.parse().unwrap();
        let mut step = 0_u32;
        while self.now() < until {
            self.number += 1;
            self.report().await;
            // Nobody has heard of the datatype and the feed before: only a look at everything shows them.
            let is_time = self.number > 20;
            if is_time && step.is_multiple_of(4) {
                self.bundle().await;
            }
            if is_time && step.is_multiple_of(10) {
                self.hour(step / 10).await;
            }
            for _ in 0..2 {
                self.pass(STEP).await;
                self.look(context).await;
            }
            step += 1;
        }
    }

    /// Nothing comes until then.
    async fn rest(&mut self, context: &'static str, until: &str) {
        let until: Timestamp = until.parse().unwrap();
        let limit = self.mill.clock().elapsed() + LIMIT;
        while self.mill.clock().elapsed() < limit {
            self.pass(STEP).await;
            self.look(context).await;
        }
        assert!(self.waiting.is_empty());
        while self.now() + jiff::SignedDuration::from_mins(10) < until {
            self.pass_for_who_looks(LIMIT).await;
            self.mill.simulated.advance(LIMIT).await;
            self.quiet().await;
        }
    }

    fn has_done(&self, key: &str) -> bool {
        self.mill.told.of(key).contains(&Ended::Done)
    }
}

#[tokio::test]
async fn what_comes_in_a_steady_stream_can_be_read_within_ten_minutes_by_default() {
    let mut stream = Stream::start(Timing::default()).await;
    assert_eq!(stream.now().to_string(), "2017-01-01T12:00:00Z");
    stream.flow("an open bucket", "2017-01-01T12:40:00Z").await;
    stream.rest("an open bucket", "2017-01-02T23:30:00Z").await;
    assert!(!stream.has_done("seal/2017-01-01/-/-"));
    stream.flow("a seal", "2017-01-03T00:30:00Z").await;
    assert!(stream.has_done("seal/2017-01-01/-/-"));
    stream.rest("a seal", "2017-01-03T23:40:00Z").await;
    assert!(!stream.has_done("sweep/2017-01-01/-/-"));
    stream
        .flow("a seal and a sweep", "2017-01-04T00:40:00Z")
        .await;
    stream
        .rest("a seal and a sweep", "2017-01-04T01:00:00Z")
        .await;
    for key in ["seal/2017-01-02/-/-", "sweep/2017-01-01/-/-"] {
        assert!(stream.has_done(key), "{key}");
    }
    // Whatever happened since, all of it is what it was.
    assert!(stream.read.len() > 500, "{}", stream.read.len());
    for (uid, texts) in &stream.read {
        let text = stream.text(uid).await;
        assert!(texts.contains(&text.unwrap()), "{uid}");
    }
    assert_eq!(stream.mill.dead().await, BTreeMap::new());
    for (context, longest) in &stream.longest {
        println!("result: archive, readable after {longest:?} at most by default, in {context}");
    }
    stream.tasks.shutdown().await;
}

#[tokio::test]
async fn without_a_pause_it_can_be_read_within_seconds() {
    let mut stream = Stream::start(Timing::new(Duration::ZERO, GRACE)).await;
    stream.flow("no pause", "2017-01-01T12:10:00Z").await;
    let longest = stream.longest["no pause"];
    assert!(stream.waiting.is_empty() && longest <= STEP, "{longest:?}");
    stream.tasks.shutdown().await;
}

#[tokio::test]
async fn where_looking_costs_nothing_it_can_be_read_within_seconds_by_default() {
    let timing = Timing::default().gathering_from(DEBOUNCE_MIN);
    let mut stream = Stream::start(timing).await;
    stream
        .flow("a lake in a folder", "2017-01-01T12:10:00Z")
        .await;
    let longest = stream.longest["a lake in a folder"];
    assert!(stream.waiting.is_empty() && longest <= STEP, "{longest:?}");
    stream.tasks.shutdown().await;
}
