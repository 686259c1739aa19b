//! What the executions of a stage come to.

use cannery_database::{Error, Row};
use serde::Serialize;

use super::Outcome;
use super::query::{Asked, Filter, RESULT, TABLES};
use crate::state::State;

/// The executions of one stage, counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageSummary {
    /// Which stage.
    pub stage: String,
    /// All of them.
    pub executions: u64,
    /// Those that run.
    pub running: u64,
    /// Those that ended well.
    pub done: u64,
    /// Those that were put off, because others were in trouble.
    pub put_off: u64,
    /// Those that went wrong and were tried again.
    pub retried: u64,
    /// Those that went wrong for good.
    pub failed: u64,
    /// Those whose lease or worker was lost.
    pub lost: u64,
    /// Those that were cut off.
    pub cut_off: u64,
    /// Of those that ended well, half took so long at most, in milliseconds.
    pub p50_ms: Option<u64>,
    /// Of those that ended well, 95 of a hundred took so long at most, in milliseconds.
    pub p95_ms: Option<u64>,
    /// Bytes that all of them read.
    pub bytes_in: u64,
    /// Bytes that all of them wrote.
    pub bytes_out: u64,
}

impl State {
    /// What the executions come to that the filter lets through, stage by stage in the order of names. `since` and `until`
    /// of the filter are the period.
    ///
    /// # Errors
    /// By kind.
    pub async fn summary(&self, filter: &Filter) -> Result<Vec<StageSummary>, Error> {
        let asked = Asked::of(filter, self.heard_since_ms());
        let counts = Outcome::ALL.map(|outcome| {
            let name = outcome.name();
            format!("sum(case when x.outcome = '{name}' then 1 else 0 end)")
        });
        // A clock that was set back must not make an execution take less than nothing.
        let sql = format!(
            "with x as (select e.stage, {RESULT} as outcome, e.bytes_in, e.bytes_out, \
             case when e.ended_ms > e.started_ms then e.ended_ms - e.started_ms else 0 end as took \
             from {TABLES} where {}), \
             ranked as (select stage, took, row_number() over (partition by stage order by took) as place, \
             count(*) over (partition by stage) as many from x where outcome = 'done') \
             select x.stage, count(*), {}, \
             cast(sum(x.bytes_in) as bigint), cast(sum(x.bytes_out) as bigint), {}, {} \
             from x group by x.stage order by x.stage",
            asked.conditions(),
            counts.join(", "),
            percentile(50),
            percentile(95),
        );
        let mut session = self.database.reader().await?;
        let rows = session.query(&sql, asked.params).await?;
        rows.iter().map(summary).collect()
    }
}

/// The smallest duration that so many of a hundred do not exceed.
fn percentile(percent: u8) -> String {
    format!(
        "(select max(r.took) from ranked r where r.stage = x.stage and r.place = (r.many * {percent} + 99) / 100)"
    )
}

fn summary(row: &Row) -> Result<StageSummary, Error> {
    let maybe = |at| match row.maybe_int(at) {
        Ok(Some(_)) => row.size(at).map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    Ok(StageSummary {
        stage: row.text(0)?,
        executions: row.size(1)?,
        running: row.size(2)?,
        done: row.size(3)?,
        put_off: row.size(4)?,
        retried: row.size(5)?,
        failed: row.size(6)?,
        lost: row.size(7)?,
        cut_off: row.size(8)?,
        bytes_in: row.size(9)?,
        bytes_out: row.size(10)?,
        p50_ms: maybe(11)?,
        p95_ms: maybe(12)?,
    })
}
