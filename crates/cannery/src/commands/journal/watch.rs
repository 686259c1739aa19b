//! `cannery journal watch`: a line whenever something becomes due or is given up.

use std::collections::BTreeSet;
use std::time::Duration;

use cannery_journal::{Date, Error, ErrorKind, Journal, Query, Stats, Status};
use cannery_runtime::Tasks;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Context, signals, view};
use crate::failure::{ExitCode, Failure};
use crate::journals::Journals;

/// Behind the wake-ups, for what makes no sound.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const STOP_LIMIT: Duration = Duration::from_secs(5);

pub(super) async fn watch(
    journals: &Journals<'_>,
    name: &str,
    count: Option<u64>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let stop = CancellationToken::new();
    let _signals = signals::follow(stop.clone())?;
    let tasks = Tasks::new(context.clock.clone(), stop.clone());
    let opened = journals.open_to_stay(name, &tasks).await?;
    opened.serve(&tasks).await;
    let mut watch = Watch {
        journal: &opened.journal,
        context,
        left: count.unwrap_or(u64::MAX),
        before: Stats::default(),
        seen: Seen::default(),
    };
    let ended = watch.run(&stop).await;
    tasks.stop(STOP_LIMIT).await;
    opened.close().await;
    ended
}

struct Watch<'a> {
    journal: &'a Journal,
    context: &'a Context,
    /// Lines still to print.
    left: u64,
    before: Stats,
    seen: Seen,
}

/// How far the dead list was read: the newest death, and whose it was, since one date may be that of several.
#[derive(Clone, Debug, Default)]
struct Seen {
    newest: Option<Date>,
    then: BTreeSet<u64>,
}

impl Seen {
    fn knows(&self, date: Date, seq: u64) -> bool {
        self.newest
            .is_some_and(|newest| date < newest || (date == newest && self.then.contains(&seq)))
    }

    fn note(&mut self, date: Date, seq: u64) {
        if self.newest.is_none_or(|newest| date > newest) {
            self.newest = Some(date);
            self.then.clear();
        }
        if self.newest == Some(date) {
            self.then.insert(seq);
        }
    }
}

impl Watch<'_> {
    async fn run(&mut self, stop: &CancellationToken) -> Result<ExitCode, Failure> {
        let mut wakes = self.journal.wakes();
        let mut open = true;
        // What lies on the dead list already is no news.
        let stats = self.journal.stats().await?;
        self.before.counts = stats.counts;
        self.seen = self.read_deaths(stats.dead, |_, _| {}).await?;
        let mut away = false;
        loop {
            match self.look().await {
                Ok(()) => away = false,
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    if !away {
                        tracing::warn!(%error, "the journal does not answer; trying on");
                    }
                    away = true;
                }
                Err(error) => return Err(error.into()),
            }
            if self.left == 0 {
                return Ok(ExitCode::Ok);
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(ExitCode::Ok),
                more = wakes.next(), if open => open = more,
                () = self.context.clock.sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Compares with what was before, and prints what is new.
    async fn look(&mut self) -> Result<(), Error> {
        let stats = self.journal.stats().await?;
        let claimed = stats
            .counts
            .claims
            .saturating_sub(self.before.counts.claims);
        // What was claimed in between had become due too.
        let became = (stats.due() + claimed).saturating_sub(self.before.due());
        if became > 0 && self.left > 0 {
            self.left -= 1;
            let text = format!("{became} became due, {} due in all", stats.due());
            let value = json!({
                "event": "due", "journal": self.journal.name(), "became_due": became, "due": stats.due(),
                "oldest_due": stats.oldest_due, "processing": stats.processing(),
            });
            self.context.output.line(text, &value);
        }
        if stats.counts.died > self.before.counts.died {
            self.tell_deaths(stats.dead).await?;
        }
        self.before = stats;
        Ok(())
    }

    async fn tell_deaths(&mut self, dead: u64) -> Result<(), Error> {
        let (output, name, left) = (self.context.output, self.journal.name(), self.left);
        let mut told = 0;
        self.seen = self
            .read_deaths(dead, |key, reason| {
                if told < left {
                    told += 1;
                    let text = format!("dead: {}: {}", view::line(key), view::line(reason));
                    let value =
                        json!({ "event": "dead", "journal": name, "key": key, "reason": reason });
                    output.line(text, &value);
                }
            })
            .await?;
        self.left -= told;
        Ok(())
    }

    /// Calls `tell` with the key and the reason of each death that was not seen; gives back how far it read.
    async fn read_deaths(
        &self,
        dead: u64,
        mut tell: impl FnMut(&str, &str),
    ) -> Result<Seen, Error> {
        let mut query = Query {
            statuses: vec![Status::Dead],
            ..Query::all()
        };
        let mut seen = self.seen.clone();
        if dead == 0 {
            return Ok(seen);
        }
        loop {
            let page = self.journal.list(query.clone()).await?;
            for entry in &page.entries {
                let Some(death) = entry.death.as_ref() else {
                    continue;
                };
                if !self.seen.knows(death.date, entry.seq) {
                    tell(entry.key.as_str(), &death.reason);
                    seen.note(death.date, entry.seq);
                }
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(seen),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_deaths_of_one_millisecond_are_told_apart() {
        let mut seen = Seen::default();
        assert!(!seen.knows(Date::from_millis(5), 1));
        seen.note(Date::from_millis(5), 1);
        assert!(seen.knows(Date::from_millis(5), 1) && seen.knows(Date::from_millis(4), 9));
        assert!(!seen.knows(Date::from_millis(5), 2));
        seen.note(Date::from_millis(6), 3);
        assert!(seen.knows(Date::from_millis(5), 2) && !seen.knows(Date::from_millis(6), 1));
    }
}
