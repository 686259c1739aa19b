//! `cannery config`

use serde_json::json;

use super::{Context, Patience};
use crate::cli::ConfigCommand;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::lakes;
use crate::output::counted;

pub(crate) async fn run(command: &ConfigCommand, context: &Context) -> Result<ExitCode, Failure> {
    let output = context.output;
    match command {
        ConfigCommand::Check => {
            let config = context.config().await?;
            lakes::open(&config, &context.tools(Patience::Person))?;
            let storages: Vec<&str> = config
                .object_storage
                .iter()
                .map(|storage| storage.id.as_str())
                .collect();
            let journals: Vec<&str> = config.journals.keys().map(String::as_str).collect();
            let (feeds, spools) = (config.feeds.len(), config.spools.len());
            let text = format!(
                "the configuration is valid (object storage: {}; journals: {}; {}; {})",
                storages.join(", "),
                journals.join(", "),
                counted(feeds as u64, "feed"),
                counted(spools as u64, "spool")
            );
            let warnings = config.warnings();
            if !output.json {
                for warning in &warnings {
                    output.aside(format!("warning: {warning}"), &());
                }
            }
            let value = json!({
                "valid": true, "object_storage": storages, "journals": journals,
                "feeds": feeds, "spools": spools, "warnings": warnings,
            });
            output.line(text, &value);
        }
        ConfigCommand::Show => {
            let config = context.config().await?;
            if output.json {
                output.json(&config);
            } else {
                let text = serde_saphyr::to_string(&config).expect("a configuration is plain data");
                output.verbatim(&text);
            }
        }
        ConfigCommand::Schema => {
            let text =
                serde_json::to_string_pretty(&Config::schema()).expect("a schema is plain data");
            output.verbatim(&(text + "\n"));
        }
    }
    Ok(ExitCode::Ok)
}
