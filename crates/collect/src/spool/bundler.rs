//! The thread that writes bundles: one open bundle for each datatype and date, sealed when it is full or old.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::spool::{BundleName, BundleTime, SpoolDate};
use cannery_runtime::Clock;

use super::budget::Budget;
use super::bundle::{OpenBundle, RowStyle};
use super::held::Held;
use super::outbox::{Outbox, Sealed};
use super::place::FilePlace;
use super::settings::SpoolSettings;
use super::take::Taken;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Message {
    Taken(Vec<Taken>),
    /// To look at the clock.
    Tick,
}

/// Who hears of what becomes of bundles. Called on the bundler's thread.
pub(super) trait Listener: Send {
    /// Whether another bundle may be begun without waiting.
    fn has_room(&self) -> bool;

    /// Waits until another bundle may be begun; false when it may not, because everything ends.
    fn may_begin(&self) -> bool;

    /// A bundle was begun, or a file was added to it.
    fn grew(&self, datatype: usize, bundle: &OpenBundle);

    /// A bundle was sealed, durably: it is to be shipped.
    fn sealed(&self, sealed: &Sealed);

    /// A bundle of a datatype and date was given up, and its files, so many, were let go: they are to be found again.
    fn gave_up(&self, which: (usize, SpoolDate), files: u64, error: &io::Error);
}

pub(super) struct Bundler<L> {
    outbox: Outbox,
    settings: Arc<SpoolSettings>,
    style: RowStyle,
    clock: Clock,
    held: Arc<Held>,
    budget: Arc<Budget>,
    listener: L,
    open: BTreeMap<(usize, SpoolDate), Open>,
    /// When the last bundle was opened: no two have the same name.
    last: Option<BundleTime>,
}

struct Open {
    bundle: OpenBundle,
    since: Duration,
    places: Vec<FilePlace>,
}

impl<L: Listener> Bundler<L> {
    pub(super) fn new(
        outbox: Outbox,
        settings: Arc<SpoolSettings>,
        style: RowStyle,
        clock: Clock,
        held: Arc<Held>,
        budget: Arc<Budget>,
        listener: L,
    ) -> Self {
        Self {
            outbox,
            settings,
            style,
            clock,
            held,
            budget,
            listener,
            open: BTreeMap::new(),
            last: None,
        }
    }

    /// Takes messages until nobody sends any more; then seals what is open.
    pub(super) fn run(mut self, messages: &std::sync::mpsc::Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Taken(all) => {
                    let bytes = all.iter().map(|taken| taken.raw.len()).sum();
                    for taken in &all {
                        self.add(taken);
                    }
                    self.budget.give_back(bytes);
                }
                Message::Tick => self.seal_old(),
            }
        }
        let all: Vec<_> = self.open.keys().copied().collect();
        for which in all {
            self.seal(which);
        }
    }

    fn add(&mut self, taken: &Taken) {
        let which = (taken.place.datatype, taken.place.date);
        let bytes_max = self.settings.bundle_bytes_max;
        if self
            .open
            .get(&which)
            .is_some_and(|open| !open.bundle.has_room(taken, bytes_max))
        {
            self.seal(which);
        }
        if !self.open.contains_key(&which) && !self.begin(which) {
            self.held.release([&taken.place]);
            return;
        }
        let Some(open) = self.open.get_mut(&which) else {
            return;
        };
        open.places.push(taken.place.clone());
        match open.bundle.add(taken, self.clock.now()) {
            Ok(()) => self.listener.grew(which.0, &open.bundle),
            Err(error) => self.give_up(which, &error),
        }
    }

    fn begin(&mut self, which: (usize, SpoolDate)) -> bool {
        if !self.listener.has_room() {
            // Nobody else makes room: what is open takes it, and only what is sealed is shipped.
            self.seal_oldest();
        }
        if !self.listener.may_begin() {
            return false;
        }
        let name = BundleName {
            home: self.settings.object_home.clone(),
            experiment: self.settings.experiment.clone(),
            datatype: self.settings.datatypes[which.0].name.clone(),
            date: which.1,
            opened: self.next_time(),
            node: self.settings.node.clone(),
        };
        match OpenBundle::begin(&self.outbox, name, &self.style) {
            Ok(bundle) => {
                let open = Open {
                    bundle,
                    since: self.clock.elapsed(),
                    places: Vec::new(),
                };
                self.open.insert(which, open);
                true
            }
            Err(error) => {
                self.listener.gave_up(which, 1, &error);
                false
            }
        }
    }

    /// Later than any before, also when the clock went back.
    fn next_time(&mut self) -> BundleTime {
        let next = BundleTime::from_timestamp(self.clock.now()).after(self.last);
        self.last = Some(next);
        next
    }

    fn seal_oldest(&mut self) {
        let oldest = self.open.iter().min_by_key(|(_, open)| open.since);
        if let Some(which) = oldest.map(|(which, _)| *which) {
            self.seal(which);
        }
    }

    fn seal_old(&mut self) {
        let age_max = self.settings.bundle_age_max;
        let is_old = |open: &Open| self.clock.since(open.since) >= age_max;
        let old: Vec<_> = self
            .open
            .iter()
            .filter(|(_, open)| is_old(open))
            .map(|(which, _)| *which)
            .collect();
        for which in old {
            self.seal(which);
        }
    }

    fn seal(&mut self, which: (usize, SpoolDate)) {
        let Some(open) = self.open.remove(&which) else {
            return;
        };
        let id = open.bundle.id().to_owned();
        match open.bundle.seal(&self.outbox) {
            Ok(sealed) => self.listener.sealed(&sealed),
            Err(error) => self.forget(which, &id, &open.places, &error),
        }
    }

    fn give_up(&mut self, which: (usize, SpoolDate), error: &io::Error) {
        if let Some(open) = self.open.remove(&which) {
            let id = open.bundle.id().to_owned();
            drop(open.bundle);
            self.forget(which, &id, &open.places, error);
        }
    }

    /// Nothing of the bundle counts, and its files are where they were. A seal that failed may have taken effect: then the
    /// files stay held, and the next start ships it.
    fn forget(&self, which: (usize, SpoolDate), id: &str, places: &[FilePlace], error: &io::Error) {
        match self.outbox.forget(id) {
            Ok(()) => self.held.release(places),
            Err(again) => {
                tracing::error!(bundle = id, error = %again, "cannot clear a bundle away; its files wait for the next start");
            }
        }
        self.listener.gave_up(which, places.len() as u64, error);
    }
}
