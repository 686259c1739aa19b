//! The table schema in every mirror. Nodes of different versions share it: each adds what it has, none takes anything away.

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::spool::{Experiment, ObjectHome, index_table_key};
use cannery_formats::table_schema::{TableSchema, Union, union};
use cannery_lake::{Lake, Mirrors, PutNew, Swap, Version, present};
use futures::future::join_all;

use super::error::SchemaError;
use super::unite::{Sourced, unite};

/// No longer table schema is read or written.
pub const TABLE_BYTES_MAX: u64 = 4 << 20;

/// A write that loses means that somebody else's won, and a table has only so many fields to add: who loses this often
/// is up against something that is no node.
const ROUNDS_MAX: u32 = 100;

/// Where the table of the indexes comes from, for messages.
const INDEX_SOURCE: &str = "this version of cannery";

/// What the lake and this node are agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Every field of ours and of all mirrors: what rows are to be checked against.
    pub schema: TableSchema,
    /// What was done, in the order of the mirrors.
    pub mirrors: Vec<MirrorDone>,
}

/// What was done in one mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorDone {
    /// The id of the lake.
    pub lake: String,
    /// The URL of the object.
    pub url: String,
    /// What was done.
    pub done: Done,
}

/// What was done with a table schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was not there, and now it is.
    Created,
    /// It was there with fewer fields, and now has them all.
    Widened,
    /// It has every field already.
    Unchanged,
    /// It is not there; nothing was written.
    WouldCreate,
    /// It lacks fields; nothing was written.
    WouldWiden,
}

impl Settled {
    /// Whether every mirror has every field. If not, a loader refuses rows that have the new ones.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        let there = |done| match done {
            Done::Created | Done::Widened | Done::Unchanged => true,
            Done::WouldCreate | Done::WouldWiden => false,
        };
        self.mirrors.iter().all(|mirror| there(mirror.done))
    }
}

/// Makes the table schema at `key` in every mirror one that has all fields of `ours`, which is from `source`, and of each
/// other. Safe to repeat, by anybody, at any time. Without `upload` nothing is written, and the answer says what would be.
///
/// Nothing is written anywhere before all mirrors were read and found to agree.
///
/// # Errors
/// [`SchemaError`]. Where it is a lake that failed, some mirrors may be done and others not: the next call goes on.
pub async fn settle(
    mirrors: &Mirrors,
    key: &Key,
    ours: &TableSchema,
    upload: bool,
    source: &str,
) -> Result<Settled, SchemaError> {
    let places: Vec<Place<'_>> = mirrors.iter().map(|lake| Place::new(lake, key)).collect();
    let ours = Sourced {
        schema: ours,
        source,
    };
    if !upload {
        let (schema, steps) = plan(&places, ours).await?;
        let done = steps.iter().map(Step::would).collect();
        return Ok(settled(schema, &places, done));
    }
    for place in &places {
        place.check_versions().await?;
    }
    let mut done = vec![Done::Unchanged; places.len()];
    for _ in 0..ROUNDS_MAX {
        let (schema, steps) = plan(&places, ours).await?;
        if act(&places, &steps, &mut done).await? {
            return Ok(settled(schema, &places, done));
        }
    }
    Err(SchemaError::Contended {
        key: key.to_string(),
        rounds: ROUNDS_MAX,
    })
}

/// The same for the table of an experiment's indexes, where they are loadable. All nodes have the same.
///
/// # Errors
/// As [`settle`].
pub async fn settle_index(
    mirrors: &Mirrors,
    home: &ObjectHome,
    experiment: &Experiment,
    upload: bool,
) -> Result<Settled, SchemaError> {
    let key = index_table_key(home, experiment);
    settle(mirrors, &key, &TableSchema::index1(), upload, INDEX_SOURCE).await
}

