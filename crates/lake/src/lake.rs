//! The lake itself: a store, a prefix, and the manner in which it is used.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use cannery_formats::{InvalidKey, Key};
use cannery_runtime::{Clock, Rng};
use object_store::path::Path;
use object_store::{ObjectStore, UpdateVersion};

use crate::error::{Error, Failure, Operation, Result};
use crate::metrics::LakeMetrics;
use crate::retry::{Attempts, RetryPolicy};

/// What a lake is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its name in the configuration, in errors and in metrics.
    pub id: String,
    /// Where it is, as a URL without secrets; `ls` and rows that name their object begin with it.
    pub url: String,
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// What every key begins with in the store; empty for none.
    pub prefix: String,
    /// The time.
    pub clock: Clock,
    /// Chance, for jitter and names.
    pub rng: Rng,
    /// How long and how often to try.
    pub retry: RetryPolicy,
    /// Where to count.
    pub metrics: LakeMetrics,
}

/// Object storage with a prefix. Clones are the same lake.
#[derive(Clone)]
pub struct Lake(Arc<Inner>);

struct Inner {
    parts: Parts,
    prefix: Path,
    honours: RwLock<Option<Honours>>,
}

/// Which conditions of a put the store really honours; found out by [`crate::probe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Honours {
    /// Create-if-absent has one winner. Without it `put_new` looks, writes and reads back: safe only while no two writers
    /// use the same key.
    pub create: bool,
    /// Replacing by version has one winner. Without it `put_if_version` is refused.
    pub update: bool,
}

impl Default for Honours {
    fn default() -> Self {
        Self {
            create: true,
            update: true,
        }
    }
}

/// One state of an object, as the store names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub(crate) UpdateVersion);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.0
                .e_tag
                .as_deref()
                .or(self.0.version.as_deref())
                .unwrap_or("?"),
        )
    }
}

impl Lake {
    /// Puts the parts together. Nothing is read or written.
    ///
    /// # Errors
    /// [`InvalidKey`] when the prefix cannot begin a key.
    pub fn new(parts: Parts) -> Result<Self, InvalidKey> {
        let prefix = match parts.prefix.trim_matches('/') {
            "" => Path::default(),
            prefix => {
                let prefix = Key::new(prefix)?;
                Path::parse(prefix.as_str()).expect("a key is a path")
            }
        };
        Ok(Self(Arc::new(Inner {
            parts,
            prefix,
            honours: RwLock::default(),
        })))
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.parts.id
    }

    /// Where it is, without secrets.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0.parts.url
    }

    /// The folder that it is, if it is one.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        self.url().strip_prefix("file:").map(PathBuf::from)
    }

    /// What it has done so far.
    #[must_use]
    pub fn totals(&self) -> crate::metrics::Totals {
        self.0.parts.metrics.totals(self.id())
    }

    /// What the store is taken to honour: everything, until a probe says otherwise.
    #[must_use]
    pub fn honours(&self) -> Honours {
        self.probed().unwrap_or_default()
    }

    fn probed(&self) -> Option<Honours> {
        *self
            .0
            .honours
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on the outcome of a probe from now on.
    pub fn set_honours(&self, honours: Honours) {
        *self
            .0
            .honours
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(honours);
    }

    /// Probes a store that was not probed yet, except our own, which are known. To be called before the first write.
    ///
    /// # Errors
    /// When the store cannot be used at all.
    pub async fn ensure_probed(&self) -> Result<()> {
        let known = self.url().starts_with("file:") || self.url().starts_with("memory:");
        if !known && self.probed().is_none() {
            crate::probe::probe(self).await?;
        }
        Ok(())
    }

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.0.parts.store
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.parts.clock
    }

    pub(crate) fn rng(&self) -> &Rng {
        &self.0.parts.rng
    }

    pub(crate) fn retry(&self) -> &RetryPolicy {
        &self.0.parts.retry
    }

    pub(crate) fn metrics(&self) -> &LakeMetrics {
        &self.0.parts.metrics
    }

    /// Where the object `key` lies in the store.
    pub(crate) fn path(&self, key: &Key) -> Path {
        let path = if self.0.prefix.is_root() {
            Path::parse(key.as_str())
        } else {
            Path::parse(format!("{}/{key}", self.0.prefix))
        };
        path.expect("a key below a prefix is a path")
    }

    pub(crate) fn prefix(&self) -> &Path {
        &self.0.prefix
    }

    /// The key of the object at `path` in the store; `None` for what no key can name.
    pub(crate) fn key_at(&self, path: &Path) -> Option<Key> {
        let path = path.as_ref();
        let below = match self.0.prefix.as_ref() {
            "" => path,
            prefix => path.strip_prefix(prefix)?.strip_prefix('/')?,
        };
        Key::new(below).ok()
    }

    /// Begins an operation; [`Running::finish`] ends it.
    pub(crate) fn begin(&self, operation: Operation, subject: impl Into<String>) -> Running<'_> {
        Running {
            lake: self,
            operation,
            subject: subject.into(),
            started: self.clock().elapsed(),
            attempts: Attempts::new(self.retry(), self.clock(), self.rng()),
        }
    }
}

/// An operation that is under way.
#[derive(Debug)]
pub(crate) struct Running<'a> {
    lake: &'a Lake,
    operation: Operation,
    subject: String,
    started: Duration,
    pub(crate) attempts: Attempts<'a>,
}

impl Running<'_> {
    /// Counts the operation and says what went wrong.
    pub(crate) fn finish<T>(self, outcome: Result<T, Failure>) -> Result<T> {
        let (id, metrics, clock) = (self.lake.id(), self.lake.metrics(), self.lake.clock());
        metrics.count(
            id,
            self.operation,
            &outcome,
            clock.since(self.started),
            clock.now(),
        );
        metrics.retried(id, self.operation, self.attempts.failures());
        outcome.map_err(|failure| self.lake.error(self.operation, self.subject, failure))
    }
}

impl Lake {
    pub(crate) fn error(
        &self,
        operation: Operation,
        subject: impl Into<String>,
        failure: Failure,
    ) -> Error {
        Error {
            kind: failure.kind,
            operation,
            lake: self.id().to_owned(),
            subject: subject.into(),
            detail: failure.detail,
        }
    }
}

impl fmt::Debug for Lake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lake({} at {})", self.id(), self.url())
    }
}
