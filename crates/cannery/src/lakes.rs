//! From the configuration to open lakes, and the note in the workspace that says which lake it belongs to.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_lake::{Identity, Lake, LakeMetrics, Mirrors, Parts, Remembered, RetryPolicy};
use cannery_runtime::disk::{Disk, read, write_private};
use cannery_runtime::workspace::WorkspaceError;
use cannery_runtime::{Clock, RealDisk, Rng, Secret};
use serde::{Deserialize, Serialize};

use crate::cli::StorageArg;
use crate::config::Config;
use crate::config::environment::is_of_a_store;
use crate::config::pipeline::Stores;
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

/// The stores that collected data goes to: all but one that is for archives alone.
pub(crate) fn collecting(config: &Config, mirrors: &Mirrors) -> Mirrors {
    let storage = &config.pipeline.storage;
    let raw = mirrors.iter().filter(|lake| !storage.is_apart(lake.id()));
    Mirrors::new(raw.cloned().collect()).expect("the first storage is not for archives alone")
}

/// Where what the stages of the pipeline make is: often the same.
#[derive(Clone, Debug)]
pub(crate) struct StageLakes {
    /// Where cans are, and all that is not for others.
    pub(crate) raw: Lake,
    /// Where archives are.
    pub(crate) public: Lake,
}

impl StageLakes {
    pub(crate) fn of(stores: &Stores, mirrors: &Mirrors) -> Self {
        let by_id = |id: &str| mirrors.by_id(id).expect("a checked id").clone();
        Self {
            raw: by_id(&stores.canned),
            public: by_id(&stores.autoclaved),
        }
    }

    /// Both, or the one that there is.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Lake> {
        let is_other = self.public.id() != self.raw.id();
        std::iter::once(&self.raw).chain(is_other.then_some(&self.public))
    }
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
    let secret = |name: &str| {
        ["KEY", "SECRET", "TOKEN", "PASSWORD", "CREDENTIAL", "SAS"]
            .iter()
            .any(|sign| name.contains(sign))
    };
    variables
        .iter()
        .filter(|(name, _)| is_of_a_store(name))
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

/// `lake.json` in the workspace: which lake the workspace belongs to, so that a changed bucket is noticed, and which stores had it, so
/// that an emptied one is.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    lake: String,
    /// Not known in a note of a version that did not write it.
    #[serde(default)]
    stores: BTreeSet<String>,
}

fn note_path(workspace: &Path) -> PathBuf {
    workspace.join("lake.json")
}

/// What the workspace remembers of its lake. A damaged note is set aside: the lake itself knows its id.
fn noted(workspace: &Path) -> Result<Option<Remembered>, WorkspaceError> {
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
        Ok(Note { lake, stores }) => Ok(Some(Remembered { lake, stores })),
        Err(error) => {
            let aside = path.with_extension("json.damaged");
            match RealDisk.rename(&path, &aside) {
                Ok(()) => {
                    tracing::error!(%error, aside = %aside.display(), "`lake.json` is damaged and was set aside");
                }
                // Whoever may not write here does not rely on the note.
                Err(why) => {
                    tracing::error!(%error, %why, "`lake.json` is damaged and cannot be set aside");
                }
            }
            Ok(None)
        }
    }
}

/// What the workspace remembers of the lake in these mirrors.
pub(crate) fn remembered(
    mirrors: &Mirrors,
    workspace: &Path,
) -> Result<Option<Remembered>, Failure> {
    if mirrors.iter().all(is_forgetful) {
        return Ok(None);
    }
    Ok(noted(workspace)?)
}

/// Makes sure that the lake is ours, the same in every mirror, and the one this workspace belongs to.
pub(crate) async fn establish(mirrors: &Mirrors, workspace: &Path) -> Result<Identity, Failure> {
    let known = remembered(mirrors, workspace)?;
    Ok(mirrors.establish(known.as_ref(), version::NAME).await?)
}

/// A lake in memory is new each time, so a workspace cannot belong to one.
fn is_forgetful(lake: &Lake) -> bool {
    lake.url().starts_with("memory:")
}

/// What is wrong with the lakes as they are, without making or changing anything; for `doctor`.
pub(crate) async fn verify(mirrors: &Mirrors, workspace: &Path) -> Result<(), Failure> {
    let known = remembered(mirrors, workspace)?;
    Ok(mirrors.verify(known.as_ref()).await?)
}

/// Notes in the workspace which lake it belongs to, and that these stores have it.
pub(crate) fn note<'a>(
    workspace: &Path,
    lake: &str,
    stores: impl Iterator<Item = &'a Lake>,
) -> Result<(), Failure> {
    let stores = stores.filter(|lake| !is_forgetful(lake));
    let stores: BTreeSet<String> = stores.map(|lake| lake.id().to_owned()).collect();
    if stores.is_empty() {
        return Ok(());
    }
    let before = noted(workspace)?.filter(|before| before.lake == lake);
    let before = before.map(|before| before.stores).unwrap_or_default();
    let note = Note {
        lake: lake.to_owned(),
        stores: &before | &stores,
    };
    // What is written already needs no place to write to.
    if !before.is_empty() && note.stores == before {
        return Ok(());
    }
    let text = serde_json::to_vec(&note).expect("a note is plain data");
    write_private(&RealDisk, &note_path(workspace), &text).map_err(|source| {
        let path = workspace.to_owned();
        WorkspaceError::Io { path, source }.into()
    })
}

/// Makes an empty store part of the lake that the workspace belongs to, because a person says that it is new on purpose; whether it was
/// made just now.
pub(crate) async fn join(
    mirrors: &Mirrors,
    lake: &Lake,
    workspace: &Path,
) -> Result<(String, bool), Failure> {
    let Some(known) = remembered(mirrors, workspace)? else {
        let message = "this workspace does not belong to a lake yet";
        let next = "run `cannery up`: it makes a new lake in every object storage, or joins the one that is there";
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    };
    let made = mirrors.join(lake, &known, version::NAME).await?;
    note(workspace, &known.lake, std::iter::once(lake))?;
    Ok((known.lake, made))
}
