//! Hours in which there is nothing to do though it looks otherwise, such as one with a damaged archive beside the whole: a
//! scan finds them again and again, and reading them again would show the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::HourKey;
use crate::hour_folder::HourFolder;

const HOURS_MAX: usize = 1_024;

/// A store may mend itself, and a new version may read what an old one could not.
const FOR: Duration = Duration::from_secs(86_400);

/// The last hours that were left as they were, as they were listed.
#[derive(Debug, Default)]
pub(super) struct Settled(Mutex<BTreeMap<HourKey, (Duration, HourFolder)>>);

impl Settled {
    /// Whether the hour looks as it did when nothing could be done.
    pub(super) fn is(&self, hour: &HourKey, folder: &HourFolder, now: Duration) -> bool {
        let known = self.lock();
        known
            .get(hour)
            .is_some_and(|(since, seen)| seen == folder && now.saturating_sub(*since) < FOR)
    }

    /// Nothing could be done in this hour.
    pub(super) fn note(&self, hour: &HourKey, folder: HourFolder, now: Duration) {
        let mut known = self.lock();
        known.insert(hour.clone(), (now, folder));
        if known.len() > HOURS_MAX {
            let oldest = known.iter().min_by_key(|(_, (since, _))| *since);
            let oldest = oldest.map(|(hour, _)| hour.clone());
            oldest.and_then(|hour| known.remove(&hour));
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HourKey, (Duration, HourFolder)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use cannery_formats::feed::FeedId;

    use super::*;

    fn hour(store: usize) -> HourKey {
        HourKey {
            store: store.to_string(),
            feed: FeedId::new("f").unwrap(),
            hour: "20261115T18Z".parse().unwrap(),
        }
    }

    #[test]
    fn an_hour_is_settled_until_it_looks_different_or_a_day_has_passed() {
        let (settled, folder) = (Settled::default(), HourFolder::default());
        let other = HourFolder {
            tombstone: true,
            ..folder.clone()
        };
        let begin = Duration::from_secs(5);
        assert!(!settled.is(&hour(1), &folder, begin));
        settled.note(&hour(1), folder.clone(), begin);
        assert!(settled.is(&hour(1), &folder, begin));
        assert!(!settled.is(&hour(1), &other, begin));
        assert!(!settled.is(&hour(2), &folder, begin));
        assert!(!settled.is(&hour(1), &folder, begin + FOR));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (settled, folder) = (Settled::default(), HourFolder::default());
        for number in 0..HOURS_MAX + 10 {
            let now = Duration::from_secs(number as u64);
            settled.note(&hour(number), folder.clone(), now);
        }
        assert_eq!(settled.lock().len(), HOURS_MAX);
        assert!(!settled.is(&hour(9), &folder, Duration::ZERO));
        assert!(settled.is(&hour(10), &folder, Duration::ZERO));
    }
}
