//! Bytes that were read lately. What lies at a key never changes, so nothing in here is ever out of date.
//!
//! Own code because it is two maps: what was asked for since the older one was dropped stays, and nothing is moved or counted on
//! the way.

use std::collections::HashMap;

use bytes::Bytes;
use cannery_formats::Key;

/// A key of the lake, and where in it.
type Place = (Key, u64);

/// What an entry costs besides its bytes.
const ENTRY_BYTES: usize = 256;

pub(crate) struct BytesCache {
    bytes_max: usize,
    young: HashMap<Place, Bytes>,
    young_bytes: usize,
    old: HashMap<Place, Bytes>,
}

impl BytesCache {
    /// One that keeps at most so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            young: HashMap::new(),
            young_bytes: 0,
            old: HashMap::new(),
        }
    }

    pub(crate) fn get(&mut self, place: &Place) -> Option<Bytes> {
        if let Some(bytes) = self.young.get(place) {
            return Some(bytes.clone());
        }
        let (place, bytes) = self.old.remove_entry(place)?;
        self.insert(place, bytes.clone());
        Some(bytes)
    }

    pub(crate) fn insert(&mut self, place: Place, bytes: Bytes) {
        let cost = bytes.len() + ENTRY_BYTES;
        if self.young_bytes + cost > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(place, bytes).is_none() {
            self.young_bytes += cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(number: usize) -> Place {
        (Key::new(format!("users/a/{number}")).unwrap(), 0)
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut cache = BytesCache::new(8 * (1_000 + ENTRY_BYTES));
        cache.insert(place(0), Bytes::from(vec![0; 1_000]));
        for number in 1..100 {
            cache.insert(place(number), Bytes::from(vec![1; 1_000]));
            assert!(cache.get(&place(0)).is_some(), "{number}");
        }
        assert!(cache.get(&place(99)).is_some());
        assert!(cache.get(&place(50)).is_none());
        let kept = cache.young.len() + cache.old.len();
        assert!(kept <= 8, "{kept}");
    }
}
