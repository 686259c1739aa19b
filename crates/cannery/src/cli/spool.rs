//! The command line of what is collected from folders.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::config::spool::{BadFilesWord, RawDatatype, RawSpool, SpoolFullWord};
use crate::config::units::{Bytes, Span};

use super::StorageArg;

#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    #[command(flatten)]
    pub(crate) spool: SpoolArgs,
    /// End once everything that is there has been collected
    #[arg(long)]
    pub(crate) once: bool,
    /// Also serve the dashboard at this address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Also serve read-only monitoring on this port of all addresses
    #[arg(long, value_name = "PORT")]
    pub(crate) monitoring_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The folder, which holds EXPERIMENT/DATATYPE/YYYY/MM/DD/FILE
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) spool: SpoolArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// A datatype; may be repeated [default: all of the configuration]
    #[arg(long = "datatype", value_name = "NAME")]
    pub(crate) datatypes: Vec<String>,
    /// The schema file of a datatype, where it is not HOME/datatypes/NAME.json; may be repeated
    #[arg(long = "datatype-file", value_name = "NAME:FILE", value_parser = named_file)]
    pub(crate) files: Vec<(String, PathBuf)>,
    /// The folder that holds `datatypes` [default: of the configuration, or WORKSPACE/spool]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    /// Whether rows have an `id`
    #[arg(long)]
    pub(crate) id_column: bool,
    /// Also write the schema of index lines that are rows
    #[arg(long)]
    pub(crate) index_loadable: bool,
    /// Write into this folder
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// Show what waits to be collected and shipped, on this machine's disk
    #[command(
        after_help = "Examples:\n  cannery spool status\n  cannery spool status --json\n\nReads the folders only; works beside a running `cannery collect` and without one."
    )]
    Status {
        /// Only this experiment
        #[arg(long, value_name = "NAME")]
        experiment: Option<String>,
    },
    /// Look at files that could not be collected, and put them back
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
    /// Compare the inventory of what this node shipped with what is in the lake
    #[command(
        after_help = "Examples:\n  cannery spool check\n  cannery spool check --contents\n\nCompares names and lengths; with --contents, every byte. Exit code 20 when something is missing, changed, or the inventory was tampered with."
    )]
    Check {
        /// Only this experiment
        #[arg(long, value_name = "NAME")]
        experiment: Option<String>,
        /// Read every object, and compare its content with its digest
        #[arg(long)]
        contents: bool,
        #[command(flatten)]
        storage: StorageArg,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List what is there, the oldest first, with the reasons
    #[command(
        after_help = "Examples:\n  cannery spool quarantine ls\n  cannery spool quarantine ls --home /var/spool --json"
    )]
    Ls {
        #[command(flatten)]
        home: HomeArg,
    },
    /// Put files back where they lay, to be tried again
    #[command(
        after_help = "Examples:\n  cannery spool quarantine release 20261115/20261115T182403.850914Z-a.json\n  cannery spool quarantine release --all"
    )]
    Release {
        /// Which, as `ls` names them
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<String>,
        /// Everything that is there
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        home: HomeArg,
    },
}

#[derive(Debug, Args)]
pub(crate) struct HomeArg {
    /// The folder of the spools [default: those of the configuration, or WORKSPACE/spool]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
}

/// Where records lie in the lake.
#[derive(Debug, Args)]
pub(crate) struct ObjectHomeArgs {
    /// What the keys begin with [default: of the configuration, or autoload/v1]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) object_home: Option<String>,
    /// Whose data it is, with autoload/v2
    #[arg(long, value_name = "NAME")]
    pub(crate) organization: Option<String>,
}

