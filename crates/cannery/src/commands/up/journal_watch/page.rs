//! The page of all journals.

use cannery_journal::{Date, Declaration, Entry, Priority, Stats};
use cannery_serve::{
    Bars, Cell, Content, Curve, Facts, Figures, Hint, Markup, Panel, State, Table, span,
};
use futures::future::join_all;
use indicatif::HumanCount;

use super::listing::Listing;
use super::{Desk, JournalWatch, Seen, command, lock};
use crate::cli::words::PRIORITIES;
use crate::config::journal::JournalSettings;

const LEAD: &str = "Work that waits, is being done, or was given up. A claim holds until its deadline; whoever is not \
                    heard of by then loses it, and the entry waits again.";

impl JournalWatch {
    pub(super) async fn whole_page(&self) -> Markup {
        self.refreshed().await;
        let panels = join_all(self.desks.iter().map(|desk| self.panel(desk))).await;
        panels
            .into_iter()
            .fold(Content::new("Journals", LEAD), Content::panel)
            .finish()
    }

    async fn panel(&self, desk: &Desk) -> Panel {
        let seen = self.seen(desk);
        let panel = Panel::new(format!("journal-{}", desk.name), &desk.name, seen.state)
            .aside(seen.place());
        let (Some(journal), Some(stats)) = (&seen.journal, &seen.stats) else {
            let reason = seen.note.as_deref().unwrap_or("no numbers yet");
            return panel.note(reason);
        };
        let listing = desk.listings.get(journal, &self.clock).await;
        let mut panel = match (&seen.note, &listing) {
            (Some(note), _) => panel.note(note),
            (None, Err(reason)) => panel.note(format!("the entries cannot be listed: {reason}")),
            (None, Ok(_)) => panel,
        };
        let now = Date::from(self.clock.now());
        let declaration = journal.declaration();
        panel = panel.part(&figures(stats, now));
        let empty = listing
            .as_ref()
            .is_ok_and(|listing| listing.processing.is_empty() && listing.dead.is_empty());
        if stats.counts.adds == 0 && empty {
            let add = command::first_add(&desk.name, &declaration, &self.same_place);
            panel = panel.part(&Hint::new("Nothing was ever added. A first entry:", add));
        } else {
            panel = panel.beside(&depths(stats), &curve(desk, stats));
            if let Ok(listing) = &listing {
                panel = self.tables(panel, desk, stats, listing, now);
            }
        }
        panel.beside(&counters(stats), &settings(&seen, stats, &declaration))
    }

    fn tables(
        &self,
        panel: Panel,
        desk: &Desk,
        stats: &Stats,
        listing: &Listing,
        now: Date,
    ) -> Panel {
        let ls = |what: &str| format!("cannery journal {what} {}{}", desk.name, self.same_place);
        let processing = Table::new(
            "Being processed",
            ["Key", "Worker", "Last heard of", "Deadline", "Attempt"],
        )
        .empty("Nothing is being processed.");
        let processing = listing
            .processing
            .iter()
            .fold(processing, |table, entry| table.row(in_work(entry, now)))
            .of(stats.processing(), &ls("ls --status processing"));
        let dead = Table::new(
            "Given up",
            ["Key", "When", "Attempts", "Reason", "To try it again"],
        )
        .empty("Nothing was given up.");
        let dead = listing
            .dead
            .iter()
            .fold(dead, |table, entry| {
                table.row(self.given_up(&desk.name, entry, now))
            })
            .of(stats.dead, &ls("dead ls"));
        panel.part(&processing).part(&dead)
    }

    fn given_up(&self, journal: &str, entry: &Entry<()>, now: Date) -> Vec<Cell> {
        let key = entry.key.as_str();
        let death = entry.death.as_ref();
        vec![
            Cell::code(key),
            Cell::time(death.map_or_else(String::new, |death| ago(now, death.date))),
            Cell::number(entry.meta.strikes.into()),
            Cell::text(death.map_or("", |death| &*death.reason)),
            Cell::command(command::requeue(journal, key, &self.same_place)),
        ]
    }
}

fn in_work(entry: &Entry<()>, now: Date) -> Vec<Cell> {
    let lease = entry.lease.as_ref();
    let deadline = match entry.deadline {
        Some(deadline) if deadline > now => format!("in {}", between(now, deadline)),
        Some(_) => "over".to_owned(),
        None => String::new(),
    };
    vec![
        Cell::code(entry.key.as_str()),
        Cell::code(lease.map_or("", |lease| &*lease.worker)),
        Cell::time(lease.map_or_else(String::new, |lease| ago(now, lease.start))),
        Cell::time(deadline),
        Cell::number(u64::from(entry.meta.strikes) + 1),
    ]
}

