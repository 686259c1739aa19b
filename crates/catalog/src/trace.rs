//! Everything that the catalog knows of one measurement.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::catalog::Catalog;
use crate::decide::KnownFile;
use crate::error::Error;
use crate::query::{BadRow, Found};

/// The hops of a measurement, as far as the catalog knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The place that holds it.
    pub found: Found,
    /// The file of that place.
    pub file: KnownFile,
    /// How many rows each feature has of it.
    pub rows: BTreeMap<String, u64>,
    /// Rows that did not fit.
    pub bad_rows: Vec<BadRow>,
    /// Its other places; of very many the first.
    pub duplicates: Vec<Duplicate>,
    /// How many there are.
    pub duplicates_all: u64,
}

/// A line may stand in a file as often as it has room.
const DUPLICATES_MAX: u32 = 100;

/// Another place of a measurement.
pub type Duplicate = Found;

impl Catalog {
    /// Everything that the catalog knows of a measurement; nothing when it does not have it.
    ///
    /// # Errors
    /// By kind.
    pub async fn trace(&self, uid: &str) -> Result<Option<Trace>, Error> {
        let Some(found) = self.lookup(uid).await? else {
            return Ok(None);
        };
        // Loaded again in this moment, it is somewhere else; the next call sees it.
        let Some(file) = self.known(&found.file).await? else {
            return Ok(None);
        };
        let mut rows = BTreeMap::new();
        for feature in self.features().await? {
            let table = crate::name::feature_table(&feature.name)?;
            let sql = format!(
                "select count(*) from {table} where measurement = \
                 (select id from measurement where uid = $1)"
            );
            let counted = self.reader().await?.query(&sql, vec![uid.into()]).await?;
            let count = counted.first().map_or(Ok(0), |row| row.size(0))?;
            rows.insert(feature.name, count);
        }
        let sql = "select count(*) from duplicate where uid = $1";
        let counted = self.reader().await?.query(sql, vec![uid.into()]).await?;
        Ok(Some(Trace {
            duplicates_all: counted.first().map_or(Ok(0), |row| row.size(0))?,
            found,
            file,
            rows,
            bad_rows: self.bad_rows_of(uid).await?,
            duplicates: self.places("duplicate", uid, DUPLICATES_MAX).await?,
        }))
    }
}
