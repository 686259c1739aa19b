//! Compaction: what stays long moves on, so that the segments it lay in can be freed.

use std::io;

use super::committer::{Committer, checkpoint, unless_full};
use super::home::Home;
use super::log::ENTRY_BYTES;
use super::salvage::set_aside;
use super::spare::Pace;
use super::{FailedTo as _, period};
use crate::data::Data;
use crate::date::Date;
use crate::error::{Error, ErrorKind};
use crate::op::Op;
use crate::state::{Ledger as _, State};

/// How much is written again in one step of compaction.
const REWRITE_BYTES: usize = 1 << 20;

impl Committer {
    /// Whether old segments hold too little for the room they take, or one of them is damaged.
    pub(super) fn is_compacting(&self) -> bool {
        let Some(oldest) = self.log.oldest_sealed() else {
            return false;
        };
        let damaged = self
            .rewrite_through
            .is_some_and(|through| oldest <= through);
        let (all, live) = self.log.weigh();
        damaged || all > 2 * live + 4 * self.log.habits.segment_bytes
    }

    /// Compacts a step at a time, or to the end where every effect is to have its number.
    pub(super) fn compact(&mut self) -> Result<(), Error> {
        self.leave_damage()?;
        while self.is_compacting() {
            self.stuck = !self.compact_step()?;
            self.leave_damage()?;
            if self.stuck || self.log.habits.pace == Pace::Free {
                break;
            }
        }
        Ok(())
    }

    /// Some entries at home in the oldest segment find a new home in the last one. Says whether there was room for them.
    fn compact_step(&mut self) -> Result<bool, Error> {
        let Some(oldest) = self.log.oldest_sealed() else {
            return Ok(false);
        };
        let now = Date::from(self.clock.now());
        let step = self.next_to_move(oldest);
        if step.is_empty() {
            // It is freed with the next commit that has room to say so.
            return Ok(false);
        }
        let need = step.iter().map(|id| entry_bytes(&self.state, *id)).sum();
        match self.begin(need, now) {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Closed => return Err(error),
            // Without room the old segment stays: nothing is lost, and nothing is gained.
            Err(_) => {
                self.moving.1.clear();
                return Ok(false);
            }
        }
        let mut damaged = Vec::new();
        for id in step {
            match self.log.read(*self.state.data(id)) {
                Ok(data) => {
                    let home = self
                        .log
                        .put(&self.state.whole(id), &Data::from_stored(data));
                    let old = self.state.relocate(id, home);
                    self.log.free(&old);
                }
                Err(error) => damaged.push((id, error)),
            }
        }
        let all_moved = self.keep_damaged(oldest, damaged, now);
        self.commit(now)?;
        Ok(all_moved)
    }

    /// Entries whose data turned out to be damaged go to the dead list, after the segment was set aside. What cannot be
    /// read now, for another reason, stays where it is; says whether there was none of that.
    fn keep_damaged(&mut self, segment: u32, damaged: Vec<(u32, io::Error)>, now: Date) -> bool {
        let mut all = true;
        for (id, error) in damaged {
            self.shared.warn(&error.to_string());
            let is_damage = error.kind() == io::ErrorKind::InvalidData;
            let path = self.log.path_of(segment).filter(|_| is_damage);
            let kept = path.map(|path| set_aside(&*self.place.disk, &self.place.dir, &path));
            match kept {
                Some(Ok(_)) => {
                    let reason = error.to_string();
                    self.state.bury(id, now, &reason, &mut self.log);
                }
                Some(Err(_)) | None => all = false,
            }
        }
        all
    }

    /// Entries at home in a segment, as many as one step moves. They are looked for once a segment; what has left or moved
    /// since is passed over.
    fn next_to_move(&mut self, segment: u32) -> Vec<u32> {
        if self.moving.0 != segment || self.moving.1.is_empty() {
            self.moving = (segment, self.state.find(|home| home.segment == segment));
        }
        let bytes_max = REWRITE_BYTES.min(self.log.batch_bytes_max() / 4);
        let mut bytes = 0;
        let mut step = Vec::new();
        while let Some(id) = self.moving.1.pop() {
            if self
                .state
                .home(id)
                .is_none_or(|home| home.segment != segment)
            {
                continue;
            }
            bytes += entry_bytes(&self.state, id);
            if bytes > bytes_max && !step.is_empty() {
                self.moving.1.push(id);
                break;
            }
            step.push(id);
        }
        step
    }

    /// Where the segment that is written to is damaged, a new one is begun, so that the damaged one can be emptied.
    fn leave_damage(&mut self) -> Result<(), Error> {
        let Some(through) = self.rewrite_through else {
            return Ok(());
        };
        match self.log.newest() {
            Some(newest) if newest <= through => {
                let now = Date::from(self.clock.now());
                let period = period::number(self.state.declaration().1.period, now);
                let checkpoint = checkpoint(&self.state, self.incarnation, self.log.front());
                let begun = self
                    .log
                    .begin_anew(0, now, period, &checkpoint)
                    .failed_to("begin a segment");
                match begun {
                    Ok(()) => self.commit(now),
                    Err(error) => unless_full(Err(error)),
                }
            }
            Some(_) => {
                if self
                    .log
                    .oldest_sealed()
                    .is_none_or(|oldest| oldest > through)
                {
                    self.rewrite_through = None;
                }
                Ok(())
            }
            None => {
                self.rewrite_through = None;
                Ok(())
            }
        }
    }
}

/// What it takes at most to write an entry again.
fn entry_bytes(state: &State<Home>, id: u32) -> usize {
    let lease = Op::TEXT_BYTES_MAX;
    ENTRY_BYTES + lease + state.key(id).as_str().len() + state.data(id).len as usize
}
