//! Ending leases well, and hearing of those who hold them.

use std::collections::{HashMap, HashSet};

use super::Fault;
use super::add::{first_date, places};
use super::journal::PgJournal;
use super::row::{self, Tokens};
use crate::date::Date;
use crate::op::{Beat, Fate};
use crate::token::Token;

impl PgJournal {
    pub(super) async fn done(&self, tokens: &[Token]) -> Result<Vec<Fate>, Fault> {
        let columns = Tokens::new(tokens);
        if columns.counters.is_empty() {
            return Ok(vec![Fate::Lost; tokens.len()]);
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
        Ok(fates(tokens, &ended))
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

/// What became of tokens of which some ended; one that is named twice ends once.
pub(super) fn fates(tokens: &[Token], ended: &[Token]) -> Vec<Fate> {
    let mut left: HashSet<&Token> = ended.iter().collect();
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
