//! The answer to one request of a stranger.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use crate::add::{Add, NewEntry};
use crate::data::Data;
use crate::declaration::Declaration;
use crate::engine::Engine;
use crate::entry::{Cursor, Entry, Page};
use crate::error::{Error, ErrorKind};
use crate::op::{Op, Reply};
use crate::remote::frame::ANSWER_BYTES_MAX;

/// What is told.
pub(super) type Answer = Result<Reply<Data>, Error>;

/// The most that one character of a key becomes in JSON, and a generous bound on the rest of an entry without its data.
const ESCAPED_BYTES_MAX: usize = 6;
const ENTRY_BYTES_MAX: usize = 16 * 1024;

/// Whether the answer holds data.
pub(super) fn is_large(op: &Op) -> bool {
    match op {
        Op::Claim { .. } | Op::DoneAndClaim { .. } | Op::Get(_) | Op::List(_) => true,
        Op::Add(_)
        | Op::Heartbeat(_)
        | Op::Done(_)
        | Op::Release { .. }
        | Op::Fail { .. }
        | Op::Cancel(_)
        | Op::Requeue(_)
        | Op::Forget(_)
        | Op::Stats
        | Op::Sweep
        | Op::Declare(_) => false,
    }
}

/// Checks a request, and does it. A client's own checks prove nothing: it may be hostile, or not have heard of the latest
/// declaration yet.
pub(super) async fn to(engine: &dyn Engine, op: Op) -> Answer {
    op.check()?;
    if let Op::Add(adds) = &op {
        check_fields(&engine.declaration(), adds)?;
    }
    let answer = AssertUnwindSafe(engine.call(op)).catch_unwind().await;
    match answer {
        Ok(Ok(Reply::Page(page))) => Ok(Reply::Page(fit(page))),
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(error)) if error.kind == ErrorKind::Closed => Err(closed(error)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(Error::new(
            ErrorKind::Corrupt,
            "the request made the process that owns the journal panic; look at its log",
        )),
    }
}

fn check_fields(declaration: &Declaration, adds: &[Add]) -> Result<(), Error> {
    if declaration.fields.is_empty() {
        return Ok(());
    }
    for add in adds {
        let entry = NewEntry::new(add.key.as_str(), add.data.clone());
        declaration.admit(entry, add.insertion)?;
    }
    Ok(())
}

/// The owner closed its journal, and may open it again: the journal of the client is not closed.
fn closed(error: Error) -> Error {
    let error = Error::new(ErrorKind::Unavailable, error.message);
    error.while_doing("the process that owns the journal does not take requests")
}

pub(super) fn too_long() -> Error {
    Error::invalid(format!(
        "the answer has more than {ANSWER_BYTES_MAX} bytes; list the entries page by page"
    ))
}

/// As much of a page as an answer holds, and at least one entry.
fn fit(mut page: Page<Data>) -> Page<Data> {
    let mut bytes = 0;
    let fitting = page.entries.iter().take_while(|entry| {
        bytes += bytes_max(entry);
        bytes <= ANSWER_BYTES_MAX
    });
    let count = fitting.count().max(1);
    if count < page.entries.len() {
        page.entries.truncate(count);
        page.next = page.entries.last().map(place);
    }
    page
}

fn bytes_max(entry: &Entry<Data>) -> usize {
    let text = entry.key.as_str().len() * ESCAPED_BYTES_MAX;
    text + entry.data.as_bytes().len() + ENTRY_BYTES_MAX
}

fn place(entry: &Entry<Data>) -> Cursor {
    Cursor {
        status: entry.status,
        priority: entry.meta.priority,
        process: entry.meta.process,
        seq: entry.seq,
    }
}
