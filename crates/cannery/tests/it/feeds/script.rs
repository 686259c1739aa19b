//! What the server answers to each replica, request by request, so that it is known who was given what.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cannery_runtime::Rng;
use cannery_testkit::feed_server::{Behaviour, FeedServer};

/// More answers than a replica asks for in a round; the last one stays.
const ANSWERS: u64 = 96;

/// Who is slow to see that time has passed may still ask in the hour before: for the poll that was due, and at once for the next
/// when that is late by less than half its distance.
const EARLY: usize = 2;

pub(super) struct Script {
    server: Arc<FeedServer>,
    rng: Rng,
    feeds: usize,
    given: BTreeMap<(String, String), Given>,
}

/// What a replica was answered of a feed.
pub(super) struct Answers {
    pub(super) feed: String,
    pub(super) bodies: Vec<Bytes>,
    /// Answers without one.
    pub(super) failures: usize,
}

/// The answers of a path since they were set.
struct Given {
    bodies: Vec<Option<Bytes>>,
    requests_before: usize,
}

impl Script {
    pub(super) fn new(server: Arc<FeedServer>, rng: Rng, feeds: usize) -> Self {
        Self {
            server,
            rng,
            feeds,
            given: BTreeMap::new(),
        }
    }

    pub(super) fn feeds(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.feeds).map(|number| format!("f{number:02}"))
    }

    /// The feeds as the configuration of a replica has them, from 200 ms to 2 s.
    pub(super) fn config(&self, replica: &str, codec: &str) -> String {
        let step = 1_800 / (self.feeds - 1).max(1);
        let feeds = self.feeds().enumerate().map(|(number, feed)| {
            let url = self.server.url(&path(&feed, replica));
            let period = 200 + number * step;
            format!(
                "- {{id: {feed}, url: \"{url}\", periodicity: {period}ms, postfix: .json, timeout: 60s, \
                 allow_private: true, compression: {{format: {codec}}}}}\n"
            )
        });
        format!("feeds:\n{}", feeds.collect::<String>())
    }

    /// Sets new answers for a replica; says which bodies it may be given. Nobody may be asking meanwhile.
    pub(super) fn set(&mut self, round: usize, replica: &str) -> Vec<(String, Bytes)> {
        let mut offered = Vec::new();
        for feed in self.feeds() {
            let (mut turns, mut bodies) = (Vec::new(), Vec::new());
            for number in 0..ANSWERS {
                let (turn, body) = self.answer((round, &feed, replica), number, bodies.last());
                offered.extend(body.clone().map(|body| (feed.clone(), body)));
                turns.push(turn);
                bodies.push(body);
            }
            let path = path(&feed, replica);
            let given = Given {
                bodies,
                requests_before: self.server.request_count(&path),
            };
            self.server.on(&path, Behaviour::Turns(turns));
            self.given.insert((replica.to_owned(), feed), given);
        }
        offered
    }

    fn answer(
        &self,
        (round, feed, replica): (usize, &str, &str),
        number: u64,
        before: Option<&Option<Bytes>>,
    ) -> (Behaviour, Option<Bytes>) {
        let is_last = number + 1 == ANSWERS;
        let body = match self.rng.below(12) {
            0 if !is_last => return (Behaviour::Status(500), None),
            // Not one that hangs up: that is asked once more, and a poll would be two requests.
            1 if !is_last => return (cut_off(), None),
            2 | 3 => match before.and_then(Option::as_ref) {
                Some(before) => before.clone(),
                None => body(round, feed, "all", number),
            },
            // Only this replica is told so.
            4 | 5 => body(round, feed, replica, number),
            // The others may be ahead.
            _ => body(round, feed, "all", number + self.rng.below(3)),
        };
        (Behaviour::Body(body.clone()), Some(body))
    }

    /// The answers to a replica since they were set, by feed; without the first, which may be of the hour before.
    pub(super) fn given(&self, replica: &str) -> Vec<Answers> {
        let of_replica = self.given.iter().filter(|((name, _), _)| name == replica);
        let answers = of_replica.map(|((_, feed), given)| {
            let requests = self.server.request_count(&path(feed, replica));
            let answered = given.bodies.iter().take(requests - given.requests_before);
            let (bodies, failures): (Vec<_>, Vec<_>) =
                answered.skip(EARLY).partition(|it| it.is_some());
            Answers {
                feed: feed.clone(),
                bodies: bodies.into_iter().flatten().cloned().collect(),
                failures: failures.len(),
            }
        });
        answers.collect()
    }

    /// How many connections were accepted, and how many are open.
    pub(super) fn traffic(&self) -> (usize, usize) {
        (self.server.accepted(), self.server.open())
    }
}

fn path(feed: &str, replica: &str) -> String {
    format!("/{feed}/{replica}")
}

/// An answer that ends before its end: nobody may store it.
fn cut_off() -> Behaviour {
    Behaviour::WrongLength {
        claimed: 1_000,
        body: Bytes::from_static(b"{\"cut\":"),
    }
}

/// Lines of other lengths for each.
fn body(round: usize, feed: &str, to: &str, number: u64) -> Bytes {
    let line =
        format!("{{\"feed\":\"{feed}\",\"round\":{round},\"to\":\"{to}\",\"n\":{number}}}\n");
    let lines = usize::try_from(number * 7 % 23).unwrap();
    Bytes::from(line.repeat(1 + lines))
}
