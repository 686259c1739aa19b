//! The answer to one request of a stranger.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use crate::add::{Add, NewEntry};
use crate::data::Data;
use crate::declaration::Declaration;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::op::{Op, Reply};
use crate::remote::frame::ANSWER_BYTES_MAX;

/// What is told.
pub(super) type Answer = Result<Reply<Data>, Error>;

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

/// No engine answers with so much; one that does must not end the connection.
pub(super) fn too_long() -> Error {
    Error::invalid(format!(
        "the answer has more than {ANSWER_BYTES_MAX} bytes; list the entries page by page"
    ))
}
