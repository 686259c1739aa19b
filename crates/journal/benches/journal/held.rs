//! A transaction that stays open keeps every deleted row in the tables; claims must not become slower for it.

use std::time::Duration;

use cannery_journal::{Journal, Op};
use cannery_runtime::Clock;

use crate::bench::Bench;
use crate::ours::{fill, tokens};
use crate::report::{Goal, Reference, Report, Row};
use crate::server::Sql;

const BATCH: u32 = 100;
const PARTS: usize = 10;

pub(crate) fn measure(bench: &Bench, report: &mut Report) {
    let server = bench.server();
    let journal = server.journal(bench);
    fill(bench, &journal, bench.effort.held);
    let holder = Sql::connect(&bench.runtime, server.url());
    // The first statement takes the snapshot that holds everything up.
    holder.run("begin isolation level repeatable read; select 1 from pg_class limit 1");
    let draining = bench
        .runtime
        .spawn(drain(journal.clone(), bench.clock.clone()));
    let claims = bench.runtime.block_on(draining).unwrap();
    holder.run("rollback");
    bench.runtime.block_on(journal.close());

    let means: Vec<f64> = (0..PARTS)
        .map(|part| {
            let (from, to) = (
                part * claims.len() / PARTS,
                (part + 1) * claims.len() / PARTS,
            );
            mean_ms(&claims[from..to])
        })
        .collect();
    for (part, mean) in means.iter().enumerate() {
        let name = format!("claim b100, transaction open, decile {}", part + 1);
        report.add(Row::new(name, "postgres", *mean, "ms"));
    }
    let (first, last) = (means[0], means[PARTS - 1]);
    let ratio = last / first;
    let row = Row::new("the same, last decile / first", "postgres", last, "ms").beside(Reference {
        name: "first decile",
        value: first,
        ratio,
        ratio_min: ratio,
        ratio_max: ratio,
    });
    report.add(row.goal(Some(Goal::AtMost(2.0))));
}

fn mean_ms(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / times.len() as f64
}

/// How long each claim took, until nothing was left.
async fn drain(journal: Journal, clock: Clock) -> Vec<Duration> {
    let mut times = Vec::new();
    loop {
        let start = clock.elapsed();
        let claimed = journal.claim("bench", BATCH).await.unwrap();
        let took = clock.since(start);
        let held = tokens(&claimed);
        if held.is_empty() {
            return times;
        }
        times.push(took);
        journal.end_all(Op::Done(held)).await.unwrap();
    }
}
