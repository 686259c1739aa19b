//! The names of users' objects are made anew, from the snapshots and the log in the lake.

use std::sync::Arc;

use cannery_objects::is_behind_lake;
use cannery_runtime::workspace::WorkspaceLock;
use cannery_state::State;
use serde_json::json;

use super::super::{Context, Patience};
use crate::api_service::namespace_parts;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::counted;
use crate::{lakes, plant};

/// Whether it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// In any case.
    Always,
    /// If the lake has changes that the database does not know.
    Behind,
}

/// Makes them anew. A server of this workspace must not run.
pub(super) async fn rebuild(when: When, context: &Context) -> Result<(), Failure> {
    let config = context.config().await?;
    let state = plant::state(&config, context).await?;
    let done = rebuild_on(&state, &config, when, context).await;
    state.close().await;
    done
}

async fn rebuild_on(
    state: &State,
    config: &Config,
    when: When,
    context: &Context,
) -> Result<(), Failure> {
    let mirrors = lakes::open(config, &context.tools(Patience::Daemon))?;
    lakes::verify(&mirrors, &config.workspace).await?;
    let mirrors = Arc::new(lakes::collecting(config, &mirrors));
    if when == When::Behind && !is_behind_lake(state, &mirrors, &context.rng).await? {
        return Ok(());
    }
    let disk = context.disk();
    let _lock =
        WorkspaceLock::acquire(&*disk, &config.workspace, "cannery rebuild", &context.clock)?;
    let parts = namespace_parts(state, &mirrors, config, context);
    let bar = context.output.counter();
    let report = cannery_objects::rebuild(&parts, &|progress| {
        bar.set_message(format!(
            "{} of changes read",
            counted(progress.lines_read, "line")
        ));
    })
    .await;
    bar.finish_and_clear();
    let report = report?;
    let text = format!(
        "names of users' objects: {}, up to change {}; {} restored",
        counted(report.entries, "name"),
        report.version,
        counted(report.users_restored, "user"),
    );
    let value = json!({ "entries": report.entries, "version": report.version,
        "log_parts": report.log_parts, "users_restored": report.users_restored });
    context.output.event("rebuilt_objects", text, &value);
    Ok(())
}
