//! Why work is not due yet: for people who ask, and for who does not want to wait.

use std::fmt;
use std::time::Duration;

use cannery_journal::Meta;

use super::follow::INDEX;
use crate::stage::{Stage, StageKey};

/// Why an entry of the journal has a date that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// More reports may come, for the same can.
    Reports,
    /// The same may soon have to be done again.
    Changes,
    /// Reports of the day may come late.
    LateReports,
    /// Somebody may still read what was replaced.
    Readers,
    /// It was marked to be removed, and is looked at once more before it is.
    Marked,
    /// It could not be done, and is tried again.
    Retry,
}

impl Wait {
    /// Why the work of this key waits, when reports are gathered for `debounce` at most.
    #[must_use]
    pub fn of(key: &StageKey, meta: &Meta, debounce: Duration) -> Self {
        match (key.stage, &key.slice) {
            (Stage::Can, _) if meta.process <= meta.arrived.plus(debounce) => Self::Reports,
            (Stage::Aggregate, _) => Self::Changes,
            (Stage::Seal, Some(slice)) if slice == INDEX => Self::Changes,
            (Stage::Seal, _) => Self::LateReports,
            (Stage::Sweep, _) => Self::Readers,
            (Stage::Expire, _) => Self::Marked,
            (
                Stage::Discover
                | Stage::Can
                | Stage::Autoclave
                | Stage::Centrifuge
                | Stage::Verify
                | Stage::Clear
                | Stage::Cover,
                _,
            ) => Self::Retry,
        }
    }

    /// Whether nothing speaks against doing it now, but that there may soon be more to do.
    #[must_use]
    pub fn is_debounce(self) -> bool {
        match self {
            Self::Reports | Self::Changes => true,
            Self::LateReports | Self::Readers | Self::Marked | Self::Retry => false,
        }
    }

    /// The setting that says for how long, if there is one.
    #[must_use]
    pub fn setting(self) -> Option<&'static str> {
        match self {
            Self::Reports | Self::Changes => Some("pipeline.debounce"),
            Self::LateReports | Self::Readers => Some("pipeline.grace"),
            Self::Marked => Some("pipeline.keep"),
            Self::Retry => None,
        }
    }
}

/// As the end of a sentence that begins with "because".
impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reports => "more reports may arrive",
            Self::Changes => "more changes may follow",
            Self::LateReports => "reports of that day may still arrive",
            Self::Readers => "somebody may still be reading what was replaced",
            Self::Marked => "what was marked for removal is kept for a day",
            Self::Retry => "it could not be done yet and will be retried",
        })
    }
}

#[cfg(test)]
mod tests {
    use cannery_journal::{Date, Expiration, Priority};

    use super::*;

    const DEBOUNCE: Duration = Duration::from_secs(120);

    fn wait(key: &str, seconds: u64) -> Wait {
        let arrived = Date::from_millis(1_000_000);
        let meta = Meta {
            insertion: arrived,
            newest: arrived,
            arrived,
            expiration: Expiration::NEVER,
            process: arrived.plus(Duration::from_secs(seconds)),
            priority: Priority::NEW,
            timeouts: 0,
            strikes: 0,
            version: 1,
        };
        Wait::of(&key.parse().unwrap(), &meta, DEBOUNCE)
    }

    #[test]
    fn each_stage_says_why_it_waits() {
        for (key, expected) in [
            ("can/2026-11-15/ndt/open", Wait::Reports),
            ("aggregate/2026-11-15/-/-", Wait::Changes),
            ("seal/2026-11-15/-/index", Wait::Changes),
            ("seal/2026-11-15/-/-", Wait::LateReports),
            ("sweep/2026-11-15/-/-", Wait::Readers),
            ("sweep/2026-11-15/-/generations", Wait::Readers),
            ("expire/2026-11-15/ndt/ndt.0.tar.lz4", Wait::Marked),
            ("autoclave/2026-11-15/ndt/ndt.0.tar.lz4", Wait::Retry),
            ("centrifuge/2026-11-15/ndt/ndt.0.tar.lz4", Wait::Retry),
        ] {
            assert_eq!(wait(key, 120), expected, "{key}");
        }
        // No report is gathered for so long: it was put off for another reason.
        assert_eq!(wait("can/2026-11-15/ndt/open", 121), Wait::Retry);
    }

    #[test]
    fn what_merely_waits_for_more_names_the_same_setting() {
        for wait in [
            Wait::Reports,
            Wait::Changes,
            Wait::LateReports,
            Wait::Readers,
            Wait::Marked,
            Wait::Retry,
        ] {
            let is_debounce = wait.setting() == Some("pipeline.debounce");
            assert_eq!(wait.is_debounce(), is_debounce, "{wait:?}");
        }
    }
}
