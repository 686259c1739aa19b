//! The records of a batch: effects, never requests.

use std::collections::BTreeMap;

use super::wire::{Put as _, Take, Unreadable};
use crate::date::{Date, Expiration};
use crate::declaration::Declaration;
use crate::entry::{Death, Lease, Meta, Standing};
use crate::key::Key;
use crate::op::Counts;
use crate::priority::Priority;
use crate::state::{Cause, Effect, Whole};
use crate::token::Token;

const WHOLE: u8 = 1;
const WAIT: u8 = 2;
const START: u8 = 3;
const BEAT: u8 = 4;
const DIE: u8 = 5;
const END: u8 = 6;
const COUNT: u8 = 7;
const DECLARE: u8 = 8;
const CHECKPOINT: u8 = 9;
const FRONT: u8 = 10;

/// What is known of the journal as a whole where a segment begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub(super) counts: Counts,
    pub(super) next_seq: u64,
    pub(super) incarnation: u64,
    /// The first segment that counts.
    pub(super) front: u32,
    pub(super) declarations: BTreeMap<u32, Declaration>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// An entry whose data has `len` bytes and begins at `data` in the bytes that were read; its checksum stands before.
    Whole {
        whole: Whole,
        data: usize,
        len: usize,
    },
    Effect(Effect),
    Checkpoint(Box<Checkpoint>),
    /// Segments before this one do not count any more, even where a failed disk brings them back.
    Front(u32),
}

/// How far before the data its checksum stands.
pub(super) const DATA_CRC_BYTES: usize = 4;

/// Writes an entry with its data; gives back where the data begins.
pub(super) fn put_whole(to: &mut Vec<u8>, whole: &Whole, data: &[u8]) -> usize {
    to.u8(WHOLE);
    to.number(whole.seq);
    put_meta(to, &whole.meta);
    match &whole.standing {
        Standing::Waiting => to.u8(0),
        Standing::Processing(lease) => {
            to.u8(1);
            put_lease(to, lease);
        }
        Standing::Dead(death) => {
            to.u8(2);
            put_death(to, death);
        }
    }
    to.bytes(whole.key.as_str().as_bytes());
    to.number(data.len() as u64);
    to.extend(crc32fast::hash(data).to_le_bytes());
    let begin = to.len();
    to.extend(data);
    begin
}

/// Writes a change.
pub(super) fn put_effect(to: &mut Vec<u8>, effect: &Effect) {
    match effect {
        Effect::Wait { seq, meta } => {
            to.u8(WAIT);
            to.number(*seq);
            put_meta(to, meta);
        }
        Effect::Start { seq, lease } => {
            to.u8(START);
            to.number(*seq);
            put_lease(to, lease);
        }
        Effect::Beat { seq, start } => {
            to.u8(BEAT);
            to.number(*seq);
            to.signed(start.as_millis());
        }
        Effect::Die { seq, meta, death } => {
            to.u8(DIE);
            to.number(*seq);
            put_meta(to, meta);
            put_death(to, death);
        }
        Effect::End { seq, cause } => {
            to.u8(END);
            to.number(*seq);
            to.u8(cause_code(*cause));
        }
        Effect::Count(counts) => {
            to.u8(COUNT);
            put_counts(to, counts);
        }
        Effect::Declare {
            version,
            declaration,
        } => {
            to.u8(DECLARE);
            put_declaration(to, *version, declaration);
        }
    }
}

/// Writes what is known of the journal as a whole.
pub(super) fn put_checkpoint(to: &mut Vec<u8>, checkpoint: &Checkpoint) {
    to.u8(CHECKPOINT);
    put_counts(to, &checkpoint.counts);
    to.number(checkpoint.next_seq);
    to.number(checkpoint.incarnation);
    to.number(u64::from(checkpoint.front));
    to.number(checkpoint.declarations.len() as u64);
    for (version, declaration) in &checkpoint.declarations {
        put_declaration(to, *version, declaration);
    }
}

/// Writes that segments before this one do not count any more.
pub(super) fn put_front(to: &mut Vec<u8>, front: u32) {
    to.u8(FRONT);
    to.number(u64::from(front));
}

/// Reads the next record.
pub(super) fn take(from: &mut Take<'_>) -> Result<Record, Unreadable> {
    let effect = match from.u8()? {
        WHOLE => return take_whole(from),
        CHECKPOINT => return take_checkpoint(from),
        FRONT => return Ok(Record::Front(take_u32(from)?)),
        WAIT => Effect::Wait {
            seq: from.number()?,
            meta: take_meta(from)?,
        },
        START => Effect::Start {
            seq: from.number()?,
            lease: take_lease(from)?,
        },
        BEAT => Effect::Beat {
            seq: from.number()?,
            start: Date::from_millis(from.signed()?),
        },
        DIE => Effect::Die {
            seq: from.number()?,
            meta: take_meta(from)?,
            death: Box::new(take_death(from)?),
        },
        END => Effect::End {
            seq: from.number()?,
            cause: cause_of(from.u8()?)?,
        },
        COUNT => Effect::Count(Box::new(take_counts(from)?)),
        DECLARE => {
            let (version, declaration) = take_declaration(from)?;
            Effect::Declare {
                version,
                declaration: Box::new(declaration),
            }
        }
        _ => return Err(Unreadable),
    };
    Ok(Record::Effect(effect))
}

