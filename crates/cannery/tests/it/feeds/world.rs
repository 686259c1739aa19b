//! Replicas, their lakes, their server and their clock, which only the test moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use cannery_runtime::Rng;
use cannery_testkit::feed_server::FeedServer;
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;

use super::ground::{ALGORITHMS, Ground};
use super::replica::Replica;
use super::script::Script;
use super::truth::{Place, Truth, hour_of_folder};

/// How often something is looked for that takes real time, every 10 ms.
const LOOKS_MAX: usize = 12_000;

/// An hour ends early by this time: what is under way has so long to come to its end within it.
const HOUR_REST: SignedDuration = SignedDuration::from_mins(2);

/// Longer than a replica keeps lines about its polls before it writes them.
const LINES_STEP: SignedDuration = SignedDuration::from_secs(6);

/// Longer than the distance of two scans of everything.
pub(super) const DAY: SignedDuration = SignedDuration::from_hours(25);

pub(super) struct World {
    pub(super) ground: Ground,
    pub(super) rng: Rng,
    pub(super) replicas: Vec<Replica>,
    pub(super) truth: Truth,
    script: Script,
    now: Timestamp,
    round: usize,
    names: usize,
    /// Who was killed, paused or started since the answers were set.
    disturbed: BTreeSet<String>,
    /// What replicas were given in the hour before, and must ship unless something happens to them.
    pending: Vec<(String, Place, Bytes)>,
}

impl World {
    pub(super) fn new(ground: Ground, server: FeedServer, rng: Rng, feeds: usize) -> Self {
        let world = Self {
            script: Script::new(Arc::new(server), rng.clone(), feeds),
            ground,
            rng,
            replicas: Vec::new(),
            truth: Truth::default(),
            now: "2026-11-15T06:10:00Z".parse().unwrap(),
            round: 0,
            names: 0,
            disturbed: BTreeSet::new(),
            pending: Vec::new(),
        };
        world.write_clock();
        world
    }

    /// Another replica with nothing; gives back its number.
    pub(super) fn add_replica(&mut self) -> usize {
        self.names += 1;
        let name = format!("r{}", self.names);
        let codec = ["gzip", "xz", "bzip2"][self.names % 3];
        let config = self.ground.config() + &self.script.config(&name, codec);
        let clock = self.ground.path("clock");
        let clock = ("CANNERY_SIM_CLOCK", clock.to_str().unwrap());
        let replica = Replica::new(&name, &config, &[clock]);
        self.set_answers(&name);
        self.replicas.push(replica);
        self.replicas.len() - 1
    }

    fn set_answers(&mut self, name: &str) {
        let hour = self.hour();
        for (feed, body) in self.script.set(self.round, name) {
            self.truth.offer((feed, hour.clone()), &body);
        }
        self.disturbed.insert(name.to_owned());
    }

    /// The present hour, such as `20261115T18Z`.
    pub(super) fn hour(&self) -> String {
        self.now.strftime("%Y%m%dT%HZ").to_string()
    }

    fn write_clock(&self) {
        self.ground.write("clock.new", self.now.to_string());
        #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
        std::fs::rename(self.ground.path("clock.new"), self.ground.path("clock")).unwrap();
    }

    /// Lets time pass, and waits until the replicas have asked what was due. No hour ends unnoticed.
    pub(super) fn pass(&mut self, time: SignedDuration) {
        if self.now + time >= self.next_begin() - HOUR_REST {
            self.next_hour(SignedDuration::ZERO);
        } else {
            self.pass_within(time);
        }
    }

    fn next_begin(&self) -> Timestamp {
        let begun = self.now.as_second().div_euclid(3_600);
        Timestamp::from_second((begun + 1) * 3_600).unwrap()
    }

    fn pass_within(&mut self, time: SignedDuration) {
        self.now += time;
        self.write_clock();
        self.wait_for_quiet();
        for replica in &mut self.replicas {
            if let Some(code) = replica.ended() {
                panic!("{} ended with {code:?}: {}", replica.name, replica.log());
            }
        }
    }

    /// Goes to the next hour, or to one that is so much later, with new answers.
    pub(super) fn next_hour(&mut self, later: SignedDuration) {
        let given = self.stored_by_now();
        self.pending.extend(given);
        self.disturbed.clear();
        self.round += 1;
        let begin = self.next_begin() + later;
        let late = self.rng.below(3_000);
        let late = SignedDuration::from_millis(late.try_into().unwrap());
        // The answers are those of the hour that begins, but nobody asks before it does.
        let before = std::mem::replace(&mut self.now, begin);
        let all = self.replicas.iter();
        let all: Vec<_> = all.map(|one| (one.name.clone(), one.is_up())).collect();
        for (name, is_up) in all {
            self.set_answers(&name);
            if is_up {
                self.disturbed.remove(&name);
            }
        }
        self.now = before;
        self.pass_within(begin.duration_since(before) + late);
    }

