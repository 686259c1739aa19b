//! The engine on the local disk: the contract, its files, and damage to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::embedded::{Embedded, Layout, Pace, Place};
use cannery_journal::{
    Data, Date, Declaration, Engine, Entry, Error, ErrorKind, Health, Journal, Key, NewEntry,
    OnEmpty, Op, Period, Query, Status,
};
use cannery_runtime::disk::{self, Open};
use cannery_runtime::{Disk, Rng};
use cannery_testkit::sim_disk::SimDisk;

use crate::hand_clock::HandClock;
use crate::model::Cases;
use crate::subject::{Subject, simulated};

mod full_disk;

/// With its timer, on the simulated clock, in files of the usual size.
pub(crate) async fn open(declaration: Declaration) -> Subject {
    open_in(Layout::default(), declaration).await
}

/// In files so small that random histories fill and free many.
async fn open_small(declaration: Declaration) -> Subject {
    let layout = Layout {
        segment_bytes: 64 * 1024,
        pace: Pace::Free,
    };
    open_in(layout, declaration).await
}

async fn open_in(layout: Layout, declaration: Declaration) -> Subject {
    let simulated = simulated();
    let place = Place {
        disk: Arc::new(SimDisk::new(1)),
        dir: PathBuf::from("/journal"),
        owner: "test".to_owned(),
        clock: simulated.clock(),
        rng: Rng::seeded(7),
    };
    let engine = Embedded::open_with(place, Some(declaration), layout)
        .await
        .unwrap();
    Subject::new(engine, simulated).sweeping_itself()
}

crate::conformance::suite!(open);
crate::conformance::alarms!(open_small);
crate::model::suite!(open_small, Cases::MANY);

const DIR: &str = "/journal";
const SEGMENT_BYTES: u64 = 16 * 1024;

/// A journal with small files whose time a hand moves.
struct Small {
    disk: SimDisk,
    clock: HandClock,
    journal: Journal,
    engine: Arc<Embedded>,
}

impl Small {
    async fn open(disk: &SimDisk, clock: &HandClock, declaration: Declaration) -> Self {
        Self::try_open(disk, clock, Some(declaration))
            .await
            .unwrap()
    }

    async fn try_open(
        disk: &SimDisk,
        clock: &HandClock,
        declaration: Option<Declaration>,
    ) -> Result<Self, Error> {
        let place = Place {
            disk: Arc::new(disk.clone()),
            dir: PathBuf::from(DIR),
            owner: "the first".to_owned(),
            clock: clock.clock(),
            rng: Rng::from_os(),
        };
        let layout = Layout {
            segment_bytes: SEGMENT_BYTES,
            pace: Pace::Stepwise,
        };
        let engine = Embedded::open_with(place, declaration, layout).await?;
        Ok(Self {
            disk: disk.clone(),
            clock: clock.clone(),
            journal: Journal::new("small", engine.clone()),
            engine,
        })
    }

    async fn new(declaration: Declaration) -> Self {
        Self::open(&SimDisk::new(1), &clock(), declaration).await
    }

    async fn reopen(self) -> Self {
        self.engine.close().await;
        Self::try_open(&self.disk, &self.clock, None).await.unwrap()
    }

    async fn put(&self, key: &str) {
        let data = Data::from_value(&format!("{key} {}", "x".repeat(1_000))).unwrap();
        self.journal
            .add_one(NewEntry::new(key, data))
            .await
            .unwrap();
    }

    async fn fill(&self, keys: std::ops::Range<u64>) {
        for key in keys {
            self.put(&format!("key-{key:04}")).await;
        }
    }

    /// Takes and ends everything that is due.
    async fn drain(&self) {
        let claimed = self.journal.claim("worker", 1_000).await.unwrap();
        let tokens = claimed
            .entries
            .iter()
            .filter_map(|entry| entry.lease.as_ref());
        let done = Op::Done(tokens.map(|lease| lease.token).collect());
        self.journal.end_all(done).await.unwrap();
    }

