//! How long executions are kept.

use std::time::Duration;

use cannery_database::Error;
use jiff::Timestamp;

use super::query::{RESULT, TABLES};
use crate::state::State;

/// How long executions are kept, unless somebody says otherwise: 90 days.
pub const KEEP: Duration = Duration::from_secs(90 * 86_400);

/// So many rows are deleted by one statement: others can write in between.
const AT_ONCE: i64 = 2_000;

impl State {
    /// Forgets the executions that began before a moment, unless they run; and workers of which nothing is left. Says how
    /// many executions that were. Cut off half-way, it has forgotten some of them.
    ///
    /// # Errors
    /// By kind.
    pub async fn forget(&self, before: Timestamp) -> Result<u64, Error> {
        let sql = format!(
            "delete from execution where (session, number) in (select e.session, e.number from {TABLES} \
             where e.started_ms < $2 and {RESULT} <> 'running' limit $3)"
        );
        let (heard_since, before) = (self.heard_since_ms(), before.as_millisecond());
        let mut session = self.database.writer().await?;
        let mut forgotten = 0;
        loop {
            let params = vec![heard_since.into(), before.into(), AT_ONCE.into()];
            let deleted = session.execute(&sql, params).await?;
            forgotten += deleted;
            if deleted == 0 {
                break;
            }
        }
        let sql = "delete from session where heard_ms < $1 and heard_ms < $2 \
                   and not exists (select 1 from execution e where e.session = session.id)";
        let params = vec![heard_since.into(), before.into()];
        session.execute(sql, params).await?;
        Ok(forgotten)
    }
}