    /// What replicas were given in this hour, once all of it is on their disks, but for polls that they have written down as
    /// failed: time jumps further than a poll may take, and where somebody is paused nobody knows whether one is under way.
    fn stored_by_now(&mut self) -> Vec<(String, Place, Bytes)> {
        let mut missing = String::new();
        for look in 1..=LOOKS_MAX / 4 {
            self.look_at_all();
            match self.given() {
                Ok(given) => return given,
                Err(error) => missing = error,
            }
            wait_a_little();
            // Lines about polls are written when they are old enough.
            if look % 200 == 0 && self.now + LINES_STEP < self.next_begin() {
                self.pass_within(LINES_STEP);
            }
        }
        panic!("{missing}:\n{}", self.logs());
    }

    /// What those who were not disturbed were given and have stored; else what is missing and has not failed.
    fn given(&self) -> Result<Vec<(String, Place, Bytes)>, String> {
        let hour = self.hour();
        let is_steady = |one: &&Replica| !self.disturbed.contains(&one.name);
        let mut given = Vec::new();
        for replica in self.replicas.iter().filter(is_steady) {
            for answers in self.script.given(&replica.name) {
                let place = (answers.feed, hour.clone());
                let is_stored = |body: &Bytes| self.truth.has(&replica.name, &place, body);
                let (stored, missing): (Vec<_>, Vec<_>) =
                    answers.bodies.into_iter().partition(is_stored);
                let failed = replica.failures(&place);
                if !missing.is_empty() && answers.failures + missing.len() > failed {
                    let (name, slots) = (&replica.name, replica.slots(&place));
                    return Err(format!(
                        "{name} did not store {missing:?} of {place:?}, but {}; {} answers were to fail, {failed} polls did:\n{slots}",
                        stored.len(),
                        answers.failures,
                    ));
                }
                let stored = stored.into_iter();
                given.extend(stored.map(|body| (replica.name.clone(), place.clone(), body)));
            }
        }
        Ok(given)
    }

    /// Everything of the hour before is in the lake.
    pub(super) fn confirm(&mut self) {
        for (name, hour, body) in std::mem::take(&mut self.pending) {
            self.truth.see(name, hour, &body);
        }
    }

    fn disturb(&mut self, number: usize) {
        let name = self.replicas[number].name.clone();
        self.pending.retain(|(of, _, _)| *of != name);
        self.disturbed.insert(name);
    }

    pub(super) fn start(&mut self, number: usize, wait: bool) {
        self.disturb(number);
        self.replicas[number].start();
        if wait {
            self.pass_until(SignedDuration::from_millis(10), |world| {
                world.replicas[number].has_begun()
            });
        }
    }

    pub(super) fn kill(&mut self, number: usize) {
        self.disturb(number);
        self.replicas[number].kill();
        self.truth.look_at(&self.replicas[number]);
    }

    pub(super) fn pause(&mut self, number: usize) {
        self.disturb(number);
        self.replicas[number].pause();
        self.truth.look_at(&self.replicas[number]);
    }

    pub(super) fn resume(&mut self, number: usize) {
        self.disturb(number);
        self.replicas[number].resume();
    }

    /// Asks one to stop, which ships everything.
    pub(super) fn stop(&mut self, number: usize) {
        self.disturb(number);
        let had_begun = self.replicas[number].has_begun();
        self.replicas[number].signal(Signal::TERM);
        for _ in 0..LOOKS_MAX {
            if let Some(code) = self.replicas[number].ended() {
                let replica = &self.replicas[number];
                // One that was told before it listened is killed by it.
                let is_well = code == Some(0) || (code.is_none() && !had_begun);
                assert!(is_well, "{}: {code:?}: {}", replica.name, replica.log());
                return;
            }
            // Even the end takes time, and only this test makes it pass.
            let step = SignedDuration::from_millis(20);
            if self.now + step < self.next_begin() {
                self.now += step;
                self.write_clock();
            }
            wait_a_little();
        }
        panic!("it does not end: {}", self.replicas[number].log());
    }

    /// Dies and never comes back; what it did not ship is not asked for.
    pub(super) fn bury(&mut self, number: usize) {
        self.kill(number);
        let replica = self.replicas.remove(number);
        self.truth.forget(&replica);
    }

    /// Small steps of time until something is so; longer ones when it takes long, since what failed is tried again later.
    pub(super) fn pass_until(&mut self, step: SignedDuration, is_so: impl Fn(&Self) -> bool) {
        let mut step = step;
        for tries in 1..LOOKS_MAX / 10 {
            if is_so(self) {
                return;
            }
            self.pass(step);
            if tries % 100 == 0 {
                step = (step * 2).min(SignedDuration::from_secs(5));
            }
        }
        panic!("it never came to that:\n{}", self.logs());
    }

    fn look_at_all(&mut self) {
        for replica in &self.replicas {
            self.truth.look_at(replica);
        }
    }

