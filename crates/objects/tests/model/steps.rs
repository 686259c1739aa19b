//! What a server does, step by step, and what may go wrong. Between two steps anything may happen.

use std::collections::BTreeMap;

use stateright::{Model, Property};

use crate::world::{Change, Data, Database, Lake, Path, Rows, Version};

pub(crate) const LOG_IS_COMPLETE: &str = "what was acknowledged is in the log or a snapshot";
pub(crate) const BYTES_ARE_THERE: &str = "bytes with a name are there";
pub(crate) const LAKE_IS_RIGHT: &str = "the lake says what was acknowledged";

const PATHS: Path = 2;

/// The bounds of a search, and the rule that is broken on purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Namespace {
    pub(crate) changes_max: Version,
    pub(crate) uploads_max: Data,
    pub(crate) crashes_max: u8,
    /// Whether bytes are swept, and whether snapshots are taken: both at once are searched in the long run.
    pub(crate) sweeps: bool,
    pub(crate) snapshots: bool,
    pub(crate) mistake: Option<Mistake>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    AnswerBeforeLog,
    DoomWithoutLook,
    DoomWithoutFlush,
    YoungOrphans,
    DeleteBeforeSnapshot,
    SnapshotBeforeLog,
    ServeOldDatabase,
}

impl Namespace {
    /// Changes, links and sweeps.
    pub(crate) fn with_sweeps() -> Self {
        Self {
            changes_max: 2,
            uploads_max: 2,
            crashes_max: 1,
            sweeps: true,
            snapshots: false,
            mistake: None,
        }
    }

    /// Changes and snapshots.
    pub(crate) fn with_snapshots() -> Self {
        Self {
            uploads_max: 1,
            sweeps: false,
            snapshots: true,
            ..Self::with_sweeps()
        }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

/// What a server is in the middle of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Down,
    Idle,
    /// The bytes are in the lake.
    Stored(Path, Data),
    Committed(Version),
    Logged(Version),
    /// A candidate was read.
    Candidate(Data),
    /// Everything up to then is in the log.
    Flushed(Data),
    /// Bytes that are too old to get a name were listed.
    Orphan(Data),
    Doomed(Data),
    Deleted(Data),
    /// The version was read, and so many rows.
    Snapshot(Version, Path, Rows),
    SnapshotPut(Version),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    database: Database,
    lake: Lake,
    servers: [(Stage, Version); 2],
    uploads: Data,
    crashes: u8,
    is_lost: bool,
    /// Every change that was committed, and those that were acknowledged.
    changes: BTreeMap<Version, Change>,
    acknowledged: Vec<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next step of what a server is in the middle of.
    Next(usize),
    Refuse(usize),
    Upload(usize, Path),
    Link(usize, Path),
    Delete(usize, Path),
    Sweep(usize, Data),
    Finish(usize, Data),
    ListOrphan(usize, Data),
    TakeSnapshot(usize),
    Crash(usize),
    Open(usize),
    LoseDatabase,
    Rebuild,
}

impl World {
    fn is_old(&self) -> bool {
        self.database.counter < self.lake.newest()
    }

    fn flush(&mut self, through: Version) {
        let lines = self.database.outbox.range(..=through);
        self.lake
            .log
            .extend(lines.map(|(version, change)| (*version, *change)));
    }

    fn is_being_named(&self, data: Data) -> bool {
        let stages = self.servers.iter().map(|(stage, _)| stage);
        stages
            .into_iter()
            .any(|stage| matches!(stage, Stage::Stored(_, of) if *of == data))
    }

