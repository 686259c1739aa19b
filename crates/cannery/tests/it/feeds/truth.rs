//! What must be in the lake: what replicas were seen to have stored, and what the server gave them while nothing happened to them.

use std::collections::{BTreeMap, BTreeSet};

use cannery_formats::Digest;
use serde_json::json;

use super::replica::Replica;

/// A feed and an hour such as `20261115T18Z`.
pub(super) type Place = (String, String);

#[derive(Default)]
pub(super) struct Truth {
    /// By hour and name.
    stored: BTreeMap<(Place, String), Kept>,
    /// Bodies that were answers to somebody who could store them.
    seen: BTreeMap<(Place, String), Seen>,
    /// Bodies that the server may have given to somebody.
    offered: BTreeMap<(Place, String), usize>,
}

#[derive(Default)]
struct Seen {
    size: usize,
    by: BTreeSet<String>,
}

struct Kept {
    sha256: String,
    size: usize,
    owners: BTreeSet<String>,
}

impl Truth {
    pub(super) fn bodies(&self) -> usize {
        self.stored.len()
    }

    pub(super) fn seen_count(&self) -> usize {
        self.seen.len()
    }

    /// Takes down what lies in the folders of a replica: exactly what it stored when it does not run.
    pub(super) fn look_at(&mut self, replica: &Replica) {
        let is_new = |hour: &Place, name: &str| {
            let kept = self.stored.get(&(hour.clone(), name.to_owned()));
            kept.is_none_or(|kept| !kept.owners.contains(&replica.name))
        };
        for file in replica.stored(is_new) {
            let kept = self.stored.entry((file.hour, file.name));
            let kept = kept.or_insert_with(|| Kept {
                sha256: Digest::of(&file.content).to_string(),
                size: file.content.len(),
                owners: BTreeSet::new(),
            });
            kept.owners.insert(replica.name.clone());
        }
    }

    /// Whether a replica was seen to have stored a body.
    pub(super) fn has(&self, replica: &str, hour: &Place, body: &[u8]) -> bool {
        let sha256 = Digest::of(body).to_string();
        let of_hour = self.stored.range((hour.clone(), String::new())..);
        let of_hour = of_hour.take_while(|((of, _), _)| of == hour);
        let mut same = of_hour.filter(|(_, kept)| kept.sha256 == sha256);
        same.any(|(_, kept)| kept.owners.contains(replica))
    }

    pub(super) fn offer(&mut self, hour: Place, body: &[u8]) {
        let key = (hour, Digest::of(body).to_string());
        self.offered.insert(key, body.len());
    }

    pub(super) fn see(&mut self, replica: String, hour: Place, body: &[u8]) {
        let key = (hour, Digest::of(body).to_string());
        let seen = self.seen.entry(key).or_default();
        seen.size = body.len();
        seen.by.insert(replica);
    }

    /// A replica is gone for good: what only it had and did not ship is nobody's duty.
    pub(super) fn forget(&mut self, replica: &Replica) {
        let left = replica.unshipped();
        for ((hour, _), kept) in &mut self.stored {
            if left.contains(hour) {
                kept.owners.remove(&replica.name);
            }
        }
    }

    /// The ledger for the auditor, while some replicas cannot ship what they have.
    pub(super) fn ledger<'a>(&self, replicas: impl IntoIterator<Item = &'a Replica>) -> String {
        let away = replicas.into_iter().filter(|replica| !replica.is_up());
        let away: BTreeMap<&str, BTreeSet<Place>> = away
            .map(|replica| (replica.name.as_str(), replica.unshipped()))
            .collect();
        let has_shipped = |owner: &&String, hour: &Place| {
            let left = away.get(owner.as_str());
            left.is_none_or(|left| !left.contains(hour))
        };
        let mut lines = Vec::new();
        for ((hour, name), kept) in &self.stored {
            let owners = kept.owners.iter().filter(|owner| has_shipped(owner, hour));
            let owners: Vec<&String> = owners.collect();
            lines.push(json!({
                "feed": hour.0, "hour": hour.1, "name": name, "sha256": kept.sha256, "size": kept.size,
                "required": !owners.is_empty(), "replicas": owners,
            }));
        }
        lines.extend(self.seen.iter().map(|(((feed, hour), sha256), seen)| {
            json!({ "feed": feed, "hour": hour, "sha256": sha256, "size": seen.size, "replicas": seen.by })
        }));
        lines.extend(self.offered.iter().map(|(((feed, hour), sha256), size)| {
            json!({ "feed": feed, "hour": hour, "sha256": sha256, "size": size, "required": false })
        }));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

/// `<feed>/<yyyy>/<mm>/<dd>/<hh>`
pub(super) fn hour_of_folder(folder: &str) -> Option<Place> {
    let parts: Vec<&str> = folder.split('/').collect();
    let [feed, year, month, day, hour] = parts[..] else {
        return None;
    };
    Some((feed.to_owned(), format!("{year}{month}{day}T{hour}Z")))
}
