//! One feed, asked again and again until it is told to stop: never twice at a time, and never longer than its time-out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_formats::Digest;
use cannery_formats::feed::{DownloadName, Hour, Slot};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::fetch::{Fetched, Validators};
use super::grid::Grid;
use super::monitor::Polled;
use super::settings::FeedSettings;
use super::shared::Shared;
use super::slots::{Poll, SLOTS_NAME};

/// The first polls of many feeds are spread over this time, or over the feed's own distance where that is shorter.
const SPREAD: Duration = Duration::from_secs(10);

/// How long lines may wait for being written together.
const LINES_WAIT: Duration = Duration::from_secs(5);

/// Hashed before a blocking thread would have woken up.
const HASH_INLINE_BYTES_MAX: usize = 256 * 1024;

/// One feed that is being asked.
pub(super) struct Poller {
    feed: FeedSettings,
    shared: Arc<Shared>,
    last: Option<Last>,
    lines: Lines,
    /// Whether the last body could not be stored, which is told once.
    is_stuck: bool,
}

/// What the last body was. Only within its hour is it worth knowing: the first of every hour is stored.
struct Last {
    hour: Hour,
    digest: Digest,
    validators: Option<Validators>,
}

/// Lines about polls that are not written yet.
#[derive(Default)]
struct Lines {
    text: String,
    hour: Option<Hour>,
    since: Duration,
}

impl Poller {
    pub(super) fn new(feed: FeedSettings, shared: Arc<Shared>) -> Self {
        Self {
            feed,
            shared,
            last: None,
            lines: Lines::default(),
            is_stuck: false,
        }
    }

