//! Why a command ends without success: what was being done, what to do next, and the exit code.

use cannery_journal::{Error as JournalError, ErrorKind as JournalErrorKind};
use cannery_lake::{Error as LakeError, ErrorKind};
use cannery_objects::{ObjectError, ObjectErrorKind};
use cannery_runtime::workspace::WorkspaceError;
use cannery_state::identity::{IdentityError, IdentityErrorKind};

use crate::config::source::LoadError;

/// The exit codes, which scripts rely on. `docs/cli.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitCode {
    Ok = 0,
    Error = 1,
    /// Wrong use of a command, or a wrong configuration.
    Usage = 2,
    /// Some of it was done, and the output says what.
    Partial = 3,
    /// What was asked for is not there.
    Absent = 10,
    /// Another process has it.
    Locked = 11,
    /// The store refused the credentials.
    Auth = 12,
    /// The disk is full.
    Full = 13,
    /// A check found something.
    Findings = 20,
    /// Ctrl-C, where not everything was done.
    Interrupted = 130,
}

/// How a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: ExitCode,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) next: String,
}

impl Failure {
    pub(crate) fn new(
        code: ExitCode,
        kind: &'static str,
        message: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self {
            code,
            kind,
            message: message.into(),
            next: next.into(),
        }
    }

    /// The same failure after a part of the output was already given.
    pub(crate) fn after_partial_output(self, given: usize) -> Self {
        if given == 0 {
            return self;
        }
        let message = format!(
            "{} (after {given} entries: what was printed is not complete)",
            self.message
        );
        Self {
            code: ExitCode::Partial,
            message,
            ..self
        }
    }
}

impl From<LakeError> for Failure {
    fn from(error: LakeError) -> Self {
        let code = match error.kind {
            ErrorKind::Absent | ErrorKind::StoreMissing => ExitCode::Absent,
            ErrorKind::Denied => ExitCode::Auth,
            ErrorKind::Full => ExitCode::Full,
            ErrorKind::Unavailable
            | ErrorKind::Conflict
            | ErrorKind::Invalid
            | ErrorKind::Corrupt
            | ErrorKind::NotOurs
            | ErrorKind::Failed => ExitCode::Error,
        };
        Self::new(
            code,
            error.kind.name(),
            error.to_string(),
            error.next_step(),
        )
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        let code = match error.kind {
            JournalErrorKind::Invalid => ExitCode::Usage,
            JournalErrorKind::Unknown => ExitCode::Absent,
            JournalErrorKind::Locked => ExitCode::Locked,
            JournalErrorKind::Denied => ExitCode::Auth,
            JournalErrorKind::Full => ExitCode::Full,
            JournalErrorKind::LeaseLost
            | JournalErrorKind::Unavailable
            | JournalErrorKind::Corrupt
            | JournalErrorKind::Closed => ExitCode::Error,
        };
        let next = error.next_step();
        Self::new(code, error.kind.name(), error.message, next)
    }
}

impl From<cannery_catalog::Error> for Failure {
    fn from(error: cannery_catalog::Error) -> Self {
        use cannery_catalog::ErrorKind;
        let (code, kind, next) = match error.kind {
            ErrorKind::Invalid => (
                ExitCode::Usage,
                "catalog_invalid",
                "correct it, then run it again",
            ),
            ErrorKind::Conflict => (ExitCode::Error, "catalog_conflict", "run it again"),
            ErrorKind::Newer => (ExitCode::Error, "catalog_newer", "use the newer program"),
            ErrorKind::Unavailable => (
                ExitCode::Error,
                "catalog_unavailable",
                "check `catalog` in the configuration, and that its server runs",
            ),
            ErrorKind::Denied => (
                ExitCode::Auth,
                "catalog_denied",
                "check the user and password in `catalog`, and the permissions of its file",
            ),
            ErrorKind::Full => (ExitCode::Full, "catalog_full", "make room on its disk"),
            ErrorKind::Corrupt => (
                ExitCode::Error,
                "catalog_corrupt",
                "move it away and make it again with `cannery rebuild`",
            ),
        };
        Self::new(code, kind, error.message, next)
    }
}

