//! Rows of the tables as entries, and back.

use std::collections::HashSet;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::marks::Position;
use super::pool::Params;
use crate::data::Data;
use crate::date::{Date, Expiration};
use crate::declaration::Declaration;
use crate::entry::{Death, Entry, Lease, Meta, Status};
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::op::Op;
use crate::priority::Priority;
use crate::token::Token;

/// What is indexed in the place of a key. Keys are compared whole wherever it finds something.
pub(super) fn hash(key: &Key) -> [u8; 32] {
    Sha256::digest(key.as_str()).into()
}

/// A column, of the type that our own schema gives it.
pub(super) fn cell<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, Error> {
    row.try_get(column).map_err(|error| {
        corrupt(format!(
            "column {column} of a row is not what was written: {error}"
        ))
    })
}

pub(super) fn corrupt(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

/// Where two keys have one hash, which does not happen by chance.
pub(super) fn same_key(stored: &Key, wanted: &Key) -> Result<(), Error> {
    if stored == wanted {
        return Ok(());
    }
    Err(corrupt(format!(
        "the keys `{stored}` and `{wanted}` are stored under one hash; nothing was changed"
    )))
}

fn number<T: TryFrom<i64>>(row: &Row, column: usize) -> Result<T, Error> {
    narrow(cell::<i64>(row, column)?)
}

fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T, Error> {
    T::try_from(value).map_err(|_| corrupt(format!("the stored number {value} cannot be")))
}

fn date(row: &Row, column: usize) -> Result<Date, Error> {
    Ok(Date::from_millis(cell(row, column)?))
}

fn key(row: &Row, column: usize) -> Result<Key, Error> {
    Key::new(text(row, column)?)
}

fn text(row: &Row, column: usize) -> Result<Box<str>, Error> {
    let bytes: &[u8] = cell(row, column)?;
    std::str::from_utf8(bytes)
        .map(Box::from)
        .map_err(|_| corrupt(format!("column {column} of a row is not UTF-8")))
}

/// What is known of an entry, in the order of `META` in `sql.rs`.
pub(super) fn meta(row: &Row, from: usize) -> Result<Meta, Error> {
    Ok(Meta {
        priority: Priority(narrow(cell::<i16>(row, from)?.into())?),
        process: date(row, from + 1)?,
        insertion: date(row, from + 2)?,
        newest: date(row, from + 3)?,
        arrived: date(row, from + 4)?,
        expiration: Expiration::at(date(row, from + 5)?),
        timeouts: narrow(cell::<i16>(row, from + 6)?.into())?,
        strikes: narrow(cell::<i32>(row, from + 7)?.into())?,
        version: narrow(cell::<i32>(row, from + 8)?.into())?,
    })
}

/// A row without its data: `seq, key` and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) seq: i64,
    pub(super) key: Key,
    pub(super) meta: Meta,
}

impl Stored {
    pub(super) fn read(row: &Row, from: usize) -> Result<Self, Error> {
        Ok(Self {
            seq: cell(row, from)?,
            key: key(row, from + 1)?,
            meta: meta(row, from + 2)?,
        })
    }

    pub(super) fn place(&self) -> Place {
        Place::of(&self.meta, self.seq)
    }
}

/// Where a waiting row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) priority: i16,
    pub(super) position: Position,
}

impl Place {
    pub(super) fn of(meta: &Meta, seq: i64) -> Self {
        Self {
            priority: i16::from(meta.priority.0),
            position: Position {
                process: meta.process.as_millis(),
                seq,
            },
        }
    }

    /// From the columns `priority, process_date, seq`; nothing when they are null.
    pub(super) fn read(row: &Row, from: usize) -> Result<Option<Self>, Error> {
        let Some(priority) = cell::<Option<i16>>(row, from)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            priority,
            position: Position {
                process: cell(row, from + 1)?,
                seq: cell(row, from + 2)?,
            },
        }))
    }
}

/// A whole entry from the columns of `SHOWN` in `sql.rs`, and the counter of its token.
pub(super) fn entry(row: &Row, from: usize, blocked: bool) -> Result<Entry<Data>, Error> {
    let lease = lease(row, from + 12)?;
    let death = death(row, from + 17)?;
    let status = match (&lease, &death) {
        (Some(_), _) => Status::Processing,
        (None, Some(_)) => Status::Dead,
        (None, None) if blocked => Status::Blocked,
        (None, None) => Status::Waiting,
    };
    let allowed: i64 = cell(row, from + 11)?;
    let data: &[u8] = cell(row, from + 19)?;
    Ok(Entry {
        seq: number(row, from)?,
        key: key(row, from + 1)?,
        meta: meta(row, from + 2)?,
        status,
        deadline: lease
            .as_ref()
            .map(|lease| Date::from_millis(lease.start.as_millis().saturating_add(allowed))),
        lease,
        death,
        data: Data::from_stored(Bytes::copy_from_slice(data)),
    })
}

