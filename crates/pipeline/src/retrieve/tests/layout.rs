//! Every combination of options gives the tree that is documented.

use std::os::unix::fs::MetadataExt as _;

use cannery_formats::feed::Codec;

use super::support::{Bench, Body, Tree, body, download, feed, hour, packed, secondary, tree};
use crate::retrieve::{HourDone, Outcome, Progress, RetrieveOptions, plan, run};

/// Two feeds, two hours of the first. The second body of an hour is repeated in the next one, and in the other feed.
struct Sample {
    early: [Body; 2],
    late: [Body; 2],
    other: [Body; 1],
}

impl Sample {
    fn new() -> Self {
        Self {
            early: [
                download("a", 18, 1, "one"),
                download("a", 18, 2, "repeated"),
            ],
            late: [
                download("a", 19, 0, "repeated"),
                download("a", 19, 5, "two"),
            ],
            other: [download("b", 18, 9, "repeated")],
        }
    }

    async fn fill(&self, bench: &Bench) {
        bench.upload("a", 18, &self.early).await;
        bench.upload("a", 19, &self.late).await;
        bench.upload("b", 18, &self.other).await;
    }

    /// What the flags make of it.
    fn tree(&self, options: &RetrieveOptions) -> Tree {
        let [early, late, other] = match (options.collapse_feeds, options.collapse_time) {
            (false, false) => ["a/2026/11/15/18/", "a/2026/11/15/19/", "b/2026/11/15/18/"],
            (true, false) => ["2026/11/15/18/", "2026/11/15/19/", "2026/11/15/18/"],
            (false, true) => ["a/", "a/", "b/"],
            (true, true) => ["", "", ""],
        };
        if options.no_extract {
            let hours = [
                (early, "a", 18, self.early.as_slice()),
                (late, "a", 19, &self.late),
                (other, "b", 18, &self.other),
            ];
            let archives = hours.map(|(folder, id, of_day, bodies)| {
                let (hour, codec) = (hour(of_day), Codec::Gzip);
                let name = secondary(id, hour, bodies, codec).file_name().to_owned();
                (folder, (name, packed(id, hour, bodies, codec)))
            });
            return tree(archives.iter().map(|(folder, body)| (*folder, body)));
        }
        let mut files = tree([
            (early, &self.early[0]),
            (early, &self.early[1]),
            (late, &self.late[0]),
            (late, &self.late[1]),
            (other, &self.other[0]),
        ]);
        if options.dedupe {
            files.remove(&format!("{late}{}", self.late[0].0)).unwrap();
        }
        files
    }
}

#[tokio::test]
async fn all_sixteen_combinations_give_the_documented_tree() {
    let sample = Sample::new();
    for bits in 0..16 {
        let bench = Bench::new();
        sample.fill(&bench).await;
        let options = RetrieveOptions {
            collapse_feeds: bits & 1 != 0,
            collapse_time: bits & 2 != 0,
            no_extract: bits & 4 != 0,
            dedupe: bits & 8 != 0,
            ..bench.options()
        };
        let retrieved = bench.retrieve(&options).await.unwrap();
        assert_eq!(bench.tree(), sample.tree(&options), "{options:?}");
        assert_eq!(retrieved.outcome(), Outcome::Whole);
        assert_eq!(retrieved.hours, 3);
        assert_eq!(retrieved.files, bench.tree().len() as u64);
        let dropped = u64::from(options.dedupe && !options.no_extract);
        assert_eq!(retrieved.duplicates, dropped, "{options:?}");
        assert_eq!((retrieved.present, retrieved.renamed_count), (0, 0));
        bench.assert_contained("");
    }
}

#[tokio::test]
async fn files_are_of_the_time_of_their_download_and_for_everybody_to_read() {
    let bench = Bench::new();
    let bodies = [download("a", 18, 7, "one"), body("odd", "two")];
    bench.upload("a", 18, &bodies).await;
    let options = RetrieveOptions {
        collapse_time: true,
        ..bench.options()
    };
    let retrieved = bench.retrieve(&options).await.unwrap();
    assert_eq!((retrieved.files, retrieved.bytes), (2, 6));
    for (name, minutes, nanos) in [(&bodies[0].0, 7, 250_000_000), (&bodies[1].0, 0, 0)] {
        let found = bench.target().join("a").join(name).metadata().unwrap();
        let begin = hour(18).begin().as_second();
        let expected = (begin + minutes * 60, nanos);
        assert_eq!((found.mtime(), found.mtime_nsec()), expected, "{name}");
        assert_eq!(found.mode() & 0o7777, 0o644, "{name}");
    }
}

#[tokio::test]
async fn only_the_hours_and_feeds_that_were_asked_for() {
    let sample = Sample::new();
    let bench = Bench::new();
    sample.fill(&bench).await;
    let options = RetrieveOptions {
        start: "2026-11-15T18:59:00Z".parse().unwrap(),
        end: "2026-11-15T19:00:00Z".parse().unwrap(),
        feeds: Some(vec![feed("a"), feed("nobody"), feed("nobody")]),
        ..bench.options()
    };
    let plan = plan(&bench.lake, &options).await.unwrap();
    assert_eq!(plan.archives(), 1);
    let shown = plan.hours[0].to_string();
    let bytes = packed("a", hour(18), &sample.early, Codec::Gzip).len();
    assert_eq!(shown, format!("a 20261115T18Z: 1 archive, {bytes} bytes"));
    assert_eq!(plan.without, [feed("nobody")]);
    assert!(!bench.target().exists(), "a plan writes nothing");
    let retrieved = run(&bench.lake, &plan, &bench.workplace, &())
        .await
        .unwrap();
    assert_eq!(retrieved.without, [feed("nobody")]);
    let folder = "a/2026/11/15/18/";
    let expected = tree([(folder, &sample.early[0]), (folder, &sample.early[1])]);
    assert_eq!(bench.tree(), expected);
}

struct Seen(std::sync::Mutex<Vec<HourDone>>);

impl Progress for Seen {
    fn hour_done(&self, done: &HourDone) {
        self.0.lock().unwrap().push(done.clone());
    }
}

#[tokio::test]
async fn every_hour_is_told_of_in_order() {
    let bench = Bench::new();
    for of_day in 0..12 {
        let bodies = [download(
            "a",
            of_day,
            0,
            &"x".repeat(usize::from(12 - of_day)),
        )];
        bench.upload("a", of_day, &bodies).await;
    }
    let plan = plan(&bench.lake, &bench.options()).await.unwrap();
    let seen = Seen(std::sync::Mutex::default());
    run(&bench.lake, &plan, &bench.workplace, &seen)
        .await
        .unwrap();
    let seen = seen.0.into_inner().unwrap();
    let told: Vec<_> = seen.iter().map(|done| (done.of.hour, done.bytes)).collect();
    let expected: Vec<_> = (0..12)
        .map(|of_day| (hour(of_day), u64::from(12 - of_day)))
        .collect();
    assert_eq!(told, expected);
    let bytes: u64 = seen.iter().map(|done| done.archive_bytes).sum();
    assert_eq!(bytes, plan.bytes());
}
