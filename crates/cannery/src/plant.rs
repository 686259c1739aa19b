//! From the configuration to what the stages of the pipeline need.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use cannery_catalog::Catalog;
use cannery_lake::Mirrors;
use cannery_pipeline::features::Features;
use cannery_pipeline::inputs::{Choice, Inputs, Reports};
use cannery_pipeline::stage::Plant;
use cannery_pipeline::{Scratch, lake_key};
use cannery_runtime::RealDisk;
use cannery_runtime::disk::{Disk as _, Open, create_dir_all, read};
use cannery_sanitise::Rules;
use cannery_state::State;

use crate::commands::Context;
use crate::config::Config;
use crate::config::database::DatabasePlace;
use crate::config::pipeline::{Input, ReportsPlace, Selection};
use crate::failure::{ExitCode, Failure};
use crate::lakes::StageLakes;

/// Of a file that a person wrote.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What every stage needs, in the object storages that the configuration names.
pub(crate) async fn open(
    config: &Config,
    mirrors: &Mirrors,
    context: &Context,
) -> Result<Plant, Failure> {
    let StageLakes { raw, public } = StageLakes::of(&config.pipeline.storage, mirrors);
    let scratch = config.workspace.join("pipeline").join("scratch");
    let (clock, rng) = (&context.clock, &context.rng);
    let pipeline = &config.pipeline;
    Ok(Plant {
        scratch: Scratch::open(&scratch, rng.clone())?,
        clock: clock.clone(),
        encoder: pipeline.codec.encoder(),
        can_bytes: pipeline.can_bytes.0,
        frame_bytes: pipeline.frame_bytes.0,
        lake_key: lake_key(&raw, rng).await?,
        raw,
        public,
    })
}

/// Where reports come from.
pub(crate) fn inputs(config: &Config, plant: &Plant) -> Inputs {
    let mut inputs = Inputs {
        lake: plant.raw.clone(),
        reports: None,
        spools: Choice::None,
        feeds: Choice::None,
        settle: config.pipeline.reports_settle.0,
    };
    for input in &config.pipeline.inputs {
        match input {
            Input::Reports(ReportsPlace::Lake) => inputs.reports = Some(Reports::Lake),
            Input::Reports(ReportsPlace::Folder(folder)) => {
                inputs.reports = Some(Reports::Folder(folder.clone()));
            }
            Input::Spools(selection) => inputs.spools = choice(selection),
            Input::Feeds(selection) => inputs.feeds = choice(selection),
        }
    }
    inputs
}

fn choice(selection: &Selection) -> Choice {
    match selection {
        Selection::All => Choice::All,
        Selection::Only(names) => Choice::Only(names.iter().cloned().collect()),
    }
}

/// The catalog; a new one where there is none.
pub(crate) async fn catalog(config: &Config, context: &Context) -> Result<Catalog, Failure> {
    create_dir_all(&RealDisk, &config.workspace)
        .map_err(|why| unreadable("workspace", &config.workspace, &why.to_string()))?;
    let address = config.catalog.address();
    Ok(Catalog::open(&address, context.clock.clone()).await?)
}

/// The state: what is not in the lake; a new one where there is none.
pub(crate) async fn state(config: &Config, context: &Context) -> Result<State, Failure> {
    create_dir_all(&RealDisk, &config.workspace)
        .map_err(|why| unreadable("workspace", &config.workspace, &why.to_string()))?;
    if let DatabasePlace::Sqlite(path) = &config.state {
        make_private(path);
    }
    let address = config.state.address();
    Ok(State::open(&address, context.clock.clone()).await?)
}

/// Names of private objects and hashes of tokens are its owner's alone. One of an earlier version is made so. What is wrong with the
/// place is said by whoever opens it.
fn make_private(file: &Path) {
    RealDisk.open(file, Open::CreatePrivate).ok();
    for name in ["", "-wal", "-shm"] {
        let mut file = file.as_os_str().to_owned();
        file.push(name);
        // Of another owner it stays as it is.
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).ok();
    }
}

/// The rules of the sanitiser.
pub(crate) fn rules(config: &Config) -> Result<Arc<Rules>, Failure> {
    let Some(path) = &config.pipeline.rules else {
        return Ok(Arc::new(Rules::none()));
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let table = |file: &str| {
        let path = folder.join(file);
        text(&path).map_err(|why| format!("cannot read `{}`: {why}", path.display()))
    };
    let rules = text(path).map_err(|why| unreadable("rules", path, &why))?;
    let rules = Rules::parse(&rules, table);
    let rules = rules.map_err(|error| invalid("rules", path, &error.to_string()))?;
    Ok(Arc::new(rules))
}

/// What is taken out of measurements.
pub(crate) fn features(config: &Config) -> Result<Arc<Features>, Failure> {
    let Some(path) = &config.pipeline.features else {
        return Ok(Arc::new(Features::default()));
    };
    let features = text(path).map_err(|why| unreadable("features", path, &why))?;
    let features = Features::parse(&features);
    let features = features.map_err(|error| invalid("features", path, &error.to_string()))?;
    Ok(Arc::new(features))
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = read(&RealDisk, path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())
}

fn unreadable(what: &str, path: &Path, why: &str) -> Failure {
    let message = format!("cannot read the {what} `{}`: {why}", path.display());
    let next = format!("check `pipeline.{what}` in the configuration");
    Failure::new(ExitCode::Usage, "config_unreadable", message, next)
}

fn invalid(what: &str, path: &Path, why: &str) -> Failure {
    let message = format!("the {what} `{}` are not valid: {why}", path.display());
    let next = "correct the file, then run the command again";
    Failure::new(ExitCode::Usage, "config_invalid", message, next)
}
