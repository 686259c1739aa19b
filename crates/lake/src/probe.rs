//! Finding out what a store really honours, by trying it.
//!
//! Some stores accept the headers of a conditional put and ignore them; a lake on such a store would lose writes without
//! anybody noticing. The probe writes a few small objects under `.cannery/probe/` and removes them.

use bytes::Bytes;
use cannery_formats::Key;
use futures::TryStreamExt as _;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use object_store::{
    Error as StoreError, GetOptions, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion,
};
use serde::Serialize;

use crate::error::{ErrorKind, Failure, Operation, Result, is_refusal};
use crate::get::{modified_of, version_of};
use crate::lake::{Honours, Lake};
use crate::retry::Attempts;

const CREATE: &str = "create";
const RACES: [&str; 3] = ["race-1", "race-2", "race-3"];

/// Writers in the race for one key.
const RACERS: usize = 8;

/// What was found out about a store. Each check says what a sound store does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The second create of a key is refused, and the first content stays.
    pub create_is_exclusive: bool,
    /// Of eight creates at once exactly one succeeds.
    pub create_race_has_one_winner: bool,
    /// A replace that names a wrong version is refused.
    pub update_refuses_wrong_version: bool,
    /// A replace that names the right version succeeds.
    pub update_accepts_right_version: bool,
    /// What was written is read back at once.
    pub reads_its_writes: bool,
    /// What was written is listed at once.
    pub lists_its_writes: bool,
    /// Whether old versions of objects are kept; `None` where the store does not tell.
    pub versioning: Option<bool>,
    /// The store's clock minus ours, in milliseconds; positive when ours is behind.
    pub clock_skew_ms: i64,
}

impl Report {
    /// What a lake may rely on.
    #[must_use]
    pub fn honours(&self) -> Honours {
        Honours {
            create: self.create_is_exclusive
                && self.create_race_has_one_winner
                && self.reads_its_writes,
            update: self.update_refuses_wrong_version
                && self.update_accepts_right_version
                && self.reads_its_writes,
        }
    }

    /// Whether everything is as it should be for a lake.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let honours = self.honours();
        honours.create && honours.update && self.lists_its_writes
    }

    /// What is weaker on this store, and what that means; empty for a sound one.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<String> {
        let mut found = Vec::new();
        let honours = self.honours();
        if !honours.create {
            found.push(
                "it does not honour create-if-absent: collecting works, because names are unique to a node or a content, \
                 but two processes must never write the same key, and the pipeline refuses to run"
                    .to_owned(),
            );
        }
        if !honours.update {
            found.push(
                "it does not honour versions: table schemas are not uploaded, and the primary archive of an hour is a \
                 copy instead of the only one"
                    .to_owned(),
            );
        }
        if !self.lists_its_writes {
            found.push("a new object is not listed at once: later stages see it late".to_owned());
        }
        found
    }
}

/// Probes a lake's store and makes the lake act on the outcome. What it writes it removes again.
///
/// # Errors
/// When the store cannot be used at all; a weakness is not an error.
pub async fn probe(lake: &Lake) -> Result<Report> {
    let mut attempts = Attempts::new(lake.retry(), lake.clock(), lake.rng());
    loop {
        // A new name each time: what a broken round left behind must not disturb the next.
        let attempt = lake.rng().id();
        let probe = Probe {
            lake,
            attempt: &attempt,
        };
        let outcome = probe.run(&attempts).await;
        probe.clean(&attempts).await;
        let failure = match outcome {
            Ok(report) => {
                lake.set_honours(report.honours());
                return Ok(report);
            }
            Err(failure) => failure,
        };
        // A store that stumbles is tried again: it must not be taken for one that does not honour its conditions.
        if let Err(failure) = attempts.pause(failure).await {
            return Err(lake.error(Operation::PutNew, Key::probes().as_str(), failure));
        }
    }
}

struct Probe<'a> {
    lake: &'a Lake,
    attempt: &'a str,
}

enum Conditional {
    Done(UpdateVersion),
    Refused,
    Unsupported,
}

struct Found {
    bytes: Bytes,
    version: UpdateVersion,
    modified: Timestamp,
}

