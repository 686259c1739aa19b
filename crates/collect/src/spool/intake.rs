//! The thread that takes files: what was found is read, checked, and handed to the bundler.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_formats::spool::SpoolDate;
use tokio::sync::mpsc;

use super::bad::Bad;
use super::budget::Budget;
use super::bundler::Message;
use super::find::{Evidence, Found, Oddity, Sighting};
use super::held::Held;
use super::place::FilePlace;
use super::progress::Progress;
use super::recall::{Memory, Recall};
use super::take::{Heard, Take, Taken, Taker};

pub(super) struct Intake {
    pub(super) taker: Taker,
    pub(super) bad: Bad,
    pub(super) held: Arc<Held>,
    pub(super) bundler: Sender,
    pub(super) datatypes: Vec<String>,
    /// Set when a file was left alone for a moment: somebody must look again.
    pub(super) look_again: Arc<AtomicBool>,
    /// While the outbox may have been lost.
    pub(super) recall: Option<Recall>,
    pub(super) progress: Arc<Progress>,
    /// Set when nothing waits to be taken.
    pub(super) idle: Arc<AtomicBool>,
}

impl Intake {
    /// Takes what is found until nothing is looked for any more.
    pub(super) fn run(mut self, mut sightings: mpsc::Receiver<Sighting>) {
        loop {
            self.idle.store(sightings.is_empty(), Ordering::Release);
            let Some(sighting) = sightings.blocking_recv() else {
                return;
            };
            match sighting {
                Sighting::File(found) => self.take(found),
                Sighting::Odd { below, fault } => {
                    let (word, text) = words(fault);
                    self.progress.met_bad();
                    self.bad.treat(&below, word, text);
                }
            }
        }
    }

    fn take(&mut self, found: Found) {
        let Some((place, heard)) = place_of(found) else {
            return;
        };
        if self.held.is_held(&place) {
            return;
        }
        match self.taker.take(&place, heard) {
            Take::Taken(taken) => self.keep(taken),
            Take::Bad(fault) => {
                self.progress.met_bad();
                let below = self.below(&place);
                self.bad.treat(&below, fault.word(), &fault.to_string());
            }
            Take::Settling => self.look_again.store(true, Ordering::Relaxed),
            Take::NotYet | Take::Gone => {}
        }
    }

    /// A file that is good goes to the bundler, unless the lake has it already.
    fn keep(&mut self, taken: Taken) {
        let memory = self
            .recall
            .as_mut()
            .map_or(Memory::New, |recall| recall.remember(&taken));
        match (memory, &mut self.recall) {
            (Memory::Shipped, Some(recall)) => match recall.remove(&taken) {
                Ok(()) => self.progress.removed(1),
                Err(error) => {
                    tracing::error!(file = taken.place.filename(), %error, "cannot remove a file that is in the lake");
                }
            },
            (Memory::Unknown, _) => self.look_again.store(true, Ordering::Relaxed),
            (Memory::New | Memory::Shipped, _) => {
                self.held.hold(&taken.place);
                self.bundler.send(taken);
                self.progress.took();
            }
        }
    }

    fn below(&self, place: &FilePlace) -> PathBuf {
        Path::new(&self.datatypes[place.datatype]).join(place.below_datatype())
    }
}

fn place_of(found: Found) -> Option<(FilePlace, Heard)> {
    let place = FilePlace {
        datatype: found.datatype,
        date: SpoolDate::from_path(&found.date.to_string()).ok()?,
        name: found.name.into_string().ok()?.into(),
    };
    let heard = match found.evidence {
        Evidence::Closed | Evidence::Moved => Heard::Finished,
        Evidence::Scanned | Evidence::Missed => Heard::Seen,
    };
    Some((place, heard))
}

fn words(fault: Oddity) -> (&'static str, &'static str) {
    match fault {
        Oddity::WrongDepth => (
            "depth",
            "it does not lie in a date folder, or is a folder in one",
        ),
        Oddity::NotADate => (
            "not_a_date",
            "a folder in the place of a year, month or day is none",
        ),
        Oddity::Link => ("link", "it is a symbolic link"),
        Oddity::Special => ("special", "it is no regular file"),
        Oddity::BadName => (
            "name",
            "its name has control characters, is no text, or is too long",
        ),
    }
}

/// Sends to the bundler, within its budget.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) messages: std::sync::mpsc::SyncSender<Message>,
    pub(super) budget: Arc<Budget>,
}

impl Sender {
    fn send(&self, taken: Taken) {
        self.budget.take(taken.raw.len());
        // The bundler ends only after everybody who sends.
        self.messages.send(Message::Taken(taken)).ok();
    }
}
