//! The last line of a node, and adding to it.

use std::collections::BTreeSet;
use std::io;

use cannery_formats::Key;
use cannery_formats::inventory::InventoryHome;
use cannery_formats::inventory::beginning;
use cannery_formats::spool::SpoolDate;
use cannery_lake::{ErrorKind, Mirrors};
use cannery_runtime::Clock;

use super::day::{Day, Last, unite};
use super::local::{Local, TEXT_BYTES_MAX};
use super::remote::{self, Fetched};
use super::{InventoryError, InventoryParts, Item, blocking, day_of, last_day, measure};

/// One writer's view of the local files.
#[derive(Debug)]
pub(super) struct Ledger {
    local: Local,
    clock: Clock,
    mirrors: Mirrors,
    home: InventoryHome,
    /// False at the start, and after anything went wrong: then the files are read again before they are believed.
    is_open: bool,
    current: Option<Current>,
}

/// The day that has the last line.
#[derive(Clone, Copy, Debug)]
struct Current {
    day: SpoolDate,
    last: Last,
    bytes: u64,
}

impl Ledger {
    pub(super) fn new(parts: &InventoryParts) -> Self {
        Self {
            local: Local {
                disk: parts.disk.clone(),
                folder: parts.folder.clone(),
            },
            clock: parts.clock.clone(),
            mirrors: parts.mirrors.clone(),
            home: parts.home.clone(),
            is_open: false,
            current: None,
        }
    }

    pub(super) fn local(&self) -> Local {
        self.local.clone()
    }

    /// The day of the last line, and how long its file is as far as it counts.
    pub(super) fn current(&self) -> Option<(SpoolDate, u64)> {
        self.current.map(|current| (current.day, current.bytes))
    }

    /// Adds a line for each of the items, durably.
    pub(super) async fn add(&mut self, items: Vec<Item>) -> Result<(), InventoryError> {
        if items.is_empty() {
            return Ok(());
        }
        self.open().await?;
        let now = self.clock.now();
        let today = day_of(now);
        let day = self.current.map_or(today, |current| current.day.max(today));
        if self.current.is_none_or(|current| current.day < day) && self.has_file(day).await? {
            // Written by a clock that ran ahead, and now its day has come.
            self.is_open = false;
            self.open().await?;
        }
        let confirmed = match self.current {
            // Lines of a day are in the order of their times, also when a clock is set back a little.
            Some(current) if day_of(current.last.confirmed) == day => {
                now.max(current.last.confirmed)
            }
            Some(_) | None => now,
        };
        let before = self
            .current
            .map_or_else(beginning, |current| current.last.digest);
        let mut new = Day::default();
        new.extend(items, confirmed, before);
        self.append(day, new).await
    }

    async fn has_file(&self, day: SpoolDate) -> Result<bool, InventoryError> {
        let local = self.local();
        Ok(blocking(move || local.has(day)).await?)
    }

    async fn append(&mut self, day: SpoolDate, new: Day) -> Result<(), InventoryError> {
        let Some(last) = new.last else {
            return Ok(());
        };
        let start = match self.current {
            Some(current) if current.day == day => Some(current.bytes),
            Some(_) | None => None,
        };
        let bytes = start.unwrap_or(0) + new.text.len() as u64;
        if bytes > TEXT_BYTES_MAX {
            // The next day has room again.
            return Err(io::Error::from(io::ErrorKind::FileTooLarge).into());
        }
        // Unless all goes well nobody knows what is on the disk.
        self.is_open = false;
        let local = self.local();
        blocking(move || match start {
            Some(start) => local.extend(day, start, &new.text),
            None => local.replace(day, &new.text),
        })
        .await?;
        self.current = Some(Current { day, last, bytes });
        self.is_open = true;
        Ok(())
    }

    /// Leaves those of the items that have no line of `from` or later, here or in the lake.
    pub(super) async fn lacking(
        &mut self,
        mut items: Vec<Item>,
        from: SpoolDate,
    ) -> Result<Vec<Item>, InventoryError> {
        self.open().await?;
        let local = self.local();
        let here = blocking(move || local.days()).await?;
        for day in here.range(from..) {
            let (local, day) = (self.local(), *day);
            let found = blocking(move || local.read(day)).await?;
            found.lacking(&mut items);
        }
        if items.is_empty() {
            return Ok(items);
        }
        for (mirror, days) in self.days_in_mirrors().await?.into_iter().enumerate() {
            for day in days.range(from..).filter(|day| !here.contains(day)) {
                if let Some(found) = self.fetch(mirror, *day).await? {
                    found.lacking(&mut items);
                }
            }
        }
        Ok(items)
    }

    /// Finds the last line, on the disk or, if that was lost or is an old copy, in the lake. What was damaged is mended.
    pub(super) async fn open(&mut self) -> Result<(), InventoryError> {
        let last_day = last_day(self.clock.now());
        if self.is_open && self.current.is_none_or(|current| current.day <= last_day) {
            return Ok(());
        }
        self.is_open = false;
        self.current = None;
        let local = self.local();
        let here = blocking(move || local.create().and_then(|()| local.days())).await?;
        let (mut strays, mut mended) = (Vec::new(), Vec::new());
        for day in &here {
            let (local, day) = (self.local(), *day);
            let found = blocking(move || local.recover(day)).await?;
            if !found.is_sound() {
                strays.extend(found.strays);
                mended.push((day, found.text));
            }
        }
        let (day, text) = self.find_last(here, last_day, &mut strays).await?;
        self.settle(day, text, strays).await?;
        for (day, text) in mended {
            if self.current.is_none_or(|current| current.day != day) {
                let local = self.local();
                blocking(move || local.replace(day, &text)).await?;
            }
        }
        self.is_open = true;
        Ok(())
    }

