//! Questions of who compares the catalog with the lake, or goes through it bucket by bucket.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::Catalog;
use crate::error::Error;
use crate::load::Place;
use cannery_database::{Value, stored};

/// So many are asked for at once.
const AT_ONCE: usize = 500;

impl Catalog {
    /// The buckets that it has files of, in order.
    ///
    /// # Errors
    /// By kind.
    pub async fn buckets(&self) -> Result<Vec<String>, Error> {
        // One step down the index for each bucket, rather than a walk over all files.
        let sql = "with recursive b (bucket) as ( \
                     select min(bucket) from file \
                     union all \
                     select (select min(f.bucket) from file f where f.bucket > b.bucket) \
                     from b where b.bucket is not null) \
                   select bucket from b where bucket is not null order by bucket";
        let rows = self.reader().await?.query(sql, Vec::new()).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }

    /// Some of the files that are in another generation than this one, from the last name back; those before a name, if one is
    /// given. None when there is none left.
    ///
    /// # Errors
    /// By kind.
    pub async fn files_of_other_generations(
        &self,
        generation: &str,
        before: Option<&str>,
    ) -> Result<Vec<String>, Error> {
        let (end, mut params) = match before {
            Some(before) => ("and name < $2", vec![before.into()]),
            None => ("", Vec::new()),
        };
        params.insert(0, generation.into());
        let sql = format!(
            "select name from file where generation <> $1 {end} order by name desc limit {AT_ONCE}"
        );
        let rows = self.reader().await?.query(&sql, params).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }

    /// By which versions the rows of the files of a bucket were made: by file, and by feature.
    ///
    /// # Errors
    /// By kind.
    pub async fn versions_of(
        &self,
        bucket: &str,
    ) -> Result<BTreeMap<String, BTreeMap<String, u64>>, Error> {
        let sql = "select f.name, t.name, v.version from file f \
                   join file_feature v on v.file = f.id join feature t on t.id = v.feature \
                   where f.bucket = $1";
        let rows = self.reader().await?.query(sql, vec![bucket.into()]).await?;
        let mut versions = BTreeMap::<_, BTreeMap<_, _>>::new();
        for row in &rows {
            let of_file = versions.entry(row.text(0)?).or_default();
            of_file.insert(row.text(1)?, row.size(2)?);
        }
        Ok(versions)
    }

    /// The dates of the measurements that the files of a bucket hold, in order.
    ///
    /// # Errors
    /// By kind.
    pub async fn dates_of(&self, bucket: &str) -> Result<Vec<String>, Error> {
        let sql = "select distinct m.date from measurement m where m.date is not null \
                   and m.file in (select id from file where bucket = $1) order by m.date";
        let rows = self.reader().await?.query(sql, vec![bucket.into()]).await?;
        rows.iter().map(|row| Ok(row.text(0)?)).collect()
    }

    /// Those of the measurements of a file, from number `first` on, that the catalog does not have at their place, by uid.
    ///
    /// # Errors
    /// By kind.
    pub async fn misplaced(
        &self,
        file: &str,
        first: u64,
        measurements: &[(String, Place)],
    ) -> Result<Vec<String>, Error> {
        let mut misplaced = Vec::new();
        let mut seq = first;
        for part in measurements.chunks(AT_ONCE) {
            let known = self.places_of(file, seq, part).await?;
            for (uid, place) in part {
                if !known.contains(&(seq, uid.clone(), *place)) {
                    misplaced.push(uid.clone());
                }
                seq += 1;
            }
        }
        Ok(misplaced)
    }

    async fn places_of(
        &self,
        file: &str,
        first: u64,
        measurements: &[(String, Place)],
    ) -> Result<BTreeSet<(u64, String, Place)>, Error> {
        let end = first.saturating_add(measurements.len() as u64);
        let mut params: Vec<Value> = vec![file.into(), stored(first)?, stored(end)?];
        params.extend(measurements.iter().map(|(uid, _)| uid.as_str().into()));
        let places: Vec<String> = (4..=params.len()).map(|at| format!("${at}")).collect();
        let of = |table: &str, condition: &str| {
            format!(
                "select m.seq, m.uid, m.frame_off, m.frame_size, m.intra_off, m.intra_size from {table} m \
                 where m.file = (select id from file where name = $1) and m.seq >= $2 and m.seq < $3{condition}"
            )
        };
        // Only its uid leads to a measurement; to its duplicates their number does.
        let by_uid = format!(" and m.uid in ({})", places.join(", "));
        let sql = format!(
            "{} union all {}",
            of("measurement", &by_uid),
            of("duplicate", "")
        );
        let rows = self.reader().await?.query(&sql, params).await?;
        let places = rows.iter().map(|row| {
            let place = Place {
                frame_off: row.size(2)?,
                frame_size: row.size(3)?,
                intra_off: row.size(4)?,
                intra_size: row.size(5)?,
            };
            Ok((row.size(0)?, row.text(1)?, place))
        });
        places.collect()
    }
}
