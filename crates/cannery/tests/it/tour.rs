//! The tour of `README.md` runs as it is printed, in its order, while `cannery up` runs in another terminal.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytes::Bytes;
use cannery_testkit::feed_server::{Behaviour, FeedServer};
use rustix::process::{Pid, Signal};

use crate::program::{Place, Ran, pause, ran};

const README: &str = include_str!("../../../../README.md");
const REPORT: &str =
    "cannery-data/reports-raw/2026-11-15/20261115T120000Z-US-AS7922-ndt-r1-0.2.0-probe.json";

/// The commands of one block of the tour.
struct Block(Vec<String>);

/// The blocks of the chapter "Run it", command by command: a here-document belongs to the command that reads it.
fn blocks() -> Vec<Block> {
    let (_, chapter) = README.split_once("\n## Run it\n").unwrap();
    let (chapter, _) = chapter.split_once("\n## ").unwrap();
    // Text and blocks alternate.
    let blocks = chapter.split("```").skip(1).step_by(2);
    blocks.map(|block| Block::of(block.trim_start())).collect()
}

impl Block {
    fn of(text: &str) -> Self {
        let (mut commands, mut lines) = (Vec::new(), text.lines());
        while let Some(line) = lines.next() {
            let mut command = format!("{line}\n");
            if line.contains("<<'END'") {
                for line in lines.by_ref() {
                    command.push_str(line);
                    command.push('\n');
                    if line == "END" {
                        break;
                    }
                }
            }
            commands.push(command);
        }
        Self(commands)
    }
}

/// A terminal in the folder in which `up` runs.
struct Terminal<'a> {
    place: &'a Place,
    commands: std::vec::IntoIter<String>,
}

impl<'a> Terminal<'a> {
    fn new(place: &'a Place, block: Block) -> Self {
        let commands = block.0.into_iter();
        Self { place, commands }
    }

    fn bash(&self, command: &str) -> Command {
        let binary = Path::new(env!("CARGO_BIN_EXE_cannery"));
        let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
        let mut bash = Command::new("bash");
        bash.args(["-e", "-c", command])
            .current_dir(self.place.path(""))
            .env_clear()
            .env("PATH", path)
            .stdin(Stdio::null());
        bash
    }

    /// The next command, which must begin so.
    fn next(&mut self, begin: &str) -> String {
        let command = self.commands.next();
        let command = command.unwrap_or_else(|| panic!("`{begin}` is not in the tour any more"));
        assert!(command.starts_with(begin), "not `{begin}`: {command}");
        command
    }

    /// Runs the next command, as somebody has changed it.
    fn run_changed(&mut self, begin: &str, change: impl Fn(&str) -> String) -> Ran {
        let command = self.next(begin);
        let changed = change(&command);
        let ran = ran(&mut self.bash(&changed));
        println!("$ {changed}{}", ran.all());
        ran
    }

    /// Runs the next command, which must go well; what it prints.
    fn run(&mut self, begin: &str) -> String {
        let ran = self.run_changed(begin, str::to_owned);
        assert_eq!(ran.code, 0, "{begin}: {}", ran.all());
        ran.stdout
    }

    /// Runs the next command until `is_enough`, and then ends it by Ctrl-C.
    fn run_until(&mut self, begin: &str, is_enough: impl Fn() -> bool) -> String {
        let command = self.next(begin);
        // A terminal sends it to all processes that the command has started.
        let mut bash = self.bash(&command);
        bash.process_group(0).stdout(Stdio::piped());
        let child = bash.spawn().unwrap();
        for _ in 0..1_200 {
            if is_enough() {
                break;
            }
            pause();
        }
        rustix::process::kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        println!("$ {command}{printed}");
        assert!(is_enough(), "{begin}: {printed}");
        assert_eq!(output.status.code(), Some(0), "{begin}: {printed}");
        printed
    }

    /// Nothing of the block is left.
    fn end(mut self) {
        assert_eq!(self.commands.next(), None, "nobody checks this command");
    }
}

fn lake(mut it: Terminal<'_>) {
    let put = it.run("cannery lake put hello.txt README.md");
    assert!(put.contains("created hello.txt"), "{put}");
    let listed = it.run("cannery lake ls");
    assert!(listed.contains("hello.txt"), "{listed}");
    assert_eq!(it.run("cannery lake cat hello.txt"), README);
    // What it says of the machine on which tests run is its own affair.
    let doctor = it.run_changed("cannery doctor", str::to_owned);
    for line in [
        "ok    lake main    honours create-if-absent",
        "ok    journal pipeline embedded",
    ] {
        assert!(doctor.stdout.contains(line), "{}", doctor.all());
    }
    it.end();
}