impl Probe<'_> {
    async fn run(&self, attempts: &Attempts<'_>) -> Result<Report, Failure> {
        let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
        let before = self.lake.clock().now();
        let created = self.put(attempts, CREATE, &first, PutMode::Create).await?;
        let after = self.lake.clock().now();
        let again = self.put(attempts, CREATE, &second, PutMode::Create).await?;
        let found = self.read(attempts, CREATE).await?;
        let wrong = UpdateVersion {
            e_tag: Some("\"0123456789abcdef0123456789abcdef\"".into()),
            version: Some("1".into()),
        };
        let refused = self
            .put(attempts, CREATE, &second, PutMode::Update(wrong))
            .await?;
        let right = match &found {
            Some(found) => {
                self.put(
                    attempts,
                    CREATE,
                    &second,
                    PutMode::Update(found.version.clone()),
                )
                .await?
            }
            None => Conditional::Unsupported,
        };
        let replaced = self.read(attempts, CREATE).await?;
        let versioning = match &created {
            Conditional::Done(version) => self.versioning(version),
            Conditional::Refused | Conditional::Unsupported => None,
        };
        let holds = |found: &Option<Found>, content: &Bytes| {
            found.as_ref().is_some_and(|found| found.bytes == *content)
        };
        Ok(Report {
            create_is_exclusive: matches!(again, Conditional::Refused) && holds(&found, &first),
            create_race_has_one_winner: self.races(attempts).await?,
            update_refuses_wrong_version: matches!(refused, Conditional::Refused),
            update_accepts_right_version: matches!(right, Conditional::Done(_))
                && holds(&replaced, &second),
            reads_its_writes: holds(&found, &first) || holds(&found, &second),
            lists_its_writes: self.is_listed(attempts).await?,
            versioning,
            clock_skew_ms: found.map_or(0, |found| skew_ms(found.modified, before, after)),
        })
    }

    async fn is_listed(&self, attempts: &Attempts<'_>) -> Result<bool, Failure> {
        let mut listing = self
            .lake
            .store()
            .list(Some(&self.lake.path(&Key::probes())));
        let wanted = self.lake.path(&self.key(CREATE));
        while let Some(found) = attempts.run(0, async { listing.try_next().await }).await? {
            if found.location == wanted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn key(&self, check: &str) -> Key {
        Key::probe(self.attempt, check)
    }

    async fn put(
        &self,
        attempts: &Attempts<'_>,
        check: &str,
        bytes: &Bytes,
        mode: PutMode,
    ) -> Result<Conditional, Failure> {
        let path = self.lake.path(&self.key(check));
        let put = async {
            match self
                .lake
                .store()
                .put_opts(&path, PutPayload::from_bytes(bytes.clone()), mode.into())
                .await
            {
                Ok(done) => Ok(Conditional::Done(done.into())),
                Err(error) if is_refusal(&error) => Ok(Conditional::Refused),
                Err(StoreError::NotSupported { .. } | StoreError::NotImplemented { .. }) => {
                    Ok(Conditional::Unsupported)
                }
                Err(error) => Err(Failure::from(error)),
            }
        };
        attempts.run(0, put).await
    }

    async fn read(&self, attempts: &Attempts<'_>, check: &str) -> Result<Option<Found>, Failure> {
        let path = self.lake.path(&self.key(check));
        let read = async {
            let result = self
                .lake
                .store()
                .get_opts(&path, GetOptions::default())
                .await?;
            let (version, modified) = (version_of(&result.meta).0, modified_of(&result.meta));
            Ok::<_, StoreError>(Found {
                bytes: result.bytes().await?,
                version,
                modified,
            })
        };
        match attempts.run(0, read).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.kind == ErrorKind::Absent => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A race in which an answer was lost shows nothing: it is run again, on another key. A store that stumbles in every
    /// race is not one to rely on.
    async fn races(&self, attempts: &Attempts<'_>) -> Result<bool, Failure> {
        for check in RACES {
            match self.race(attempts, check).await {
                Err(failure) if failure.is_transient() => {}
                outcome => return outcome,
            }
        }
        Ok(false)
    }

    /// Eight writers, eight contents, one key: one of them is told that it won, and its content is there.
    async fn race(&self, attempts: &Attempts<'_>, check: &str) -> Result<bool, Failure> {
        let contents: Vec<Bytes> = (0..RACERS)
            .map(|racer| Bytes::from(format!("racer {racer}")))
            .collect();
        let puts = contents
            .iter()
            .map(|content| self.put(attempts, check, content, PutMode::Create));
        let mut winners = Vec::new();
        for (outcome, content) in join_all(puts).await.into_iter().zip(&contents) {
            if let Conditional::Done(_) = outcome? {
                winners.push(content);
            }
        }
        let there = self.read(attempts, check).await?;
        Ok(there.is_some_and(|there| winners == [&there.bytes]))
    }

    /// S3 and Azure name a version in the answer to a put only when they keep versions; Google always does.
    fn versioning(&self, put: &UpdateVersion) -> Option<bool> {
        let url = self.lake.url();
        if url.starts_with("s3:") || url.starts_with("az:") {
            return Some(
                put.version
                    .as_deref()
                    .is_some_and(|version| version != "null"),
            );
        }
        None
    }

    async fn clean(&self, attempts: &Attempts<'_>) {
        for check in RACES.into_iter().chain([CREATE]) {
            let path = self.lake.path(&self.key(check));
            if let Err(failure) = attempts.run(0, self.lake.store().delete(&path)).await {
                tracing::debug!(
                    lake = self.lake.id(),
                    failure = failure.detail,
                    "a probe object is left over"
                );
            }
        }
    }
}

/// How far `modified`, by the store's clock, lies outside the time of the put by ours. Stores give whole seconds, rounded down.
fn skew_ms(modified: Timestamp, before: Timestamp, after: Timestamp) -> i64 {
    let earliest = before - SignedDuration::from_secs(1);
    if modified > after {
        modified.as_millisecond() - after.as_millisecond()
    } else if modified < earliest {
        modified.as_millisecond() - earliest.as_millisecond()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_put_is_no_skew() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (before, after) = (at("2026-11-15T00:00:10.5Z"), at("2026-11-15T00:00:14Z"));
        for (modified, skew) in [
            ("2026-11-15T00:00:10Z", 0),
            ("2026-11-15T00:00:14Z", 0),
            ("2026-11-15T00:00:20Z", 6_000),
            ("2026-11-15T00:00:05Z", -4_500),
        ] {
            assert_eq!(skew_ms(at(modified), before, after), skew, "{modified}");
        }
    }
}
