//! A whole line on a lake: a journal, a catalog, and a worker that runs until nothing is due.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_catalog::{Catalog, Filter, Found};
use cannery_formats::archive::{Generation, Place};
use cannery_formats::can::{BucketFile, FileName};
use cannery_formats::{BucketDate, Key, LakeKey, ReportName};
use cannery_journal::worker::Worker;
use cannery_journal::{Data, Date, Journal, Memory, NewEntry, Query, Status};
use cannery_lake::Lake;
use cannery_pipeline::admission::Admission;
use cannery_pipeline::discover::{Discoverer, Reach};
use cannery_pipeline::features::Features;
use cannery_pipeline::keep::Keep;
use cannery_pipeline::line::{self, Ended, Execution, History, Line, Parts, Timing};
use cannery_pipeline::stage::Stage;
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Rng};
use cannery_sanitise::{Context, Format, Measurements, Rules, Sanitiser};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::can_kit::Works;

pub(crate) const GRACE: Duration = Duration::from_secs(3_600);

/// So many looks at work that goes on are minutes, even where much else runs.
const LOOKS_MAX: u32 = 100_000;
/// A second passes for work that goes on with so many looks.
const LOOKS_A_SECOND: u32 = 100;

pub(crate) const FEATURES: &str = r#"
features:
  - table: seen
    version: 1
    filter: '{name: (.test_name // "none")}'
    columns: [{name: name, type: text}]
aggregates:
  - table: per_name
    version: 1
    columns: [{name: name, type: text}, {name: count, type: int}]
    query: select s.name, count(*) from feature_seen s join measurement m on m.id = s.measurement where m.date = $1 group by s.name
"#;

/// Keeps everything that is told.
#[derive(Default)]
pub(crate) struct Told {
    begun: Mutex<Vec<(String, Timestamp)>>,
    ended: Mutex<Vec<Execution>>,
    /// The keys that ran at once, whenever one more began.
    crowds: Mutex<Vec<Vec<String>>>,
}

impl History for Told {
    fn began(&self, stage: Stage, key: &str, attempt: u32, start: Timestamp) {
        assert!(key.starts_with(stage.name()) && attempt > 0, "{key}");
        let mut begun = self.begun.lock().unwrap();
        begun.push((key.to_owned(), start));
        let crowd = begun.iter().map(|(key, _)| key.clone()).collect();
        self.crowds.lock().unwrap().push(crowd);
    }

    fn executed(&self, execution: &Execution) {
        let mut begun = self.begun.lock().unwrap();
        let told = (execution.key.clone(), execution.start);
        let place = begun.iter().position(|begun| *begun == told);
        begun.remove(place.expect("it was told when it began"));
        self.ended.lock().unwrap().push(execution.clone());
    }
}

impl Told {
    pub(crate) fn all(&self) -> Vec<Execution> {
        self.ended.lock().unwrap().clone()
    }

    pub(crate) fn crowds(&self) -> Vec<Vec<String>> {
        self.crowds.lock().unwrap().clone()
    }

    /// How the executions of a key ended, in their order.
    pub(crate) fn of(&self, key: &str) -> Vec<Ended> {
        let all = self.all().into_iter();
        let of_key = all.filter(|execution| execution.key == key);
        of_key.map(|execution| execution.ended).collect()
    }
}

/// A plant that works.
pub(crate) struct Mill {
    pub(crate) works: Works,
    pub(crate) simulated: SimulatedClock,
    pub(crate) journal: Journal,
    pub(crate) catalog: Catalog,
    pub(crate) told: Arc<Told>,
    pub(crate) admission: Admission,
    pub(crate) timing: Timing,
    pub(crate) rules: Arc<Rules>,
    pub(crate) features: String,
    pub(crate) reports_remove: bool,
    pub(crate) keep: Keep,
}

pub(crate) fn rules() -> Rules {
    changed_rules(|_, text| text)
}

/// The rules of the example, with files as somebody has changed them.
pub(crate) fn changed_rules(change: impl Fn(&str, String) -> String) -> Rules {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ooni");
    let read = |name: &str| change(name, std::fs::read_to_string(folder.join(name)).unwrap());
    Rules::parse(&read("rules.yml"), |table| Ok(read(table))).unwrap()
}

impl Mill {
    pub(crate) async fn new(works: Works) -> Self {
        let file = works.scratch.path().join("catalog.db");
        let address = format!("sqlite:{}", file.display());
        Self::with_catalog_at(works, &address).await
    }

