//! The server is killed at its operations on the lake and on uploads, one after the other, in the middle of changes to objects: what was
//! acknowledged is there, what was refused is not, and what was not answered is whole or not there at all.

use std::collections::BTreeMap;

use crate::program::{Place, Up, http_send};

/// What may be at a path; `None` is nothing.
type Allowed = Vec<Option<Vec<u8>>>;

/// What the objects may be, given what was answered.
#[derive(Default)]
struct Expected(BTreeMap<&'static str, Allowed>);

impl Expected {
    fn now(&self, path: &str) -> Allowed {
        self.0.get(path).cloned().unwrap_or_else(|| vec![None])
    }

    /// A change to `path` that should be answered with `status`; whether it was answered.
    fn change(&mut self, path: &'static str, new: Option<Vec<u8>>, answered: Option<u16>) -> bool {
        match answered {
            Some(204) => drop(self.0.insert(path, vec![new])),
            Some(status) => panic!("{path}: {status}"),
            None => {
                let mut allowed = self.now(path);
                allowed.push(new);
                self.0.insert(path, allowed);
            }
        }
        answered.is_some()
    }

    /// Everything is as it may be; from now on it is what was seen.
    fn check(&mut self, place: &Place, up: &Up) {
        for (path, allowed) in &mut self.0 {
            let url = up.url(&format!("local/stor/{path}"));
            let seen = match http_send(place, ("GET", &url), "", b"").unwrap() {
                (200, body) => Some(body),
                (404, _) => None,
                (status, body) => panic!("{path}: {status} {}", String::from_utf8_lossy(&body)),
            };
            let lengths: Vec<_> = allowed
                .iter()
                .map(|one| one.as_ref().map(Vec::len))
                .collect();
            assert!(
                allowed.contains(&seen),
                "{path}: {:?} of {lengths:?}",
                seen.map(|body| body.len())
            );
            *allowed = vec![seen];
        }
    }
}

/// A round of changes: put, overwrite, link, delete, and an upload that needs a file. Ends with the first that is not answered.
fn change_all(place: &Place, up: &Up, expected: &mut Expected, round: u64) -> bool {
    let small = format!("small {round}").into_bytes();
    let large = format!("large {round} ").repeat(40_000).into_bytes();
    let other = format!("other {round}").into_bytes();
    let send = |path: &str, method: &str, headers: &str, body: &[u8]| {
        let url = up.url(&format!("local/stor/{path}"));
        http_send(place, (method, &url), headers, body).map(|(status, _)| status)
    };
    let put = |path: &str, body: &[u8]| send(path, "PUT", "", body);
    let link = "Content-Type: application/json; type=link\r\nLocation: /local/stor/a\r\n";
    expected.change("a", Some(small.clone()), put("a", &small))
        && expected.change("large", Some(large.clone()), put("large", &large))
        && expected.change("b", Some(small), send("b", "PUT", link, b""))
        && expected.change("a", Some(other.clone()), put("a", &other))
        && expected.change("b", None, send("b", "DELETE", "", b""))
}

#[test]
fn what_was_acknowledged_is_there_wherever_the_server_dies() {
    let mut place = Place::new();
    let told = place.path("kill");
    place.set("CANNERY_SIM_KILL_FILE", told.to_str().unwrap());
    let mut expected = Expected::default();
    // Every operation in the long run, otherwise every fifth.
    let step = if cannery_testkit::long_run() { 1 } else { 5 };
    let mut number = 1;
    loop {
        let up = place.up(&[]);
        expected.check(&place, &up);
        place.write("kill.new", format!("{number} cannery-data"));
        #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
        std::fs::rename(place.path("kill.new"), &told).unwrap();
        let survived = change_all(&place, &up, &mut expected, number);
        up.kill();
        std::fs::remove_file(&told).unwrap();
        if survived {
            break;
        }
        number += step;
    }
    assert!(number > 30, "it dies at {number} operations only");
    let up = place.up(&[]);
    expected.check(&place, &up);
    assert_eq!(up.stop().0, 0);
}

/// The files of bytes in the lake.
fn stored(place: &Place) -> usize {
    let files = crate::feed_commands::files(&place.path("cannery-data/lake/users"));
    files.iter().filter(|file| file.contains("/data/")).count()
}

/// Moves the time on by so many minutes, one after the other: what waits for a minute waits again after it.
fn pass(place: &Place, minutes: i64) {
    for _ in 0..minutes {
        let now = std::fs::read_to_string(place.path("clock")).unwrap();
        let now: jiff::Timestamp = now.parse().unwrap();
        let later = now + jiff::SignedDuration::from_secs(61);
        place.write("clock.new", later.to_string());
        #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
        std::fs::rename(place.path("clock.new"), place.path("clock")).unwrap();
        for _ in 0..4 {
            crate::program::pause();
        }
    }
}

#[test]
fn a_sweep_that_is_killed_removes_nothing_that_has_a_name_and_is_ended_later() {
    let mut place = Place::with_clock();
    let told = place.path("kill");
    place.set("CANNERY_SIM_KILL_FILE", told.to_str().unwrap());
    let up = place.up(&[]);
    let mut expected = Expected::default();
    for round in 0..4 {
        assert!(change_all(&place, &up, &mut expected, round));
    }
    assert_eq!(up.stop().0, 0);
    let named = expected
        .0
        .values()
        .filter(|allowed| **allowed != [None])
        .count();
    let all = stored(&place);
    assert!(
        all > named + 4,
        "there is something to sweep: {all} of {named}"
    );
    place.write("clock", "2026-11-17T00:00:00Z");
    let step = if cannery_testkit::long_run() { 1 } else { 4 };
    let mut number = 1;
    while stored(&place) > named {
        let up = place.up(&[]);
        expected.check(&place, &up);
        place.write("kill.new", format!("{number} lake/users/"));
        #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
        std::fs::rename(place.path("kill.new"), &told).unwrap();
        pass(&place, 13);
        up.kill();
        std::fs::remove_file(&told).unwrap();
        number += step;
        assert!(number < 200, "{} are left", stored(&place));
    }
    assert!(number > 1 + step, "it was never killed");
    let up = place.up(&[]);
    expected.check(&place, &up);
    assert_eq!(up.stop().0, 0);
}
