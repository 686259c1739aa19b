//! The page of all spools, and their cards.

use cannery_collect::spool::{DatatypeSnapshot, SpoolSnapshot};
use cannery_serve::{
    Bars, Card, Cell, Content, Curve, Facts, Figures, Hint, Markup, Panel, State, Table, span,
};
use indicatif::{HumanBytes, HumanCount};
use jiff::Timestamp;

use super::{Desk, Phase, SpoolWatch, lock};

const LEAD: &str = "Files that producers leave in folders. They are bundled, shipped to every mirror of the lake, and removed \
                    once they are provably there. What can never be loaded goes to the quarantine.";

impl SpoolWatch {
    pub(super) fn card(&self, desk: &Desk) -> Card {
        let name = super::check_name(&desk.config);
        let Some(snapshot) = snapshot_of(desk) else {
            let (state, note) = stuck(&desk.phase());
            return Card::new(name, state).note(note);
        };
        let waiting: u64 = sum(&snapshot, |datatype| datatype.files_waiting);
        let shipped: u64 = sum(&snapshot, |datatype| datatype.bundles_shipped);
        let unshipped: u64 = sum(&snapshot, |datatype| datatype.unshipped.len() as u64);
        let bad: u64 = sum(&snapshot, |datatype| datatype.files_bad.values().sum());
        let (state, note) = judge(&desk.phase(), &snapshot);
        let mut card = Card::new(name, state)
            .value(HumanCount(waiting).to_string(), "files waiting")
            .detail("where", desk.config.home.display().to_string())
            .detail("bundles shipped", HumanCount(shipped).to_string())
            .detail("bundles not shipped", HumanCount(unshipped).to_string())
            .detail("oldest waiting", self.oldest(&snapshot))
            .detail("bad files", HumanCount(bad).to_string());
        if let Some(note) = note {
            card = card.note(note);
        }
        let files = lock(&desk.samples).files();
        if files.len() > 1 {
            card = card.series("files taken in 10 s, last 40 minutes", files);
        }
        card
    }

    pub(super) fn whole_page(&self) -> Markup {
        let panels = self.desks.iter().map(|desk| self.panel(desk));
        panels
            .fold(Content::new("Spools", LEAD), Content::panel)
            .finish()
    }

    fn panel(&self, desk: &Desk) -> Panel {
        let experiment = desk.config.experiment.as_str();
        let id = format!("spool-{experiment}");
        let Some(snapshot) = snapshot_of(desk) else {
            let (state, note) = stuck(&desk.phase());
            return Panel::new(id, experiment, state).note(note);
        };
        let (state, note) = judge(&desk.phase(), &snapshot);
        let mut panel =
            Panel::new(id, experiment, state).aside(desk.config.home.display().to_string());
        if let Some(note) = note {
            panel = panel.note(note);
        }
        panel = panel.part(&self.figures(&snapshot));
        if sum(&snapshot, |datatype| datatype.files_seen) == 0 {
            panel = panel.part(&self.hint(desk));
        }
        let samples = lock(&desk.samples);
        let files = Curve::new("Files taken in 10 s, last 40 minutes", samples.files());
        let bytes = Curve::new("Bytes shipped in 10 s, last 40 minutes", samples.bytes());
        drop(samples);
        panel
            .part(&self.datatypes(&snapshot))
            .beside(&files, &bytes)
            .part(&self.open_bundles(&snapshot))
            .part(&self.unshipped(&snapshot))
            .part(&self.ships(&snapshot))
            .beside(&reasons(&snapshot), &facts(&snapshot, self.clock.now()))
    }

    fn figures(&self, snapshot: &SpoolSnapshot) -> Figures {
        let total = |of: fn(&DatatypeSnapshot) -> u64| HumanCount(sum(snapshot, of)).to_string();
        let unshipped = sum(snapshot, |datatype| datatype.unshipped.len() as u64);
        let bad = sum(snapshot, |datatype| datatype.files_bad.values().sum());
        let mind = |count: u64| if count > 0 { State::Warn } else { State::Idle };
        Figures::new()
            .figure(
                "files waiting",
                total(|datatype| datatype.files_waiting),
                State::Idle,
            )
            .figure("oldest waiting", self.oldest(snapshot), State::Idle)
            .figure(
                "open bundles",
                total(|datatype| datatype.open.len() as u64),
                State::Idle,
            )
            .figure(
                "sealed, not shipped",
                HumanCount(unshipped).to_string(),
                State::Idle,
            )
            .figure(
                "bundles shipped",
                total(|datatype| datatype.bundles_shipped),
                State::Good,
            )
            .figure(
                "files removed",
                total(|datatype| datatype.files_removed),
                State::Idle,
            )
            .figure("bad files", HumanCount(bad).to_string(), mind(bad))
    }

