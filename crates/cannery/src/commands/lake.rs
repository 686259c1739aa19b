//! `cannery lake`

use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use cannery_formats::Key;
use cannery_lake::{Body, Lake, Mirrors, PutNew, probe};
use futures::TryStreamExt as _;
use serde_json::json;

use super::{Context, Patience};
use crate::cli::{LakeCommand, StorageArg};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::lakes;

/// How much of an object is read at once.
const CHUNK_BYTES: u64 = 8 * 1024 * 1024;

const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_millis(200);

/// Standard input is held in memory; what is longer belongs into a file.
const STDIN_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) async fn run(command: &LakeCommand, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
    match command {
        LakeCommand::Ls { folder, storage } => {
            list(
                folder.as_deref(),
                &readable(&mirrors, storage).await?,
                context,
            )
            .await
        }
        LakeCommand::Cat {
            key,
            range,
            storage,
        } => {
            cat(
                &parse_key(key)?,
                range.clone(),
                &readable(&mirrors, storage).await?,
                context,
            )
            .await
        }
        LakeCommand::Put { key, file, storage } => {
            put(
                &own_key(key)?,
                file,
                &writable(&mirrors, storage, &config).await?,
                context,
            )
            .await
        }
        LakeCommand::Rm { keys, storage } => {
            let keys = keys
                .iter()
                .map(|key| own_key(key))
                .collect::<Result<Vec<_>, _>>()?;
            remove(&keys, &writable(&mirrors, storage, &config).await?, context).await
        }
        LakeCommand::Join { id } => join(id, &mirrors, &config, context).await,
        LakeCommand::Probe { storage } => {
            show_probe(lakes::chosen(&mirrors, storage)?, context).await
        }
    }
}

fn parse_key(text: &str) -> Result<Key, Failure> {
    Key::new(text.trim_end_matches('/')).map_err(|error| {
        Failure::new(
            ExitCode::Usage,
            "invalid_key",
            error.to_string(),
            "write a key such as `folder/name.json`",
        )
    })
}

/// A key that a person may write to.
fn own_key(text: &str) -> Result<Key, Failure> {
    let key = parse_key(text)?;
    if key.is_internal() || key.is_of_users() {
        let message = format!("`{key}` belongs to the lake itself and is not written by hand");
        return Err(Failure::new(
            ExitCode::Usage,
            "invalid_key",
            message,
            "choose another key",
        ));
    }
    Ok(key)
}

/// The lake to read, which must be one that this version understands.
async fn readable(mirrors: &Mirrors, storage: &StorageArg) -> Result<Lake, Failure> {
    let lake = lakes::chosen(mirrors, storage)?;
    lake.manifest().await?;
    Ok(lake.clone())
}

/// The lakes to write, probed, and made if they are new. One of several mirrors must be there already: made alone it could
/// become another lake.
async fn writable(
    mirrors: &Mirrors,
    storage: &StorageArg,
    config: &Config,
) -> Result<Mirrors, Failure> {
    let wanted = match &storage.storage {
        // What others may read gets nothing that nobody has named for it.
        None => lakes::collecting(config, mirrors),
        Some(_) => {
            let lake = lakes::chosen(mirrors, storage)?;
            if lake.manifest().await?.is_none() && mirrors.iter().count() > 1 {
                let message = format!("object storage `{}` is not a lake yet", lake.id());
                return Err(Failure::new(
                    ExitCode::Absent,
                    "store_missing",
                    message,
                    "run `cannery up` once to make it",
                ));
            }
            Mirrors::new(vec![lake.clone()]).expect("one lake is enough")
        }
    };
    lakes::establish(&wanted, &config.workspace).await?;
    for lake in wanted.iter() {
        lake.ensure_probed().await?;
    }
    Ok(wanted)
}

async fn join(
    id: &str,
    mirrors: &Mirrors,
    config: &Config,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let storage = StorageArg {
        storage: Some(id.to_owned()),
    };
    let lake = lakes::chosen(mirrors, &storage)?;
    let (identity, made) = lakes::join(mirrors, lake, &config.workspace).await?;
    let text = match made {
        true => format!("object storage `{id}` is part of lake `{identity}` now"),
        false => format!("object storage `{id}` is part of lake `{identity}` already"),
    };
    let value = json!({ "storage": id, "lake": identity, "made": made });
    context.output.event("joined", text, &value);
    Ok(ExitCode::Ok)
}

async fn list(folder: Option<&str>, lake: &Lake, context: &Context) -> Result<ExitCode, Failure> {
    let folder = folder
        .filter(|text| !text.trim_matches('/').is_empty())
        .map(parse_key)
        .transpose()?;
    let mut entries = lake.list(folder.as_ref());
    let mut given = 0;
    loop {
        match entries.try_next().await {
            Ok(Some(entry)) => {
                let (bytes, modified) = (
                    entry.stored_bytes,
                    entry
                        .modified
                        .round(jiff::Unit::Second)
                        .unwrap_or(entry.modified),
                );
                let text = format!("{bytes:>12}  {modified}  {}", entry.key);
                context.output.line(
                    text,
                    &json!({ "key": entry.key, "stored_bytes": bytes, "modified": modified }),
                );
                given += 1;
            }
            Ok(None) => return Ok(ExitCode::Ok),
            Err(error) => return Err(Failure::from(error).after_partial_output(given)),
        }
    }
}