    /// Asks until `stop`, and waits for the answer that is under way until `abandon`; then everything that was learnt is written.
    pub(super) async fn run(mut self, stop: CancellationToken, abandon: CancellationToken) {
        let clock = self.shared.clock.clone();
        let spread = self.shared.rng.jitter(self.feed.periodicity.min(SPREAD));
        let mut grid = Grid::new(clock.elapsed() + spread, self.feed.periodicity);
        loop {
            let pause = grid.due().saturating_sub(clock.elapsed());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = clock.sleep(pause) => {}
            }
            let (time, hour) = self.shared.busy.begin(&self.feed.id, &clock);
            if self.poll(grid.due(), time, hour, &abandon).await.is_none() {
                break;
            }
            let missed = grid.advance(clock.elapsed());
            self.miss(time, hour, missed);
            let pause = grid.due().saturating_sub(clock.elapsed());
            self.maybe_flush(hour, pause).await;
        }
        self.flush().await;
    }

    /// Nothing when it was told not to wait any longer: then nobody asked.
    async fn poll(
        &mut self,
        due: Duration,
        time: Timestamp,
        hour: Hour,
        abandon: &CancellationToken,
    ) -> Option<()> {
        if self.lines.hour.is_some_and(|before| before != hour) {
            self.flush().await;
            self.shared.busy.hold(&self.feed.id, hour);
        }
        let clock = self.shared.clock.clone();
        let begun = clock.elapsed();
        self.shared.monitor.begun(begun.saturating_sub(due));
        let last = self.last.as_ref().filter(|last| last.hour == hour);
        let validators = last.and_then(|last| last.validators.as_ref());
        let fetched = tokio::select! {
            biased;
            fetched = self.shared.fetcher.fetch(&self.feed.ask, validators) => fetched,
            () = abandon.cancelled() => return None,
        };
        let latency = clock.since(begun);
        let polled = match fetched {
            Ok(Fetched::NotModified) => Polled::Unchanged,
            Ok(Fetched::Body {
                content,
                validators,
                ..
            }) => self.keep(time, hour, content, Some(validators)).await,
            Err(mut error) => {
                tracing::debug!(feed = %self.feed.id, %error, "a poll failed");
                if let Some(body) = error.body.take() {
                    // Somebody wants to see it, but it is no success.
                    self.keep(time, hour, body, None).await;
                }
                Polled::Failed(error.reason())
            }
        };
        self.shared
            .monitor
            .polled(&self.feed.id, time, latency, &polled);
        self.note(time, hour, slot_of(polled));
        Some(())
    }

    /// Stores a body unless it is the one before.
    async fn keep(
        &mut self,
        time: Timestamp,
        hour: Hour,
        content: Bytes,
        validators: Option<Validators>,
    ) -> Polled {
        let digest = digest_of(content.clone()).await;
        let same = |last: &&Last| last.hour == hour && last.digest == digest;
        if self.last.as_ref().filter(same).is_some() {
            self.last = Some(Last {
                hour,
                digest,
                validators,
            });
            return Polled::Unchanged;
        }
        let (id, bytes) = (self.feed.id.clone(), content.len() as u64);
        let name = DownloadName::new(id, time, &digest, &self.feed.postfix);
        let path = self.shared.depot.hour(&self.feed.id, hour);
        let path = path.join(name.to_string());
        let writer = &self.shared.writer;
        match writer.save(&self.feed.id, path, content).await {
            Ok(()) => {
                self.is_stuck = false;
                self.last = Some(Last {
                    hour,
                    digest,
                    validators,
                });
                Polled::Stored(bytes)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_stuck, true) {
                    tracing::error!(feed = %self.feed.id, %error, "cannot store what was downloaded; trying on");
                }
                // The next one is stored even if it is the same.
                self.last = None;
                Polled::Failed(format!("cannot store it: {error}"))
            }
        }
    }

    fn note(&mut self, time: Timestamp, hour: Hour, slot: Slot) {
        if self.lines.text.is_empty() {
            self.lines.since = self.shared.clock.elapsed();
            self.lines.hour = Some(hour);
        }
        Poll::new(hour, time, self.feed.periodicity, slot).write(&mut self.lines.text);
    }

    /// The polls whose time passed while one was waited for.
    fn miss(&mut self, time: Timestamp, hour: Hour, missed: u64) {
        if missed == 0 {
            return;
        }
        self.shared.monitor.missed(&self.feed.id, time, missed);
        let now = self.shared.clock.now();
        let mut at = time;
        for _ in 0..missed {
            let Ok(next) = at.checked_add(self.feed.periodicity) else {
                return;
            };
            at = next;
            // A poll that began late has its next ones late, too: the last of them may be the one that is made now.
            if Hour::of(at) != hour || at >= now {
                return;
            }
            let reason = "the one before took too long".to_owned();
            self.note(at, hour, Slot::Failed { reason });
        }
    }

    /// Writes the lines before they are too old, before a long pause, and before the hour ends.
    async fn maybe_flush(&mut self, hour: Hour, pause: Duration) {
        let clock = &self.shared.clock;
        let next = clock.now().checked_add(pause).unwrap_or(Timestamp::MAX);
        let old = clock.since(self.lines.since) >= LINES_WAIT;
        if old || pause >= LINES_WAIT || Hour::of(next) != hour {
            self.flush().await;
        }
    }

    async fn flush(&mut self) {
        if let Some(hour) = self.lines.hour.take() {
            let text = std::mem::take(&mut self.lines.text);
            let path = self.shared.depot.hour(&self.feed.id, hour).join(SLOTS_NAME);
            let writer = &self.shared.writer;
            if let Err(error) = writer.append(&self.feed.id, path, text.into()).await {
                tracing::warn!(feed = %self.feed.id, %error, "cannot write down which polls were made");
            }
        }
        self.shared.busy.end(&self.feed.id);
    }
}

fn slot_of(polled: Polled) -> Slot {
    match polled {
        Polled::Stored(_) => Slot::Stored,
        Polled::Unchanged => Slot::Unchanged,
        Polled::Failed(reason) => Slot::Failed { reason },
    }
}

async fn digest_of(content: Bytes) -> Digest {
    if content.len() <= HASH_INLINE_BYTES_MAX {
        return Digest::of(&content);
    }
    let hashing = {
        let content = content.clone();
        tokio::task::spawn_blocking(move || Digest::of(&content))
    };
    // Only a runtime that ends drops it.
    hashing.await.unwrap_or_else(|_| Digest::of(&content))
}
