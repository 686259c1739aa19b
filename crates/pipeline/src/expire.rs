//! Expiry: what is kept no longer goes, as `keep.rs` says; a can only when its archive was read from end to end in this very run
//! and is what the catalog has loaded, an archive only after its can.
//!
//! A mark comes first, and stays: it tells what was removed on purpose from what was lost, so that nobody makes it again or
//! looks for it. The mark of a can has the pieces of its reports that are no measurements, for nothing else holds them. The can itself
//! goes a day after its mark, when everything is proven once more: whoever had begun to make something of it has ended by then. What is
//! not proven stays, and is reported with the reason. A run may be repeated, be killed anywhere, and be made by several at once.

mod bad_pieces;

use std::collections::BTreeSet;
use std::sync::Arc;

use cannery_catalog::{Catalog, Committed, KnownFile};
use cannery_formats::archive::{Current, Generation};
use cannery_formats::can::{BucketFile, CannedFile, Expired, TextName, expired_object, marked_at};
use cannery_formats::{Key, Kind};
use cannery_lake::{PutNew, Swap, present};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::archive_index;
use crate::autoclave::private_index_key;
use crate::cans::{BucketState, Indexes};
use crate::centrifuge::facts;
use crate::clear::Clearer;
use crate::error::Error;
use crate::generation::current;
use crate::keep::Keep;
use crate::redact::Redactions;
use crate::stage::Plant;
use crate::sweep::keys;
use crate::verify::{Finding, Verifier};
use bad_pieces::{BadPiece, Left};

/// So long after its mark a can goes: leases last minutes, and so does making an archive.
pub(crate) const MARKED_FOR: SignedDuration = SignedDuration::from_hours(24);
/// A mark is as long as the bad pieces that it has.
const MARK_BYTES_MAX: u64 = 256 << 20;

/// Removes what is kept no longer.
#[derive(Clone, Debug)]
pub struct Expirer {
    /// The lakes, and what every stage needs.
    pub plant: Plant,
    /// The catalog.
    pub catalog: Catalog,
    /// What is kept for how long.
    pub keep: Arc<Keep>,
    /// Who removes report files, if they are removed: that needs the cans, so it comes first.
    pub clearer: Option<Clearer>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExpireReport {
    /// What was removed.
    pub removed: Vec<Key>,
    /// What should go and stays, with the reason.
    pub kept: Vec<Finding>,
    /// Bytes that were read to prove it.
    pub bytes_in: u64,
    /// Whether a can was marked, and goes in a day.
    pub is_marked: bool,
    /// Whether something else has to be done before.
    pub is_waiting: bool,
    /// Dates whose tables are to be computed again, because the catalog forgot a file.
    pub dates: BTreeSet<String>,
    /// Files whose features are to be decided on again, for the same reason.
    pub outdated: Vec<String>,
}

/// Why something stays.
enum Stays {
    /// It goes a day after its mark.
    IsMarked,
    /// Something else is to be done before.
    Waits,
    /// Somebody has to look.
    Because(Finding),
}

/// A can that should go.
struct Expiry<'e> {
    expirer: &'e Expirer,
    record: &'e CannedFile,
    state: BucketState,
    current: Option<Current>,
    known: Option<KnownFile>,
    bytes_in: u64,
}

impl Expirer {
    /// What it takes at most, about.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let plant = self.plant.clone();
        Verifier { plant }.memory_bytes() + 3 * bad_pieces::BYTES_MAX
    }

    /// Removes what is kept no longer of a file of a sealed bucket; of any other nothing.
    ///
    /// # Errors
    /// Those of the lakes, the disk and the catalog. What was removed until then was proven.
    pub async fn file(&self, kind: &Kind, file: &BucketFile) -> Result<ExpireReport, Error> {
        let mut report = ExpireReport::default();
        let over = self.keep.over(kind, file.bucket, self.plant.clock.now());
        let indexes = Indexes::new(self.plant.raw.clone());
        let state = indexes.state(file.bucket).await?;
        if !over.can || !state.is_sealed {
            return Ok(report);
        }
        if state.needs_sealed_cans() {
            // What was replaced is compared with the cans when it goes.
            report.is_waiting = true;
            return Ok(report);
        }
        let sealed = indexes.read(&Key::canned_index(file.bucket)).await?.files;
        let Some(record) = sealed.iter().find(|record| record.filename == *file) else {
            return Ok(report);
        };
        let mut expiry = Expiry {
            expirer: self,
            record,
            state,
            current: current(&self.plant.public).await?,
            known: self.catalog.known(&file.to_string()).await?,
            bytes_in: 0,
        };
        let can = expiry.can(&mut report).await?;
        report.bytes_in = expiry.bytes_in;
        match can {
            Ok(()) if over.archive => expiry.archive(&mut report).await?,
            Ok(()) => {}
            Err(Stays::IsMarked) => report.is_marked = true,
            Err(Stays::Waits) => report.is_waiting = true,
            Err(Stays::Because(finding)) => report.kept.push(finding),
        }
        Ok(report)
    }
}

