//! What is collected, and how.

use std::path::PathBuf;
use std::time::Duration;

use cannery_formats::NodeName;
use cannery_formats::inventory::InventoryHome;
use cannery_formats::spool::{Datatype, Experiment, ObjectHome};
use cannery_formats::table_schema::Field;

/// One spool: the files of one experiment.
#[derive(Clone, Debug)]
pub struct SpoolSettings {
    /// The measurement service.
    pub experiment: Experiment,
    /// The folder that holds `<experiment>/<datatype>/<yyyy>/<mm>/<dd>/<file>`.
    pub home: PathBuf,
    /// Where the objects go.
    pub object_home: ObjectHome,
    /// Who collects.
    pub node: NodeName,
    /// What is collected.
    pub datatypes: Vec<DatatypeSettings>,
    /// How a file name must end.
    pub extensions: Vec<String>,
    /// How many bytes of rows a bundle holds.
    pub bundle_bytes_max: u64,
    /// How long a bundle waits for more.
    pub bundle_age_max: Duration,
    /// From this age on a file that was not heard of is missed, and one that is wrong is bad.
    pub min_file_age: Duration,
    /// How often missed files are looked for.
    pub scan_interval: Duration,
    /// How long a file that was found without an event must not have changed, where the system does not tell of writers.
    pub settle: Duration,
    /// What becomes of files that cannot be collected.
    pub bad_files: BadFiles,
    /// How much the quarantine holds.
    pub quarantine_bytes_max: u64,
    /// How many bytes may lie below the configured datatypes and in the quarantine of the home together, counted at each
    /// scan of everything; nothing when nobody minds. What lies in folders that are none of the spool's is not counted.
    pub spool_bytes_max: Option<u64>,
    /// What is done when it is more.
    pub spool_full: SpoolFull,
    /// Whether rows have an `id`.
    pub id_column: bool,
    /// Whether index lines are rows too.
    pub index_loadable: bool,
    /// The program, as rows name it: `cannery@0.1.0`.
    pub version: String,
    /// The commit it was built from.
    pub git_commit: String,
}

/// What becomes of files that cannot be collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BadFiles {
    /// They are moved away and kept with the reason, as far as there is room.
    #[default]
    Quarantine,
    /// They are removed.
    Delete,
    /// They stay where they are.
    Keep,
}

/// What is done about a spool that takes more room than it may. Files that can be collected are never dropped, and
/// collection goes on, since it is what makes room; the spool says that it is full, in its log once for each change, in
/// [`SpoolSnapshot::full`](super::SpoolSnapshot::full) and in its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpoolFull {
    /// Nothing is deleted.
    #[default]
    Refuse,
    /// The oldest files in quarantine go, until it fits or none is left; each is counted and logged.
    DropOldestBad,
}

/// One datatype.
#[derive(Clone, Debug)]
pub struct DatatypeSettings {
    /// Its name.
    pub name: Datatype,
    /// Its own fields, below `raw`.
    pub fields: Vec<Field>,
}

impl SpoolSettings {
    /// The folder that everything of this spool lies below.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.home.join(self.experiment.as_str())
    }

    /// Whose inventory lists what is shipped.
    #[must_use]
    pub fn inventory_home(&self) -> InventoryHome {
        InventoryHome {
            node: self.node.clone(),
            experiment: self.experiment.clone(),
        }
    }
}