    fn commit(&mut self, server: usize, change: Change) {
        let version = self.database.commit(change);
        self.changes.insert(version, change);
        self.servers[server] = (Stage::Committed(version), version);
    }
}

impl Model for Namespace {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            database: Database::default(),
            lake: Lake::default(),
            servers: [(Stage::Idle, 0), (Stage::Idle, 0)],
            uploads: 0,
            crashes: 0,
            is_lost: false,
            changes: BTreeMap::new(),
            acknowledged: Vec::new(),
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for (server, (stage, newest)) in world.servers.iter().enumerate() {
            // A server knows a database that is not the one that it was.
            if world.database.counter < *newest {
                continue;
            }
            match stage {
                Stage::Down => steps.push(Step::Open(server)),
                Stage::Idle => self.beginnings(world, server, steps),
                Stage::Stored(..) => steps.extend([Step::Next(server), Step::Refuse(server)]),
                _ => steps.push(Step::Next(server)),
            }
            if *stage != Stage::Down && world.crashes < self.crashes_max {
                steps.push(Step::Crash(server));
            }
        }
        if !world.is_lost {
            steps.push(Step::LoseDatabase);
        }
        let all_down = world.servers.iter().all(|(stage, _)| *stage == Stage::Down);
        if all_down && world.is_old() {
            steps.push(Step::Rebuild);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Next(server) => self.go_on(&mut next, server),
            Step::Refuse(server) => {
                if let (Stage::Stored(_, data), newest) = next.servers[server] {
                    next.database.garbage.insert(data);
                    next.servers[server] = (Stage::Idle, newest);
                }
            }
            Step::Upload(server, path) => {
                let data = next.uploads;
                next.uploads += 1;
                next.lake.data.insert(data);
                next.servers[server].0 = Stage::Stored(path, data);
            }
            Step::Link(server, path) => {
                let (_, data) = world.database.rows.get(&(1 - path))?;
                let data = Some(*data);
                next.commit(server, Change { path, data });
            }
            Step::Delete(server, path) => next.commit(server, Change { path, data: None }),
            Step::Sweep(server, data) => next.servers[server].0 = Stage::Candidate(data),
            Step::Finish(server, data) => next.servers[server].0 = Stage::Doomed(data),
            Step::ListOrphan(server, data) => next.servers[server].0 = Stage::Orphan(data),
            Step::TakeSnapshot(server) => {
                let version = world.database.counter;
                next.servers[server].0 = Stage::Snapshot(version, 0, Rows::new());
            }
            Step::Crash(server) => {
                next.crashes += 1;
                next.servers[server] = (Stage::Down, 0);
            }
            Step::Open(server) => {
                if world.is_old() && !self.makes(Mistake::ServeOldDatabase) {
                    return None;
                }
                next.flush(Version::MAX);
                next.servers[server] = (Stage::Idle, world.database.counter);
            }
            Step::LoseDatabase => {
                next.is_lost = true;
                next.database = Database::default();
                next.servers = [(Stage::Down, 0), (Stage::Down, 0)];
            }
            Step::Rebuild => {
                next.database = Database {
                    counter: world.lake.newest(),
                    rows: world.lake.rows(PATHS),
                    ..Database::default()
                };
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LOG_IS_COMPLETE, |_, world: &World| {
                let mut versions = world.acknowledged.iter();
                versions.all(|version| world.lake.knows(*version))
            }),
            Property::always(BYTES_ARE_THERE, |_, world: &World| {
                let is_there = |data: Data| world.lake.data.contains(&data);
                let said = (0..PATHS).filter_map(|path| world.lake.says(path).1);
                let mut rows = world.database.rows.values();
                said.into_iter().all(is_there) && rows.all(|(_, data)| is_there(*data))
            }),
            Property::always(LAKE_IS_RIGHT, |_, world: &World| {
                (0..PATHS).all(|path| {
                    let (version, data) = world.lake.says(path);
                    let of_path = |(_, change): &(&Version, &Change)| change.path == path;
                    let mut known = world.changes.range(..=version).filter(of_path);
                    let truth = known.next_back().and_then(|(_, change)| change.data);
                    let acknowledged = world.acknowledged.iter();
                    let newer = acknowledged.filter(|newer| **newer > version);
                    truth == data
                        && newer
                            .into_iter()
                            .all(|newer| world.changes[newer].path != path)
                })
            }),
        ]
    }
}

