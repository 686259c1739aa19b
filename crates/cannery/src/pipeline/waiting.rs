//! What waits in the journal of the pipeline: until when, why, and how it is done now instead.

use std::collections::BTreeMap;
use std::time::Duration;

use cannery_journal::{
    Data, Date, Entry, Error, Journal, Key, Meta, NewEntry, Priority, Query, Status,
};
use cannery_pipeline::discover::{Discovered, ToCan};
use cannery_pipeline::line::Wait;
use cannery_pipeline::stage::{Stage, StageKey};
use serde::Serialize;

use crate::output::counted;

/// Work that keeps being put off is not brought forward more often.
const FORWARD_MAX: u32 = 3;

/// Work of one stage in one bucket that waits for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Waiting {
    /// Which stage; nothing for report files that no stage has heard of yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<&'static str>,
    pub(crate) bucket: String,
    /// How many entries of the journal it is.
    pub(crate) count: u64,
    /// How many reports, bundles and hours they are about, if they are to be canned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reports: Option<u64>,
    /// When the last of it is due.
    pub(crate) until: String,
    pub(crate) why: String,
    /// The setting that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setting: Option<&'static str>,
}

impl Waiting {
    /// Report files that may be half written.
    pub(crate) fn unsettled(discovered: &Discovered) -> Vec<Self> {
        let unsettled = discovered.unsettled.iter();
        let waiting = unsettled.map(|(bucket, unsettled)| Self {
            stage: None,
            bucket: bucket.to_string(),
            count: 0,
            reports: Some(unsettled.reports),
            until: format!("{:.0}", unsettled.last),
            why: "somebody may still be writing".to_owned(),
            setting: Some("pipeline.reports_settle"),
        });
        waiting.collect()
    }

    /// As a sentence.
    pub(crate) fn text(&self) -> String {
        let what = match (self.reports, self.stage) {
            (Some(reports), _) => counted(reports, "report"),
            (None, Some(stage)) => format!("{} `{stage}`", self.count),
            (None, None) => self.count.to_string(),
        };
        let Self {
            bucket, until, why, ..
        } = self;
        let setting = self.setting.map(|setting| format!(" (`{setting}`)"));
        let setting = setting.unwrap_or_default();
        format!("waiting: {what} of {bucket} until {until}, because {why}{setting}")
    }
}

/// The entries that wait for a date, of those that are not on the dead list.
async fn entries(journal: &Journal) -> Result<Vec<(StageKey, Entry<Data>)>, Error> {
    let mut entries = Vec::new();
    let mut query = Query {
        statuses: vec![Status::Waiting],
        ..Query::all()
    };
    let now = journal.now();
    loop {
        let page = journal.list(query.clone()).await?;
        let later = page.entries.into_iter();
        let later = later.filter(|entry| entry.meta.process > now);
        entries.extend(later.filter_map(|entry| Some((entry.key.as_str().parse().ok()?, entry))));
        query.after = page.next;
        if query.after.is_none() {
            return Ok(entries);
        }
    }
}

/// What waits, by bucket and stage. Reports are gathered for `debounce` at most.
pub(crate) async fn waiting(journal: &Journal, debounce: Duration) -> Result<Vec<Waiting>, Error> {
    let mut groups = BTreeMap::<_, (u64, u64, Date)>::new();
    for (key, entry) in entries(journal).await? {
        let wait = Wait::of(&key, &entry.meta, debounce);
        let group = groups.entry((key.bucket, key.stage, wait));
        let (count, reports, until) = group.or_insert((0, 0, entry.meta.process));
        *count += 1;
        *reports += reports_of(&entry.data);
        *until = entry.meta.process.max(*until);
    }
    let waiting = groups
        .into_iter()
        .map(|((bucket, stage, wait), (count, reports, until))| Waiting {
            stage: Some(stage.name()),
            bucket: bucket.to_string(),
            count,
            reports: (stage == Stage::Can).then_some(reports),
            until: in_seconds(until),
            why: wait.to_string(),
            setting: wait.setting(),
        });
    Ok(waiting.collect())
}

fn reports_of(data: &Data) -> u64 {
    let to_can: Option<ToCan> = data.to().ok();
    to_can.map_or(0, |to_can| to_can.inputs.len() as u64)
}

/// A moment as people write it, without what is below a second.
fn in_seconds(date: Date) -> String {
    let time = jiff::Timestamp::from_millisecond(date.as_millis());
    time.map_or_else(|_| date.to_string(), |time| format!("{time:.0}"))
}

/// Has work done now that merely waits for more of its kind.
#[derive(Debug, Default)]
pub(super) struct Forward {
    brought: BTreeMap<Key, u32>,
}

impl Forward {
    /// Brings it forward, for whichever worker comes first; says whether there was any. An add alone would not do it: a date
    /// is never pulled nearer. Who has claimed the entry in this very moment loses it, and it is done once more. Between the
    /// two calls it is in no journal: whoever looks for work finds it again.
    pub(super) async fn bring(
        &mut self,
        journal: &Journal,
        debounce: Duration,
    ) -> Result<bool, Error> {
        let mut is_any = false;
        for (key, entry) in entries(journal).await? {
            let Entry {
                key: name, meta, ..
            } = entry;
            let times = self.brought.entry(name.clone()).or_default();
            if !Wait::of(&key, &meta, debounce).is_debounce() || *times >= FORWARD_MAX {
                continue;
            }
            *times += 1;
            is_any = true;
            journal.cancel(name.clone()).await?;
            let now = NewEntry {
                priority: Some(priority(&key, &meta)),
                ..NewEntry::new(name.as_str(), entry.data)
            };
            journal.add_one(now).await?;
        }
        Ok(is_any)
    }
}

/// Reports are canned at once only with the highest priority; see [`cannery_pipeline::line`].
fn priority(key: &StageKey, meta: &Meta) -> Priority {
    match key.stage == Stage::Can {
        true => Priority::NOW,
        false => meta.priority,
    }
}
