//! Whether the spools can be collected, and whether a person should look at one.

use cannery_collect::schema::SchemaFile;
use indicatif::HumanBytes;

use super::{Finding, Verdict};
use crate::commands::Context;
use crate::config::Config;
use crate::config::spool::SpoolConfig;
use crate::output::counted;
use crate::spools;

pub(super) fn findings(config: &Config, context: &Context) -> Vec<Finding> {
    let spools = config.spools.iter();
    spools
        .map(|spool| look_at(spool, config, context))
        .collect()
}

fn look_at(spool: &SpoolConfig, config: &Config, context: &Context) -> Finding {
    let check = format!("spool {}", spool.experiment);
    let disk = context.disk();
    for datatype in &spool.datatypes {
        if let Err(error) = SchemaFile::read(&*disk, &datatype.name, &datatype.schema_file) {
            let next = "`cannery schema` shows the table that a schema file makes";
            return Finding::new(&check, Verdict::Fail, error.to_string(), next);
        }
    }
    let looked = spools::look(spool, config, context);
    let (found, quarantine) = match looked {
        Ok(looked) => looked,
        Err(error) => {
            let text = format!("cannot look into `{}`: {error}", spool.home.display());
            return Finding::new(
                &check,
                Verdict::Fail,
                text,
                "make the folder readable and writable",
            );
        }
    };
    let files = found.datatypes.iter().map(|datatype| datatype.files).sum();
    let bytes = found.datatypes.iter().map(|datatype| datatype.bytes).sum();
    let text = format!(
        "{}: {} waiting ({}), {} sealed, {} in quarantine",
        spool.home.display(),
        counted(files, "file"),
        HumanBytes(bytes),
        counted(found.bundles.len() as u64, "bundle"),
        counted(quarantine.files, "file"),
    );
    if quarantine.files > 0 {
        return Finding::new(
            &check,
            Verdict::Warn,
            text,
            "see `cannery spool quarantine ls`",
        );
    }
    Finding::ok(&check, text)
}