/// The keys of a spool as flags. Each wins over the configuration.
#[derive(Debug, Args)]
pub(crate) struct SpoolArgs {
    /// The spool: one of the configuration, or a new one [default: all of the configuration]
    #[arg(long, value_name = "NAME")]
    pub(crate) experiment: Option<String>,
    /// A datatype that is collected; may be repeated
    #[arg(long = "datatype", value_name = "NAME")]
    pub(crate) datatypes: Vec<String>,
    /// The schema file of a datatype, where it is not HOME/datatypes/NAME.json; may be repeated
    #[arg(long = "datatype-file", value_name = "NAME:FILE", value_parser = named_file)]
    pub(crate) files: Vec<(String, PathBuf)>,
    /// The folder that holds EXPERIMENT/DATATYPE/YYYY/MM/DD/FILE [default: WORKSPACE/spool]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) objects: ObjectHomeArgs,
    /// How the names of files end that are collected; may be repeated [default: .json]
    #[arg(long = "extension", value_name = ".EXT")]
    pub(crate) extensions: Vec<String>,
    /// How many bytes of rows make a bundle full [default: 20MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) bundle_bytes_max: Option<Bytes>,
    /// How long a bundle waits for more files [default: 1h]
    #[arg(long, value_name = "TIME")]
    pub(crate) bundle_age_max: Option<Span>,
    /// From this age on a missed file is looked after, and a wrong one is bad [default: 2h]
    #[arg(long, value_name = "TIME")]
    pub(crate) min_file_age: Option<Span>,
    /// How often missed files are looked for [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) scan_interval: Option<Span>,
    /// How long a stop may take [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub(crate) flush_timeout: Option<Span>,
    /// Whether the table schemas in the lake are made and widened [default: true]
    #[arg(long, value_name = "BOOL")]
    pub(crate) upload_schema: Option<bool>,
    /// What becomes of bad files: quarantine, delete or keep [default: quarantine]
    #[arg(long, value_name = "WAY")]
    pub(crate) bad_files: Option<BadFilesWord>,
    /// How much the quarantine holds [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) quarantine_bytes_max: Option<Bytes>,
    /// From how many bytes on the spool is too full [default: none]
    #[arg(long, value_name = "SIZE")]
    pub(crate) spool_bytes_max: Option<Bytes>,
    /// What is done then: refuse or drop_oldest_bad [default: refuse]
    #[arg(long, value_name = "WAY")]
    pub(crate) spool_full: Option<SpoolFullWord>,
    /// Whether rows have an `id` [default: false]
    #[arg(long, value_name = "BOOL")]
    pub(crate) id_column: Option<bool>,
    /// Whether index lines are rows too [default: false]
    #[arg(long, value_name = "BOOL")]
    pub(crate) index_loadable: Option<bool>,
}

impl SpoolArgs {
    /// What was said, in the words of the configuration.
    pub(crate) fn to_raw(&self) -> RawSpool {
        RawSpool {
            experiment: self.experiment.clone(),
            home: self.home.clone(),
            object_home: self.objects.object_home.clone(),
            organization: self.objects.organization.clone(),
            datatypes: named_datatypes(&self.datatypes, &self.files),
            extensions: (!self.extensions.is_empty()).then(|| self.extensions.clone()),
            bundle_bytes_max: self.bundle_bytes_max,
            bundle_age_max: self.bundle_age_max,
            min_file_age: self.min_file_age,
            scan_interval: self.scan_interval,
            flush_timeout: self.flush_timeout,
            upload_schema: self.upload_schema,
            bad_files: self.bad_files,
            quarantine_bytes_max: self.quarantine_bytes_max,
            spool_bytes_max: self.spool_bytes_max,
            spool_full: self.spool_full,
            id_column: self.id_column,
            index_loadable: self.index_loadable,
        }
    }
}

/// The datatypes that were named, each with the file that was named for it. A file alone names its datatype too.
pub(crate) fn named_datatypes(names: &[String], files: &[(String, PathBuf)]) -> Vec<RawDatatype> {
    let file_of = |name: &String| {
        let mut named = files.iter().filter(|(of, _)| of == name);
        named.next_back().map(|(_, file)| file.clone())
    };
    let mut all: Vec<&String> = names.iter().collect();
    for (name, _) in files {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let datatypes = all.into_iter().map(|name| RawDatatype {
        name: name.clone(),
        schema_file: file_of(name),
    });
    datatypes.collect()
}

/// `bar1:/path/to/bar1.json`
fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once(':') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(file)))
        }
        _ => Err("write the datatype and its file, for example bar1:/path/to/bar1.json".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datatype_has_the_file_that_was_named_for_it() {
        let files = [named_file("bar1:/a/b:c.json").unwrap()];
        let datatypes = named_datatypes(&["foo1".to_owned(), "bar1".to_owned()], &files);
        let shown: Vec<_> = datatypes
            .iter()
            .map(|datatype| (datatype.name.as_str(), datatype.schema_file.is_some()))
            .collect();
        assert_eq!(shown, [("foo1", false), ("bar1", true)]);
        for text in ["", "bar1", ":x", "bar1:"] {
            assert!(named_file(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_alone_names_its_datatype() {
        let files = [named_file("bar1:x.json").unwrap()];
        assert_eq!(named_datatypes(&[], &files)[0].name, "bar1");
    }
}
