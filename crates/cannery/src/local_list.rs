//! A list of work on this machine's own disk: a node that collects needs no database. Losing one loses nothing, since what is to be
//! done is seen from what lies on the disk and in the lake.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::embedded::{Embedded, Place};
use cannery_journal::{Declaration, Error, Journal, Period};
use cannery_runtime::disk::Disk;
use cannery_runtime::{Clock, Rng};

/// A lease is never waited for: the list has one owner, who starts anew what was being done.
const LEASE: Duration = Duration::from_secs(300);

/// Where a list lies, and whose it is.
pub(crate) struct LocalList {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// What the process calls itself to others that find the list locked.
    pub(crate) owner: &'static str,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
}

impl LocalList {
    /// Opens it under a name for logs.
    pub(crate) async fn open(self, name: &str) -> Result<Journal, Error> {
        let place = Place {
            disk: self.disk,
            dir: self.dir,
            owner: self.owner.to_owned(),
            clock: self.clock,
            rng: self.rng,
        };
        let declaration = Declaration {
            lease: LEASE,
            timeouts_max: 254,
            period: Period::None,
            ..Declaration::default()
        };
        let engine = Embedded::open(place, Some(declaration)).await?;
        Ok(Journal::new(name, engine))
    }
}