fn settled(schema: TableSchema, places: &[Place<'_>], done: Vec<Done>) -> Settled {
    let mirrors = places.iter().zip(done).map(|(place, done)| MirrorDone {
        lake: place.lake.id().to_owned(),
        url: place.url.clone(),
        done,
    });
    Settled {
        schema,
        mirrors: mirrors.collect(),
    }
}

/// What is to be done in one mirror.
#[derive(Debug)]
enum Step {
    Nothing,
    Create(Bytes),
    Replace(Version, Bytes),
}

impl Step {
    fn would(&self) -> Done {
        match self {
            Self::Nothing => Done::Unchanged,
            Self::Create(_) => Done::WouldCreate,
            Self::Replace(..) => Done::WouldWiden,
        }
    }
}

/// Reads all mirrors, and says what is to be done in each.
async fn plan(
    places: &[Place<'_>],
    ours: Sourced<'_>,
) -> Result<(TableSchema, Vec<Step>), SchemaError> {
    let found = join_all(places.iter().map(Place::read)).await;
    let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
    let there: Vec<Sourced<'_>> = places
        .iter()
        .zip(&found)
        .filter_map(|(place, found)| {
            let (schema, _) = found.as_ref()?;
            Some(Sourced {
                schema,
                source: &place.url,
            })
        })
        .collect();
    let united = unite(ours, &there)?;
    let steps = places
        .iter()
        .zip(found)
        .map(|(place, found)| place.step(&united, ours.source, found))
        .collect::<Result<_, _>>()?;
    Ok((united, steps))
}

/// Writes; `false` when somebody else did so meanwhile in any of the mirrors, and all has to be read again.
async fn act(places: &[Place<'_>], steps: &[Step], done: &mut [Done]) -> Result<bool, SchemaError> {
    let writes = places
        .iter()
        .zip(steps)
        .map(|(place, step)| place.write(step));
    let mut all = true;
    // All of them end before the first error is returned: none is dropped on its way.
    for (written, done) in join_all(writes).await.into_iter().zip(done) {
        match written? {
            // What an earlier round did stays done, whatever the last one finds.
            Some(now) if *done == Done::Unchanged => *done = now,
            Some(_) => {}
            None => all = false,
        }
    }
    Ok(all)
}

/// The object in one mirror.
struct Place<'a> {
    lake: &'a Lake,
    key: &'a Key,
    url: String,
}

impl<'a> Place<'a> {
    fn new(lake: &'a Lake, key: &'a Key) -> Self {
        let url = format!("{}/{key}", lake.url().trim_end_matches('/'));
        Self { lake, key, url }
    }

    /// Refuses a store on which two writers of one key are not safe from each other.
    async fn check_versions(&self) -> Result<(), SchemaError> {
        self.lake.ensure_probed().await?;
        let honours = self.lake.honours();
        if honours.create && honours.update {
            return Ok(());
        }
        Err(SchemaError::NoVersions {
            lake: self.lake.id().to_owned(),
            url: self.url.clone(),
        })
    }

    async fn read(&self) -> Result<Option<(TableSchema, Version)>, SchemaError> {
        let Some(object) = present(self.lake.get(self.key, TABLE_BYTES_MAX).await)? else {
            return Ok(None);
        };
        match TableSchema::parse(&object.bytes) {
            Ok(schema) => Ok(Some((schema, object.version))),
            Err(fault) => Err(SchemaError::Unreadable {
                url: self.url.clone(),
                fault,
            }),
        }
    }

    fn step(
        &self,
        united: &TableSchema,
        source: &str,
        found: Option<(TableSchema, Version)>,
    ) -> Result<Step, SchemaError> {
        let Some((theirs, version)) = found else {
            return Ok(Step::Create(self.bytes_of(united)?));
        };
        // United once more with its own: the order of the columns in this mirror stays.
        match union(united, &theirs) {
            Ok(Union::Same | Union::Theirs) => Ok(Step::Nothing),
            Ok(Union::Wider(wider)) => Ok(Step::Replace(version, self.bytes_of(&wider)?)),
            Err(conflict) => Err(SchemaError::Changed {
                conflict: Box::new(conflict),
                ours: source.to_owned(),
                theirs: self.url.clone(),
            }),
        }
    }

    /// What is longer than anybody would read must not get there: no node could start any more.
    fn bytes_of(&self, schema: &TableSchema) -> Result<Bytes, SchemaError> {
        let bytes = Bytes::from(schema.to_bytes());
        if bytes.len() as u64 <= TABLE_BYTES_MAX {
            return Ok(bytes);
        }
        Err(SchemaError::TooLarge {
            url: self.url.clone(),
            bytes: bytes.len() as u64,
            bytes_max: TABLE_BYTES_MAX,
        })
    }

    /// Does the step; `None` when somebody else was faster.
    async fn write(&self, step: &Step) -> Result<Option<Done>, SchemaError> {
        Ok(match step {
            Step::Nothing => Some(Done::Unchanged),
            Step::Create(bytes) => match self.lake.put_new(self.key, bytes.clone()).await? {
                PutNew::Created | PutNew::Same => Some(Done::Created),
                PutNew::Different => None,
            },
            Step::Replace(version, bytes) => {
                let swap = self
                    .lake
                    .put_if_version(self.key, version, bytes.clone())
                    .await?;
                match swap {
                    Swap::Swapped(_) => Some(Done::Widened),
                    Swap::Conflict => None,
                }
            }
        })
    }
}