    pub(crate) async fn with_catalog_at(works: Works, address: &str) -> Self {
        let simulated = SimulatedClock::starting_at("2017-01-01T12:00:00Z".parse().unwrap());
        let clock = simulated.clock();
        let memory = Memory::new(line::declaration(), clock.clone(), Rng::seeded(1));
        Self {
            works,
            journal: Journal::new("pipeline", Arc::new(memory)),
            catalog: Catalog::open(address, clock).await.unwrap(),
            simulated,
            told: Arc::default(),
            admission: Admission::new(1 << 30),
            timing: Timing::default(),
            rules: Arc::new(rules()),
            features: FEATURES.to_owned(),
            reports_remove: false,
            keep: Keep::default(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.simulated.clock()
    }

    pub(crate) fn line_on(&self, lake: &Lake) -> Line {
        let mut plant = self.works.plant(lake);
        plant.clock = self.clock();
        plant.frame_bytes = 8_000;
        Line::new(Parts {
            inputs: self.works.inputs(lake),
            plant,
            journal: self.journal.clone(),
            catalog: self.catalog.clone(),
            rules: Arc::clone(&self.rules),
            features: Arc::new(Features::parse(&self.features).unwrap()),
            admission: self.admission.clone(),
            history: Arc::clone(&self.told) as Arc<dyn History>,
            rng: Rng::seeded(4),
            timing: self.timing,
            reports_remove: self.reports_remove,
            keep: Arc::new(self.keep.clone()),
        })
    }

    pub(crate) async fn line(&self) -> Line {
        let line = self.line_on(&self.works.lake);
        line.prepare().await.unwrap();
        line
    }

    pub(crate) async fn discover(&self) {
        let mut plant = self.works.plant(&self.works.lake);
        plant.clock = self.clock();
        let inputs = self.works.inputs(&self.works.lake);
        let discoverer =
            Discoverer::new(plant, inputs, self.journal.clone(), Rng::seeded(1), GRACE);
        discoverer.discover(Reach::Whole).await.unwrap();
    }

    /// Adds the work of a key, as somebody who asks for it.
    pub(crate) async fn add(&self, key: &str) {
        let entry = NewEntry::new(key.to_owned(), Data::null());
        self.journal.add(vec![entry]).await.unwrap();
    }

    pub(crate) fn worker(&self) -> Worker {
        Worker::new(self.journal.clone(), "test", self.clock(), Rng::seeded(2)).concurrency(4)
    }

    /// Takes everything out of the journal.
    pub(crate) async fn drop_entries(&self) {
        let page = self.journal.list(Query::all()).await.unwrap();
        for entry in page.entries {
            self.journal.cancel(entry.key).await.unwrap();
        }
    }

    /// The entries of the journal that are not dead.
    pub(crate) async fn alive(&self) -> Vec<(String, Status)> {
        let page = self.journal.list(Query::all()).await.unwrap();
        let alive = page.entries.iter().filter(|entry| entry.death.is_none());
        alive
            .map(|entry| (entry.key.to_string(), entry.status))
            .collect()
    }

    pub(crate) async fn dead(&self) -> BTreeMap<String, String> {
        let page = self.journal.list(Query::all()).await.unwrap();
        let dead = page.entries.iter().filter_map(|entry| {
            let death = entry.death.as_ref()?;
            Some((entry.key.to_string(), death.reason.to_string()))
        });
        dead.collect()
    }

    /// Works until nothing waits but what is due after `limit` of time has passed.
    pub(crate) async fn work(&self, line: Line, limit: Duration) {
        let stop = CancellationToken::new();
        let run = tokio::spawn(self.worker().run(line, stop.clone()));
        let end = self.clock().elapsed() + limit;
        let mut looks = 0;
        while !self.alive().await.is_empty() && self.clock().elapsed() < end {
            // Stages take real time; dates that are waited for are the simulated clock's.
            if self.is_idle().await {
                self.simulated.advance(Duration::from_secs(5)).await;
                looks = 0;
            } else {
                looks += 1;
                let (alive, told) = (self.alive().await, self.told.all());
                assert!(
                    looks < LOOKS_MAX,
                    "stuck with {alive:?} after {:?}",
                    told.last()
                );
                // On a busy machine the clock can run ahead of a lease: it ends only if time goes on.
                if looks % LOOKS_A_SECOND == 0 {
                    self.simulated.advance(Duration::from_secs(1)).await;
                }
                #[allow(clippy::disallowed_methods, reason = "the stages run on real threads")]
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        stop.cancel();
        run.await.unwrap();
    }

    /// Whether nothing is in hand, and nothing due: who is to take it may not have come to it yet.
    async fn is_idle(&self) -> bool {
        let now = Date::from(self.clock().now());
        let page = self.journal.list(Query::all()).await.unwrap();
        page.entries.iter().all(|entry| match entry.status {
            Status::Processing | Status::Blocked => false,
            Status::Waiting => entry.meta.process > now,
            Status::Dead => true,
        })
    }

    /// Every measurement of the catalog, by its uid.
    pub(crate) async fn measurements(&self) -> BTreeMap<String, Found> {
        let mut all = BTreeMap::new();
        let mut after = None;
        loop {
            let all_of = Filter::default();
            let page = self.catalog.measurements(&all_of, after, 500);
            let page = page.await.unwrap();
            for found in page.items {
                assert!(all.insert(found.uid.clone(), found).is_none(), "uid twice");
            }
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// The rows of a table.
    pub(crate) async fn rows(&self, table: &str) -> Vec<String> {
        let mut dump = self.catalog.dump(table).await.unwrap();
        let mut rows = Vec::new();
        while let Some(row) = dump.next().await.unwrap() {
            rows.push(row);
        }
        rows
    }

    /// The same lake and catalog with a journal that knows nothing.
    pub(crate) fn drop_journal(&mut self) {
        let memory = Memory::new(line::declaration(), self.clock(), Rng::seeded(1));
        self.journal = Journal::new("pipeline", Arc::new(memory));
    }

    pub(crate) async fn files(&self) -> BTreeSet<String> {
        let all = Filter::default();
        let page = self.catalog.files(&all, None, 1_000);
        let files = page.await.unwrap().items.into_iter();
        files.map(|file| file.facts.name).collect()
    }

    /// The text of a measurement: one ranged read of one frame.
    pub(crate) async fn text(&self, found: &Found) -> Vec<u8> {
        let (bucket, name) = found.file.split_once('/').unwrap();
        let file = BucketFile::new(bucket.parse().unwrap(), FileName::new(name).unwrap());
        let generation: Generation = found.generation.parse().unwrap();
        let key = Key::autoclaved(generation, &file);
        let at = found.place;
        let range = at.frame_off..at.frame_off + at.frame_size;
        let frame = self.works.public().get_range(&key, range).await.unwrap();
        let place = Place {
            frame_off: at.frame_off,
            frame_size: at.frame_size,
            intra_off: at.intra_off,
            intra_size: at.intra_size,
        };
        place.extract(&frame, file.name.codec(), 1 << 30).unwrap()
    }
}

/// What the sanitiser makes of a report by itself: lines by their uids.
pub(crate) fn sanitised(
    textname: &str,
    text: &[u8],
    bucket: BucketDate,
    lines: &mut BTreeMap<String, Vec<u8>>,
) {
    sanitised_by(&rules(), textname, text, bucket, lines);
}

/// The same by other rules.
pub(crate) fn sanitised_by(
    rules: &Rules,
    textname: &str,
    text: &[u8],
    bucket: BucketDate,
    lines: &mut BTreeMap<String, Vec<u8>>,
) {
    let sanitiser = Sanitiser::new(rules, LakeKey::new([1; 32]));
    let (_, file) = textname.rsplit_once('/').unwrap();
    let report = ReportName::parse(file);
    let (kind, format, time) = match textname.split_once('/').unwrap().0 {
        "v1" => {
            let (opened, _) = file.split_once("Z-").unwrap();
            let opened = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S%.f", opened).unwrap();
            let opened = opened
                .to_zoned(jiff::tz::TimeZone::UTC)
                .unwrap()
                .timestamp();
            ("spool-scamper1".to_owned(), Format::Rows, Some(opened))
        }
        "f" => {
            let [_, date, hour, _] = textname.split('/').collect::<Vec<_>>()[..] else {
                panic!("{textname}");
            };
            let hour = format!("{date}T{hour}:00:00Z").parse::<Timestamp>();
            ("feed-f".to_owned(), Format::Whole, Some(hour.unwrap()))
        }
        _ => {
            let format = match file.ends_with(".yaml") {
                true => Format::Yaml,
                false => Format::Json,
            };
            let time = report.as_ref().map(|report| report.time);
            (ReportName::kind_of(file).to_string(), format, time)
        }
    };
    let context = Context {
        bucket: &bucket.to_string(),
        textname,
        kind: &kind,
        report_id: report.as_ref().map(|report| report.report_id.as_str()),
        time_ms: time.map(Timestamp::as_millisecond),
    };
    let mut measurements = Measurements::of(text, format);
    while let Some(one) = measurements.next().unwrap() {
        let (Ok(raw), mut line) = (one.raw, Vec::new()) else {
            continue;
        };
        let clean = match format {
            Format::Whole => Ok(sanitiser.download(raw, &context, &mut line)),
            _ => sanitiser.measurement(raw, &context, &mut line),
        };
        if let Ok(clean) = clean {
            while line.last() == Some(&b'\n') {
                line.pop();
            }
            lines.insert(clean.uid.to_string(), line);
        }
    }
}
