//! Whether a catalog agrees with itself.

use crate::catalog::Catalog;
use crate::error::Error;
use crate::name;

/// What must not be there: a sentence, and what finds it.
const ABSENCES: &[(&str, &str)] = &[
    (
        "measurements of a file that is not there",
        "select count(*) from measurement m where not exists (select 1 from file f where f.id = m.file)",
    ),
    (
        "measurements of a report that is not there or is of another file",
        "select count(*) from measurement m \
         where not exists (select 1 from report r where r.id = m.report and r.file = m.file)",
    ),
    (
        "duplicates of a report that is not there or is of another file",
        "select count(*) from duplicate d \
         where not exists (select 1 from report r where r.id = d.report and r.file = d.file)",
    ),
    (
        "duplicates of a measurement that is not there",
        "select count(*) from duplicate d where not exists (select 1 from measurement m where m.uid = d.uid)",
    ),
    (
        "reports of a file that is not there",
        "select count(*) from report r where not exists (select 1 from file f where f.id = r.file)",
    ),
    (
        "bad pieces of a report that is not there",
        "select count(*) from badblob b where not exists (select 1 from report r where r.id = b.report)",
    ),
    (
        "bad rows of a measurement that their file does not hold",
        "select count(*) from badrow b \
         where not exists (select 1 from measurement m where m.uid = b.uid and m.file = b.file)",
    ),
    (
        "files whose number of measurements is wrong",
        "select count(*) from file f where f.measurements <> \
         (select count(*) from measurement m where m.file = f.id) + \
         (select count(*) from duplicate d where d.file = f.id)",
    ),
    (
        "versions of a file or feature that is not there",
        "select count(*) from file_feature v where not exists (select 1 from file f where f.id = v.file) \
         or not exists (select 1 from feature t where t.id = v.feature)",
    ),
    (
        "residuals of a file that is not there",
        "select count(*) from residual x where not exists (select 1 from file f where f.id = x.file)",
    ),
];

impl Catalog {
    /// Looks for damage: of the database itself, and for rows that contradict each other. Empty is good. It reads every
    /// table once.
    ///
    /// # Errors
    /// By kind.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        let mut findings = self.database().check().await?;
        let mut session = self.reader().await?;
        let mut absences: Vec<(String, String)> = ABSENCES
            .iter()
            .map(|(what, sql)| ((*what).to_owned(), (*sql).to_owned()))
            .collect();
        for feature in self.features().await? {
            let table = name::feature_table(&feature.name)?;
            absences.push((
                format!("rows of feature `{}` without a measurement", feature.name),
                format!(
                    "select count(*) from {table} t \
                     where not exists (select 1 from measurement m where m.id = t.measurement)"
                ),
            ));
        }
        for (what, sql) in absences {
            let rows = session.query(&sql, Vec::new()).await?;
            let count = rows.first().map_or(Ok(0), |row| row.int(0))?;
            if count > 0 {
                findings.push(format!("{count} {what}"));
            }
        }
        Ok(findings)
    }
}
