//! Which generation of archives is in force, and which one is to follow.
//!
//! `autoclaved/current.json` decides between workers with different rules. Who comes with newer ones writes them down there as
//! the next; from then on nobody makes archives by others. When everything was made by them and loaded, they are in force,
//! and what older rules made is swept after a grace ([`crate::sweep`]).

mod take_over;

use cannery_formats::Key;
use cannery_formats::archive::{Current, Edition, Generation, Rank};
use cannery_lake::{Lake, Swap, Version, present};

use crate::error::Error;
use crate::stage::Plant;

pub use take_over::{TakeOver, take_over};
pub(crate) use take_over::{archived, counting};

/// `current.json` is a line.
const CURRENT_BYTES_MAX: u64 = 64 << 10;
/// Others write it once in a long while.
const ROUNDS_MAX: u32 = 8;

const USE_NEWER: &str =
    "use those rules here as well, or give these a higher `version:` if they are to be in force";
const SET_RULES: &str = "set `pipeline.rules` to those rules here as well";
const RAISE_VERSION: &str = "both have the same `version:` and do not do the same; raise `version:` in the rules that are to be in force";

/// The generation in force, as the lake says; nothing before the first one.
pub(crate) async fn in_force(plant: &Plant) -> Result<Option<Generation>, Error> {
    in_force_at(&plant.public).await
}

/// The same, of a lake of archives.
pub(crate) async fn in_force_at(public: &Lake) -> Result<Option<Generation>, Error> {
    let current = current(public).await?;
    Ok(current.map(|current| current.in_force.generation))
}

/// What the lake says of generations; nothing before the first one.
pub(crate) async fn current(public: &Lake) -> Result<Option<Current>, Error> {
    Ok(read(public).await?.map(|(current, _)| current))
}

/// The same, with what it takes to replace it.
async fn read(public: &Lake) -> Result<Option<(Current, Version)>, Error> {
    let key = Key::autoclaved_current();
    let Some(object) = present(public.get(&key, CURRENT_BYTES_MAX).await)? else {
        return Ok(None);
    };
    let current = Current::from_object(&object.bytes);
    let current = current.map_err(|why| Error::unusable(public, &key, &why))?;
    Ok(Some((current, object.version)))
}

/// Makes these rules those by which archives are made, unless newer ones are: the first in force at once, others as the next.
/// To be called before the first archive; it may be called again.
///
/// # Errors
/// [`Error::Outdated`] when newer rules were there, or others that are called the same; those of the lake.
pub async fn claim(plant: &Plant, ours: &Edition) -> Result<Current, Error> {
    let (lake, key) = (&plant.public, Key::autoclaved_current());
    for _ in 0..ROUNDS_MAX {
        let Some((current, version)) = read(lake).await? else {
            let first = Current {
                in_force: ours.clone(),
                since: Some(plant.clock.now()),
                next: None,
            };
            lake.put_new(&key, first.to_object()).await?;
            continue;
        };
        let Some(claimed) = claimed(&current, ours)? else {
            return Ok(current);
        };
        let swap = lake.put_if_version(&key, &version, claimed.to_object().into());
        match swap.await? {
            Swap::Swapped(_) => return Ok(claimed),
            Swap::Conflict => {}
        }
    }
    Err(unsettled(lake, key))
}

/// Refuses unless archives are to be made by these rules.
///
/// # Errors
/// As [`claim`].
pub(crate) async fn expect_newest(public: &Lake, ours: &Edition) -> Result<Option<Current>, Error> {
    let Some(current) = current(public).await? else {
        return Ok(None);
    };
    claimed(&current, ours)?;
    Ok(Some(current))
}

/// What is to be written so that archives are made by these rules; nothing when that is so.
pub(crate) fn claimed(current: &Current, ours: &Edition) -> Result<Option<Current>, Error> {
    let newest = current.newest();
    let next = match ours.rank(newest) {
        Rank::Same => return Ok(None),
        Rank::Newer => Some(ours.clone()),
        Rank::Older => return Err(outdated(ours, newest, USE_NEWER)),
        Rank::Unclear => return Err(outdated(ours, newest, RAISE_VERSION)),
    };
    // Those in force, under a higher version: whatever was to follow them does not any more.
    let is_in_force = ours.generation == current.in_force.generation;
    Ok(Some(match is_in_force {
        true => Current {
            in_force: ours.clone(),
            since: current.since,
            next: None,
        },
        false => Current {
            next,
            ..current.clone()
        },
    }))
}

fn outdated(ours: &Edition, newest: &Edition, next: &'static str) -> Error {
    let (ours, next) = match &ours.version {
        Some(version) => {
            let generation = ours.generation;
            (
                format!("by rules of version `{version}` (`{generation}`)"),
                next,
            )
        }
        // Only rules that are in no file have none.
        None => ("without rules".to_owned(), SET_RULES),
    };
    let generation = newest.generation;
    let newest = match &newest.version {
        Some(version) => format!("rules of version `{version}` (`{generation}`)"),
        None => format!("rules without a version (`{generation}`)"),
    };
    Error::Outdated {
        action: "make archives".to_owned(),
        ours,
        newest,
        next,
    }
}

fn unsettled(lake: &Lake, key: Key) -> Error {
    Error::Unsettled {
        store: lake.id().to_owned(),
        key,
        rounds: ROUNDS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn edition(generation: u32, version: &str) -> Edition {
        Edition {
            generation: format!("r{generation:08x}").parse().unwrap(),
            version: Some(version.to_owned()),
            tables: BTreeMap::new(),
        }
    }

    fn current(in_force: Edition, next: Option<Edition>) -> Current {
        Current {
            in_force,
            since: Some("2026-11-17T12:00:00Z".parse().unwrap()),
            next,
        }
    }

    #[test]
    fn newer_rules_are_the_next_and_others_are_refused() {
        let (one, two, three) = (edition(1, "1"), edition(2, "2"), edition(3, "3"));
        let again = edition(1, "4");
        let alone = current(one.clone(), None);
        let moving = current(one.clone(), Some(two.clone()));
        for (before, ours, after) in [
            (&alone, &one, None),
            (&alone, &two, Some(moving.clone())),
            (&moving, &two, None),
            (
                &moving,
                &three,
                Some(current(one.clone(), Some(three.clone()))),
            ),
            // Back to what is in force.
            (&moving, &again, Some(current(again.clone(), None))),
            (&alone, &again, Some(current(again.clone(), None))),
        ] {
            assert_eq!(claimed(before, ours).unwrap(), after, "{before:?} {ours:?}");
        }
        let error = claimed(&moving, &one).unwrap_err().to_string();
        assert!(
            error.contains("`r00000002`") && error.contains("higher `version:`"),
            "{error}"
        );
        let error = claimed(&moving, &edition(9, "2")).unwrap_err().to_string();
        assert!(error.contains("raise `version:`"), "{error}");
    }
}