impl Namespace {
    /// What a server that has nothing to do may begin with.
    fn beginnings(&self, world: &World, server: usize, steps: &mut Vec<Step>) {
        if world.database.counter < self.changes_max {
            for path in 0..PATHS {
                if world.uploads < self.uploads_max {
                    steps.push(Step::Upload(server, path));
                }
                if world.database.rows.contains_key(&(1 - path)) {
                    steps.push(Step::Link(server, path));
                }
                if world.database.rows.contains_key(&path) {
                    steps.push(Step::Delete(server, path));
                }
            }
        }
        let is_new = !world.lake.snapshots.contains_key(&world.database.counter);
        if self.snapshots && is_new && world.database.counter > 0 {
            steps.push(Step::TakeSnapshot(server));
        }
        if !self.sweeps {
            return;
        }
        let garbage = world.database.garbage.iter();
        steps.extend(garbage.map(|data| Step::Sweep(server, *data)));
        let doomed = world.database.doomed.iter();
        steps.extend(doomed.map(|data| Step::Finish(server, *data)));
        for data in &world.lake.data {
            let is_known = world.database.garbage.contains(data) || world.database.names(*data);
            let is_young = world.is_being_named(*data) && !self.makes(Mistake::YoungOrphans);
            if !is_known && !is_young {
                steps.push(Step::ListOrphan(server, *data));
            }
        }
    }

    fn go_on(&self, world: &mut World, server: usize) {
        let stage = world.servers[server].0.clone();
        let next = match stage {
            Stage::Down | Stage::Idle => return,
            Stage::Stored(path, data) => {
                let data = Some(data);
                return world.commit(server, Change { path, data });
            }
            Stage::Committed(version) if self.makes(Mistake::AnswerBeforeLog) => {
                Stage::Logged(version)
            }
            Stage::Committed(version) => {
                world.flush(version);
                Stage::Logged(version)
            }
            Stage::Logged(version) => {
                world.acknowledged.push(version);
                world.acknowledged.sort_unstable();
                world.database.outbox.retain(|of, _| *of > version);
                Stage::Idle
            }
            Stage::Candidate(data) => {
                if !self.makes(Mistake::DoomWithoutFlush) {
                    world.flush(Version::MAX);
                }
                Stage::Flushed(data)
            }
            Stage::Flushed(data) => {
                world.database.garbage.remove(&data);
                if world.database.names(data) && !self.makes(Mistake::DoomWithoutLook) {
                    Stage::Idle
                } else {
                    world.database.doomed.insert(data);
                    Stage::Doomed(data)
                }
            }
            Stage::Orphan(data) => {
                if world.database.names(data) || world.database.garbage.contains(&data) {
                    Stage::Idle
                } else {
                    world.database.doomed.insert(data);
                    Stage::Doomed(data)
                }
            }
            Stage::Doomed(data) => {
                world.lake.data.remove(&data);
                Stage::Deleted(data)
            }
            Stage::Deleted(data) => {
                world.database.doomed.remove(&data);
                Stage::Idle
            }
            Stage::Snapshot(version, PATHS, rows) => {
                if self.makes(Mistake::DeleteBeforeSnapshot)
                    && world.lake.log.remove(&version).is_some()
                {
                    return;
                }
                if !self.makes(Mistake::SnapshotBeforeLog) {
                    world.flush(Version::MAX);
                }
                world.lake.snapshots.insert(version, rows);
                Stage::SnapshotPut(version)
            }
            Stage::Snapshot(version, path, mut rows) => {
                if let Some(row) = world.database.rows.get(&path) {
                    rows.insert(path, *row);
                }
                Stage::Snapshot(version, path + 1, rows)
            }
            // What it replaces goes one by one.
            Stage::SnapshotPut(version) => {
                let log = world.lake.log.range(..=version).next().map(|(of, _)| *of);
                let older = world.lake.snapshots.range(..version).next();
                match (log, older.map(|(of, _)| *of)) {
                    (Some(of), _) => drop(world.lake.log.remove(&of)),
                    (None, Some(of)) => drop(world.lake.snapshots.remove(&of)),
                    (None, None) => world.servers[server].0 = Stage::Idle,
                }
                return;
            }
        };
        world.servers[server].0 = next;
    }
}