impl Expiry<'_> {
    fn file(&self) -> &BucketFile {
        &self.record.filename
    }

    /// Marks the can, and a day later removes it with its private index, and that of the bucket, which has the same in it.
    async fn can(&mut self, report: &mut ExpireReport) -> Result<Result<(), Stays>, Error> {
        let (file, raw) = (self.file().clone(), &self.expirer.plant.raw);
        let is_there = self.state.cans.contains(&file.name);
        if is_there {
            let pieces = match self.prove().await? {
                Ok(pieces) => pieces,
                Err(stays) => return Ok(Err(stays)),
            };
            if !self.is_due(&pieces).await? {
                return Ok(Err(Stays::IsMarked));
            }
        } else if !self.state.expired_cans.contains(&file.name) {
            let why = "it is not there, and nothing says that it was removed on purpose";
            return Ok(Err(because(Key::canned(&file), why)));
        }
        let there = keys(raw, &Key::canned_folder(Some(file.bucket))).await?;
        let private = private_index_key(&file).ok();
        let private = private.filter(|key| there.contains(key));
        // It has the same in it; without that it may be one of the others.
        let joined = Some(Key::canned_private_index(file.bucket));
        let joined = joined.filter(|key| private.is_some() && there.contains(key));
        // The can goes last: as long as it is there, the rest is found again.
        let can = is_there.then(|| Key::canned(&file));
        for key in joined.into_iter().chain(private).chain(can) {
            raw.delete(&key).await?;
            report.removed.push(key);
        }
        Ok(Ok(()))
    }

    /// Marks the can, unless it is; whether it was marked long enough ago, with these pieces, and nothing has begun since that needs it.
    async fn is_due(&self, pieces: &[BadPiece]) -> Result<bool, Error> {
        let (file, plant) = (self.file(), &self.expirer.plant);
        let (key, now) = (Key::expired(file, Expired::Can), plant.clock.now());
        let mark = |at: Timestamp| expired_object(file, at, pieces);
        if plant.raw.put_new(&key, mark(now)).await? != PutNew::Different {
            return Ok(false);
        }
        let Some(before) = present(plant.raw.get(&key, MARK_BYTES_MAX).await)? else {
            return Ok(false);
        };
        let marked = marked_at(file, &before.bytes);
        let Some(marked) = marked.filter(|at| *before.bytes == *mark(*at)) else {
            // Other rules have found other pieces bad, or it is damaged: the day begins again.
            let swap = plant
                .raw
                .put_if_version(&key, &before.version, mark(now).into());
            match swap.await? {
                Swap::Swapped(_) | Swap::Conflict => return Ok(false),
            }
        };
        let is_over = now.duration_since(marked) >= MARKED_FOR;
        // Newer rules may have come while everything was read.
        Ok(is_over && current(&plant.public).await? == self.current)
    }

    /// Whether all that the can holds is elsewhere: what is to be kept of it then.
    async fn prove(&mut self) -> Result<Result<Vec<BadPiece>, Stays>, Error> {
        let (expirer, file) = (self.expirer, self.file().clone());
        let plant = &expirer.plant;
        if let Some(clearer) = &expirer.clearer
            && clearer.has_some_of(self.record).await?
        {
            return Ok(Err(Stays::Waits));
        }
        let (Some(generation), Some(known)) = (self.settled_generation(), &self.known) else {
            return Ok(Err(Stays::Waits));
        };
        if known.facts.generation != generation.to_string() {
            return Ok(Err(Stays::Waits));
        }
        let index = Key::autoclaved_file_index(generation, &file);
        if present(plant.public.head(&index).await)?.is_none() {
            let why = "it is not there, so nothing says alone what the archive holds";
            return Ok(Err(because(index, why)));
        }
        let described = match facts::fetch(plant, generation, &file).await {
            Ok(described) => described,
            Err(Error::Unusable { key, why, .. }) => {
                return Ok(Err(Stays::Because(Finding { key, why })));
            }
            Err(error) => return Err(error),
        };
        if described.is_none_or(|described| described.facts.state() != known.facts.state()) {
            return Ok(Err(Stays::Waits));
        }
        let plant = plant.clone();
        let verified = match (Verifier { plant }).archive(generation, &file).await? {
            Ok(verified) => verified,
            Err(finding) => return Ok(Err(Stays::Because(finding))),
        };
        self.bytes_in += verified.bytes + self.record.file.size;
        let texts = self.record.texts().iter();
        let texts: BTreeSet<TextName> = texts.map(|text| text.textname.clone()).collect();
        if texts != verified.reports {
            let key = Key::autoclaved(generation, &file);
            return Ok(Err(because(key, "it does not have the reports of its can")));
        }
        self.bad_pieces(generation).await
    }

    /// The generation in force, unless another one is being made: that needs the cans.
    fn settled_generation(&self) -> Option<Generation> {
        let current = self.current.as_ref()?;
        current
            .next
            .is_none()
            .then_some(current.in_force.generation)
    }

    async fn bad_pieces(
        &self,
        generation: Generation,
    ) -> Result<Result<Vec<BadPiece>, Stays>, Error> {
        let plant = &self.expirer.plant;
        let found = archive_index::find(plant, generation, self.file()).await?;
        let Some(found) = found else {
            return Ok(Err(Stays::Waits));
        };
        let redactions = Redactions::read(&plant.raw).await?;
        let left = bad_pieces::read(plant, self.record, found.bytes, redactions).await?;
        Ok(match left {
            Ok(Left::Pieces(pieces)) => Ok(pieces),
            // Somebody is about to take a measurement out of it, for which the can is needed.
            Ok(Left::Redacted) => Err(Stays::Waits),
            Err(finding) => Err(Stays::Because(finding)),
        })
    }

    /// Removes the archive, its index, that of the bucket, which has the same in it, and at last what the catalog has of it.
    async fn archive(&mut self, report: &mut ExpireReport) -> Result<(), Error> {
        let (file, expirer) = (self.file().clone(), self.expirer);
        let (raw, public) = (&expirer.plant.raw, &expirer.plant.public);
        let mark = Key::expired(&file, Expired::Archive);
        // That it is there is what counts: one that somebody else put is as good.
        let now = expirer.plant.clock.now();
        raw.put_new(&mark, expired_object(&file, now, &[])).await?;
        let known = self.known.as_ref();
        let known = known.and_then(|known| known.facts.generation.parse().ok());
        let current = self.current.iter();
        let current = current.flat_map(|it| [it.in_force.generation, it.newest().generation]);
        let generations: BTreeSet<Generation> = current.chain(known).collect();
        for generation in generations {
            let folder = Key::autoclaved_generation(generation, Some(file.bucket));
            let there = keys(public, &folder).await?;
            let index = Key::autoclaved_file_index(generation, &file);
            let archive = Key::autoclaved(generation, &file);
            if !there.contains(&index) && !there.contains(&archive) {
                continue;
            }
            let joined = Key::autoclaved_index(generation, file.bucket);
            let objects = [joined, index, archive].into_iter();
            for key in objects.filter(|key| there.contains(key)) {
                public.delete(&key).await?;
                report.removed.push(key);
            }
        }
        // The catalog forgets it last: what it points at says that there is something left to do.
        if let Some(known) = &self.known {
            let name = file.to_string();
            let forgotten = expirer.catalog.forget(&name, &known.facts.state()).await?;
            let Committed {
                dates, outdated, ..
            } = forgotten;
            report.dates.extend(dates);
            report.outdated.extend(outdated);
        }
        Ok(())
    }
}

fn because(key: Key, why: &str) -> Stays {
    let why = why.to_owned();
    Stays::Because(Finding { key, why })
}
