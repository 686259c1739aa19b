//! What the programs of earlier generations left behind: today's program opens it and goes on with it.
//!
//! `tests/fixtures/README.md` says what is there. Each test runs on every generation that has its world.

mod feeds;
mod journal;
mod lake;
#[cfg(feature = "real-servers")]
mod postgres;
mod spool;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cannery_formats::Digest;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::program::{Place, Ran, ran};

/// How much further the clock is after each of these steps of real time.
const TICK: Duration = Duration::from_millis(10);

/// A world that was unpacked to a folder of its own, and what must hold in it.
struct World {
    place: Place,
    facts: Value,
    now: Timestamp,
}

/// The world of this name in every generation that has one.
fn worlds(name: &str) -> Vec<World> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let generations = std::fs::read_dir(folder).unwrap();
    let mut archives: Vec<PathBuf> = generations
        .map(|entry| entry.unwrap().path().join(format!("{name}.tar.gz")))
        .filter(|archive| archive.exists())
        .collect();
    archives.sort();
    assert!(!archives.is_empty(), "no generation has {name}");
    archives
        .iter()
        .map(|archive| World::open(name, archive))
        .collect()
}

impl World {
    fn open(name: &str, archive: &Path) -> Self {
        println!("opening {}", archive.display());
        let facts = archive.with_file_name(format!("{name}.json"));
        let facts: Value = serde_json::from_slice(&std::fs::read(facts).unwrap()).unwrap();
        let now: Timestamp = facts["clock"].as_str().unwrap().parse().unwrap();
        let mut place = Place::new();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(place.path(""));
        assert!(tar.status().unwrap().success());
        let clock = place.write("clock", now.to_string());
        place.set("CANNERY_SIM_CLOCK", clock.to_str().unwrap());
        place.set("CANNERY_CONFIG_FILE", "cannery.yml");
        let world = Self { place, facts, now };
        world.relocate();
        world
    }

    /// Some files say where their world lies. A user's stays there; this one was made elsewhere.
    fn relocate(&self) {
        let here = self.place.path("");
        let here = here.to_str().unwrap().trim_end_matches('/');
        for name in strings(&self.facts["relocate"]) {
            let text = std::fs::read_to_string(self.place.path(name)).unwrap();
            let text = text.replace(self.fact("root"), here);
            self.place.write(name, text);
        }
    }

    fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap()
    }

    /// The clock stands so much later than it did.
    fn pass(&mut self, time: SignedDuration) {
        self.now += time;
        set_clock(&self.place.path("clock"), self.now);
    }

    /// The time goes on until the guard is dropped.
    fn tick(&mut self) -> Ticking<'_> {
        let (stop, mut now) = (Arc::new(AtomicBool::new(false)), self.now);
        let (stopped, clock) = (Arc::clone(&stop), self.place.path("clock"));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
                std::thread::sleep(TICK);
                now += TICK;
                set_clock(&clock, now);
            }
            now
        });
        Ticking {
            world: self,
            stop,
            thread: Some(thread),
        }
    }

    /// Runs a command below the folder while the time goes on.
    fn run_in(&mut self, folder: &str, arguments: &[&str]) -> Ran {
        let mut command = self.place.command(arguments);
        command.current_dir(self.place.path(folder));
        let _ticking = self.tick();
        ran(&mut command)
    }

    fn run(&mut self, arguments: &[&str]) -> Ran {
        self.run_in("", arguments)
    }

    fn well(&mut self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
        ran
    }

    /// Nothing was set aside as damaged: what is lost that way may come back from elsewhere, and the loss would not show.
    fn assert_nothing_is_damaged(&self) {
        let is_damaged = |path: &String| path.split('/').any(|part| part.ends_with("damaged"));
        let all = files_below(&self.place.path("")).into_iter();
        let damaged: Vec<String> = all.filter(is_damaged).collect();
        assert_eq!(damaged, Vec::<String>::new());
    }

    /// What a command says with `--json`.
    fn lines(&mut self, arguments: &[&str]) -> Vec<Value> {
        self.well(&[arguments, &["--json"]].concat()).json()
    }
}

struct Ticking<'a> {
    world: &'a mut World,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Timestamp>>,
}

impl Drop for Ticking<'_> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Ok(now)) = self.thread.take().map(std::thread::JoinHandle::join) {
            self.world.now = now;
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
fn set_clock(clock: &Path, now: Timestamp) {
    let new = clock.with_extension("new");
    std::fs::write(&new, now.to_string()).unwrap();
    std::fs::rename(&new, clock).unwrap();
}

/// The texts of an array; none where there is none.
fn strings(values: &Value) -> Vec<&str> {
    let values = values.as_array().into_iter().flatten();
    values.map(|value| value.as_str().unwrap()).collect()
}

/// Whether everything that was said then is said now; more may be.
fn says(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => then
            .iter()
            .all(|(name, value)| now.get(name).is_some_and(|now| says(now, value))),
        (Value::Array(now), Value::Array(then)) => {
            now.len() == then.len() && now.iter().zip(then).all(|(now, then)| says(now, then))
        }
        (now, then) => now == then,
    }
}

/// As [`says`], and shows both when it is not so.
fn assert_says(now: &Value, then: &Value) {
    assert!(says(now, then), "then: {then:#}\nnow: {now:#}");
}

/// The paths of all files below a folder, relative to it.
fn files_below(folder: &Path) -> Vec<String> {
    let all = crate::feed_commands::files(folder);
    let relative = |path: &String| {
        let path = Path::new(path).strip_prefix(folder).unwrap();
        path.to_str().unwrap().to_owned()
    };
    all.iter().map(relative).collect()
}

fn sha256(content: &[u8]) -> String {
    Digest::of(content).to_string()
}
