//! Why a command stops: the caller's mistake or a failed check.

use std::fmt;
use std::process::ExitCode;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense; exit code 2.
    Usage(String),
    /// Something was tried and did not succeed; exit code 1.
    Failed(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Failed(message) => f.write_str(message),
        }
    }
}

/// Shorthand for the common kind.
pub(crate) fn failed<T>(message: impl Into<String>) -> Result<T> {
    Err(Failure::Failed(message.into()))
}