    fn hint(&self, desk: &Desk) -> Hint {
        let folder = desk.config.home.join(desk.config.experiment.as_str());
        let folder = folder.join(desk.config.datatypes[0].name.as_str());
        let text = "No file was seen yet. Write one beside its place and move it there, so that it is never seen half written:";
        let date = self.clock.now().strftime("%Y/%m/%d").to_string();
        let folder = folder.join(date);
        let folder = folder.display();
        Hint::new(
            text,
            format!(
                "mkdir -p {folder} && echo '{{}}' > {folder}.tmp && mv {folder}.tmp {folder}/first.json"
            ),
        )
    }

    fn datatypes(&self, snapshot: &SpoolSnapshot) -> Table {
        let heads = [
            "Datatype",
            "Waiting",
            "Oldest",
            "Seen",
            "Bundled",
            "Bad",
            "Bundles shipped",
            "Shipped",
            "Last ship",
        ];
        let table = Table::new("Datatypes", heads);
        snapshot.datatypes.iter().fold(table, |table, datatype| {
            table.row(vec![
                Cell::code(&datatype.datatype),
                Cell::number(datatype.files_waiting),
                Cell::time(self.ago(datatype.oldest_waiting)),
                Cell::number(datatype.files_seen),
                Cell::number(datatype.files_bundled),
                Cell::number(datatype.files_bad.values().sum()),
                Cell::number(datatype.bundles_shipped),
                Cell::time(HumanBytes(datatype.bytes_shipped).to_string()),
                Cell::time(self.ago(datatype.last_ship)),
            ])
        })
    }

    fn open_bundles(&self, snapshot: &SpoolSnapshot) -> Table {
        let table = Table::new(
            "Open bundles",
            ["Datatype", "Date", "Files", "Bytes of rows", "Opened"],
        )
        .empty("No bundle is open.");
        let open = snapshot
            .datatypes
            .iter()
            .flat_map(|datatype| datatype.open.iter().map(move |bundle| (datatype, bundle)));
        open.fold(table, |table, (datatype, bundle)| {
            table.row(vec![
                Cell::code(&datatype.datatype),
                Cell::time(&bundle.date),
                Cell::number(bundle.files),
                Cell::time(HumanBytes(bundle.bytes).to_string()),
                Cell::time(self.ago(Some(bundle.opened))),
            ])
        })
    }

    fn unshipped(&self, snapshot: &SpoolSnapshot) -> Table {
        let table = Table::new(
            "Sealed, not shipped yet",
            ["Bundle", "Date", "Files", "Bytes", "Opened"],
        )
        .empty("Everything that was sealed is in the lake.");
        let unshipped = snapshot
            .datatypes
            .iter()
            .flat_map(|datatype| &datatype.unshipped);
        let total = sum(snapshot, |datatype| datatype.unshipped.len() as u64);
        let how = format!("cannery spool status{}", self.same_place);
        unshipped
            .fold(table, |table, bundle| {
                table.row(vec![
                    Cell::code(&bundle.bundle),
                    Cell::time(&bundle.date),
                    Cell::number(bundle.files),
                    Cell::time(HumanBytes(bundle.bytes).to_string()),
                    Cell::time(self.ago(Some(bundle.opened))),
                ])
            })
            .of(total, &how)
    }

