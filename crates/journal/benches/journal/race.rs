//! The comparisons: every side has its turn in every round.

use crate::beanstalkd::Beanstalk;
use crate::bench::Bench;
use crate::fdatasync::Fdatasync;
use crate::ours::{OnDisk, OnServer};
use crate::pgbench::Pgbench;
use crate::report::{Goal, Reference, Report, Row, median};
use crate::sqlite::{Grouped, Plain};
use crate::work::{Contestant, Kind, Side, Work};

const WORKS: [Work; 11] = [
    Work::new(Kind::Put, 1, 1),
    Work::new(Kind::Put, 100, 1),
    Work::new(Kind::DoneAndClaim, 1, 1),
    Work::new(Kind::DoneAndClaim, 10, 1),
    Work::new(Kind::DoneAndClaim, 100, 1),
    Work::new(Kind::DoneAndClaim, 100, 8),
    Work::new(Kind::ClaimThenDone, 1, 1),
    Work::new(Kind::ClaimThenDone, 10, 1),
    Work::new(Kind::ClaimThenDone, 100, 1),
    Work::new(Kind::ClaimThenDone, 100, 8),
    Work::new(Kind::Cycle, 1, 64),
];

/// What was promised: ours, the reference, and the ratio.
fn goal(work: Work, ours: &str, reference: &str) -> Option<Goal> {
    let Work {
        kind,
        batch,
        clients,
    } = work;
    match (ours, reference, kind, batch, clients) {
        ("embedded", "fdatasync", Kind::Put, 1, 1) => Some(Goal::AtLeast(0.7)),
        ("embedded", "sqlite", Kind::Put | Kind::DoneAndClaim, 100, 1) => Some(Goal::AtLeast(5.0)),
        ("embedded", "sqlite" | "sqlite, grouped", Kind::Cycle, ..) => Some(Goal::AtLeast(2.0)),
        ("embedded", "beanstalkd", Kind::Cycle, ..) => Some(Goal::AtLeast(8.0)),
        ("postgres", "pgbench", ..) => Some(Goal::AtLeast(0.6)),
        _ => None,
    }
}

pub(crate) fn run(bench: &Bench, report: &mut Report) {
    let all: [Box<dyn Contestant + '_>; 7] = [
        Box::new(OnDisk(bench)),
        Box::new(OnServer(bench)),
        Box::new(Plain(bench)),
        Box::new(Grouped(bench)),
        Box::new(Beanstalk(bench)),
        Box::new(Pgbench(bench)),
        Box::new(Fdatasync(bench)),
    ];
    let wanted = |side: &dyn Contestant| match side.name() {
        "fdatasync" => bench.wants("embedded"),
        "sqlite, grouped" => bench.wants("sqlite"),
        name => bench.wants(name),
    };
    for work in WORKS {
        let sides: Vec<&dyn Contestant> = all
            .iter()
            .map(AsRef::as_ref)
            .filter(|side| wanted(*side) && side.can(work))
            .collect();
        let rates = race(bench, work, &sides);
        show(work, &rates, report);
    }
}

/// The rates of a side, one for each round.
struct Rates {
    side: &'static str,
    rates: Vec<f64>,
}

fn race(bench: &Bench, work: Work, sides: &[&dyn Contestant]) -> Vec<Rates> {
    let mut open: Vec<(&dyn Contestant, Box<dyn Side + '_>)> =
        sides.iter().map(|side| (*side, side.open())).collect();
    let mut all: Vec<Rates> = open
        .iter()
        .map(|(side, _)| Rates {
            side: side.name(),
            rates: Vec::new(),
        })
        .collect();
    for round in 0..=bench.effort.rounds {
        for ((contestant, side), rates) in open.iter_mut().zip(&mut all) {
            let rate = turn(bench, work, *contestant, side.as_mut());
            // The first round only warms up.
            if round > 0 {
                rates.rates.push(rate);
            }
        }
    }
    all
}

fn turn(bench: &Bench, work: Work, contestant: &dyn Contestant, side: &mut dyn Side) -> f64 {
    if work.drains() {
        let wanted = contestant.pace(work)
            * u64::try_from(bench.effort.turn.as_millis()).unwrap_or(u64::MAX)
            / 1_000;
        side.fill(wanted.saturating_sub(side.waiting()));
    }
    side.rate(work, bench.effort.turn)
}

fn show(work: Work, all: &[Rates], report: &mut Report) {
    let is_ours = |rates: &&Rates| ["embedded", "postgres"].contains(&rates.side);
    let unit = if work.kind == Kind::Cycle {
        "cycles/s"
    } else {
        "rows/s"
    };
    for ours in all.iter().filter(is_ours) {
        let references = all
            .iter()
            .filter(|rates| !is_ours(rates) && belongs(ours.side, rates.side));
        let mut rows: Vec<Row> = references
            .map(|reference| {
                Row::new(work.name(), ours.side, median(ours.rates.clone()), unit)
                    .beside(compare(ours, reference))
                    .goal(goal(work, ours.side, reference.side))
            })
            .collect();
        if rows.is_empty() {
            rows.push(Row::new(
                work.name(),
                ours.side,
                median(ours.rates.clone()),
                unit,
            ));
        }
        rows.into_iter().for_each(|row| report.add(row));
    }
    if !all.iter().any(|rates| is_ours(&rates)) {
        for rates in all {
            report.add(Row::new(
                work.name(),
                rates.side,
                median(rates.rates.clone()),
                unit,
            ));
        }
    }
}

/// The limit of the disk is for the engine on the disk, pgbench for the one that speaks the same SQL.
fn belongs(ours: &str, reference: &str) -> bool {
    match reference {
        "fdatasync" => ours == "embedded",
        "pgbench" => ours == "postgres",
        _ => true,
    }
}

fn compare(ours: &Rates, reference: &Rates) -> Reference {
    let ratios: Vec<f64> = ours
        .rates
        .iter()
        .zip(&reference.rates)
        .map(|(ours, reference)| ours / reference)
        .collect();
    Reference {
        name: reference.side,
        value: median(reference.rates.clone()),
        ratio: median(ratios.clone()),
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
    }
}
