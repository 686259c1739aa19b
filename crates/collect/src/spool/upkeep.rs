//! What is done beside the line: scheduling what is sealed, looking at the clock, and scanning once more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_runtime::Clock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bundler::Message;
use super::find::{Census, Finder};
use super::lock;
use super::outbox::Outbox;
use super::room::Room;
use super::shipper::Event;
use crate::schedule::Schedule;

const TICK_EVERY: Duration = Duration::from_secs(1);

/// What is done beside the line.
pub(super) struct Upkeep {
    pub(super) schedule: Schedule,
    pub(super) clock: Clock,
    pub(super) room: Arc<Room>,
    pub(super) finder: Arc<Mutex<Option<Finder>>>,
    pub(super) look_again: Arc<AtomicBool>,
    /// To be told when everything was compared with the lake.
    pub(super) doubtful: Option<Outbox>,
    pub(super) census: Arc<Census>,
    pub(super) settle: Duration,
    pub(super) settled: Arc<AtomicBool>,
    /// How many scans were begun when a file last had to wait.
    pub(super) refused_at: u64,
    pub(super) stop: CancellationToken,
}

impl Upkeep {
    pub(super) async fn run(
        mut self,
        mut sealed: mpsc::UnboundedReceiver<String>,
        mut done: mpsc::UnboundedReceiver<Event>,
        bundler: SyncSender<Message>,
    ) {
        let mut bundler = Some(bundler);
        let mut looked = self.clock.elapsed();
        let mut tick = looked + TICK_EVERY;
        loop {
            let until_tick = tick.saturating_sub(self.clock.elapsed());
            tokio::select! {
                biased;
                // Who holds a sender keeps the bundler waiting.
                () = self.stop.cancelled(), if bundler.is_some() => bundler = None,
                id = sealed.recv() => match id {
                    Some(id) => self.schedule.add(&id).await,
                    // The bundler has ended.
                    None => return self.wait(done).await,
                },
                Some(event) = done.recv() => self.note(event),
                () = self.clock.sleep(until_tick) => {
                    tick = self.clock.elapsed() + TICK_EVERY;
                    if let Some(bundler) = &bundler {
                        bundler.try_send(Message::Tick).ok();
                    }
                    self.end_doubt();
                    if self.clock.since(looked) >= self.settle
                        && self.look_again.swap(false, Ordering::Relaxed)
                    {
                        looked = self.clock.elapsed();
                        self.scan();
                    }
                }
            }
        }
    }

    /// Once the first scan is over and all of it was taken, and no file has to wait, the outbox knows of everything.
    fn end_doubt(&mut self) {
        if self.look_again.load(Ordering::Relaxed) {
            self.refused_at = self.census.scans_begun();
        }
        let settled = self.census.has_told_all_since(self.refused_at)
            && !self.census.has_failed()
            && self.census.has_handled(self.census.told())
            && !self.look_again.load(Ordering::Relaxed);
        let Some(outbox) = self.doubtful.take_if(|_| settled) else {
            return;
        };
        self.settled.store(true, Ordering::Relaxed);
        if let Err(error) = outbox.set_complete() {
            tracing::warn!(%error, "cannot note that the outbox is complete; the next start asks the lake again");
        }
    }

    async fn wait(&self, mut done: mpsc::UnboundedReceiver<Event>) {
        while let Some(event) = done.recv().await {
            self.note(event);
        }
    }

    fn note(&self, event: Event) {
        let Event::Done { id, back } = event;
        lock(&self.room.taken).remove(&id);
        if !back.is_empty() {
            // Their names came while the old files were held.
            self.scan();
        }
    }

    fn scan(&self) {
        if let Some(finder) = &*lock(&self.finder) {
            finder.scan_now();
        }
    }
}
