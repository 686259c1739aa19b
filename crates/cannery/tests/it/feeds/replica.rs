//! One replica: the real binary with a workspace of its own.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use cannery_runtime::RealDisk;
use cannery_runtime::disk::create_dir_all;
use rustix::process::{Pid, Signal, kill_process};

use super::ground::files_below;
use super::truth::{Place as HourOf, hour_of_folder};
use crate::program::Place;

pub(super) struct Replica {
    pub(super) name: String,
    place: Place,
    life: Life,
    lives: usize,
}

enum Life {
    Down,
    Up(Child),
    Paused(Child),
}

/// A file that was stored under its final name.
pub(super) struct Stored {
    pub(super) hour: HourOf,
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl Replica {
    /// One that never ran.
    pub(super) fn new(name: &str, config: &str, variables: &[(&str, &str)]) -> Self {
        let mut place = Place::new();
        place.set("CANNERY_CONFIG_FILE", "cannery.yml");
        for (name, value) in variables {
            place.set(name, value);
        }
        place.write(
            "cannery.yml",
            format!("node: {name}\nworkspace: work\n{config}"),
        );
        Self {
            name: name.to_owned(),
            place,
            life: Life::Down,
            lives: 0,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.life, Life::Up(_))
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.life, Life::Down)
    }

    pub(super) fn is_paused(&self) -> bool {
        matches!(self.life, Life::Paused(_))
    }

    pub(super) fn start(&mut self) {
        assert!(self.is_down());
        self.lives += 1;
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())
            .unwrap();
        let mut command = self.command(&["collect", "-v"]);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.life = Life::Up(command.stdin(Stdio::null()).spawn().unwrap());
    }

    /// Another command with its workspace.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        self.place.command(arguments)
    }

    /// Puts a body where one lies that was downloaded.
    pub(super) fn store(&self, folder: &str, name: &str, content: &[u8]) {
        let folder = format!("work/downloads/{folder}");
        create_dir_all(&RealDisk, &self.place.path(&folder)).unwrap();
        self.place.write(&format!("{folder}/{name}"), content);
    }

    fn log_path(&self) -> std::path::PathBuf {
        self.place.path(&format!("log-{}", self.lives))
    }

    /// What its present or last life said.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.log().contains("collecting feed")
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Life::Up(child) | Life::Paused(child) = &self.life {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    pub(super) fn kill(&mut self) {
        if let Life::Up(mut child) | Life::Paused(mut child) =
            std::mem::replace(&mut self.life, Life::Down)
        {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops its clock, as a machine does that is suspended.
    pub(super) fn pause(&mut self) {
        self.signal(Signal::STOP);
        if let Life::Up(child) = std::mem::replace(&mut self.life, Life::Down) {
            self.life = Life::Paused(child);
        }
    }

    pub(super) fn resume(&mut self) {
        self.signal(Signal::CONT);
        if let Life::Paused(child) = std::mem::replace(&mut self.life, Life::Down) {
            self.life = Life::Up(child);
        }
    }

    /// Whether it has ended, and how; a replica that ends by itself is an error.
    pub(super) fn ended(&mut self) -> Option<Option<i32>> {
        let Life::Up(child) = &mut self.life else {
            return None;
        };
        let ended = child.try_wait().unwrap()?;
        self.life = Life::Down;
        Some(ended.code())
    }

    /// The names in `downloads/` that nobody has seen yet, with their content.
    pub(super) fn stored(&self, is_new: impl Fn(&HourOf, &str) -> bool) -> Vec<Stored> {
        let root = self.place.path("work/downloads");
        let mut all = Vec::new();
        for path in files_below(&root) {
            let (folder, name) = path.rsplit_once('/').unwrap();
            let Some(hour) = hour_of_folder(folder).filter(|_| !name.starts_with('.')) else {
                continue;
            };
            if is_new(&hour, name)
                && let Ok(content) = std::fs::read(root.join(&path))
            {
                let name = name.to_owned();
                all.push(Stored {
                    hour,
                    name,
                    content,
                });
            }
        }
        all
    }

    /// What it has written down of the polls of an hour.
    pub(super) fn slots(&self, (feed, hour): &HourOf) -> String {
        let [year, month, day, hour] = [0..4, 4..6, 6..8, 9..11].map(|part| &hour[part]);
        let slots = format!("work/downloads/{feed}/{year}/{month}/{day}/{hour}/.slots");
        std::fs::read_to_string(self.place.path(&slots)).unwrap_or_default()
    }

    /// How many polls of an hour it has written down as failed; not those that it did not even begin.
    pub(super) fn failures(&self, hour: &HourOf) -> usize {
        let lines = self.slots(hour);
        let failed = lines.lines().filter(|line| line.contains(" failed "));
        failed
            .filter(|line| !line.ends_with("took too long"))
            .count()
    }

    /// How it is and what it has, for a message.
    pub(super) fn left(&self) -> String {
        let state = match self.life {
            Life::Down => "down",
            Life::Up(_) => "up",
            Life::Paused(_) => "paused",
        };
        format!("{state}, has not shipped {:?}", self.unshipped())
    }

    /// The hours of which not everything is shipped.
    pub(super) fn unshipped(&self) -> BTreeSet<HourOf> {
        let downloads = files_below(&self.place.path("work/downloads"));
        let downloads = downloads
            .iter()
            .filter_map(|path| hour_of_folder(path.rsplit_once('/')?.0));
        let archives = files_below(&self.place.path("work/archives"));
        let archives = archives.iter().filter_map(|path| {
            // `<feed>/<yyyy>/<mm>/<dd>/<feed>_<hour>_<hash>.tar.gz`; a receipt alone says that all is well.
            let name = path
                .rsplit('/')
                .next()
                .filter(|name| !name.starts_with('.'))?;
            let feed = path.split('/').next()?;
            let hour = name.strip_prefix(feed)?.strip_prefix('_')?.get(..12)?;
            Some((feed.to_owned(), hour.to_owned()))
        });
        downloads.chain(archives).collect()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}