impl From<cannery_state::Error> for Failure {
    fn from(error: cannery_state::Error) -> Self {
        use cannery_state::ErrorKind;
        let (code, kind, next) = match error.kind {
            ErrorKind::Invalid => (
                ExitCode::Usage,
                "state_invalid",
                "correct it, then run it again",
            ),
            ErrorKind::Newer => (ExitCode::Error, "state_newer", "use the newer program"),
            ErrorKind::Unavailable => (
                ExitCode::Error,
                "state_unavailable",
                "check `state` in the configuration, and that its server runs",
            ),
            ErrorKind::Denied => (
                ExitCode::Auth,
                "state_denied",
                "check the user and password in `state`, and the permissions of its file",
            ),
            ErrorKind::Full => (ExitCode::Full, "state_full", "make room on its disk"),
            ErrorKind::Corrupt => (
                ExitCode::Error,
                "state_corrupt",
                "move it away and bring back its last backup",
            ),
        };
        Self::new(code, kind, error.message, next)
    }
}

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Self {
        use ObjectErrorKind as Kind;
        let (code, kind, next) = match error.kind {
            Kind::Absent | Kind::ParentAbsent => (
                ExitCode::Absent,
                "absent",
                "see what is there with `cannery stor ls`",
            ),
            Kind::NoSpace | Kind::QuotaExceeded | Kind::TooLarge => {
                (ExitCode::Full, "full", "make room, then run it again")
            }
            Kind::BehindLake => (
                ExitCode::Error,
                "behind_lake",
                "stop `cannery up`, and run `cannery rebuild`: it makes the names of users' objects anew from the lake",
            ),
            Kind::Unavailable => (
                ExitCode::Error,
                "unavailable",
                "check the lake with `cannery doctor`, and the database of `state`",
            ),
            Kind::Corrupt => (
                ExitCode::Error,
                "corrupt",
                "stop `cannery up`, and run `cannery rebuild --objects`; report it with the log if it stays",
            ),
            Kind::ParentNotDirectory
            | Kind::IsDirectory
            | Kind::IsObject
            | Kind::NotEmpty
            | Kind::ConditionFailed
            | Kind::Mismatch
            | Kind::Invalid => (ExitCode::Usage, "invalid", "correct it"),
        };
        Self::new(code, kind, error.message, next)
    }
}

impl From<IdentityError> for Failure {
    fn from(error: IdentityError) -> Self {
        let (code, kind, next) = match error.kind {
            IdentityErrorKind::Invalid => (ExitCode::Usage, "invalid", "correct it"),
            IdentityErrorKind::Absent => (
                ExitCode::Absent,
                "absent",
                "see who is there with `cannery user ls`, `cannery user key ls NAME` and `cannery token ls`",
            ),
            IdentityErrorKind::Taken => (ExitCode::Error, "taken", "choose another name"),
            IdentityErrorKind::Database(kind) => {
                let message = error.message;
                return cannery_state::Error { kind, message }.into();
            }
        };
        Self::new(code, kind, error.message, next)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Invalid { .. } => Self::new(
                ExitCode::Usage,
                "config_invalid",
                error.to_string(),
                "correct it, then run `cannery config check`; `cannery config schema` lists every key",
            ),
            LoadError::Unreadable { .. } => Self::new(
                ExitCode::Usage,
                "config_unreadable",
                error.to_string(),
                "check `--config-file` or `--config-url`; without either the embedded defaults are used",
            ),
        }
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        match &error {
            WorkspaceError::Locked { .. } => Self::new(
                ExitCode::Locked,
                "workspace_locked",
                error.to_string(),
                "stop that process, or choose another workspace with `--workspace`",
            ),
            WorkspaceError::Io { source, .. } => {
                let code = match source.kind() {
                    std::io::ErrorKind::StorageFull => ExitCode::Full,
                    _ => ExitCode::Error,
                };
                let next = "make the folder writable, or choose another with `--workspace`";
                Self::new(code, "workspace_unusable", error.to_string(), next)
            }
        }
    }
}

impl From<cannery_serve::ListenError> for Failure {
    fn from(error: cannery_serve::ListenError) -> Self {
        use cannery_serve::ListenError;
        let (code, next) = match &error {
            ListenError::Bind { .. } => (
                ExitCode::Error,
                "choose another address with `--listen` or `--monitoring-port`, or stop what uses this one",
            ),
            ListenError::Tls(_) => (ExitCode::Usage, "correct `serve.tls` in the configuration"),
        };
        Self::new(code, "listen", error.to_string(), next)
    }
}
