//! What the oracle shows.

use cannery_journal::{
    Cursor, Data, Date, Depth, Entry, Page, Priority, Query, Standing, Stats, Status,
};

use super::{Item, Oracle};

impl Oracle {
    pub(super) fn shown(&self, item: &Item) -> Entry<Data> {
        let status = match &item.standing {
            Standing::Processing(_) => Status::Processing,
            Standing::Waiting if self.is_blocked(item) => Status::Blocked,
            Standing::Waiting => Status::Waiting,
            Standing::Dead(_) => Status::Dead,
        };
        let death = match &item.standing {
            Standing::Dead(death) => Some(death.as_ref().clone()),
            _ => None,
        };
        Entry {
            seq: item.number,
            key: item.key.clone(),
            meta: item.meta,
            status,
            lease: item.lease().cloned(),
            deadline: self.deadline(item),
            death,
            data: item.data.clone(),
        }
    }

    pub(super) fn listed(&self) -> Vec<Entry<Data>> {
        let mut all: Vec<_> = self.items.iter().map(|item| self.shown(item)).collect();
        all.sort_by_key(place_of);
        all
    }

    pub(super) fn page(&self, query: &Query) -> Page<Data> {
        let mut all = self.listed();
        let wanted = |entry: &Entry<Data>| {
            (query.statuses.is_empty() || query.statuses.contains(&entry.status))
                && entry.key.as_str().starts_with(&query.prefix)
                && query
                    .priority
                    .is_none_or(|priority| priority == entry.meta.priority)
                && query.after.is_none_or(|after| place_of(entry) > after)
        };
        all.retain(wanted);
        let limit = query.limit as usize;
        let next = (all.len() > limit).then(|| place_of(&all[limit - 1]));
        all.truncate(limit);
        Page { entries: all, next }
    }

    pub(super) fn stats(&self, now: Date) -> Stats {
        let all = self.listed();
        let open: Vec<Date> = all
            .iter()
            .filter(|entry| entry.status == Status::Waiting)
            .map(|entry| entry.meta.process)
            .collect();
        let mut priorities: Vec<Priority> = all
            .iter()
            .filter(|entry| entry.status != Status::Dead)
            .map(|entry| entry.meta.priority)
            .collect();
        priorities.sort_unstable();
        priorities.dedup();
        let count = |status, priority: Priority, due: bool| {
            all.iter()
                .filter(|entry| entry.status == status && entry.meta.priority == priority)
                .filter(|entry| !due || entry.meta.process <= now)
                .count() as u64
        };
        let depth = |priority| Depth {
            priority,
            waiting: count(Status::Waiting, priority, false),
            due: count(Status::Waiting, priority, true),
            blocked: count(Status::Blocked, priority, false),
            processing: count(Status::Processing, priority, false),
        };
        let leases = all.iter().filter_map(|entry| entry.lease.as_ref());
        Stats {
            depths: priorities.into_iter().map(depth).collect(),
            dead: all
                .iter()
                .filter(|entry| entry.status == Status::Dead)
                .count() as u64,
            oldest_due: open.iter().filter(|date| **date <= now).min().copied(),
            next_due: open.iter().filter(|date| **date > now).min().copied(),
            oldest_lease: leases.map(|lease| lease.start).min(),
            counts: self.counts,
            version: self.version(),
        }
    }
}

/// Where an entry stands in a listing: what waits in the order of claims, the rest in the order of arrival.
fn place_of(entry: &Entry<Data>) -> Cursor {
    let waits = entry.status == Status::Waiting;
    Cursor {
        status: entry.status,
        priority: if waits {
            entry.meta.priority
        } else {
            Priority(0)
        },
        process: if waits {
            entry.meta.process
        } else {
            Date::default()
        },
        seq: entry.seq,
    }
}
