//! From the configuration to open lakes, and the note in the workspace that says which lake it belongs to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_lake::{Identity, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::disk::{Disk, read, write_private};
use cannery_runtime::workspace::WorkspaceError;
use cannery_runtime::{Clock, RealDisk, Rng, Secret};
use serde::{Deserialize, Serialize};

use crate::cli::StorageArg;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::version;

const NOTE_BYTES_MAX: u64 = 4096;

/// What lakes are made with.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    /// The disk of a lake in a folder.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) metrics: LakeMetrics,
    pub(crate) retry: RetryPolicy,
    /// The variables of the process.
    pub(crate) variables: Vec<(String, String)>,
}

/// Opens every configured storage. Nothing is read or written yet.
pub(crate) fn open(config: &Config, tools: &Tools) -> Result<Mirrors, Failure> {
    let mut lakes = Vec::new();
    for storage in &config.object_storage {
        let unusable = |reason: String| {
            let message = format!("cannot open object storage `{}`: {reason}", storage.id);
            Failure::new(
                ExitCode::Usage,
                "config_invalid",
                message,
                "correct it, then run `cannery config check`",
            )
        };
        let credentials = storage.credentials(store_variables(&tools.variables));
        let store = storage
            .url
            .open(&credentials, Arc::clone(&tools.disk), tools.rng.clone())
            .map_err(|error| unusable(error.to_string()))?;
        let lake = Lake::new(Parts {
            id: storage.id.clone(),
            url: storage.place(),
            store,
            prefix: storage.prefix.clone(),
            clock: tools.clock.clone(),
            rng: tools.rng.clone(),
            retry: tools.retry.clone(),
            metrics: tools.metrics.clone(),
        })
        .map_err(|error| unusable(error.to_string()))?;
        lakes.push(lake);
    }
    Ok(Mirrors::new(lakes).expect("a checked configuration has a storage"))
}

/// The lake that was named, or the first.
pub(crate) fn chosen<'a>(mirrors: &'a Mirrors, storage: &StorageArg) -> Result<&'a Lake, Failure> {
    let Some(id) = &storage.storage else {
        return Ok(mirrors.first());
    };
    mirrors.by_id(id).ok_or_else(|| {
        let known: Vec<&str> = mirrors.iter().map(Lake::id).collect();
        let message = format!("there is no object storage `{id}`");
        Failure::new(
            ExitCode::Usage,
            "unknown_storage",
            message,
            format!("choose one of: {}", known.join(", ")),
        )
    })
}

/// The variables that the stores' own tools read. What may be a secret is hidden wherever it would be printed.
fn store_variables(variables: &[(String, String)]) -> Vec<(String, Secret)> {
    let of_a_store = |name: &str| {
        ["AWS_", "GOOGLE_", "AZURE_"]
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    let secret = |name: &str| {
        ["KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL", "SAS"]
            .iter()
            .any(|sign| name.contains(sign))
    };
    variables
        .iter()
        .filter(|(name, _)| of_a_store(name))
        .map(|(name, value)| {
            (
                name.clone(),
                if secret(name) {
                    Secret::new(value)
                } else {
                    Secret::unremembered(value)
                },
            )
        })
        .collect()
}

/// `lake.json` in the workspace: which lake the workspace belongs to, so that a changed bucket is noticed.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    lake: String,
}

fn note_path(workspace: &Path) -> PathBuf {
    workspace.join("lake.json")
}

/// The lake that the workspace belongs to. A damaged note is set aside: the lake itself knows its id.
fn noted(workspace: &Path) -> Result<Option<String>, WorkspaceError> {
    let path = note_path(workspace);
    let failed = |source| WorkspaceError::Io {
        path: workspace.to_owned(),
        source,
    };
    let text = match read(&RealDisk, &path, NOTE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match serde_json::from_slice::<Note>(&text) {
        Ok(note) => Ok(Some(note.lake)),
        Err(error) => {
            let aside = path.with_extension("json.damaged");
            tracing::error!(%error, aside = %aside.display(), "`lake.json` is damaged and was set aside");
            RealDisk.rename(&path, &aside).map_err(failed)?;
            Ok(None)
        }
    }
}

/// Makes sure that the lake is ours, the same in every mirror, and the one this workspace belongs to.
pub(crate) async fn establish(mirrors: &Mirrors, workspace: &Path) -> Result<Identity, Failure> {
    let expected = if is_forgetful(mirrors) {
        None
    } else {
        noted(workspace)?
    };
    Ok(mirrors
        .establish(expected.as_deref(), version::NAME)
        .await?)
}

/// Lakes in memory are new each time, so a workspace cannot belong to one.
fn is_forgetful(mirrors: &Mirrors) -> bool {
    mirrors.iter().all(|lake| lake.url().starts_with("memory:"))
}

/// What is wrong with the lakes as they are, without making or changing anything; for `doctor`.
pub(crate) async fn verify(mirrors: &Mirrors, workspace: &Path) -> Result<(), Failure> {
    let expected = if is_forgetful(mirrors) {
        None
    } else {
        noted(workspace)?
    };
    Ok(mirrors.verify(expected.as_deref()).await?)
}

/// Notes in the workspace which lake it belongs to.
pub(crate) fn note(workspace: &Path, mirrors: &Mirrors, identity: &Identity) -> io::Result<()> {
    if is_forgetful(mirrors) {
        return Ok(());
    }
    let text = serde_json::to_vec(&Note {
        lake: identity.lake.clone(),
    })
    .expect("a note is plain data");
    write_private(&RealDisk, &note_path(workspace), &text)
}