fn lease(row: &Row, from: usize) -> Result<Option<Lease>, Error> {
    let Some(token) = token(row, from)? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        token,
        start: date(row, from + 3)?,
        worker: text(row, from + 4)?.into(),
    }))
}

fn death(row: &Row, from: usize) -> Result<Option<Death>, Error> {
    let Some(died) = cell::<Option<i64>>(row, from)? else {
        return Ok(None);
    };
    Ok(Some(Death {
        date: Date::from_millis(died),
        reason: text(row, from + 1)?,
    }))
}

/// Columns of [`Meta`] for many rows, as parameters.
#[derive(Debug, Default)]
pub(super) struct Metas {
    priority: Vec<i16>,
    process: Vec<i64>,
    insertion: Vec<i64>,
    newest: Vec<i64>,
    arrived: Vec<i64>,
    expiration: Vec<i64>,
    timeouts: Vec<i16>,
    strikes: Vec<i32>,
    version: Vec<i32>,
    lease: Vec<i64>,
}

impl Metas {
    /// `declared` is what the entry was written with.
    pub(super) fn push(&mut self, meta: &Meta, declared: &Declaration) {
        self.priority.push(meta.priority.0.into());
        self.process.push(meta.process.as_millis());
        self.insertion.push(meta.insertion.as_millis());
        self.newest.push(meta.newest.as_millis());
        self.arrived.push(meta.arrived.as_millis());
        self.expiration.push(expiration(meta.expiration));
        self.timeouts.push(meta.timeouts.into());
        self.strikes.push(meta.strikes.into());
        self.version.push(version(meta.version));
        self.lease.push(allowed(declared));
    }

    pub(super) fn append_to(self, params: &mut Params<'_>) {
        params.push(Box::new(self.priority));
        params.push(Box::new(self.process));
        params.push(Box::new(self.insertion));
        params.push(Box::new(self.newest));
        params.push(Box::new(self.arrived));
        params.push(Box::new(self.expiration));
        params.push(Box::new(self.timeouts));
        params.push(Box::new(self.strikes));
        params.push(Box::new(self.version));
        params.push(Box::new(self.lease));
    }
}

pub(super) fn expiration(expiration: Expiration) -> i64 {
    expiration.date().map_or(i64::MAX, Date::as_millis)
}

pub(super) fn version(version: u32) -> i32 {
    i32::try_from(version).unwrap_or(i32::MAX)
}

/// How long a claim of an entry holds, in milliseconds.
pub(super) fn allowed(declared: &Declaration) -> i64 {
    i64::try_from(declared.lease.as_millis()).unwrap_or(i64::MAX)
}

/// Tokens as the columns by which they are found, each once; those that this database cannot have given out are left
/// out.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) counters: Vec<i64>,
    pub(super) incarnations: Vec<i64>,
    pub(super) nonces: Vec<i64>,
}

impl Tokens {
    pub(super) fn new(tokens: &[Token]) -> Self {
        let mut columns = Self::default();
        let mut seen = HashSet::new();
        for token in tokens.iter().filter(|token| seen.insert(**token)) {
            if let (Ok(counter), Ok(incarnation)) = (
                i64::try_from(token.counter),
                i64::try_from(token.incarnation),
            ) {
                columns.counters.push(counter);
                columns.incarnations.push(incarnation);
                columns.nonces.push(token.nonce.cast_signed());
            }
        }
        columns
    }
}

/// The token in the columns `counter, incarnation, nonce`; nothing when they are null.
pub(super) fn token(row: &Row, from: usize) -> Result<Option<Token>, Error> {
    let Some(counter) = cell::<Option<i64>>(row, from)? else {
        return Ok(None);
    };
    Ok(Some(Token {
        counter: narrow(counter)?,
        incarnation: number(row, from + 1)?,
        nonce: cell::<i64>(row, from + 2)?.cast_unsigned(),
    }))
}

/// A reason as long as is kept.
pub(super) fn cut(reason: &str) -> &str {
    let end = (0..=Op::TEXT_BYTES_MAX.min(reason.len()))
        .rev()
        .find(|end| reason.is_char_boundary(*end))
        .unwrap_or(0);
    &reason[..end]
}
