//! Hours in the life of three replicas, to whom everything happens.

use jiff::SignedDuration;

use super::world::{DAY, World};

const MONTH: SignedDuration = SignedDuration::from_hours(31 * 24);

/// What happens when, in rounds; a round is an hour.
pub(super) struct Season {
    pub(super) rounds: usize,
    /// A replica dies with an hour that it did not ship, is away for a month, and comes back.
    pub(super) away: usize,
    pub(super) month: usize,
    pub(super) back: usize,
    /// In every so-many-th round one dies for good as soon as it has uploaded.
    pub(super) burials: usize,
    /// How often time passes within an hour.
    pub(super) ticks: u64,
    /// In every so-many-th round the auditor looks at everything so far.
    pub(super) judged: usize,
}

/// What came to pass, for the report.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) kills: usize,
    pub(super) pauses: usize,
    pub(super) stops: usize,
    pub(super) burials: usize,
}

impl Season {
    pub(super) fn run(&self, world: &mut World) -> Events {
        let mut play = Play {
            season: self,
            world,
            away: None,
            events: Events::default(),
        };
        for _ in 0..3 {
            let number = play.world.add_replica();
            play.world.start(number, true);
        }
        for round in 0..self.rounds {
            play.round(round);
        }
        play.end();
        play.events
    }
}

struct Play<'a> {
    season: &'a Season,
    world: &'a mut World,
    /// The name of the one who is away for a month.
    away: Option<String>,
    events: Events,
}

impl Play<'_> {
    fn round(&mut self, round: usize) {
        if round == self.season.back {
            self.come_back();
        }
        for _ in 0..self.season.ticks {
            let time = 100 + self.world.rng.below(700);
            self.world
                .pass(SignedDuration::from_millis(time.try_into().unwrap()));
            if self.world.rng.below(8) == 0 {
                self.happen();
            }
        }
        if round == self.season.away {
            self.go_away();
        }
        self.keep_one();
        let later = if round == self.season.month {
            MONTH
        } else {
            SignedDuration::ZERO
        };
        self.world.next_hour(later);
        if round % self.season.burials == self.season.burials - 1 {
            self.bury_an_uploader();
        }
        for _ in 0..self.world.rng.below(3) {
            // While others upload and merge.
            let time = self.world.rng.below(4_000);
            self.world
                .pass(SignedDuration::from_millis(time.try_into().unwrap()));
            self.happen();
        }
        self.keep_one();
        if self.world.ground.has_locks() {
            self.world.pass(SignedDuration::from_mins(20));
            self.resume_all();
        }
        self.world.settle();
        self.world.confirm();
        if round % self.season.judged == self.season.judged - 1 {
            self.world.judge();
        }
    }

    fn choose(&self) -> usize {
        let count = self.world.replicas.len().try_into().unwrap();
        self.world.rng.below(count).try_into().unwrap()
    }

    fn is_away(&self, number: usize) -> bool {
        self.away.as_ref() == Some(&self.world.replicas[number].name)
    }

    /// Something happens to one of them.
    fn happen(&mut self) {
        let number = self.choose();
        let replica = &self.world.replicas[number];
        if self.is_away(number) {
            return;
        }
        if replica.is_paused() {
            // After an hour at least, mostly: this is called several times in one.
            if self.world.rng.below(6) == 0 {
                self.world.resume(number);
            }
            return;
        }
        if replica.is_down() {
            let wait = self.world.rng.below(4) > 0;
            return self.world.start(number, wait);
        }
        match self.world.rng.below(4) {
            0 => {
                self.world.pause(number);
                self.events.pauses += 1;
            }
            1 => {
                self.world.stop(number);
                self.events.stops += 1;
            }
            _ => {
                self.world.kill(number);
                self.events.kills += 1;
            }
        }
    }

    /// Somebody must be there to merge.
    fn keep_one(&mut self) {
        let up = |world: &World| world.replicas.iter().filter(|one| one.is_up()).count();
        for number in 0..self.world.replicas.len() {
            if up(self.world) > 0 {
                return;
            }
            if self.world.replicas[number].is_paused() {
                self.world.resume(number);
            } else if !self.is_away(number) {
                self.world.start(number, true);
            }
        }
    }

    fn resume_all(&mut self) {
        for number in 0..self.world.replicas.len() {
            if self.world.replicas[number].is_paused() {
                self.world.resume(number);
            }
        }
    }

    /// One that is up, or is made so.
    fn one_that_is_up(&mut self) -> usize {
        loop {
            let number = self.choose();
            if self.is_away(number) {
                continue;
            }
            let replica = &self.world.replicas[number];
            if replica.is_paused() {
                self.world.resume(number);
            } else if replica.is_down() {
                self.world.start(number, true);
            }
            return number;
        }
    }

    fn go_away(&mut self) {
        let number = self.one_that_is_up();
        let hour = self.world.hour();
        self.world
            .pass_until(SignedDuration::from_millis(300), |world| {
                let left = world.replicas[number].unshipped();
                left.iter().any(|(_, of)| *of == hour)
            });
        self.world.kill(number);
        self.events.kills += 1;
        self.away = Some(self.world.replicas[number].name.clone());
    }

    /// It uploads what it had a month ago. Perhaps it is the last that is heard of it, and the others find it.
    fn come_back(&mut self) {
        let Some(name) = self.away.take() else {
            return;
        };
        let find = |world: &World| world.replicas.iter().position(|one| one.name == name);
        let number = find(self.world).unwrap();
        assert!(!self.world.has_shipped(number), "it had nothing");
        self.world.start(number, true);
        let shipped = |world: &World| world.has_shipped(number);
        self.world
            .pass_until(SignedDuration::from_millis(50), shipped);
        if self.world.rng.below(2) == 0 {
            self.world.bury(number);
            self.events.burials += 1;
            self.keep_one();
            // Only who looks at everything sees it.
            self.world.next_hour(DAY);
            self.world.settle();
            self.world.confirm();
            let number = self.world.add_replica();
            self.world.start(number, true);
        }
    }

    /// Who uploaded an hour never comes back, and did not merge it: the first merge is two seconds later.
    fn bury_an_uploader(&mut self) {
        let number = self.one_that_is_up();
        let shipped = |world: &World| world.has_shipped(number);
        self.world
            .pass_until(SignedDuration::from_millis(20), shipped);
        self.world.bury(number);
        self.events.burials += 1;
        let number = self.world.add_replica();
        if self.world.rng.below(2) == 0 {
            self.world.start(number, true);
        }
    }

    /// Everybody comes back.
    fn end(&mut self) {
        self.resume_all();
        for number in 0..self.world.replicas.len() {
            if self.world.replicas[number].is_down() {
                self.world.start(number, true);
            }
        }
        self.world.next_hour(SignedDuration::ZERO);
        self.world.settle();
        self.world.confirm();
        self.world.judge();
    }
}