    /// The last day that has lines, in any account, with what all accounts together say of it.
    async fn find_last(
        &self,
        here: BTreeSet<SpoolDate>,
        last_day: SpoolDate,
        strays: &mut Vec<Item>,
    ) -> Result<(Option<SpoolDate>, Day), InventoryError> {
        let there = self.days_in_mirrors().await?;
        let mut days = here;
        days.extend(there.iter().flatten());
        for day in days.range(..=last_day).rev().copied() {
            let mut lakes = Vec::new();
            for (mirror, days) in there.iter().enumerate() {
                if days.contains(&day) {
                    lakes.extend(self.fetch(mirror, day).await?);
                }
            }
            let local = self.local();
            let found = blocking(move || local.read(day)).await?;
            let mut united = unite(found, lakes);
            strays.append(&mut united.strays);
            if !united.text.is_empty() {
                return Ok((Some(day), united));
            }
        }
        Ok((None, Day::default()))
    }

    /// Makes `text` the file of the current day, with a line for every stray that has none in it. It is written anew even if
    /// nothing has changed: an earlier process may have died before its last line was on the disk.
    async fn settle(
        &mut self,
        day: Option<SpoolDate>,
        mut text: Day,
        mut strays: Vec<Item>,
    ) -> Result<(), InventoryError> {
        let now = self.clock.now();
        let day = day.unwrap_or_else(|| day_of(now));
        text.lacking(&mut strays);
        let mut known = BTreeSet::new();
        strays.retain(|stray| known.insert(stray.key.clone()));
        let strays = self.look_at(strays).await?;
        if !strays.is_empty() {
            let lines = strays.len();
            tracing::warn!(day = %day.dashed(), lines, "lines of the inventory that had lost their place were written anew");
        }
        let confirmed = match text.last {
            Some(last) if day_of(now) == day => now.max(last.confirmed),
            // Their own times are as doubtful as they are; in the file of a day there is no other.
            Some(last) => last.confirmed,
            None => now,
        };
        text.extend(strays, confirmed, beginning());
        let Some(last) = text.last else {
            return Ok(());
        };
        let bytes = text.text.len() as u64;
        let local = self.local();
        blocking(move || local.replace(day, &text.text)).await?;
        self.current = Some(Current { day, last, bytes });
        Ok(())
    }

    /// What a line said that has lost its place may be damaged too: the object itself is asked. One that is gone keeps what was
    /// said of it, so that a check misses it.
    async fn look_at(&self, strays: Vec<Item>) -> Result<Vec<Item>, InventoryError> {
        let mut seen = Vec::new();
        for stray in strays {
            let found = measure(self.mirrors.first(), stray.key.clone()).await?;
            seen.push(found.unwrap_or(stray));
        }
        Ok(seen)
    }

    /// Makes one of several accounts of a day. What finds no place in it becomes a line of the current day.
    pub(super) async fn reconcile(
        &mut self,
        day: SpoolDate,
        lakes: Vec<Day>,
    ) -> Result<(), InventoryError> {
        tracing::warn!(day = %day.dashed(), "the inventory in the lake is not the one of this node; both are united");
        self.open().await?;
        match self.current {
            Some(current) if current.day != day => {
                let local = self.local();
                let found = blocking(move || local.read(day)).await?;
                let united = unite(found, lakes);
                let local = self.local();
                let text = blocking(move || local.read(current.day)).await?;
                self.is_open = false;
                // First the lines, then what they are taken from.
                self.settle(Some(current.day), text, united.strays).await?;
                let local = self.local();
                blocking(move || local.replace(day, &united.text)).await?;
                self.is_open = true;
                Ok(())
            }
            // Opening unites every account of the last day.
            Some(_) | None => {
                self.is_open = false;
                self.open().await
            }
        }
    }

    async fn days_in_mirrors(&self) -> Result<Vec<BTreeSet<SpoolDate>>, InventoryError> {
        let mut all = Vec::new();
        for lake in self.mirrors.iter() {
            match remote::days(lake, &self.home).await {
                Ok(days) => all.push(days),
                // A node that may not read its inventory still has its own files.
                Err(error) if error.kind == ErrorKind::Denied => {
                    tracing::warn!(%error, "the inventory in the lake cannot be compared with the one of this node");
                    all.push(BTreeSet::new());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// An account of a day; none if there is none that can be read.
    async fn fetch(&self, mirror: usize, day: SpoolDate) -> Result<Option<Day>, InventoryError> {
        let Some(lake) = self.mirrors.iter().nth(mirror) else {
            return Ok(None);
        };
        let key = Key::inventory(&self.home, day);
        let fetched = match remote::fetch(lake, &key).await {
            Err(error) if error.kind == ErrorKind::Denied => {
                tracing::warn!(%error, "the inventory in the lake cannot be compared with the one of this node");
                return Ok(None);
            }
            fetched => fetched?,
        };
        Ok(match fetched {
            Fetched::Text(text, _) => Some(blocking(move || Ok(Day::read(&text))).await?),
            Fetched::Absent => None,
            Fetched::Unreadable(why) => {
                tracing::error!(%key, lake = lake.id(), why, "the inventory in the lake cannot be read");
                None
            }
        })
    }
}
