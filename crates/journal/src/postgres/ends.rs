//! Ending leases well, and hearing of those who hold them.

use std::collections::{HashMap, HashSet};

use tokio::sync::oneshot;

use super::Fault;
use super::add::{first_date, places};
use super::journal::PgJournal;
use super::row::{self, Tokens};
use crate::date::Date;
use crate::op::{Beat, Fate};
use crate::token::Token;

/// A few leases that end well, together with those of others.
#[derive(Debug)]
pub(super) struct EndCall {
    tokens: Vec<Token>,
    answer: oneshot::Sender<Result<Vec<Fate>, Fault>>,
}

/// As many tokens end in one statement.
const TOGETHER: usize = 256;

impl PgJournal {
    pub(super) async fn done(&self, tokens: &[Token]) -> Result<Vec<Fate>, Fault> {
        let (answer, answered) = oneshot::channel();
        let journal = self.me()?;
        let tokens = tokens.to_vec();
        if self.ends.bring(EndCall { tokens, answer }) {
            tokio::spawn(async move { journal.serve_ends().await });
        }
        answered.await.unwrap_or_else(|_| Err(Fault::unanswered()))
    }

    /// Ends leases until there are none to end.
    async fn serve_ends(&self) {
        loop {
            let calls = self.ends.take(|call| call.tokens.len(), TOGETHER);
            if calls.is_empty() {
                return;
            }
            let tokens: Vec<Token> = calls
                .iter()
                .flat_map(|call| call.tokens.iter().copied())
                .collect();
            let ended = self.end_well(&tokens).await;
            let mut left = ended
                .as_ref()
                .map_or_else(|_| HashSet::new(), |all| all.iter().collect());
            for call in calls {
                let fates = match &ended {
                    Ok(_) => Ok(fates(&call.tokens, &mut left)),
                    Err(fault) => Err(fault.clone()),
                };
                // Who has gone does not need to hear of it.
                call.answer.send(fates).ok();
            }
        }
    }

    /// One statement; gives back which of the leases it ended.
    async fn end_well(&self, tokens: &[Token]) -> Result<Vec<Token>, Fault> {
        let columns = Tokens::new(tokens);
        if columns.counters.is_empty() {
            return Ok(Vec::new());
        }
        let view = self.view();
        let mut session = self.session().await?;
        let rows = session
            .query(
                &view.sql.done,
                &[
                    &self.shared.now(),
                    &columns.counters,
                    &columns.incarnations,
                    &columns.nonces,
                ],
            )
            .await?;
        drop(session);
        let mut ended = Vec::with_capacity(rows.len());
        for row in &rows {
            ended.extend(row::token(row, 1)?);
        }
        if !rows.is_empty() {
            self.arrived(&places(&rows, 4)?, first_date(&rows)?);
        }
        let mut leases = self.leases();
        for token in &ended {
            leases.end(token.counter.cast_signed());
        }
        Ok(ended)
    }

    pub(super) async fn heartbeat(&self, tokens: &[Token]) -> Result<Vec<Beat>, Fault> {
        let columns = Tokens::new(tokens);
        let view = self.view();
        let mut session = self.session().await?;
        let rows = session
            .query(
                &view.sql.heartbeat,
                &[
                    &self.shared.now(),
                    &columns.counters,
                    &columns.incarnations,
                    &columns.nonces,
                ],
            )
            .await?;
        drop(session);
        let mut until = HashMap::new();
        let mut leases = self.leases();
        for row in &rows {
            let deadline: i64 = row::cell(row, 3)?;
            if let Some(token) = row::token(row, 0)? {
                let counter = token.counter.cast_signed();
                if token.incarnation == self.shared.incarnation.cast_unsigned() {
                    leases.hold(counter, deadline);
                }
                until.insert(token, Date::from_millis(deadline));
            }
        }
        let beat = |token| {
            until
                .get(token)
                .map_or(Beat::Lost, |date| Beat::Until(*date))
        };
        Ok(tokens.iter().map(beat).collect())
    }
}

/// What became of tokens, of which those in `left` ended; one that is named twice ends once.
pub(super) fn fates(tokens: &[Token], left: &mut HashSet<&Token>) -> Vec<Fate> {
    tokens
        .iter()
        .map(|token| {
            if left.remove(token) {
                Fate::Done
            } else {
                Fate::Lost
            }
        })
        .collect()
}