fn figures(stats: &Stats, now: Date) -> Figures {
    let blocked: u64 = stats.depths.iter().map(|depth| depth.blocked).sum();
    let state = |count: u64, busy| if count == 0 { State::Idle } else { busy };
    let count = |figures: Figures, label: &str, count: u64, busy| {
        figures.figure(label, HumanCount(count).to_string(), state(count, busy))
    };
    let date = |figures: Figures, label: &str, text: Option<String>| match text {
        Some(text) => figures.figure(label, text, State::Good),
        None => figures.figure(label, "–", State::Idle),
    };
    let mut figures = Figures::new();
    for (label, value, busy) in [
        ("Due", stats.due(), State::Good),
        ("Waiting in all", stats.waiting(), State::Good),
        ("Blocked", blocked, State::Good),
        ("Being processed", stats.processing(), State::Good),
        ("Given up", stats.dead, State::Warn),
    ] {
        figures = count(figures, label, value, busy);
    }
    let oldest = stats.oldest_due.map(|date| between(date, now));
    let next = stats.next_due.map(|date| between(now, date));
    figures = date(figures, "Due for longest", oldest);
    date(figures, "Next one due in", next)
}

/// Every priority with a name, and the others that have entries.
fn depths(stats: &Stats) -> Bars {
    let bars = Bars::new("Waiting by priority", "Nothing waits.");
    if stats.waiting() == 0 {
        return bars;
    }
    let depth = |priority| stats.depths.iter().find(|depth| depth.priority == priority);
    let mut priorities: Vec<Priority> = PRIORITIES.map(|(_, priority)| priority).into();
    let others = stats
        .depths
        .iter()
        .filter(|depth| depth.waiting + depth.blocked > 0);
    priorities.extend(others.map(|depth| depth.priority));
    priorities.sort_unstable();
    priorities.dedup();
    priorities.into_iter().fold(bars, |bars, priority| {
        let (waiting, due) =
            depth(priority).map_or((0, 0), |depth| (depth.waiting + depth.blocked, depth.due));
        let hint = if waiting == 0 {
            "0".to_owned()
        } else {
            format!("{}, {} due", HumanCount(waiting), HumanCount(due))
        };
        bars.bar(name_of(priority), hint, waiting, due)
    })
}

fn name_of(priority: Priority) -> String {
    let known = PRIORITIES.iter().find(|(_, known)| *known == priority);
    match known {
        Some((name, _)) => format!("{} {name}", priority.0),
        None => priority.0.to_string(),
    }
}

fn curve(desk: &Desk, stats: &Stats) -> Curve {
    let values = lock(&desk.samples).curve().unwrap_or_default();
    Curve::new("Done in 10 s, last 40 minutes", values)
        .value(HumanCount(stats.counts.done).to_string(), "done so far")
}

fn counters(stats: &Stats) -> Facts {
    let mut counts = stats.counts;
    counts
        .fields_mut()
        .into_iter()
        .fold(Facts::new("Since it was made"), |facts, (name, count)| {
            facts.fact(name, HumanCount(*count).to_string())
        })
}

fn settings(seen: &Seen, stats: &Stats, declaration: &Declaration) -> Facts {
    let settings = JournalSettings::of(seen.engine.clone(), declaration);
    let mut facts = Facts::new(format!("Settings, version {}", stats.version));
    // In the words of the configuration, which are those of the JSON.
    let Ok(serde_json::Value::Object(words)) = serde_json::to_value(&settings) else {
        return facts;
    };
    for (name, value) in &words {
        let text = match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(items) if items.is_empty() => "none".to_owned(),
            serde_json::Value::Object(fields) if fields.is_empty() => "any JSON".to_owned(),
            serde_json::Value::Array(items) => {
                let items: Vec<_> = items.iter().filter_map(|item| item.as_str()).collect();
                items.join(", ")
            }
            serde_json::Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, kind)| format!("{name}: {}", kind.as_str().unwrap_or("?")));
                fields.collect::<Vec<_>>().join(", ")
            }
            serde_json::Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
            serde_json::Value::Null | serde_json::Value::Number(_) => value.to_string(),
        };
        if name != "engine" {
            facts = facts.fact(name, text);
        }
    }
    facts
}

fn between(earlier: Date, later: Date) -> String {
    span(later.since(earlier).as_secs())
}

fn ago(now: Date, date: Date) -> String {
    format!("{} ago", between(date, now))
}
