//! What a journal forgot is found again, and what a person asks for is planned; all of it in time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_journal::{Priority, Query};
use cannery_pipeline::discover::{Discoverer, Reach};
use cannery_pipeline::line::{Backfill, CaughtUp, Ended, Line, Planned, Timing};
use cannery_pipeline::stage::Stage;
use cannery_runtime::Rng;

use crate::can_kit::{Works, key_of};
use crate::kit::upload;
use crate::line::{check, distinct, fill, handle_all};
use crate::line_kit::{GRACE, Mill};

const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn discoverer(mill: &Mill) -> Discoverer {
    let mut plant = mill.works.plant(&mill.works.lake);
    plant.clock = mill.clock();
    let inputs = mill.works.inputs(&mill.works.lake);
    Discoverer::new(plant, inputs, mill.journal.clone(), Rng::seeded(1), GRACE)
}

async fn keys(mill: &Mill) -> BTreeMap<String, Priority> {
    let page = mill.journal.list(Query::all()).await.unwrap();
    let entries = page.entries.iter();
    entries
        .map(|entry| (entry.key.to_string(), entry.meta.priority))
        .collect()
}

async fn add(mill: &Mill, key: &str) {
    let entry = cannery_journal::NewEntry::new(key, cannery_journal::Data::null());
    mill.journal.add_one(entry).await.unwrap();
}

/// Does the next work that is due; its key.
async fn handle_one(mill: &Mill, line: &Line) -> Option<String> {
    use cannery_journal::worker::{Handler as _, Outcome, Work};
    let entry = mill.journal.claim("test", 1).await.unwrap().entries.pop()?;
    let (key, token) = (entry.key.to_string(), entry.lease.as_ref().unwrap().token);
    let work = Work {
        entry,
        lost: tokio_util::sync::CancellationToken::new(),
        stop: tokio_util::sync::CancellationToken::new(),
    };
    assert_eq!(line.handle(work).await, Outcome::Done, "{key}");
    mill.journal.done(token).await.unwrap();
    Some(key)
}

/// The journal is lost again and again, after each piece of work; what is left is found in the lake, to the last.
#[tokio::test]
async fn a_journal_that_is_lost_after_every_step_loses_nothing() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.gather = Duration::ZERO;
    let expected = fill(&mill.works, &distinct()).await;
    let mut done = BTreeSet::new();
    loop {
        mill.drop_journal();
        let line = mill.line().await;
        line.catch_up().await.unwrap();
        discoverer(&mill).discover(Reach::Whole).await.unwrap();
        let Some(key) = handle_one(&mill, &line).await else {
            break;
        };
        let is_first = done.insert(key.clone());
        assert!(
            is_first || key.starts_with("aggregate/"),
            "{key} was done before"
        );
    }
    check(&mill, &expected).await;
    assert!(done.iter().any(|key| key.starts_with("autoclave/")));
    // Sealed, and the work that follows lost.
    for day in ["2017-01-01", "2017-01-02"] {
        let line = mill.line().await;
        add(&mill, &format!("seal/{day}/-/-")).await;
        handle_one(&mill, &line).await.unwrap();
        mill.drop_journal();
    }
    let caught = mill.line().await.catch_up().await.unwrap();
    assert!(
        caught.to_autoclave > 5 && caught.to_sweep >= 1,
        "{caught:?}"
    );
    while handle_one_of_file(&mill).await {}
    check(&mill, &expected).await;
    let sealed = mill.files().await;
    assert!(sealed.contains("2017-01-01/web_connectivity.0.tar.lz4"));
}

/// Does the next work on a file, passing over sweeps, which wait for their grace.
async fn handle_one_of_file(mill: &Mill) -> bool {
    let line = mill.line().await;
    for entry in mill.journal.list(Query::all()).await.unwrap().entries {
        if entry.key.as_str().starts_with("sweep/") {
            mill.journal.cancel(entry.key.clone()).await.unwrap();
        }
    }
    handle_one(mill, &line).await.is_some()
}

#[tokio::test]
async fn nothing_is_behind_when_all_is_done_and_what_is_dead_stays_dead() {
    let mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &distinct()).await;
    mill.discover().await;
    let line = mill.line().await;
    mill.work(line.clone(), HOUR).await;
    let caught = line.catch_up().await.unwrap();
    assert_eq!(
        caught,
        CaughtUp {
            buckets: 1,
            ..CaughtUp::default()
        }
    );
    assert_eq!(keys(&mill).await, BTreeMap::new());
    let file = mill.files().await.into_iter().next().unwrap();
    let index = format!("autoclaved/{}/{file}", line.prepare().await.unwrap());
    for key in [format!("{index}.index.json.gz"), index] {
        mill.works
            .lake
            .delete(&Key::new(key).unwrap())
            .await
            .unwrap();
    }
    let can = Key::new(format!("canned/{file}")).unwrap();
    mill.works.lake.delete(&can).await.unwrap();
    mill.works.put(&can, b"not a can").await;
    let caught = line.catch_up().await.unwrap();
    assert_eq!((caught.to_autoclave, caught.to_centrifuge), (1, 0));
    let priorities: Vec<Priority> = keys(&mill).await.into_values().collect();
    assert_eq!(priorities, [Priority::REVIEW], "it can be read so far");
    mill.work(line.clone(), HOUR).await;
    assert_eq!(mill.dead().await.len(), 1);
    assert!(!line.catch_up().await.unwrap().is_behind());
}

