//! What every engine can do.

use std::fmt;

use async_trait::async_trait;

use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::error::Error;
use crate::op::{Op, Reply};
use crate::wake::Wakes;

/// One journal, wherever it is kept.
///
/// A request is answered after it is durable. A request whose caller goes away may still be done.
#[async_trait]
pub trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Does one operation, which was checked with [`Op::check`].
    ///
    /// # Errors
    /// By kind: see [`crate::ErrorKind`].
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error>;

    /// The date by which the engine decides, as well as it is known here.
    fn now(&self) -> Date;

    /// Hears when something may be due.
    fn wakes(&self) -> Wakes;

    /// The declaration in force, as far as this process knows.
    fn declaration(&self) -> Declaration;

    /// How the engine is doing.
    fn health(&self) -> Health;

    /// What it takes on the local disk, where it is kept there by this process.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// Ends it; what was acknowledged is safe. May be called twice; calls after it are refused.
    async fn close(&self);
}

/// What a journal takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Files that hold entries.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How an engine is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It works.
    Good,
    /// It works; a person should look.
    Warn(String),
    /// It does not work now; requests are refused or hang until their time-out.
    Bad(String),
}
