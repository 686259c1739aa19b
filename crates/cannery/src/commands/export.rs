//! `cannery export duckdb`: SQL that makes views over the lake.

use cannery_catalog::{Attached, DuckDb};
use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_pipeline::export::{Readable, Wanted, readable};
use cannery_runtime::RealDisk;
use cannery_runtime::disk::write_durably;
use serde_json::json;

use super::Context;
use super::archive::Works;
use crate::cli::archive::{DuckdbArgs, ExportCommand};
use crate::config::database::DatabasePlace;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;

pub(crate) async fn run(command: &ExportCommand, context: &Context) -> Result<ExitCode, Failure> {
    match command {
        ExportCommand::Duckdb(args) => duckdb(args, context).await,
    }
}

async fn duckdb(args: &DuckdbArgs, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::existing(context).await?;
    let wanted = Wanted {
        from: args.from,
        to: args.to,
        kind: args.kind.clone(),
    };
    let found = readable(&works.plant, works.generation()?, &wanted).await?;
    let places = |lake: &Lake, keys: &[Key]| {
        let places = keys.iter().map(|key| place_of(lake.url(), key));
        places.collect::<Result<Vec<_>, _>>()
    };
    let by_kind = |lake: &Lake, kinds: &std::collections::BTreeMap<String, Vec<Key>>| {
        let kinds = kinds.iter();
        kinds
            .map(|(kind, keys)| Ok((kind.clone(), places(lake, keys)?)))
            .collect::<Result<_, Failure>>()
    };
    let (raw, public) = (&works.plant.raw, &works.plant.public);
    let views = DuckDb {
        bundles: by_kind(raw, &found.bundles)?,
        archives: by_kind(public, &found.lines)?,
        indexes: places(public, &found.indexes)?,
        catalog: match args.no_catalog {
            true => None,
            false => Some(attached(&works.config.catalog)),
        },
        remarks: remarks(&found),
    };
    let script = views.script();
    let Some(path) = &args.out else {
        context.output.verbatim(&script);
        return Ok(ExitCode::Ok);
    };
    write_durably(&RealDisk, path, script.as_bytes()).map_err(|why| {
        let message = format!("cannot write `{}`: {why}", path.display());
        let next = "choose another file with `--out`, or leave it out for standard output";
        Failure::new(ExitCode::Error, "output", message, next)
    })?;
    let count = |kinds: &std::collections::BTreeMap<String, Vec<Key>>| {
        kinds.values().map(Vec::len).sum::<usize>() as u64
    };
    let (bundles, lines) = (count(&found.bundles), count(&found.lines));
    let text = format!(
        "{}: {}, {}, {}",
        path.display(),
        counted(bundles, "bundle"),
        counted(lines, "archive"),
        counted(found.indexes.len() as u64, "index file"),
    );
    let value = json!({ "file": path.display().to_string(), "bundles": bundles, "archives": lines,
        "indexes": found.indexes.len(), "other_archives": found.other_archives, "large": found.large.len() });
    context.output.event("exported", text, &value);
    Ok(ExitCode::Ok)
}

/// Where DuckDB finds an object.
fn place_of(lake: &str, key: &Key) -> Result<String, Failure> {
    if let Some(folder) = lake.strip_prefix("file:") {
        let path = std::path::Path::new(folder).join(key.as_str());
        let whole = std::path::absolute(&path).unwrap_or(path);
        return Ok(whole.display().to_string());
    }
    match lake.split_once("://") {
        Some(("s3" | "gs", _)) => Ok(format!("{lake}/{key}")),
        Some(("az", rest)) => Ok(format!("azure://{rest}/{key}")),
        _ => {
            let message = format!("DuckDB cannot read a lake at `{lake}`");
            let next = "export from a lake in a folder or in object storage";
            Err(Failure::new(ExitCode::Usage, "invalid", message, next))
        }
    }
}

fn attached(place: &DatabasePlace) -> Attached {
    match place {
        DatabasePlace::Sqlite(path) => {
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Attached::Sqlite(whole.display().to_string())
        }
        DatabasePlace::Postgres(url) => Attached::Postgres(without_password(url.expose())),
    }
}

/// The address of a database with no password at all: libpq then asks its own sources, such as `PGPASSWORD`.
fn without_password(url: &str) -> String {
    let (start, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (format!("{}@", user.split(':').next().unwrap_or("")), place),
        None => (String::new(), rest),
    };
    let Some((place, query)) = place.split_once('?') else {
        return format!("{start}{user}{place}");
    };
    let pairs = query
        .split('&')
        .filter(|pair| !pair.starts_with("password="));
    let query = pairs.collect::<Vec<_>>().join("&");
    format!("{start}{user}{place}?{query}")
}

fn remarks(found: &Readable) -> Vec<String> {
    let mut remarks = vec![
        "Every file is named: run `cannery export duckdb` again for what came since.".to_owned(),
    ];
    if found.other_archives > 0 {
        remarks.push(format!(
            "{} not in a view: DuckDB reads neither LZ4 nor tar. `archive_index` says what is in them; `cannery get UID` reads one measurement, `tar -I lz4 -xf` or `lz4 -d` a file.",
            counted(found.other_archives, "archive")
        ));
    }
    if !found.large.is_empty() {
        remarks.push(format!(
            "{} above 64 MiB not in a view: the lake keeps them in parts. `cannery lake cat KEY` writes one as a file.",
            counted(found.large.len() as u64, "object")
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_gets_into_a_script() {
        for (url, without) in [
            ("postgres://u:geh@im@h/db", "postgres://u@h/db"),
            ("postgres://h/db", "postgres://h/db"),
            (
                "postgres://u@h/db?password=geheim&sslmode=require",
                "postgres://u@h/db?sslmode=require",
            ),
        ] {
            assert_eq!(without_password(url), without);
        }
    }

    #[test]
    fn every_store_has_its_words() {
        let key = Key::new("a/b").unwrap();
        for (lake, place) in [
            ("file:/lake", "/lake/a/b"),
            ("s3://bucket/p", "s3://bucket/p/a/b"),
            ("gs://bucket", "gs://bucket/a/b"),
            ("az://box", "azure://box/a/b"),
        ] {
            assert_eq!(place_of(lake, &key).unwrap(), place);
        }
        assert!(place_of("memory:", &key).is_err());
    }
}