    async fn rest(&self) {
        self.clock.jump(Duration::from_secs(2));
        self.journal.sweep().await.unwrap();
    }

    async fn keys(&self) -> Vec<String> {
        let page = self.journal.list(Query::all()).await.unwrap();
        page.entries
            .iter()
            .map(|entry| entry.key.to_string())
            .collect()
    }

    fn files(&self) -> Vec<(String, u64)> {
        let disk = &self.disk;
        let mut files: Vec<_> = disk
            .read_dir(Path::new(DIR))
            .unwrap()
            .into_iter()
            .map(|entry| entry.name.into_string().unwrap())
            .filter(|name| !name.contains("lock") && name != "journal.json")
            .map(|name| {
                let length = disk.metadata(&Path::new(DIR).join(&name)).unwrap().len;
                (name, length)
            })
            .collect();
        files.sort();
        files
    }

    /// The segments, once what the last call left to be freed is freed: that happens after its answer, before the next.
    /// A closed journal has nothing left to do.
    async fn segments(&self) -> Vec<String> {
        drop(self.journal.stats().await);
        let names = self.files().into_iter().map(|(name, _)| name);
        names.filter(|name| name.ends_with(".log")).collect()
    }
}

fn clock() -> HandClock {
    HandClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn plain() -> Declaration {
    Declaration {
        period: Period::None,
        ..Declaration::default()
    }
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let small = Small::new(plain()).await;
    small.fill(0..40).await;
    let claimed = small.journal.claim("worker", 3).await.unwrap();
    let token = claimed.entries[0].lease.clone().unwrap().token;
    let before = small.journal.list(Query::all()).await.unwrap();
    let small = small.reopen().await;
    assert_eq!(small.journal.list(Query::all()).await.unwrap(), before);
    // A lease outlives the process that gave it.
    small.journal.done(token).await.unwrap();
    let again = small.journal.claim("worker", 1).await.unwrap();
    let later = again.entries[0].lease.clone().unwrap().token;
    assert!(
        later.incarnation > token.incarnation,
        "no token ever comes back"
    );
}

#[tokio::test]
async fn a_second_process_is_told_who_has_it() {
    let small = Small::new(plain()).await;
    let second = Small::try_open(&small.disk, &small.clock, None).await;
    let error = second.err().unwrap();
    assert_eq!(error.kind, ErrorKind::Locked);
    assert!(error.message.contains("the first"), "{error}");
}

#[tokio::test]
async fn without_a_declaration_a_journal_must_be_there() {
    let opened = Small::try_open(&SimDisk::new(1), &clock(), None).await;
    assert_eq!(opened.err().unwrap().kind, ErrorKind::Unknown);
}

#[tokio::test]
async fn an_empty_journal_gives_its_files_back_in_three_ways() {
    for (on_empty, left) in [
        (OnEmpty::Delete, vec![]),
        (OnEmpty::Reset, vec![("spare".to_owned(), SEGMENT_BYTES)]),
        (OnEmpty::Truncate, vec![("spare".to_owned(), 4_096)]),
    ] {
        let small = Small::new(Declaration {
            on_empty,
            ..plain()
        })
        .await;
        small.fill(0..60).await;
        assert!(small.segments().await.len() > 3);
        let before = small.journal.stats().await.unwrap().counts;
        small.drain().await;
        small.rest().await;
        assert_eq!(small.files(), left, "{on_empty:?}");
        // It is used again, and remembers what it has counted.
        small.fill(0..1).await;
        let small = small.reopen().await;
        let counts = small.journal.stats().await.unwrap().counts;
        assert_eq!(
            (before.adds, counts.adds, counts.done),
            (60, 61, 60),
            "{on_empty:?}"
        );
        assert_eq!(small.keys().await, ["key-0000"]);
    }
}

#[tokio::test]
async fn wiped_files_hold_nothing_of_what_was_freed() {
    for wipe in [true, false] {
        let small = Small::new(Declaration { wipe, ..plain() }).await;
        small.put("secret-key").await;
        small.drain().await;
        small.rest().await;
        let path = Path::new(DIR).join("spare");
        let bytes = disk::read(&small.disk, &path, 1 << 20).unwrap();
        let found = bytes.windows(10).any(|part| part == b"secret-key");
        assert_eq!(found, !wipe, "the test looks at the right place");
    }
}

#[tokio::test]
async fn a_new_period_takes_new_files_and_the_old_ones_only_drain() {
    let hourly = Declaration {
        period: Period::Hour,
        ..plain()
    };
    let small = Small::new(hourly).await;
    small.put("old").await;
    let old = small.segments().await;
    small.clock.jump(Duration::from_secs(3_600));
    small.put("new").await;
    let both = small.segments().await;
    assert_eq!(both.len(), 2, "the period rolled over");
    assert!(both.starts_with(&old));
    // The same key again: it is merged, and lives in the new files from now on.
    small.put("old").await;
    assert_eq!(small.segments().await.len(), 1, "what is empty is given up");
    assert!(!small.segments().await.contains(&old[0]));
    small.clock.jump(Duration::from_secs(3_600));
    small.put("third").await;
    let claimed = small.journal.claim("worker", 2).await.unwrap();
    assert_eq!(claimed.entries.len(), 2);
    for entry in claimed.entries {
        assert_eq!(small.segments().await.len(), 2, "still draining");
        small
            .journal
            .done(entry.lease.unwrap().token)
            .await
            .unwrap();
    }
    assert_eq!(small.segments().await.len(), 1, "drained");
    assert_eq!(small.keys().await, ["third"]);
}

#[tokio::test]
async fn a_claim_whose_caller_has_gone_is_given_back() {
    let small = loop {
        let small = Small::new(plain()).await;
        small.put("a").await;
        let claim = Op::Claim {
            worker: "gone".to_owned(),
            count: 1,
        };
        // Asked, and not waited for: on a busy machine the answer may be there already, and then nobody has gone.
        if futures::poll!(&mut small.engine.call(claim)).is_pending() {
            break small;
        }
    };
    // Both would be answered in one commit; this waits for the first.
    small.journal.stats().await.unwrap();
    let claimed = small.journal.claim("there", 1).await.unwrap();
    assert_eq!(claimed.entries.len(), 1, "no lease has to run out first");
    let entry = &claimed.entries[0];
    assert_eq!(entry.meta.strikes, 0, "without blame");
}

/// What moved under a new declaration is still of its own, also after the restart.
#[tokio::test]
async fn an_entry_keeps_its_declaration_when_it_moves() {
    let lease = |seconds| Declaration {
        lease: Duration::from_secs(seconds),
        ..plain()
    };
    let small = Small::new(lease(60)).await;
    let later = Date::from(small.clock.clock().now()).plus(Duration::from_secs(3_600));
    let moves = NewEntry {
        process_date: Some(later),
        ..NewEntry::new("moves", Data::null())
    };
    small.journal.add_one(moves).await.unwrap();
    let first = small.segments().await[0].clone();
    small.journal.declare(lease(10)).await.unwrap();
    for _ in 0..10 {
        small.fill(0..30).await;
        small.drain().await;
    }
    assert!(!small.segments().await.contains(&first), "it moved");
    small.clock.jump(Duration::from_secs(3_600));
    let claimed = small.journal.claim("worker", 1).await.unwrap();
    let token = claimed.entries[0].lease.clone().unwrap().token;
    let until = claimed.entries[0].deadline;
    // Another segment begins with both declarations.
    small.fill(0..20).await;
    let small = small.reopen().await;
    let key = Key::new("moves").unwrap();
    let entry = &small.journal.get(key).await.unwrap()[0];
    assert_eq!(entry.deadline, until, "its own lease");
    small.clock.jump(Duration::from_secs(20));
    small.journal.done(token).await.unwrap();
    small.clock.jump(Duration::from_secs(100));
    small.journal.sweep().await.unwrap();
    assert_eq!(small.keys().await.len(), 20);
}

#[tokio::test]
async fn who_only_looks_wakes_nobody() {
    let small = Small::new(plain()).await;
    small.put("due").await;
    let mut wakes = small.journal.wakes();
    small.journal.stats().await.unwrap();
    small.keys().await;
    assert!(futures::poll!(std::pin::pin!(wakes.next())).is_pending());
    small.put("another").await;
    assert!(futures::poll!(std::pin::pin!(wakes.next())).is_ready());
}

#[tokio::test]
async fn a_clock_that_was_wrong_is_right_again_at_once() {
    let small = Small::new(plain()).await;
    let now = || Date::from(small.clock.clock().now());
    let before = small.journal.now();
    small.clock.jump_back(Duration::from_secs(1));
    assert_eq!(small.journal.now(), before, "adds keep their order");
    small.clock.jump_back(Duration::from_secs(3_600));
    assert_eq!(small.journal.now(), now());
}

/// Somebody removes or moves the folder of a journal that is open: nothing is acknowledged that would be lost.
#[tokio::test]
async fn a_folder_that_was_replaced_closes_the_journal() {
    let small = Small::new(plain()).await;
    small.put("before").await;
    small
        .disk
        .rename(Path::new(DIR), Path::new("/elsewhere"))
        .unwrap();
    let entry = NewEntry::new("after", Data::null());
    let error = small.journal.add_one(entry).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Closed);
    assert!(error.message.contains("replaced"), "{error}");
}

