//! What a program calls.

use std::collections::{BTreeMap, BTreeSet};

use cannery_database::{Address, Database, Dialect, Schema, Session, Value, settle, stored};
use cannery_runtime::Clock;

use crate::decide::{self, Decision, FeatureVersion, FileFacts, KnownFile};
use crate::error::{Error, ErrorKind};
use crate::query::{FILE_COLUMNS, FILE_TABLES, facts_from};

/// The migrations are in `migrations/`; the lock is the word `catalog1`.
pub(crate) const SCHEMA: Schema = Schema {
    name: "catalog",
    namespace: "cannery_catalog",
    lock: 0x6361_7461_6c6f_6731,
    sqlite: &[
        include_str!("../migrations/sqlite/0001_catalog.sql"),
        include_str!("../migrations/sqlite/0002_touched_date.sql"),
        include_str!("../migrations/sqlite/0003_coverage.sql"),
        include_str!("../migrations/sqlite/0004_digest.sql"),
    ],
    postgres: &[
        include_str!("../migrations/postgres/0001_catalog.sql"),
        include_str!("../migrations/postgres/0002_touched_date.sql"),
        include_str!("../migrations/postgres/0003_coverage.sql"),
        include_str!("../migrations/postgres/0004_digest.sql"),
    ],
};

/// An open catalog. Clones are the same catalog.
#[derive(Clone, Debug)]
pub struct Catalog {
    database: Database,
    pub(crate) clock: Clock,
}

impl Catalog {
    /// Opens a catalog and brings its schema up to date; it is created when it is not there.
    ///
    /// `address` is `postgres://user@host/database` (as for journals: `sslmode`, `sslrootcert`), `sqlite:<path>`, or a path.
    /// The folder of the path must be there.
    ///
    /// # Errors
    /// `Newer` for a catalog that a newer program has written; `Invalid`, `Denied`, `Unavailable`.
    pub async fn open(address: &str, clock: Clock) -> Result<Self, Error> {
        Self::open_in(address, SCHEMA.namespace, clock).await
    }

    /// The same, in this schema of a PostgreSQL database.
    pub(crate) async fn open_in(
        address: &str,
        namespace: &'static str,
        clock: Clock,
    ) -> Result<Self, Error> {
        let address = Address::parse(address, "cannery catalog")?;
        let schema = Schema {
            namespace,
            ..SCHEMA
        };
        let database = Database::open(&address, schema).await?;
        Ok(Self { database, clock })
    }

    /// Ends threads and connections; what was committed is safe. May be called twice.
    pub async fn close(&self) {
        self.database.close().await;
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    pub(crate) async fn reader(&self) -> Result<Box<dyn Session>, Error> {
        Ok(self.database.reader().await?)
    }

    /// A transaction that no other writer runs beside; it is ended with [`settle`].
    pub(crate) async fn begin(&self) -> Result<Box<dyn Session>, Error> {
        Ok(self.database.begin().await?)
    }

    /// What the catalog knows of a file.
    ///
    /// # Errors
    /// By kind.
    pub async fn known(&self, name: &str) -> Result<Option<KnownFile>, Error> {
        known(self.reader().await?.as_mut(), name).await
    }

    /// What is to be done with a file: [`decide::decide`] over what the catalog knows. `features` are those that read files
    /// of this kind.
    ///
    /// # Errors
    /// By kind.
    pub async fn decide(
        &self,
        facts: &FileFacts,
        features: &[FeatureVersion],
    ) -> Result<Decision, Error> {
        let known = self.known(&facts.name).await?;
        Ok(decide::decide(facts, known.as_ref(), features))
    }

    /// The files of a bucket that are in the catalog and not in the lake. `listing` is the whole list of names
    /// (`<date>/<file>`) that the lake has.
    ///
    /// # Errors
    /// By kind.
    pub async fn vanished(
        &self,
        bucket: &str,
        listing: &BTreeSet<String>,
    ) -> Result<Vec<String>, Error> {
        let sql = "select name from file where bucket = $1 order by name";
        let rows = self.reader().await?.query(sql, vec![bucket.into()]).await?;
        let names: Result<Vec<String>, Error> = rows.iter().map(|row| Ok(row.text(0)?)).collect();
        let names = names?;
        let gone = decide::vanished(&names, listing);
        Ok(gone.into_iter().map(str::to_owned).collect())
    }

    /// Writes down that the rows of these features are as good as the declared version's: [`Decision::MarkCurrent`]. Only
    /// versions are raised, never lowered, and only where `min_compatible` allows it.
    ///
    /// # Errors
    /// `Conflict` when the catalog does not have the file, or one of the features is not compatible any more.
    pub async fn mark_current(&self, name: &str, features: &[String]) -> Result<(), Error> {
        let mut session = self.begin().await?;
        let done = mark(session.as_mut(), name, features).await;
        settle(session, done).await
    }
}

/// Refuses to declare what a newer program has declared.
pub(crate) fn refuse_newer(what: &str, name: &str, known: u64, declared: u64) -> Result<(), Error> {
    if known <= declared {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Newer,
        format!(
            "the catalog has version {known} of {what} `{name}`, this program {declared}; use the newer program"
        ),
    ))
}

pub(crate) async fn known(
    session: &mut dyn Session,
    name: &str,
) -> Result<Option<KnownFile>, Error> {
    let sql = format!("select {FILE_COLUMNS} from {FILE_TABLES} where f.name = $1");
    let rows = session.query(&sql, vec![name.into()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(KnownFile {
        facts: facts_from(row)?,
        versions: versions(session, name).await?,
    }))
}

/// The versions by which the rows of a file were made.
pub(crate) async fn versions(
    session: &mut dyn Session,
    name: &str,
) -> Result<BTreeMap<String, u64>, Error> {
    let sql = "select t.name, v.version from file_feature v join feature t on t.id = v.feature \
               join file f on f.id = v.file where f.name = $1";
    let rows = session.query(sql, vec![name.into()]).await?;
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.size(1)?)))
        .collect()
}

async fn mark(session: &mut dyn Session, name: &str, features: &[String]) -> Result<(), Error> {
    let versions = versions(session, name).await?;
    for feature in features {
        let declared = crate::feature::find(session, feature).await?;
        let known = versions.get(feature).copied();
        let compatible = declared.as_ref().zip(known).filter(|(declared, known)| {
            (declared.min_compatible..=declared.version).contains(known)
        });
        let Some((declared, _)) = compatible else {
            return Err(Error::conflict(format!(
                "the rows of feature `{feature}` for file `{name}` are not compatible with its declaration; decide again"
            )));
        };
        let params: Vec<Value> = vec![
            stored(declared.version)?,
            name.into(),
            feature.as_str().into(),
        ];
        session
            .execute(
                "update file_feature set version = $1 \
                 where file = (select id from file where name = $2) \
                 and feature = (select id from feature where name = $3)",
                params,
            )
            .await?;
    }
    Ok(())
}
