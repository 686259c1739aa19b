//! What can go wrong while a test sets itself up.

use std::{fmt, io};

/// The result of everything here.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a helper could not do its work. Tests print it and fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the test needs is not there.
    #[error("`{0}` is not installed; run `cargo xtask setup`")]
    MissingTool(String),
    /// A server ended early or did not answer in time.
    #[error("`{server}` is not ready: {why}; the end of its log:\n{log}")]
    NotReady {
        /// The program.
        server: String,
        /// What was seen instead.
        why: String,
        /// The last lines that it wrote.
        log: String,
    },
    /// Something was tried and answered with a refusal.
    #[error("cannot {doing}: {why}")]
    Failed {
        /// What was being done, to which thing.
        doing: String,
        /// The answer.
        why: String,
    },
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, to which thing.
        doing: String,
        /// Its reason.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn failed(doing: impl Into<String>, why: &dyn fmt::Display) -> Self {
        Self::Failed {
            doing: doing.into(),
            why: why.to_string(),
        }
    }

    /// For `map_err`: says what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::Io { doing, source }
    }
}