#[tokio::test]
async fn what_stays_is_moved_so_that_files_are_freed() {
    let small = Small::new(plain()).await;
    let far = Date::from(small.clock.clock().now()).plus(Duration::from_secs(86_400));
    let stays = NewEntry {
        process_date: Some(far),
        ..NewEntry::new("stays", Data::null())
    };
    small.journal.add_one(stays).await.unwrap();
    let first = small.segments().await[0].clone();
    for _ in 0..10 {
        small.fill(0..30).await;
        small.drain().await;
    }
    assert!(
        small.segments().await.len() <= 6,
        "{:?}",
        small.segments().await
    );
    assert!(
        !small.segments().await.contains(&first),
        "the first segment was freed"
    );
    let small = small.reopen().await;
    assert_eq!(small.keys().await, ["stays"]);
    assert_eq!(small.engine.report().damaged, Vec::<String>::new());
}

/// A file with one bit changed.
fn flip(disk: &SimDisk, name: &str, byte: u64) {
    let file = disk
        .open(&Path::new(DIR).join(name), Open::ReadWrite)
        .unwrap();
    let mut content = [0];
    file.read_at(byte, &mut content).unwrap();
    content[0] ^= 0x10;
    file.write_all_at(byte, &content).unwrap();
    file.sync().unwrap();
}

