//! A report file that somebody may still be writing is not taken for whole.

use std::fs::{File, FileTimes};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cannery_formats::Key;
use cannery_pipeline::Error;
use cannery_pipeline::canning::Canner;
use cannery_pipeline::discover::{Discovered, Discoverer, Reach};
use cannery_pipeline::inputs::{Inputs, Reports};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::disk::{create_dir_all, write_durably};
use cannery_runtime::{RealDisk, Rng};
use tokio_util::sync::CancellationToken;

use crate::can_kit::{Texts, Works, bucket, clock, journal, key_of};

const SETTLE: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3_600);

/// A folder of report files, beside a lake.
struct Folder {
    works: Works,
    root: PathBuf,
}

fn name(id: &str) -> String {
    format!("2017-01-01/20161231T000030Z-US-AS7922-ndt-{id}-0.2.0-probe.json")
}

impl Folder {
    fn new() -> Self {
        let works = Works::in_memory();
        let root = works.scratch.path().join("reports-raw");
        create_dir_all(&RealDisk, &root.join("2017-01-01")).unwrap();
        Self { works, root }
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            reports: Some(Reports::Folder(self.root.clone())),
            settle: SETTLE,
            ..self.works.inputs(&self.works.lake)
        }
    }

    /// Writes a report, so many seconds before now or after it.
    fn write(&self, id: &str, text: &str, seconds: i64) -> Key {
        let path = self.root.join(name(id));
        write_durably(&RealDisk, &path, text.as_bytes()).unwrap();
        let at = clock().now() + jiff::SignedDuration::from_secs(seconds);
        let times = FileTimes::new().set_modified(SystemTime::from(at));
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(times).unwrap();
        key_of(&name(id))
    }

    async fn look(&self) -> Discovered {
        let plant = self.works.plant(&self.works.lake);
        let discoverer = Discoverer::new(plant, self.inputs(), journal(), Rng::seeded(1), HOUR);
        discoverer.look(Reach::Whole).await.unwrap()
    }

    fn canner(&self) -> Canner {
        Canner::new(self.works.plant(&self.works.lake), self.inputs(), None)
    }

    async fn texts(&self) -> Texts {
        self.works.texts().await
    }
}

#[tokio::test]
async fn what_was_changed_a_moment_ago_is_left_until_it_has_settled() {
    let folder = Folder::new();
    let old = folder.write("old", "{}\n", -10);
    folder.write("fresh", "{\"half", -9);
    folder.write("fresher", "{\"half", 2);
    // Nobody writes at a time that far ahead: a copy has kept the wrong time of its original.
    let ahead = folder.write("ahead", "{}\n", 10);
    let looked = folder.look().await;
    assert_eq!(looked.inputs, 4);
    let to_can: Vec<&Key> = looked.to_can.values().flat_map(|it| &it.inputs).collect();
    assert_eq!(to_can, [&ahead, &old]);
    let unsettled = looked.unsettled[&bucket()];
    let [first, last] = [unsettled.first, unsettled.last].map(|until| until.to_string());
    assert_eq!(unsettled.reports, 2);
    assert_eq!(
        (&*first, &*last),
        ("2017-01-02T12:00:01Z", "2017-01-02T12:00:12Z")
    );
    assert_eq!(looked.settles_next(), Some(unsettled.first));
}

#[tokio::test]
async fn what_is_in_the_lake_is_there_as_a_whole() {
    let works = Works::in_memory();
    works.put(&key_of(&name("a")), b"{}\n").await;
    let inputs = Inputs {
        settle: Duration::from_secs(u64::from(u32::MAX)),
        ..works.inputs(&works.lake)
    };
    let plant = works.plant(&works.lake);
    let discoverer = Discoverer::new(plant, inputs, journal(), Rng::seeded(1), HOUR);
    let looked = discoverer.look(Reach::Whole).await.unwrap();
    assert_eq!((looked.to_can.len(), looked.unsettled.len()), (1, 0));
}

#[tokio::test]
async fn what_is_written_again_before_it_is_canned_is_passed_over_and_found_later() {
    let folder = Folder::new();
    let keys = [
        folder.write("a", "{\"a\":1}\n", -60),
        folder.write("b", "{\"b\":", -1),
    ];
    let kind = "ndt".parse().unwrap();
    let canner = folder.canner();
    let report = canner.open(bucket(), &kind, &keys).await.unwrap();
    assert_eq!((report.reports, report.refused.len()), (1, 0));
    folder.write("b", "{\"b\":1}\n", -60);
    let looked = folder.look().await;
    let to_can = looked.to_can.values().next().unwrap();
    assert_eq!(to_can.inputs, [keys[1].clone()].into());
    canner.open(bucket(), &kind, &keys[1..]).await.unwrap();
    assert_eq!(folder.texts().await[&name("b")], b"{\"b\":1}\n");
}

#[tokio::test]
async fn an_overdue_bucket_is_not_sealed_while_a_report_of_it_is_written() {
    let folder = Folder::new();
    let (a, kind) = (folder.write("a", "{}\n", -60), "ndt".parse().unwrap());
    folder.canner().open(bucket(), &kind, &[a]).await.unwrap();
    assert_eq!(folder.look().await.to_seal.len(), 1);
    folder.write("b", "{\"half", -1);
    assert_eq!(folder.look().await.to_seal.len(), 0);
}

#[tokio::test]
async fn a_bucket_that_is_canned_by_hand_waits_for_a_moment_and_not_for_ever() {
    let folder = Folder::new();
    folder.write("a", "{\"a\":1}\n", -3);
    folder.write("b", "{\"b\":", 5);
    let failed = folder.canner().bucket(bucket()).await.unwrap_err();
    match &failed {
        Error::StillWritten { key } => assert_eq!(*key, key_of(&name("b"))),
        other => panic!("{other}"),
    }
    assert!(
        folder.works.objects().await.is_empty(),
        "nothing was sealed"
    );
    folder.write("b", "{\"b\":1}\n", -3);
    folder.canner().bucket(bucket()).await.unwrap();
    assert_eq!(folder.texts().await.len(), 2);
}

/// A folder of long ago that cannot be listed does not keep today's reports from being found.
#[tokio::test]
async fn the_last_days_are_looked_at_while_everything_cannot_be() {
    let folder = Folder::new();
    folder.write("a", "{}\n", -60);
    let loops = folder.root.join("2016-01-01");
    std::os::unix::fs::symlink(&loops, &loops).unwrap();
    let (journal, time) = (journal(), SimulatedClock::starting_at(clock().now()));
    let mut plant = folder.works.plant(&folder.works.lake);
    plant.clock = time.clock();
    let second = Duration::from_secs(1);
    let discoverer = Discoverer::new(
        plant,
        folder.inputs(),
        journal.clone(),
        Rng::seeded(1),
        HOUR,
    )
    .every(second);
    assert!(discoverer.look(Reach::Whole).await.is_err());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let looking = tokio::spawn(async move { discoverer.run(stopped).await });
    let found = async || journal.stats().await.unwrap().counts.live() > 0;
    // Looks take real time; time that passes during one only makes the next one come later.
    for _ in 0..1_000 {
        if time.sleepers() > 0 {
            time.advance(second).await;
        }
        if found().await {
            break;
        }
        #[allow(clippy::disallowed_methods, reason = "the look runs on real threads")]
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    assert!(found().await);
    stop.cancel();
    looking.await.unwrap();
}
