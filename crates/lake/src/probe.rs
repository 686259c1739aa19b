//! Finding out what a store really honours, by trying it.
//!
//! Some stores accept the headers of a conditional put and ignore them; a lake on such a store would lose writes without
//! anybody noticing. The probe writes a few small objects under `.cannery/probe/` and removes them.

use bytes::Bytes;
use cannery_formats::Key;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use object_store::{
    Error as StoreError, GetOptions, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion,
};
use serde::Serialize;

use crate::error::{Failure, Operation, Result};
use crate::get::{modified_of, version_of};
use crate::lake::{Honours, Lake};
use crate::retry::Attempts;

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
    let attempt = lake.rng().id();
    let probe = Probe {
        lake,
        attempt: &attempt,
    };
    let attempts = Attempts::new(lake.retry(), lake.clock(), lake.rng());
    let outcome = probe.run(&attempts).await;
    probe.clean(&attempts).await;
    match outcome {
        Ok(report) => {
            lake.set_honours(report.honours());
            Ok(report)
        }
        Err(failure) => Err(lake.error(Operation::PutNew, Key::probes().as_str(), failure)),
    }
}

struct Probe<'a> {
    lake: &'a Lake,
    attempt: &'a str,
}

enum Conditional {
    Done(UpdateVersion),
    Refused,
}

impl Probe<'_> {
    async fn run(&self, attempts: &Attempts<'_>) -> Result<Report, Failure> {
        let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
        let before = self.lake.clock().now();
        let created = self
            .put(attempts, "create", &first, PutMode::Create)
            .await?;
        let after = self.lake.clock().now();
        let again = self
            .put(attempts, "create", &second, PutMode::Create)
            .await?;
        let (read, version, modified) = self.read(attempts, "create").await?;
        let create_is_exclusive = matches!(again, Conditional::Refused) && read == first;
        let wrong = UpdateVersion {
            e_tag: Some("\"0123456789abcdef0123456789abcdef\"".into()),
            version: Some("1".into()),
        };
        let refused = self
            .put(attempts, "create", &second, PutMode::Update(wrong))
            .await;
        let right = self
            .put(attempts, "create", &second, PutMode::Update(version))
            .await;
        let (replaced, ..) = self.read(attempts, "create").await?;
        let listed = self.lake.list_all(Some(&Key::probes())).await;
        let versioning = match &created {
            Conditional::Done(version) => self.versioning(version),
            Conditional::Refused => None,
        };
        Ok(Report {
            create_is_exclusive,
            create_race_has_one_winner: self.race(attempts).await?,
            update_refuses_wrong_version: matches!(refused, Ok(Conditional::Refused)),
            update_accepts_right_version: matches!(right, Ok(Conditional::Done(_)))
                && replaced == second,
            reads_its_writes: read == first || read == second,
            lists_its_writes: listed
                .is_ok_and(|found| found.iter().any(|entry| entry.key == self.key("create"))),
            versioning,
            clock_skew_ms: skew_ms(modified, before, after),
        })
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
                Err(
                    StoreError::AlreadyExists { .. }
                    | StoreError::Precondition { .. }
                    | StoreError::NotModified { .. },
                ) => Ok(Conditional::Refused),
                Err(error) => Err(Failure::from(error)),
            }
        };
        attempts.run(0, put).await
    }

    async fn read(
        &self,
        attempts: &Attempts<'_>,
        check: &str,
    ) -> Result<(Bytes, UpdateVersion, jiff::Timestamp), Failure> {
        let path = self.lake.path(&self.key(check));
        let read = async {
            let result = self
                .lake
                .store()
                .get_opts(&path, GetOptions::default())
                .await?;
            let (version, modified) = (version_of(&result.meta).0, modified_of(&result.meta));
            Ok::<_, StoreError>((result.bytes().await?, version, modified))
        };
        attempts.run(0, read).await
    }

    /// Eight writers, eight contents, one key: one of them is told that it won, and its content is there.
    async fn race(&self, attempts: &Attempts<'_>) -> Result<bool, Failure> {
        let contents: Vec<Bytes> = (0..RACERS)
            .map(|racer| Bytes::from(format!("racer {racer}")))
            .collect();
        let puts = contents
            .iter()
            .map(|content| self.put(attempts, "race", content, PutMode::Create));
        let outcomes = join_all(puts).await;
        let winners: Vec<&Bytes> = outcomes
            .iter()
            .zip(&contents)
            .filter(|(outcome, _)| matches!(outcome, Ok(Conditional::Done(_))))
            .map(|(_, content)| content)
            .collect();
        let (there, ..) = self.read(attempts, "race").await?;
        Ok(winners == [&there])
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
        for check in ["create", "race"] {
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
