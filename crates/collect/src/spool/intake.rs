//! The thread that takes files: what was found is read, checked, and handed to the bundler.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cannery_formats::spool::SpoolDate;
use cannery_runtime::disk::Kind;
use tokio_util::sync::CancellationToken;

use super::bad::Bad;
use super::budget::Budget;
use super::bundler::Message;
use super::drain::Refused;
use super::find::{Evidence, Found, Oddity, Sighting, Sightings};
use super::held::Held;
use super::place::FilePlace;
use super::progress::Progress;
use super::recall::{Memory, Recall};
use super::take::{Heard, Take, Taken, Taker};

/// Files that go to the bundler together.
const TOGETHER: usize = 32;
const TOGETHER_BYTES: usize = 256 * 1024;

pub(super) struct Intake {
    pub(super) taker: Taker,
    pub(super) bad: Bad,
    pub(super) held: Arc<Held>,
    pub(super) bundler: Sender,
    pub(super) stop: CancellationToken,
    /// Set once everything that lay there was compared with the lake.
    pub(super) settled: Arc<AtomicBool>,
    pub(super) datatypes: Vec<String>,
    /// Set when a file was left alone for a moment: somebody must look again.
    pub(super) look_again: Arc<AtomicBool>,
    /// While the outbox may have been lost.
    pub(super) recall: Option<Recall>,
    pub(super) progress: Arc<Progress>,
    /// Files that are left for later.
    pub(super) refused: Arc<Refused>,
}

impl Intake {
    /// Takes what is found until nothing is looked for any more.
    pub(super) fn run(mut self, mut sightings: Sightings) {
        while let Some(sighting) = sightings.blocking_recv() {
            match sighting {
                // What was told and not taken is told again by the next start.
                _ if self.stop.is_cancelled() => {}
                Sighting::File(found) => self.take(found),
                Sighting::Odd { below, fault } => self.set_aside(&below, fault),
            }
            if sightings.is_empty() {
                self.bundler.flush();
            }
            self.progress.census().handled();
        }
        self.bundler.flush();
    }

    fn set_aside(&mut self, below: &Path, fault: Oddity) {
        let is_odd = match fault {
            Oddity::Link | Oddity::Special => self.bad.kind_of(below) == Some(Kind::Other),
            Oddity::WrongDepth | Oddity::NotADate | Oddity::BadName => true,
        };
        if !is_odd {
            // Something else lies there by now, and is told by itself.
            return;
        }
        let (word, text) = words(fault);
        let folder = below.iter().next().unwrap_or_default();
        let mut datatypes = self.datatypes.iter();
        let datatype = datatypes.position(|name| folder == name.as_str());
        let gone = self.bad.treat(below, word, text);
        if let Some(datatype) = datatype {
            self.progress.met_bad(datatype, word);
            let census = self.progress.census();
            census.gone(datatype, 0, gone.unwrap_or(0));
        }
    }

    fn take(&mut self, found: Found) {
        let by_whole_scan = found.evidence == Evidence::Scanned;
        let Some((place, heard)) = place_of(found) else {
            return;
        };
        if self.held.is_held(&place) {
            return;
        }
        match self.taker.take(&place, heard) {
            Take::Taken(taken) => self.keep(taken),
            Take::Bad(fault) => {
                self.progress.met_bad(place.datatype, fault.word());
                let below = self.below(&place);
                let gone = self.bad.treat(&below, fault.word(), &fault.to_string());
                if let Some(bytes) = gone {
                    self.progress.census().gone(place.datatype, 1, bytes);
                }
            }
            Take::Settling => self.wait(),
            Take::NotYet if by_whole_scan => self.refused.not_yet(),
            Take::NotYet | Take::Gone => {}
        }
    }

    /// A file that is good goes to the bundler, unless the lake has it already.
    fn keep(&mut self, taken: Taken) {
        if self.settled.load(Ordering::Relaxed) {
            self.recall = None;
        }
        let memory = self
            .recall
            .as_mut()
            .map_or(Memory::New, |recall| recall.remember(&taken));
        match (memory, &mut self.recall) {
            (Memory::Shipped, Some(recall)) => match recall.remove(&taken) {
                Ok(()) => {
                    let Taken { place, mark, .. } = &taken;
                    self.progress.removed_known(place.datatype, mark.size);
                }
                Err(error) => {
                    tracing::error!(file = taken.place.filename(), %error, "cannot remove a file that is in the lake");
                    self.wait();
                }
            },
            (Memory::Unknown, _) => self.wait(),
            (Memory::New | Memory::Shipped, _) => {
                let datatype = taken.place.datatype;
                self.held.hold(&taken.place);
                self.bundler.send(taken);
                self.progress.took(datatype);
            }
        }
    }

    /// A file is left alone for a moment.
    fn wait(&self) {
        self.refused.for_a_moment();
        self.look_again.store(true, Ordering::Relaxed);
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

/// Sends to the bundler, within its budget, and many files at a time: who is woken for every file does little else.
pub(super) struct Sender {
    pub(super) messages: std::sync::mpsc::SyncSender<Message>,
    pub(super) budget: Arc<Budget>,
    pub(super) unsent: Vec<Taken>,
    pub(super) unsent_bytes: usize,
}

impl Sender {
    fn send(&mut self, taken: Taken) {
        self.unsent_bytes += taken.raw.len();
        self.unsent.push(taken);
        if self.unsent.len() >= TOGETHER || self.unsent_bytes >= TOGETHER_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.unsent.is_empty() {
            return;
        }
        self.budget.take(std::mem::take(&mut self.unsent_bytes));
        let taken = std::mem::take(&mut self.unsent);
        // The bundler ends only after everybody who sends.
        self.messages.send(Message::Taken(taken)).ok();
    }
}
