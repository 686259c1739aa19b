//! A spool as it is written in the configuration, or said by the flags of a command.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use cannery_collect::spool::{BadFiles, SpoolFull};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::units::{Bytes, Span};

/// One spool: the files of one experiment, collected into the lake.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawSpool {
    /// The measurement service: lower-case letters and digits. It must be given.
    pub(crate) experiment: Option<String>,
    /// The folder that holds EXPERIMENT/DATATYPE/YYYY/MM/DD/FILE. Default: WORKSPACE/spool
    pub(crate) home: Option<PathBuf>,
    /// What the keys of the objects begin with: autoload/v1 or autoload/v2. Default: autoload/v1
    pub(crate) object_home: Option<String>,
    /// Whose data it is; autoload/v2 needs it, autoload/v1 has none.
    pub(crate) organization: Option<String>,
    /// What is collected; nothing else below the experiment's folder is touched.
    pub(crate) datatypes: Vec<RawDatatype>,
    /// How the names of files end that are collected. Default: [.json]
    pub(crate) extensions: Option<Vec<String>>,
    /// How many bytes of rows, uncompressed, make a bundle full. Default: 20MiB
    pub(crate) bundle_bytes_max: Option<Bytes>,
    /// How long a bundle waits for more files. Default: 1h
    pub(crate) bundle_age_max: Option<Span>,
    /// From this age on a file that nothing was heard of is looked after, and one that is wrong is bad. Default: 2h
    pub(crate) min_file_age: Option<Span>,
    /// How often missed files are looked for. Default: 5m
    pub(crate) scan_interval: Option<Span>,
    /// How long a stop may take before what is not shipped is left for the next start. Default: 60s
    pub(crate) flush_timeout: Option<Span>,
    /// Whether the table schemas in the lake are made and widened. Default: true
    pub(crate) upload_schema: Option<bool>,
    /// What becomes of files that cannot be collected. Default: quarantine
    pub(crate) bad_files: Option<BadFilesWord>,
    /// How much the quarantine holds before its oldest files are removed. Default: 1GiB
    pub(crate) quarantine_bytes_max: Option<Bytes>,
    /// From how many bytes on the spool is too full. Default: none
    pub(crate) spool_bytes_max: Option<Bytes>,
    /// What is done then. Default: refuse
    pub(crate) spool_full: Option<SpoolFullWord>,
    /// Whether rows have an `id`, the name of the file without its ending. Default: false
    pub(crate) id_column: Option<bool>,
    /// Whether index lines are rows too, with a table schema of their own. Default: false
    pub(crate) index_loadable: Option<bool>,
}

/// One datatype of a spool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map of keys")]
pub(crate) struct RawDatatype {
    /// Its name: lower-case letters and digits.
    pub(crate) name: String,
    /// The schema of its rows. Default: HOME/datatypes/NAME.json
    #[serde(default)]
    pub(crate) schema_file: Option<PathBuf>,
}

impl RawSpool {
    /// The first key that names a file or folder.
    pub(crate) fn file_key(&self) -> Option<String> {
        if self.home.is_some() {
            return Some("home".to_owned());
        }
        let mut datatypes = self.datatypes.iter();
        let at = datatypes.position(|datatype| datatype.schema_file.is_some())?;
        Some(format!("datatypes.{at}.schema_file"))
    }

    /// This spool with everything that `other` says in its place.
    pub(crate) fn overlaid(self, other: Self) -> Self {
        Self {
            experiment: other.experiment.or(self.experiment),
            home: other.home.or(self.home),
            object_home: other.object_home.or(self.object_home),
            organization: other.organization.or(self.organization),
            datatypes: if other.datatypes.is_empty() {
                self.datatypes
            } else {
                other.datatypes
            },
            extensions: other.extensions.or(self.extensions),
            bundle_bytes_max: other.bundle_bytes_max.or(self.bundle_bytes_max),
            bundle_age_max: other.bundle_age_max.or(self.bundle_age_max),
            min_file_age: other.min_file_age.or(self.min_file_age),
            scan_interval: other.scan_interval.or(self.scan_interval),
            flush_timeout: other.flush_timeout.or(self.flush_timeout),
            upload_schema: other.upload_schema.or(self.upload_schema),
            bad_files: other.bad_files.or(self.bad_files),
            quarantine_bytes_max: other.quarantine_bytes_max.or(self.quarantine_bytes_max),
            spool_bytes_max: other.spool_bytes_max.or(self.spool_bytes_max),
            spool_full: other.spool_full.or(self.spool_full),
            id_column: other.id_column.or(self.id_column),
            index_loadable: other.index_loadable.or(self.index_loadable),
        }
    }
}

/// A choice of the library in the words of the configuration.
macro_rules! words {
    ($name:ident, $of:ty, $title:literal, $($word:literal => $value:expr),+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name(pub(crate) $of);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self($value)),)+
                    _ => Err(format!(
                        "`{}` is not one of: {}",
                        text.escape_debug(),
                        [$($word),+].join(", ")
                    )),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(if self.0 == $value {
                    return f.write_str($word);
                })+
                Ok(())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $title.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": [$($word),+] })
            }
        }
    };
}

words!(BadFilesWord, BadFiles, "BadFiles",
    "quarantine" => BadFiles::Quarantine, "delete" => BadFiles::Delete, "keep" => BadFiles::Keep);
words!(SpoolFullWord, SpoolFull, "SpoolFull",
    "refuse" => SpoolFull::Refuse, "drop_oldest_bad" => SpoolFull::DropOldestBad);