fn spool(mut it: Terminal<'_>) {
    let file = "cannery-data/spool/ndt/foo1/2026/11/15/a.json";
    it.run("mkdir -p cannery-data/spool/");
    it.run("echo '[{");
    it.run("echo '{\"UUID\"");
    assert!(it.place.path(file).exists());
    it.run("cat > spool.yml");
    let collected = it.run("cannery collect --once");
    assert!(collected.contains("1 file collected"), "{collected}");
    let listed = it.run("cannery ls ndt/foo1/2026/11/15");
    assert!(listed.contains("a.json"), "{listed}");
    assert!(!it.place.path(file).exists(), "the file is gone");
    let got = it.run("cannery get ndt/foo1/2026/11/15/a.json");
    assert_eq!(got, "{\"UUID\":\"1234\",\"Field1\":42}\n");
    let checked = it.run("cannery spool check");
    assert!(checked.contains("all there"), "{checked}");
    it.end();
}

fn feed(mut it: Terminal<'_>, server: &FeedServer) {
    // The one thing that is changed: nobody is asked for a page in the internet.
    let here = |printed: &str| {
        let url = format!("url: \"{}\", allow_private: true", server.url("/"));
        let changed = printed.replace("url: \"https://example.com/\"", &url);
        assert_ne!(changed, printed);
        changed
    };
    let written = it.run_changed("cat > feeds.yml", here);
    assert_eq!(written.code, 0, "{}", written.all());
    let tested = it.run("cannery feed test example");
    assert!(tested.contains("status 200"), "{tested}");
    assert!(tested.contains("an example"), "{tested}");
    let asked = server.requests("/").len();
    let is_enough = || server.requests("/").len() > asked + 1;
    it.run_until("cannery collect --config-file feeds.yml", is_enough);
    let retrieved = it.run("cannery retrieve");
    assert!(retrieved.contains(" from `main`"), "{retrieved}");
    let files = files(&it.place.path("example"));
    assert!(!files.is_empty(), "{retrieved}");
    for file in files {
        assert!(file.extension().is_some_and(|it| it == "html"), "{file:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "an example");
    }
    // There are some: nobody has collected it yesterday.
    let gaps = it.run_changed("cannery gaps", str::to_owned);
    assert_eq!(gaps.code, 20, "{}", gaps.all());
    assert!(gaps.stdout.contains("example: "), "{}", gaps.all());
    it.end();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files
}

fn archive(mut it: Terminal<'_>) {
    it.run("mkdir -p cannery-data/reports-raw/");
    it.run("echo '{\"test_name\":\"ndt\"");
    assert!(it.place.path(REPORT).exists());
    it.run("cannery work --once");
    let listed = it.run("cannery ls --bucket 2026-11-15");
    let uids: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let [uid] = uids[..] else {
        panic!("not one measurement: {listed}");
    };
    let of_uid = |printed: &str| {
        let changed = printed.replace("UID", uid);
        assert_ne!(changed, printed);
        changed
    };
    let got = it.run_changed("cannery get UID", of_uid);
    assert_eq!(got.stdout, "{\"test_name\":\"ndt\",\"speed\":42}\n");
    let traced = it.run_changed("cannery trace UID", of_uid);
    assert_eq!(traced.code, 0, "{}", traced.all());
    for hop in [
        "reports-raw/2026-11-15/",
        "canned/2026-11-15/",
        "autoclaved/",
    ] {
        assert!(traced.stdout.contains(hop), "{hop}: {}", traced.all());
    }
    it.end();
}

fn objects(mut terminal: Terminal<'_>) {
    terminal.run("cannery stor put -p stor/notes/readme.md README.md");
    let listed = terminal.run("cannery stor ls -l stor/notes");
    assert!(listed.contains("readme.md"), "{listed}");
    terminal.run("cannery stor ln ");
    let shared = terminal.run("cannery stor get public/readme.md");
    assert!(shared.trim_end() == README.trim_end());
    terminal.end();
}

fn journal(mut it: Terminal<'_>) {
    let added = it.run("cannery journal add default");
    assert_eq!(added, "inserted report-1\n");
    let worked = it.run("cannery journal work default --once --exec cat");
    assert!(worked.contains("{\"path\": \"a.csv\"}"), "{worked}");
    assert!(worked.contains("1 done, 0 given back"), "{worked}");
    it.end();
}

#[tokio::test]
async fn the_tour_of_the_readme_runs_as_it_is_printed_while_up_runs() {
    let server = FeedServer::start().await.unwrap();
    let body = Bytes::from_static(b"an example");
    server.on("/", Behaviour::Bodies(vec![body]));
    tokio::task::spawn_blocking(move || tour(&server))
        .await
        .unwrap();
}

fn tour(server: &FeedServer) {
    let place = Place::new();
    place.write("README.md", README);
    let [
        run,
        of_lake,
        of_spool,
        of_feed,
        of_archive,
        of_objects,
        of_journal,
    ] = <[Block; 7]>::try_from(blocks()).unwrap_or_else(|_| panic!("the tour has other blocks"));
    assert_eq!(run.0, ["cargo run --release -- up\n"]);
    // As a newcomer starts it, but for the port, which may be somebody else's here.
    let up = place.up(&[]);
    lake(Terminal::new(&place, of_lake));
    spool(Terminal::new(&place, of_spool));
    feed(Terminal::new(&place, of_feed), server);
    archive(Terminal::new(&place, of_archive));
    objects(Terminal::new(&place, of_objects));
    journal(Terminal::new(&place, of_journal));
    assert_eq!(up.stop().0, 0);
}