#[tokio::test]
async fn an_hour_that_was_sealed_is_not_work_again() {
    let works = Works::in_memory();
    let first = upload("a b", Codec::Gzip);
    works.put(&first.key, &first.bytes).await;
    let today = "2017-01-02".parse().unwrap();
    let kind = "feed-f".parse().unwrap();
    let canner = works.canner();
    canner
        .open(today, &kind, std::slice::from_ref(&first.key))
        .await
        .unwrap();
    works.sealer().seal(today).await.unwrap();
    let looked = works.look().await;
    assert!(looked.to_can.is_empty(), "{looked:?}");
    // Another version of it is.
    works.lake.delete(&first.key).await.unwrap();
    let second = upload("a b c", Codec::Gzip);
    works.put(&second.key, &second.bytes).await;
    assert_eq!(works.look().await.to_can.len(), 1);
}

#[tokio::test]
async fn what_was_refused_is_not_found_again_for_an_hour() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.gather = Duration::ZERO;
    let torn = "autoload/v1/ndt/scamper1/2016/12/31/20161231T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl.gz";
    mill.works
        .put(&Key::new(torn).unwrap(), b"\x1f\x8b torn")
        .await;
    let line = mill.line().await;
    let discoverer = discoverer(&mill).heeding(line.refusals());
    let found = discoverer.discover(Reach::Whole).await.unwrap();
    assert_eq!((found.to_can.len(), found.refused), (1, 0));
    mill.work(line.clone(), HOUR).await;
    assert_eq!(mill.dead().await.len(), 1);
    let found = discoverer.discover(Reach::Whole).await.unwrap();
    assert_eq!((found.to_can.len(), found.refused), (0, 1));
    mill.simulated.advance(HOUR).await;
    let found = discoverer.discover(Reach::Whole).await.unwrap();
    assert_eq!((found.to_can.len(), found.refused), (1, 0));
}

#[tokio::test]
async fn a_backfill_names_the_work_of_its_dates() {
    let mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &distinct()).await;
    mill.discover().await;
    let line = mill.line().await;
    mill.work(line.clone(), HOUR).await;
    let late = key_of("2017-01-01/20161231T000030Z-US-AS7922-ndt-late-0.2.0-probe.json");
    mill.works.put(&late, b"{}\n").await;
    let plan = async |from: &str, stages: &[Stage], kind: Option<&str>| {
        let backfill = Backfill {
            from: from.parse().unwrap(),
            to: "2017-01-01".parse().unwrap(),
            stages: stages.iter().copied().collect(),
            kind: kind.map(|kind| kind.parse().unwrap()),
        };
        line.plan(&backfill, &discoverer(&mill)).await.unwrap()
    };
    let shown = |planned: &[Planned]| -> Vec<String> {
        planned.iter().map(|one| one.key.to_string()).collect()
    };
    assert_eq!(shown(&plan("2017-01-02", &Stage::ALL, None).await), [""; 0]);
    let cans = plan("2016-12-01", &[Stage::Can], None).await;
    assert_eq!(shown(&cans), ["can/2017-01-01/ndt/open"]);
    assert_eq!(cans[0].to_can.as_ref().unwrap().inputs, [late].into());
    let loads = plan("2016-12-01", &[Stage::Centrifuge], None).await;
    assert_eq!(loads.len(), mill.files().await.len());
    let of_kind = plan(
        "2016-12-01",
        &[Stage::Centrifuge, Stage::Verify],
        Some("ndt"),
    )
    .await;
    assert!(!of_kind.is_empty() && of_kind.len() < loads.len());
    let is_ndt = |key: &String| key.starts_with("centrifuge/2017-01-01/ndt/");
    assert!(shown(&of_kind).iter().all(is_ndt), "{of_kind:?}");
    let whole = plan(
        "2017-01-01",
        &[Stage::Verify, Stage::Seal, Stage::Sweep],
        None,
    )
    .await;
    assert_eq!(
        shown(&whole),
        ["verify/2017-01-01/-/-"],
        "its day is not over"
    );
    line.add(&whole).await.unwrap();
    line.add(&loads).await.unwrap();
    assert_eq!(keys(&mill).await["verify/2017-01-01/-/-"], Priority::RESET);
    mill.work(line.clone(), HOUR).await;
    assert_eq!(mill.told.of("verify/2017-01-01/-/-"), [Ended::Done]);
    assert_eq!(mill.dead().await, BTreeMap::new());
}

/// Without any pause, what follows is due at once: a journal takes no date that was over when it came.
#[tokio::test]
async fn without_a_pause_what_follows_is_due_at_once() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing = Timing {
        gather: Duration::ZERO,
        gather_min: Duration::ZERO,
        sweep_grace: Duration::ZERO,
        debounce: Duration::ZERO,
    };
    fill(&mill.works, &distinct()).await;
    mill.discover().await;
    let line = mill.line().await;
    handle_all(&mill, &line).await;
    let dates = mill.catalog.dates().await.unwrap();
    assert!(!dates.is_empty());
    for date in dates {
        let key = format!("aggregate/{date}/-/-");
        assert_eq!(mill.told.of(&key).last(), Some(&Ended::Done), "{key}");
    }
}