async fn cat(
    key: &Key,
    range: Option<Range<u64>>,
    lake: &Lake,
    context: &Context,
) -> Result<ExitCode, Failure> {
    if let Some(range) = range {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + CHUNK_BYTES);
            context.output.raw(&lake.get_range(key, start..end).await?);
            start = end;
        }
        return Ok(ExitCode::Ok);
    }
    let mut pieces = lake.stream(key).await?;
    while let Some(piece) = pieces.try_next().await? {
        context.output.raw(&piece);
    }
    Ok(ExitCode::Ok)
}

async fn put(
    key: &Key,
    file: &Path,
    mirrors: &Mirrors,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let (body, bytes) = read_body(file)?;
    let put = with_progress(
        mirrors,
        bytes,
        &format!("putting {key}"),
        context,
        mirrors.put_new(key, body),
    )
    .await;
    let mut failures = Vec::new();
    for (id, outcome) in put.outcomes() {
        let (word, text) = match outcome {
            Ok(PutNew::Created) => ("created", format!("created {key} in {id} ({bytes} bytes)")),
            Ok(PutNew::Same) => (
                "same",
                format!("{key} was in {id} already, with the same content"),
            ),
            Ok(PutNew::Different) => {
                failures.push(conflict(key, id));
                continue;
            }
            Err(error) => {
                failures.push(error.clone().into());
                continue;
            }
        };
        context.output.line(
            text,
            &json!({ "key": key, "storage": id, "outcome": word, "bytes": bytes }),
        );
    }
    let all = mirrors.iter().count();
    let failed = failures.len();
    match failures.pop() {
        None => Ok(ExitCode::Ok),
        Some(failure) if failed == all => Err(failure),
        Some(failure) => {
            let message = format!(
                "{} of {all} mirrors have it: {}",
                all - failed,
                failure.message
            );
            Err(Failure {
                code: ExitCode::Partial,
                message,
                ..failure
            })
        }
    }
}

fn conflict(key: &Key, storage: &str) -> Failure {
    let message =
        format!("cannot put `{key}` in lake `{storage}`: an object with other content is there");
    let next = format!(
        "look at it with `cannery lake cat {key} --storage {storage}`, then choose another key, or remove it first"
    );
    Failure::new(ExitCode::Error, "conflict", message, next)
}

/// Shows how far the slowest mirror is while `work` runs.
async fn with_progress<T>(
    mirrors: &Mirrors,
    bytes: u64,
    what: &str,
    context: &Context,
    work: impl Future<Output = T>,
) -> T {
    let bar = context.output.progress(bytes, what);
    let written = || {
        mirrors
            .iter()
            .map(|lake| lake.totals().bytes_written)
            .min()
            .unwrap_or_default()
    };
    let before = written();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                bar.finish_and_clear();
                return done;
            }
            () = context.clock.sleep(PROGRESS_EVERY) => bar.set_position(written().saturating_sub(before)),
        }
    }
}

fn read_body(file: &Path) -> Result<(Body, u64), Failure> {
    let unreadable = |reason: String| {
        let message = format!("cannot read `{}`: {reason}", file.display());
        Failure::new(
            ExitCode::Usage,
            "unreadable",
            message,
            "name an existing file, or - for standard input",
        )
    };
    if file == Path::new("-") {
        let mut content = Vec::new();
        let read = std::io::stdin()
            .take(STDIN_BYTES_MAX + 1)
            .read_to_end(&mut content);
        let bytes = read.map_err(|error| unreadable(error.to_string()))? as u64;
        if bytes > STDIN_BYTES_MAX {
            return Err(unreadable(
                "standard input has more than 64 MiB; put it into a file first".to_owned(),
            ));
        }
        return Ok((content.into(), bytes));
    }
    let path = std::fs::canonicalize(file).map_err(|error| unreadable(error.to_string()))?;
    let found = std::fs::metadata(&path).map_err(|error| unreadable(error.to_string()))?;
    if !found.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    Ok((Body::File(path), found.len()))
}

async fn remove(keys: &[Key], mirrors: &Mirrors, context: &Context) -> Result<ExitCode, Failure> {
    for key in keys {
        for lake in mirrors.iter() {
            lake.delete(key).await?;
        }
        context.output.line(
            format!("{key} is gone"),
            &json!({ "key": key, "outcome": "gone" }),
        );
    }
    Ok(ExitCode::Ok)
}

async fn show_probe(lake: &Lake, context: &Context) -> Result<ExitCode, Failure> {
    let report = probe::probe(lake).await?;
    let word = |sound: bool| if sound { "yes" } else { "NO" };
    let mut lines = vec![format!("lake {} at {}", lake.id(), lake.url())];
    for (question, sound) in [
        ("a second create is refused", report.create_is_exclusive),
        (
            "a race of eight creates has one winner",
            report.create_race_has_one_winner,
        ),
        (
            "a wrong version is refused",
            report.update_refuses_wrong_version,
        ),
        (
            "the right version is accepted",
            report.update_accepts_right_version,
        ),
        ("a write is read back at once", report.reads_its_writes),
        ("a write is listed at once", report.lists_its_writes),
    ] {
        lines.push(format!("  {:<40} {}", question, word(sound)));
    }
    let versioning = report.versioning.map_or("the store does not tell", word);
    lines.push(format!("  {:<40} {versioning}", "old versions are kept"));
    for weakness in report.weaknesses() {
        lines.push(format!("  weaker: {weakness}"));
    }
    let value = json!({ "storage": lake.id(), "sound": report.is_sound(), "report": report, "weaknesses": report.weaknesses() });
    let output = context.output.in_lines();
    output.line(lines.join("\n"), &value);
    Ok(if report.is_sound() {
        ExitCode::Ok
    } else {
        ExitCode::Findings
    })
}