    fn ships(&self, snapshot: &SpoolSnapshot) -> Table {
        let mut ships: Vec<_> = snapshot
            .datatypes
            .iter()
            .flat_map(|datatype| &datatype.ships)
            .collect();
        ships.sort_by_key(|ship| std::cmp::Reverse(ship.shipped));
        let table = Table::new(
            "Last ships",
            ["Bundle", "Date", "Files", "Bytes", "Raw bytes", "When"],
        )
        .empty("Nothing was shipped since the start.");
        ships.into_iter().take(20).fold(table, |table, ship| {
            table.row(vec![
                Cell::code(&ship.bundle),
                Cell::time(&ship.date),
                Cell::number(ship.files),
                Cell::time(HumanBytes(ship.bytes).to_string()),
                Cell::time(HumanBytes(ship.raw_bytes).to_string()),
                Cell::time(self.ago(Some(ship.shipped))),
            ])
        })
    }

    fn oldest(&self, snapshot: &SpoolSnapshot) -> String {
        let oldest = snapshot
            .datatypes
            .iter()
            .filter_map(|datatype| datatype.oldest_waiting)
            .min();
        match oldest {
            Some(_) => self.ago(oldest),
            None => "none".to_owned(),
        }
    }

    fn ago(&self, when: Option<Timestamp>) -> String {
        when.map_or_else(String::new, |when| ago(when, self.clock.now()))
    }
}

fn ago(when: Timestamp, now: Timestamp) -> String {
    let seconds = u64::try_from(now.duration_since(when).as_secs()).unwrap_or(0);
    format!("{} ago", span(seconds))
}

fn snapshot_of(desk: &Desk) -> Option<SpoolSnapshot> {
    lock(&desk.samples)
        .progress()
        .map(|progress| progress.snapshot())
}

fn sum(snapshot: &SpoolSnapshot, of: impl Fn(&DatatypeSnapshot) -> u64) -> u64 {
    snapshot.datatypes.iter().map(of).sum()
}

/// A spool that never ran.
fn stuck(phase: &Phase) -> (State, String) {
    match phase {
        Phase::Waiting(Some(reason)) => (State::Warn, format!("waits to be opened: {reason}")),
        Phase::Failed(reason) => (State::Bad, reason.clone()),
        Phase::Waiting(None) | Phase::Running(_) | Phase::Ended(_) => {
            (State::Idle, "it is being opened".to_owned())
        }
    }
}

fn judge(phase: &Phase, snapshot: &SpoolSnapshot) -> (State, Option<String>) {
    if let Phase::Failed(reason) = phase {
        return (State::Bad, Some(reason.clone()));
    }
    if snapshot.full {
        let bytes = HumanBytes(snapshot.spool_bytes);
        let note = format!(
            "the spool holds {bytes}, more than `spool_bytes_max` allows: make room, or raise it"
        );
        return (State::Bad, Some(note));
    }
    if sum(snapshot, |datatype| datatype.files_bad.values().sum()) > 0 {
        let note =
            "some files could not be collected; `cannery spool quarantine ls` says why".to_owned();
        return (State::Warn, Some(note));
    }
    (State::Good, None)
}

fn reasons(snapshot: &SpoolSnapshot) -> Bars {
    let mut counts = std::collections::BTreeMap::new();
    for datatype in &snapshot.datatypes {
        for (reason, count) in &datatype.files_bad {
            *counts.entry(*reason).or_insert(0) += count;
        }
    }
    let bars = Bars::new("Bad files by reason", "No bad file since the start.");
    counts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .fold(bars, |bars, (reason, count)| {
            bars.bar(reason, HumanCount(count).to_string(), count, 0)
        })
}

fn facts(snapshot: &SpoolSnapshot, now: Timestamp) -> Facts {
    let scan = snapshot
        .last_scan
        .map_or_else(|| "none yet".to_owned(), |scan| ago(scan, now));
    Facts::new("Watching")
        .fact("folders watched", HumanCount(snapshot.watches).to_string())
        .fact("scans", HumanCount(snapshot.scans).to_string())
        .fact("last scan", scan)
        .fact(
            "event overflows",
            HumanCount(snapshot.watch_overflows).to_string(),
        )
        .fact(
            "folders not readable",
            HumanCount(snapshot.scan_failures).to_string(),
        )
        .fact(
            "quarantine",
            HumanBytes(snapshot.quarantine_bytes).to_string(),
        )
        .fact(
            "evicted from it",
            HumanCount(snapshot.quarantine_evictions).to_string(),
        )
        .fact("in the spool", HumanBytes(snapshot.spool_bytes).to_string())
}
