//! How late a wake-up comes, and what waiting costs.

use std::time::Duration;

use cannery_journal::{Date, Journal};

use crate::bench::{Bench, entries};
use crate::fdatasync;
use crate::ours::tokens;
use crate::report::{Goal, Report, Row, quantile};

/// Between the add and the first date.
const AHEAD: Duration = Duration::from_secs(1);
/// A wake-up that never comes ends the bench and does not hang it.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn measure(bench: &Bench, report: &mut Report) {
    // A claim is durable before it is delivered.
    let syncs = fdatasync::times(bench, bench.effort.turn);
    show("one sync of the disk", "fdatasync", &syncs, None, report);
    let engine = bench.embedded(bench.folder());
    wake_ups(bench, &bench.journal(engine), "embedded", 10.0, report);
    let journal = bench.server().journal(bench);
    wake_ups(bench, &journal, "postgres", 30.0, report);
    idle(bench, report);
}

fn wake_ups(bench: &Bench, journal: &Journal, side: &'static str, most: f64, report: &mut Report) {
    let late = bench.runtime.block_on(async {
        let task = tokio::spawn(lateness(journal.clone(), bench.clock.clone(), dates(bench)));
        let late = bench.clock.timeout(LIMIT, task).await;
        journal.close().await;
        late.unwrap().unwrap()
    });
    show("wake-up, due to delivered", side, &late, Some(most), report);
}

fn show(name: &str, side: &'static str, times: &[f64], most: Option<f64>, report: &mut Report) {
    let parts = [("p50", 0.5, None), ("p99", 0.99, most), ("max", 1.0, None)];
    for (part_name, part, most) in parts {
        let value = quantile(times.iter().copied(), part);
        let row = Row::new(format!("{name}, {part_name}"), side, value, "ms");
        report.add(row.goal(most.map(Goal::AtMost)));
    }
}

/// Dates that lie scattered over a while.
fn dates(bench: &Bench) -> Vec<Date> {
    let spread = u64::try_from(bench.effort.wake_spread.as_millis()).unwrap();
    let start = Date::from(bench.clock.now()).plus(AHEAD);
    (0..bench.effort.wakes)
        .map(|_| start.plus(Duration::from_millis(bench.rng.below(spread))))
        .collect()
}

/// How many milliseconds after its date each entry was in the hands of a listener that does nothing but listen.
async fn lateness(journal: Journal, clock: cannery_runtime::Clock, dates: Vec<Date>) -> Vec<f64> {
    let mut new = entries(dates.len() as u64);
    for (entry, date) in new.iter_mut().zip(&dates) {
        entry.process_date = Some(*date);
    }
    for batch in new.chunks(500) {
        journal.add(batch.to_vec()).await.unwrap();
    }
    let mut wakes = journal.wakes();
    let mut late = Vec::new();
    let mut held = Vec::new();
    while late.len() < dates.len() {
        let claimed = journal.done_and_claim(held, "bench", 100).await.unwrap().1;
        let now = clock.now().as_nanosecond() as f64 / 1e6;
        late.extend(
            claimed
                .entries
                .iter()
                .map(|entry| now - entry.meta.process.as_millis() as f64),
        );
        held = tokens(&claimed);
        if held.is_empty() && late.len() < dates.len() {
            assert!(wakes.next().await, "the journal is open");
        }
    }
    late
}

/// How many transactions a second one open journal makes that nobody uses.
fn idle(bench: &Bench, report: &mut Report) {
    let (database, journal, name, sql) = bench.server().apart(bench);
    let transactions = || {
        let rows = sql.rows(&format!(
            "select xact_commit + xact_rollback from pg_stat_database where datname = '{name}'"
        ));
        rows[0].get::<_, i64>(0)
    };
    let wait = |pause| bench.runtime.block_on(bench.clock.sleep(pause));
    // The server's own housekeeping makes transactions, too.
    sql.run("alter system set autovacuum = off");
    sql.run("select pg_reload_conf()");
    wait(bench.effort.settling);
    let before = transactions();
    wait(bench.effort.idle);
    let made = (transactions() - before) as f64;
    sql.run("alter system reset autovacuum");
    sql.run("select pg_reload_conf()");
    let rate = made / bench.effort.idle.as_secs_f64();
    let row = Row::new("idle journal, transactions", "postgres", rate, "1/s");
    report.add(row.goal(Some(Goal::AtMost(1.0))));
    bench.runtime.block_on(async {
        journal.close().await;
        database.close().await;
    });
}
