//! Every kind of error, at every operation of the disk: once, until a request is refused, and for good.

use std::io;

use super::*;

const KINDS: [io::ErrorKind; 5] = [
    io::ErrorKind::StorageFull,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::Interrupted,
    io::ErrorKind::Other,
];

/// How long the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// One operation.
    Once,
    /// Until a request is refused; whoever asked makes room and asks again.
    UntilRefused,
    /// Until the journal is opened again.
    ForGood,
}

/// Which operation fails, and how.
#[derive(Clone, Copy, Debug)]
struct Fault {
    n: u64,
    kind: io::ErrorKind,
    after_the_effect: bool,
    span: Span,
}

impl Fault {
    /// Every kind of error, for every span, before the effect and after it; that is for a long run. By default a full disk
    /// once before the effect and once after it, and of the rest some, in turn.
    fn all_at(n: u64, long: bool) -> Vec<Self> {
        let all = KINDS.into_iter().flat_map(|kind| {
            let spans = [Span::Once, Span::UntilRefused, Span::ForGood];
            spans.into_iter().flat_map(move |span| {
                [false, true].map(|after_the_effect| Self {
                    n,
                    kind,
                    after_the_effect,
                    span,
                })
            })
        });
        let turn = usize::try_from(n).unwrap();
        let is_taken = |(place, _): &(usize, Self)| match place {
            _ if long => true,
            0 | 1 => true,
            // The spans of a full disk, each at one of its moments; and one of the other kinds.
            2..6 => place % 2 == turn % 2,
            place => place - 6 == turn % 24,
        };
        all.enumerate()
            .filter(is_taken)
            .map(|(_, fault)| fault)
            .collect()
    }

    fn plan(self, disk: &SimDisk) {
        match (self.span, self.after_the_effect) {
            (Span::Once, false) => disk.fail_at(self.n, self.kind),
            (Span::Once, true) => disk.fail_after(self.n, self.kind),
            (Span::UntilRefused | Span::ForGood, false) => disk.fail_from(self.n, self.kind),
            (Span::UntilRefused | Span::ForGood, true) => disk.fail_from_after(self.n, self.kind),
        }
    }
}

/// How many steps after the error the disk is looked at, as a power cut would leave it.
const LOOKS: usize = 2;

/// Lives until the journal closes itself or all is done. What is refused changes nothing, and is asked for again once the
/// disk is mended; what is acknowledged after the error is found after a power cut. Gives back how many steps were
/// acknowledged.
async fn live_on(disk: &SimDisk, keeping: Keeping, reference: &Reference, fault: Fault) -> usize {
    fault.plan(disk);
    let clock = clock();
    let Ok(life) = Life::begin(disk, keeping, &clock).await else {
        return 0;
    };
    let mut acknowledged = 0;
    let mut looks = 0;
    for (number, step) in reference.steps.iter().enumerate() {
        let mut taken = take(&life, step, number).await;
        if is_refusal(&taken) && fault.span != Span::ForGood {
            disk.clear_faults();
            // The time has passed already.
            let again = match step {
                Step::Pass(_) => &Step::Pass(0),
                step => step,
            };
            taken = take(&life, again, number).await;
            assert!(!is_refusal(&taken), "{fault:?}: {taken:?}");
        }
        if taken.is_err() {
            break;
        }
        acknowledged += 1;
        // What the step left to be freed is freed before the next one.
        drop(life.journal.stats().await);
        if disk.operations() >= fault.n && looks < LOOKS {
            looks += 1;
            let copy = disk.crash_copy(fault.n);
            let context = format!("{keeping:?}, {fault:?}, a copy after {acknowledged} steps");
            let clock = at_time(reference, acknowledged);
            let after = Life::begin(&copy, keeping, &clock).await.unwrap();
            let (seen, expected) = (view(&after).await, &reference.views[acknowledged]);
            assert!(
                seen == *expected,
                "{context}: {seen:#?}\ninstead of {expected:#?}"
            );
            after.engine.close().await;
        }
    }
    let is_over = disk.operations() >= fault.n && acknowledged == reference.steps.len();
    if is_over && fault.span != Span::ForGood {
        disk.clear_faults();
        check_files(disk, keeping, &life, &format!("{keeping:?}, {fault:?}")).await;
    }
    life.engine.close().await;
    acknowledged
}

/// What an error left behind does not stay for longer than the journal is in use.
async fn check_files(disk: &SimDisk, keeping: Keeping, life: &Life, context: &str) {
    if !life.entries().await.unwrap().is_empty() {
        return;
    }
    take(life, &Step::Pass(2_000), 0).await.unwrap();
    let names = disk.read_dir(Path::new("/journal")).unwrap().into_iter();
    let names = names.map(|entry| entry.name.into_string().unwrap());
    let files: Vec<_> = names
        .filter(|name| !name.contains("lock") && name != "journal.json")
        .collect();
    let may_stay = |name: &String| name == "spare" && keeping.on_empty != OnEmpty::Delete;
    assert!(files.iter().all(may_stay), "{context}: {files:?}");
}

fn is_refusal(taken: &Result<(), Error>) -> bool {
    matches!(taken, Err(error) if error.kind == ErrorKind::Full)
}

/// A journal becomes empty and is used again, over and over, in two files and in one; and it is empty when it is closed.
fn emptying() -> Vec<Step> {
    let add = |first, count, bytes| Step::Add {
        first,
        count,
        priority: 20,
        bytes,
    };
    let drain = [Step::Claim(100), Step::Done(usize::MAX)];
    let rest = Step::Pass(2_000);
    // More than half a segment: the next one is made ready.
    let mut steps = vec![add(0, 4, 2_500)];
    steps.extend(drain.clone());
    steps.extend([rest.clone(), add(4, 1, 100)]);
    steps.extend(drain.clone());
    steps.extend([rest.clone(), Step::Lease(7), rest, add(5, 1, 10)]);
    steps.extend(drain);
    steps
}

