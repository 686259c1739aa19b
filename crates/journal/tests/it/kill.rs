//! A real process under load that is killed, again and again, on the real disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::embedded::{Embedded, Layout, Pace, Place};
use cannery_journal::{
    Data, Declaration, Engine as _, Entry, Journal, NewEntry, OnEmpty, Op, Period, Query,
};
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_testkit::{long_run, scenario_rng};

const FOLDER: &str = "CANNERY_TEST_KILL_FOLDER";
const ROUND: &str = "CANNERY_TEST_KILL_ROUND";
const CLIENTS: usize = 16;

async fn open(dir: &Path) -> (Arc<Embedded>, Journal) {
    let place = Place {
        disk: Arc::new(RealDisk),
        dir: dir.to_owned(),
        owner: "kill test".to_owned(),
        clock: Clock::real(),
        rng: Rng::from_os(),
    };
    let declaration = Declaration {
        lease: Duration::from_millis(400),
        timeouts_max: 254,
        on_empty: OnEmpty::Reset,
        period: Period::Hour,
        ..Declaration::default()
    };
    // Small segments: filled, freed and used again many times in a round.
    let layout = Layout {
        segment_bytes: 256 * 1024,
        pace: Pace::Free,
    };
    let engine = Embedded::open_with(place, Some(declaration), layout)
        .await
        .unwrap();
    let journal = Journal::new("killed", engine.clone());
    (engine, journal)
}

/// The process that is killed. Without the variable this is the parent's test run, and there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn load() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let round = std::env::var(ROUND).unwrap();
    let (_engine, journal) = open(&PathBuf::from(folder)).await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(run_client(journal.clone(), format!("{round}-{client}"))))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
}

/// Says what it is about to do before it does it, and what was acknowledged after.
async fn run_client(journal: Journal, name: String) {
    for number in 0..u64::MAX {
        let keys = [format!("{name}-{number}-a"), format!("{name}-{number}-b")];
        tell("adding", &keys);
        let entries = keys
            .iter()
            .map(|key| NewEntry::new(key.as_str(), data(key)));
        journal.add(entries.collect()).await.unwrap();
        tell("added", &keys);
        let claimed = journal.claim(&name, 2).await.unwrap();
        for entry in claimed.entries {
            assert_eq!(entry.data, data(entry.key.as_str()), "the data of a claim");
            let key = [entry.key.to_string()];
            let token = entry.lease.map(|lease| lease.token).unwrap();
            tell("ending", &key);
            if journal.done(token).await.is_ok() {
                tell("ended", &key);
            }
        }
    }
}

fn data(key: &str) -> Data {
    Data::from_value(&format!("{key} {}", "x".repeat(200))).unwrap()
}

fn tell(what: &str, keys: &[String]) {
    let text: String = keys.iter().map(|key| format!("{what} {key}\n")).collect();
    std::io::stdout().write_all(text.as_bytes()).unwrap();
}

/// What is known of every key, over all rounds.
#[derive(Default)]
struct Known {
    adding: BTreeSet<String>,
    added: BTreeSet<String>,
    ending: BTreeSet<String>,
    ended: BTreeSet<String>,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let Some((what, key)) = line.split_once(' ') else {
            return;
        };
        let set = match what {
            "adding" => &mut self.adding,
            "added" => &mut self.added,
            "ending" => &mut self.ending,
            "ended" => &mut self.ended,
            _ => return,
        };
        set.insert(key.to_owned());
    }

    fn check(&self, entries: &[Entry<Data>], round: u64) {
        let found: BTreeMap<&str, &Entry<Data>> = entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry))
            .collect();
        assert_eq!(
            found.len(),
            entries.len(),
            "round {round}: a key is there twice"
        );
        for (key, entry) in &found {
            assert!(
                self.adding.contains(*key),
                "round {round}: `{key}` comes from nowhere"
            );
            assert!(
                !self.ended.contains(*key),
                "round {round}: `{key}` came back"
            );
            assert_eq!(entry.data, data(key), "round {round}");
        }
        for key in self.added.difference(&self.ending) {
            assert!(
                found.contains_key(key.as_str()),
                "round {round}: `{key}` is lost"
            );
        }
    }
}

fn start(dir: &Path, round: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::load", "--nocapture"])
        .env(FOLDER, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Lets a process work for a while, and kills it; hears all it said.
fn live_and_die(dir: &Path, round: u64, rng: &Rng, known: &mut Known) {
    let mut child = start(dir, round);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 50 + rng.below(3_000);
    while last > 0 {
        let line = lines.next().unwrap().unwrap();
        known.hear(&line);
        last -= 1;
    }
    child.kill().unwrap();
    for line in lines.map_while(Result::ok) {
        known.hear(&line);
    }
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_or_comes_back_when_the_process_is_killed() {
    let rounds = if long_run() { 200 } else { 20 };
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("journal");
    let rng = scenario_rng("kills of an owner");
    let mut known = Known::default();
    for round in 0..rounds {
        tokio::task::block_in_place(|| live_and_die(&folder, round, &rng, &mut known));
        let (engine, journal) = open(&folder).await;
        let report = engine.report();
        assert_eq!(report.damaged, Vec::<String>::new(), "round {round}");
        let entries = all(&journal).await;
        known.check(&entries, round);
        let stats = journal.stats().await.unwrap();
        assert_eq!(stats.counts.live(), entries.len() as u64, "round {round}");
        engine.close().await;
    }
    assert!(known.ended.len() > 100, "the processes did some work");
    println!(
        "result: journal kill -9, {CLIENTS} clients: {rounds} rounds, {} adds and {} ends acknowledged, none lost, none came back",
        known.added.len(),
        known.ended.len()
    );
    drain(&folder).await;
}

async fn all(journal: &Journal) -> Vec<Entry<Data>> {
    let mut query = Query::all();
    let mut entries = Vec::new();
    loop {
        let page = journal.list(query.clone()).await.unwrap();
        entries.extend(page.entries);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return entries,
        }
    }
}

/// In the end everything can be taken and ended, and the files are given back.
async fn drain(folder: &Path) {
    let (engine, journal) = open(folder).await;
    loop {
        let claimed = journal.claim("last", 1_000).await.unwrap();
        if claimed.entries.is_empty() {
            if claimed.next_wake.is_none() {
                break;
            }
            Clock::real().sleep(Duration::from_millis(50)).await;
        }
        let tokens = claimed
            .entries
            .iter()
            .filter_map(|entry| entry.lease.as_ref());
        let done = Op::Done(tokens.map(|lease| lease.token).collect());
        journal.end_all(done).await.unwrap();
    }
    engine.close().await;
    let left = std::fs::read_dir(folder).unwrap();
    let logs = left.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".log")
    });
    assert_eq!(logs.count(), 0, "an empty journal has no segment in use");
}