async fn entries(small: &Small) -> Vec<Entry<Data>> {
    small.journal.list(Query::all()).await.unwrap().entries
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_reported_and_the_rest_is_saved() {
    // Every batch holds one entry and begins at a multiple of 512: where a bit is flipped says which one is lost.
    let places: Vec<u64> = (0..40)
        .chain((4_096..4_096 + 1_600).step_by(64))
        .chain((4_096..SEGMENT_BYTES).step_by(900))
        .collect();
    for segment in 0..3 {
        for byte in &places {
            let small = Small::new(plain()).await;
            small.fill(0..25).await;
            let whole = entries(&small).await;
            small.engine.close().await;
            let names = small.segments().await;
            assert!(names.len() >= 3);
            flip(&small.disk, &names[segment], *byte);
            check_damage(small, &names[segment], *byte, &whole).await;
        }
    }
}

async fn check_damage(small: Small, name: &str, byte: u64, whole: &[Entry<Data>]) {
    let context = format!("byte {byte} of {name}");
    let small = Small::try_open(&small.disk, &small.clock, None)
        .await
        .unwrap();
    let report = small.engine.report().clone();
    let saved = entries(&small).await;
    let lost = whole.len() - saved.len();
    assert!(lost <= 1, "{context}: {lost} entries are lost: {report:?}");
    for entry in &saved {
        assert!(whole.contains(entry), "{context}: {entry:?}");
    }
    let stats = small.journal.stats().await.unwrap();
    assert_eq!(stats.counts.live(), saved.len() as u64, "{context}");
    if lost == 1 {
        assert!(
            !report.damaged.is_empty() || report.torn.is_some(),
            "{context}"
        );
    }
    if report.damaged.is_empty() {
        return;
    }
    assert!(
        matches!(small.engine.health(), Health::Warn(_)),
        "{context}"
    );
    assert_eq!(stats.counts.lost, lost as u64, "{context}");
    let kept = Path::new(DIR).join("damaged").join(name);
    assert!(small.disk.metadata(&kept).is_ok(), "{context}: set aside");
    // What was saved is written again: the damaged file is not needed any more.
    small.put("one more").await;
    assert!(
        !small.segments().await.contains(&name.to_owned()),
        "{context}: {:?}",
        small.segments().await
    );
    let again = small.reopen().await;
    assert_eq!(
        again.engine.report().damaged,
        Vec::<String>::new(),
        "{context}"
    );
    assert_eq!(entries(&again).await.len(), saved.len() + 1, "{context}");
}

#[tokio::test]
async fn a_segment_that_was_cut_behind_its_last_commit_is_whole() {
    let small = Small::new(plain()).await;
    small.fill(0..2).await;
    small.engine.close().await;
    let path = Path::new(DIR).join(&small.segments().await[0]);
    let bytes = disk::read(&small.disk, &path, 1 << 20).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let file = small.disk.open(&path, Open::ReadWrite).unwrap();
    file.set_len(last as u64 + 1).unwrap();
    let small = Small::try_open(&small.disk, &small.clock, None)
        .await
        .unwrap();
    small.put("third").await;
    let small = small.reopen().await;
    assert_eq!(small.keys().await, ["key-0000", "key-0001", "third"]);
    assert_eq!(small.engine.report().damaged, Vec::<String>::new());
}

#[tokio::test]
async fn data_that_rots_while_the_journal_is_open_is_not_handed_out() {
    let small = Small::new(plain()).await;
    small.fill(0..3).await;
    let segment = small.segments().await[0].clone();
    flip(&small.disk, &segment, 4_096 + 600);
    let claimed = small.journal.claim("worker", 3).await.unwrap();
    assert_eq!(claimed.entries.len(), 2, "the damaged one is withheld");
    let all = entries(&small).await;
    let dead: Vec<_> = all
        .iter()
        .filter(|entry| entry.status == Status::Dead)
        .collect();
    assert_eq!(dead.len(), 1);
    let reason = &dead[0].death.as_ref().unwrap().reason;
    assert!(reason.contains("damaged"), "{reason}");
    assert!(matches!(small.engine.health(), Health::Warn(_)));
}

#[tokio::test]
async fn a_damaged_description_is_set_aside_and_the_log_knows_the_rest() {
    let small = Small::new(Declaration {
        timeouts_max: 3,
        ..plain()
    })
    .await;
    small.fill(0..5).await;
    let before = entries(&small).await;
    small.engine.close().await;
    flip(&small.disk, "journal.json", 0);
    let small = Small::try_open(&small.disk, &small.clock, None)
        .await
        .unwrap();
    assert_eq!(entries(&small).await, before);
    assert_eq!(small.journal.declaration().timeouts_max, 3);
    assert_eq!(small.engine.report().damaged.len(), 1);
    assert!(
        small
            .disk
            .metadata(Path::new("/journal/damaged/journal.json"))
            .is_ok()
    );
}

#[tokio::test]
async fn files_of_a_later_version_are_refused_and_left_alone() {
    let small = Small::new(plain()).await;
    small.fill(0..1).await;
    small.engine.close().await;
    let path = Path::new("/journal/journal.json");
    let text = String::from_utf8(disk::read(&small.disk, path, 1 << 20).unwrap()).unwrap();
    let later = text.replace("\"format\": 1", "\"format\": 2");
    assert_ne!(text, later);
    disk::write_durably(&small.disk, path, later.as_bytes()).unwrap();
    let error = Small::try_open(&small.disk, &small.clock, None)
        .await
        .err()
        .unwrap();
    assert!(error.message.contains("later version"), "{error}");
    assert_eq!(
        disk::read(&small.disk, path, 1 << 20).unwrap(),
        later.as_bytes()
    );
}

#[tokio::test]
async fn what_is_not_ours_in_the_folder_is_left_alone() {
    let small = Small::new(plain()).await;
    small.fill(0..1).await;
    small.engine.close().await;
    let path = Path::new("/journal/notes.txt");
    disk::write_durably(&small.disk, path, b"mine").unwrap();
    let small = Small::try_open(&small.disk, &small.clock, None)
        .await
        .unwrap();
    small.drain().await;
    small.rest().await;
    assert_eq!(disk::read(&small.disk, path, 10).unwrap(), b"mine");
}

#[tokio::test]
async fn compaction_ends_where_keys_are_longer_than_data() {
    let small = Small::new(plain()).await;
    for number in 0..60 {
        let key = format!("{number}-{}", "k".repeat(3_000));
        let entry = NewEntry::new(key, Data::null());
        small.journal.add_one(entry).await.unwrap();
    }
    assert!(small.segments().await.len() > 8);
    assert_eq!(small.keys().await.len(), 60);
}

#[tokio::test]
async fn what_is_read_while_it_ends_is_read_whole() {
    let small = Small::new(plain()).await;
    for number in 0..150 {
        let key = format!("key-{number}");
        small.put(&key).await;
        let claimed = small.journal.claim("worker", 1).await.unwrap();
        let token = claimed.entries[0].lease.clone().unwrap().token;
        let (read, done) = tokio::join!(
            small.journal.get(Key::new(key).unwrap()),
            small.journal.done(token)
        );
        done.unwrap();
        for entry in read.unwrap() {
            assert_ne!(entry.data, Data::null());
        }
    }
    assert_eq!(small.engine.health(), Health::Good);
}

#[tokio::test]
async fn a_full_disk_can_be_drained() {
    let small = Small::new(plain()).await;
    small.disk.set_capacity(8 * SEGMENT_BYTES);
    let mut added = 0;
    let error = loop {
        let data = Data::from_value(&"x".repeat(500)).unwrap();
        match small
            .journal
            .add_one(NewEntry::new(format!("key-{added}"), data))
            .await
        {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
        assert!(added < 10_000, "the disk is never full");
    };
    assert_eq!(error.kind, ErrorKind::Full);
    let mut drained = 0;
    while drained < added {
        let claimed = small.journal.claim("worker", 12).await.unwrap();
        drained += claimed.entries.len();
        let tokens = claimed
            .entries
            .iter()
            .filter_map(|entry| entry.lease.as_ref());
        let done = Op::Done(tokens.map(|lease| lease.token).collect());
        small.journal.end_all(done).await.unwrap();
    }
    small.rest().await;
    small.put("there is room again").await;
}

#[tokio::test]
async fn a_page_is_bounded_by_its_bytes() {
    let subject = open(Declaration::default()).await;
    let data = Data::from_value(&"x".repeat(1_000_000)).unwrap();
    for number in 0..12 {
        let entry = NewEntry::new(format!("key-{number}"), data.clone());
        subject.add_one(entry).await.unwrap();
    }
    let page = subject.list(Query::all()).await.unwrap();
    assert!(page.entries.len() < 12 && page.next.is_some());
    assert_eq!(subject.all(Query::all()).await.len(), 12);
}