#[tokio::test]
async fn an_error_while_an_empty_journal_gives_its_files_back_loses_nothing() {
    let long = long_run();
    for keeping in KEEPINGS {
        let reference = undisturbed(keeping, emptying()).await;
        for n in FOLDER_OPERATIONS + 1..=reference.operations + 1 {
            for fault in Fault::all_at(n, long) {
                let context = format!("{keeping:?}, {fault:?}");
                let disk = disk();
                let acknowledged = live_on(&disk, keeping, &reference, fault).await;
                if let Some(goes_on) = goes_on(fault, &reference) {
                    let ended = acknowledged == reference.steps.len();
                    assert_eq!(ended, goes_on, "{context}: {}", disk.log().join("\n"));
                }
                reopened_then_cut(&disk, keeping, acknowledged, &reference, &context).await;
            }
        }
    }
}

/// Whether the journal stays open after an error that it meets while it gives its files back: a disk that was full for a
/// moment does not close it, a sync that failed does.
fn goes_on(fault: Fault, reference: &Reference) -> Option<bool> {
    let is_full = matches!(
        fault.kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    );
    let step = reference
        .operations_after
        .iter()
        .position(|after| fault.n <= *after)?;
    let is_resting = matches!(reference.steps[step], Step::Pass(_));
    if !is_full || !is_resting || fault.span != Span::Once {
        return None;
    }
    let operation = &reference.log[usize::try_from(fault.n).unwrap() - 1];
    Some(!operation.contains("sync folder"))
}

#[tokio::test]
async fn an_error_at_any_operation_closes_the_journal_or_changes_nothing() {
    let long = long_run();
    for (offset, keeping) in KEEPINGS.into_iter().enumerate() {
        let reference = reference(keeping, 6 + offset as u64, 90).await;
        for (turn, n) in points(reference.operations, offset).enumerate() {
            // All there are at one operation would be hours: the short history meets them.
            let faults = Fault::all_at(n, false).into_iter();
            let (first, stride) = if long { (0, 1) } else { (turn % 2, 2) };
            for fault in faults.skip(first).step_by(stride) {
                let disk = disk();
                let acknowledged = live_on(&disk, keeping, &reference, fault).await;
                let context = format!("{keeping:?}, {fault:?}");
                reopened_then_cut(&disk, keeping, acknowledged, &reference, &context).await;
            }
        }
    }
}

/// Opened again on the same disk without a power cut, the journal believes only what it can make durable now.
async fn reopened_then_cut(
    disk: &SimDisk,
    keeping: Keeping,
    acknowledged: usize,
    reference: &Reference,
    context: &str,
) {
    let clock = at_time(reference, acknowledged);
    // An error that was planned for after the end meets the opening; the next one succeeds.
    let opened = Life::begin(disk, keeping, &clock).await;
    disk.clear_faults();
    let life = match opened {
        Ok(life) => life,
        Err(_) => Life::begin(disk, keeping, &clock).await.unwrap(),
    };
    assert_eq!(
        life.engine.report().damaged,
        Vec::<String>::new(),
        "{context}"
    );
    let found = check(&life, acknowledged, reference, context).await;
    life.journal
        .add_one(NewEntry::new("later", Data::null()))
        .await
        .unwrap();
    let seen = view(&life).await;
    for seed in 0..2 {
        let context = format!("{context}, seen {found}, then cut with seed {seed}");
        let crashed = disk.crash_with(seed);
        let clock = at_time(reference, found);
        let after = Life::begin(&crashed, keeping, &clock).await.unwrap();
        assert!(
            view(&after).await == seen,
            "{context}: {:?}\n{}",
            after.engine.report(),
            disk.log().join("\n")
        );
        after.engine.close().await;
    }
    life.engine.close().await;
}

/// After a sync that failed the journal is opened again, and the power is cut while that goes on.
#[tokio::test]
async fn a_power_cut_while_it_is_opened_after_a_failed_sync_loses_nothing() {
    let long = long_run();
    for keeping in KEEPINGS {
        let reference = undisturbed(keeping, emptying()).await;
        let syncs = (1..)
            .zip(&reference.log)
            .filter(|(n, operation)| *n > FOLDER_OPERATIONS && operation.contains("sync"));
        for (n, operation) in syncs {
            let (first, stride) = if long { (1, 1) } else { (1 + n % 3, 3) };
            for later in (first..).step_by(stride) {
                let fault = Fault {
                    n,
                    kind: io::ErrorKind::Other,
                    after_the_effect: false,
                    span: Span::Once,
                };
                let disk = disk();
                let acknowledged = live_on(&disk, keeping, &reference, fault).await;
                disk.power_off_at(disk.operations() + later);
                let clock = at_time(&reference, acknowledged);
                let opened = Life::begin(&disk, keeping, &clock).await;
                let is_cut = opened.is_err();
                if let Ok(life) = opened {
                    life.engine.close().await;
                }
                let context = format!("{keeping:?}, failed: {operation}, power off {later} later");
                for seed in 0..2 {
                    let left = disk.crash_with(seed);
                    after_crash(&left, keeping, acknowledged, &reference, &context).await;
                }
                if !is_cut {
                    break;
                }
            }
        }
    }
}
