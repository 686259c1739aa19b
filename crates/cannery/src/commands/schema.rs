//! `cannery schema`: the table schemas of datatypes, written to look at.

use cannery_collect::schema::{SchemaFile, write_local, write_local_index};
use cannery_formats::spool::Datatype;
use cannery_runtime::RealDisk;
use serde_json::json;

use super::Context;
use crate::cli::spool::{SchemaArgs, named_datatypes};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};

pub(crate) async fn run(args: &SchemaArgs, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let mut tables = Vec::new();
    for wanted in wanted(args, &config)? {
        let file = SchemaFile::read(&RealDisk, &wanted.datatype, &wanted.file)?;
        tables.push((wanted, file));
    }
    for (wanted, file) in tables {
        let table = file.table(wanted.id_column);
        let written = write_local(&RealDisk, &args.dir, &wanted.datatype, &table)?;
        context.output.line(
            format!("{} from {}", written.display(), file.path().display()),
            &json!({ "datatype": wanted.datatype.as_str(), "table": written, "schema_file": file.path() }),
        );
    }
    let all = args.datatypes.is_empty() && args.files.is_empty();
    let loadable = config.spools.iter().any(|spool| spool.index_loadable);
    if args.index_loadable || (all && loadable) {
        let written = write_local_index(&RealDisk, &args.dir)?;
        let value = json!({ "datatype": "index1", "table": written, "schema_file": null });
        context.output.line(written.display().to_string(), &value);
    }
    Ok(ExitCode::Ok)
}

struct Wanted {
    datatype: Datatype,
    file: std::path::PathBuf,
    id_column: bool,
}

/// The datatypes that were named, or all of the configuration.
fn wanted(args: &SchemaArgs, config: &Config) -> Result<Vec<Wanted>, Failure> {
    let mut wanted = Vec::new();
    let named = named_datatypes(&args.datatypes, &args.files);
    if named.is_empty() {
        for spool in &config.spools {
            wanted.extend(spool.datatypes.iter().map(|datatype| Wanted {
                datatype: datatype.name.clone(),
                file: datatype.schema_file.clone(),
                id_column: args.id_column || spool.id_column,
            }));
        }
    }
    let default = config.workspace.join("spool");
    let home = args.home.as_ref().unwrap_or(&default);
    for named in named {
        let datatype = Datatype::new(&named.name).map_err(|error| {
            let next = "write a name of lower-case letters and digits, such as foo1";
            Failure::new(ExitCode::Usage, "invalid", error.to_string(), next)
        })?;
        let configured = config.spools.iter().flat_map(|spool| &spool.datatypes);
        let configured = configured.into_iter().find(|known| known.name == datatype);
        let file = match (named.schema_file, &args.home, configured) {
            (Some(file), _, _) => file,
            (None, None, Some(known)) => known.schema_file.clone(),
            (None, _, _) => SchemaFile::default_path(home, &datatype),
        };
        wanted.push(Wanted {
            datatype,
            file,
            id_column: args.id_column,
        });
    }
    if wanted.is_empty() {
        let next = "name one with `--datatype NAME`, or list spools in the configuration";
        return Err(Failure::new(
            ExitCode::Usage,
            "no_datatype",
            "there is no datatype to make a table schema of",
            next,
        ));
    }
    Ok(wanted)
}