fn take_whole(from: &mut Take<'_>) -> Result<Record, Unreadable> {
    let seq = from.number()?;
    let meta = take_meta(from)?;
    let standing = match from.u8()? {
        0 => Standing::Waiting,
        1 => Standing::Processing(Box::new(take_lease(from)?)),
        2 => Standing::Dead(Box::new(take_death(from)?)),
        _ => return Err(Unreadable),
    };
    let key = Key::new(from.text()?).map_err(|_| Unreadable)?;
    let len = usize::try_from(from.number()?).map_err(|_| Unreadable)?;
    from.slice(DATA_CRC_BYTES)?;
    let data = from.offset();
    from.slice(len)?;
    let whole = Whole {
        seq,
        key,
        meta,
        standing,
    };
    Ok(Record::Whole { whole, data, len })
}

fn take_checkpoint(from: &mut Take<'_>) -> Result<Record, Unreadable> {
    let counts = take_counts(from)?;
    let next_seq = from.number()?;
    let incarnation = from.number()?;
    let front = take_u32(from)?;
    let declarations = (0..from.number()?)
        .map(|_| take_declaration(from))
        .collect::<Result<_, _>>()?;
    Ok(Record::Checkpoint(Box::new(Checkpoint {
        counts,
        next_seq,
        incarnation,
        front,
        declarations,
    })))
}

/// Dates lie near each other: they are kept as distances from the insertion date.
fn put_meta(to: &mut Vec<u8>, meta: &Meta) {
    let insertion = meta.insertion.as_millis();
    to.signed(insertion);
    for date in [meta.newest, meta.arrived, meta.process] {
        to.signed(date.as_millis().wrapping_sub(insertion));
    }
    match meta.expiration.date() {
        None => to.u8(0),
        Some(date) => {
            to.u8(1);
            to.signed(date.as_millis().wrapping_sub(insertion));
        }
    }
    to.u8(meta.priority.0);
    to.u8(meta.timeouts);
    to.number(u64::from(meta.strikes));
    to.number(u64::from(meta.version));
}

fn take_meta(from: &mut Take<'_>) -> Result<Meta, Unreadable> {
    let insertion = from.signed()?;
    let date = |from: &mut Take<'_>| {
        Ok::<_, Unreadable>(Date::from_millis(insertion.wrapping_add(from.signed()?)))
    };
    let (newest, arrived, process) = (date(from)?, date(from)?, date(from)?);
    let expiration = match from.u8()? {
        0 => Expiration::NEVER,
        1 => Expiration::at(date(from)?),
        _ => return Err(Unreadable),
    };
    Ok(Meta {
        insertion: Date::from_millis(insertion),
        newest,
        arrived,
        expiration,
        process,
        priority: Priority(from.u8()?),
        timeouts: from.u8()?,
        strikes: u16::try_from(from.number()?).map_err(|_| Unreadable)?,
        version: take_u32(from)?,
    })
}

fn put_lease(to: &mut Vec<u8>, lease: &Lease) {
    to.number(lease.token.incarnation);
    to.number(lease.token.counter);
    to.fixed(lease.token.nonce);
    to.signed(lease.start.as_millis());
    to.bytes(lease.worker.as_bytes());
}

fn take_lease(from: &mut Take<'_>) -> Result<Lease, Unreadable> {
    let token = Token {
        incarnation: from.number()?,
        counter: from.number()?,
        nonce: from.fixed()?,
    };
    Ok(Lease {
        token,
        start: Date::from_millis(from.signed()?),
        worker: from.text()?.into(),
    })
}

fn put_death(to: &mut Vec<u8>, death: &Death) {
    to.signed(death.date.as_millis());
    to.bytes(death.reason.as_bytes());
}

fn take_death(from: &mut Take<'_>) -> Result<Death, Unreadable> {
    Ok(Death {
        date: Date::from_millis(from.signed()?),
        reason: from.text()?.into(),
    })
}

/// Only what is not zero, each with its position.
fn put_counts(to: &mut Vec<u8>, counts: &Counts) {
    let values = counts.values();
    to.number(values.iter().filter(|value| **value > 0).count() as u64);
    for (place, value) in (0_u8..).zip(values).filter(|(_, value)| *value > 0) {
        to.u8(place);
        to.number(value);
    }
}

fn take_counts(from: &mut Take<'_>) -> Result<Counts, Unreadable> {
    let mut values = Counts::default().values();
    for _ in 0..from.number()? {
        let place = usize::from(from.u8()?);
        *values.get_mut(place).ok_or(Unreadable)? = from.number()?;
    }
    Ok(Counts::from_values(&values))
}

fn put_declaration(to: &mut Vec<u8>, version: u32, declaration: &Declaration) {
    to.number(u64::from(version));
    to.bytes(&serde_json::to_vec(declaration).expect("a declaration is plain data"));
}

fn take_declaration(from: &mut Take<'_>) -> Result<(u32, Declaration), Unreadable> {
    let version = take_u32(from)?;
    let declaration = serde_json::from_slice(from.bytes()?).map_err(|_| Unreadable)?;
    Ok((version, declaration))
}

fn take_u32(from: &mut Take<'_>) -> Result<u32, Unreadable> {
    u32::try_from(from.number()?).map_err(|_| Unreadable)
}

fn cause_code(cause: Cause) -> u8 {
    match cause {
        Cause::Done => 0,
        Cause::Expired => 1,
        Cause::Cancelled => 2,
        Cause::Absorbed => 3,
        Cause::Forgotten => 4,
    }
}

fn cause_of(code: u8) -> Result<Cause, Unreadable> {
    Ok(match code {
        0 => Cause::Done,
        1 => Cause::Expired,
        2 => Cause::Cancelled,
        3 => Cause::Absorbed,
        4 => Cause::Forgotten,
        _ => return Err(Unreadable),
    })
}
