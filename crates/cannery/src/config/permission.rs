//! What a configuration may do to this machine. The author of one from a URL may do nothing but what the person who starts the program
//! allows.

use std::path::Path;

use cannery_runtime::Secret;
use clap::ValueEnum;

use super::pipeline::RawInput;
use super::raw::{RawConfig, RawStorage};
use super::{ConfigError, database, node};

/// Who wrote a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Somebody on this machine.
    Here,
    /// Whoever answers at a URL, with what they are allowed all the same.
    Elsewhere(Vec<Permission>),
}

/// What `--config-allow` allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permission {
    /// Naming files and folders, whose content goes to the lake, and some of which are removed then.
    Files,
    /// Feeds from addresses that are not public, whose answers go to the lake.
    Private,
}

impl Permission {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Private => "private",
        }
    }

    fn what(self) -> &'static str {
        match self {
            Self::Files => "name a file or folder of this machine",
            Self::Private => "collect from addresses that are not public",
        }
    }
}

impl Origin {
    fn allows(&self, permission: Permission) -> bool {
        match self {
            Self::Here => true,
            Self::Elsewhere(allowed) => allowed.contains(&permission),
        }
    }

    /// Refuses what the author may not do. `workspace` is that of the command line. Only what is written counts: the defaults lie in the
    /// workspace, which is the choice of who starts the program.
    pub(super) fn check(
        &self,
        raw: &RawConfig,
        workspace: Option<&Path>,
    ) -> Result<(), ConfigError> {
        if !self.allows(Permission::Files)
            && let Some(key) = file_key(raw, workspace)
        {
            return Err(refused(Permission::Files, &key));
        }
        let mut feeds = raw.feeds.iter();
        if !self.allows(Permission::Private)
            && let Some(at) = feeds.position(|feed| feed.allow_private == Some(true))
        {
            let key = format!("feeds.{at}.allow_private");
            return Err(refused(Permission::Private, &key));
        }
        Ok(())
    }
}

fn refused(permission: Permission, key: &str) -> ConfigError {
    let next = match key {
        "workspace" => "give the folder by `--workspace`",
        _ => "remove the key",
    };
    let (what, word) = (permission.what(), permission.word());
    let reason = format!(
        "a configuration from a URL may not {what}; {next}, or allow it with `--config-allow {word}`"
    );
    ConfigError::new(0, reason).below(key)
}

/// The first key that names a file or folder.
fn file_key(raw: &RawConfig, workspace: Option<&Path>) -> Option<String> {
    let is_file = |place: Option<&Secret>| place.is_some_and(database::names_file);
    let one = [
        ("workspace", raw.workspace.is_some() && workspace.is_none()),
        ("node", raw.node.as_deref().is_some_and(node::names_file)),
        ("catalog", is_file(raw.catalog.as_ref())),
        ("state", is_file(raw.state.as_ref())),
        ("pipeline.rules", raw.pipeline.rules.is_some()),
        ("pipeline.features", raw.pipeline.features.is_some()),
        ("serve.tls", raw.serve.tls.is_some()),
    ];
    let one = one.into_iter().find(|(_, names_file)| *names_file);
    let mut storages = raw.object_storage.iter();
    let storage = storages.position(RawStorage::names_folder);
    let mut inputs = raw.pipeline.inputs.iter().flatten();
    let input = inputs.position(RawInput::names_folder);
    let mut spools = raw.spools.iter().enumerate();
    let spool = spools.find_map(|(at, spool)| Some(format!("spools.{at}.{}", spool.file_key()?)));
    one.map(|(key, _)| key.to_owned())
        .or(storage.map(|at| format!("object_storage.{at}.url")))
        .or(input.map(|at| format!("pipeline.inputs.{at}.reports")))
        .or(spool)
}

#[cfg(test)]
mod tests;