    /// Whether a replica has shipped every hour that is over.
    pub(super) fn has_shipped(&self, number: usize) -> bool {
        let hour = self.hour();
        let left = self.replicas[number].unshipped();
        left.iter().all(|(_, of)| *of == hour)
    }

    /// Brings the lakes to rest. What somebody uploaded who is not there any more is found by the others: within minutes, or within a
    /// day when it is older than two days.
    pub(super) fn settle(&mut self) {
        if self.comes_to_rest() {
            return;
        }
        let unsettled = self.unsettled();
        let recent = (self.now - SignedDuration::from_hours(49)).strftime("%Y%m%dT%HZ");
        let recent = recent.to_string();
        let is_old = unsettled.iter().all(|(hour, _)| *hour < recent);
        assert!(is_old, "not at rest: {unsettled:?}\n{}", self.logs());
        self.next_hour(DAY);
        let rests = self.comes_to_rest();
        assert!(rests, "{:?}\n{}", self.unsettled(), self.logs());
    }

    /// Time passes, slowly at first, then in steps longer than the distance of two scans; as long as something changes by
    /// itself, it does not.
    fn comes_to_rest(&mut self) -> bool {
        for (step_ms, patience) in [
            (1_000, 1),
            (2_000, 1),
            (3_000, 2),
            (5_000, 5),
            (20_000, 3),
            (60_000, 3),
            (780_000, 10),
            (780_000, 10),
            (780_000, 30),
            (10_000, 30),
            (60_000, 60),
        ] {
            self.pass(SignedDuration::from_millis(step_ms));
            if self.rests(patience) {
                return true;
            }
        }
        false
    }

    /// Looks until everything is settled, or nothing has changed in so many looks.
    fn rests(&self, patience: usize) -> bool {
        let (mut before, mut unchanged) = (self.unsettled(), 0);
        while !before.is_empty() && unchanged < patience {
            for _ in 0..30 {
                wait_a_little();
            }
            let now = self.unsettled();
            unchanged = if now == before { unchanged + 1 } else { 0 };
            before = now;
        }
        before.is_empty()
    }

    /// Hours that are over and not one archive in every lake, or not shipped by somebody who could; and what is there.
    fn unsettled(&self) -> Vec<(String, String)> {
        let hour = self.hour();
        let mut unsettled = Vec::new();
        for replica in self.replicas.iter().filter(|one| one.is_up()) {
            let left = replica
                .unshipped()
                .into_iter()
                .filter(|(_, of)| *of != hour);
            unsettled.extend(
                left.map(|(feed, _)| (hour.clone(), format!("{} has {feed}", replica.name))),
            );
        }
        if !unsettled.is_empty() {
            return unsettled;
        }
        for algorithm in ALGORITHMS {
            let mut hours: BTreeMap<Place, Vec<String>> = BTreeMap::new();
            for key in self.ground.keys(algorithm) {
                let (folder, name) = key.rsplit_once('/').unwrap();
                let place = hour_of_folder(folder).unwrap();
                hours.entry(place).or_default().push(name.to_owned());
            }
            let is_one = |names: &[String]| {
                let is_primary = |name: &String| name.matches('_').count() == 1;
                names.len() == 1 && is_primary(&names[0]) == (algorithm == "primary")
            };
            let bad = hours.into_iter();
            let bad = bad.filter(|((_, of), names)| *of != hour && !is_one(names));
            unsettled.extend(bad.map(|((_, of), names)| (of, format!("{algorithm}: {names:?}"))));
        }
        unsettled
    }

    /// What the auditor says of all hours that are over.
    pub(super) fn judge(&mut self) {
        self.look_at_all();
        let ledger = self.truth.ledger(&self.replicas);
        let more = ["--only-known", "--except-hour", &self.hour()];
        let audited = self.ground.audit(&ledger, &more);
        assert_eq!(audited.code, 0, "{}\n{}", audited.snapshot(), self.logs());
    }

    /// Nobody has asked for a while, and no connection is open but those of replicas that are paused.
    fn wait_for_quiet(&self) {
        let is_paused = self.replicas.iter().any(Replica::is_paused);
        let wanted = if is_paused { 10 } else { 4 };
        let (mut before, mut quiet) = (self.script.traffic(), 0);
        for _ in 0..500 {
            wait_a_little();
            let now = self.script.traffic();
            let is_quiet = now == before && (is_paused || now.1 == 0);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == wanted {
                return;
            }
            before = now;
        }
    }

    fn logs(&self) -> String {
        let log = |replica: &Replica| {
            let log = replica.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            let left = replica.left();
            format!("--- {}, {left}\n{}\n", replica.name, last.join("\n"))
        };
        self.replicas.iter().map(log).collect()
    }
}

pub(super) fn wait_a_little() {
    #[allow(clippy::disallowed_methods, reason = "other processes need real time")]
    std::thread::sleep(std::time::Duration::from_millis(10));
}
