//! A node as somebody sets it up: a configuration, a spool, a workspace, a lake; and the ledger of what its producers wrote.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use cannery_formats::Digest;
use cannery_runtime::disk::{Kind, Open, create_dir_all};
use cannery_runtime::{Disk as _, RealDisk};
use serde_json::json;

use crate::program::{Place, Ran, pause, ran};

const SCHEMA: &str = r#"[{"name":"n","type":"INTEGER"},{"name":"text","type":"STRING"}]"#;

/// The lake of a node that says nothing else.
pub(crate) const LOCAL_LAKE: &str = "object_storage: [{url: \"file:lake\"}]\n";

pub(crate) struct Node {
    pub(crate) place: Place,
    ledger: Mutex<Vec<serde_json::Value>>,
}

impl Node {
    pub(crate) fn new() -> Self {
        Self::with(LOCAL_LAKE, "")
    }

    /// With another lake, and more keys of the spool.
    pub(crate) fn with(lake: &str, spool: &str) -> Self {
        Self::at(Place::new(), lake, spool)
    }

    pub(crate) fn at(place: Place, lake: &str, spool: &str) -> Self {
        let node = Self {
            place,
            ledger: Mutex::default(),
        };
        for folder in ["spool/datatypes", "lake", "work"] {
            create_dir_all(&RealDisk, &node.place.path(folder)).unwrap();
        }
        node.place.write("spool/datatypes/foo1.json", SCHEMA);
        node.place.write("bar1.json", SCHEMA);
        node.configure(lake, spool);
        node
    }

    pub(crate) fn configure(&self, lake: &str, spool: &str) {
        let text = format!(
            "node: mlab1-lga01\nworkspace: work\n{lake}spools:\n- experiment: ndt\n  home: spool\n  datatypes:\n  \
             - name: foo1\n  - {{name: bar1, schema_file: bar1.json}}\n{spool}"
        );
        self.place.write("cannery.yml", text);
    }

    /// A file that a producer finished: written elsewhere and moved into its place.
    pub(crate) fn produce(&self, datatype: &str, filename: &str, text: &str) {
        self.write(datatype, filename, text);
        self.ledger.lock().unwrap().push(json!({
            "datatype": datatype, "filename": filename, "good": true,
            "sha256": Digest::of(text.as_bytes()).to_string(), "size": text.len(),
        }));
    }

    /// So many small files of a date, with names that begin so.
    pub(crate) fn produce_some(&self, date: &str, prefix: &str, count: usize) {
        for number in 0..count {
            let text = format!("{{\"n\":{number},\"text\":\"{prefix}\"}}");
            let datatype = ["foo1", "bar1"][number % 2];
            self.produce(datatype, &format!("{date}/{prefix}{number:05}.json"), &text);
        }
    }

    /// A file that can never be loaded.
    pub(crate) fn produce_bad(&self, datatype: &str, filename: &str, text: &str) {
        let path = self.write(datatype, filename, text);
        age(&path);
        self.ledger.lock().unwrap().push(json!({
            "datatype": datatype, "filename": filename, "good": false, "sha256": null, "size": null,
        }));
    }

    fn write(&self, datatype: &str, filename: &str, text: &str) -> PathBuf {
        let path = self.place.path("spool/ndt").join(datatype).join(filename);
        create_dir_all(&RealDisk, path.parent().unwrap()).unwrap();
        // Outside of the spool, where nobody looks at it.
        let temp = self.place.path("being-written");
        let file = RealDisk.open(&temp, Open::CreateNew).unwrap();
        file.write_all_at(0, text.as_bytes()).unwrap();
        RealDisk.rename(&temp, &path).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.env("CANNERY_CONFIG_FILE", "cannery.yml");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(&mut self.command(arguments))
    }

    /// Runs it, and expects it to succeed.
    pub(crate) fn run_well(&self, arguments: &[&str]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{}", ran.snapshot());
        ran
    }

    /// Starts `cannery collect`, which logs to a file.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut all = vec!["collect", "-v"];
        all.extend(arguments);
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.place.path("log"))
            .unwrap();
        let mut command = self.command(&all);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        command.stdin(Stdio::null()).spawn().unwrap()
    }

    /// Where the dashboard is of a process that was started with `--listen`.
    pub(crate) fn dashboard(&self) -> String {
        super::flush::wait_for_log(self, "dashboard at ");
        let log = self.log();
        let url = log.split("dashboard at ").nth(1).unwrap();
        url.split_whitespace().next().unwrap().to_owned()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.place.path("log")).unwrap_or_default()
    }

    /// How many files lie in the spool, but for the quarantine.
    pub(crate) fn files_left(&self) -> usize {
        count(&self.place.path("spool/ndt"))
    }

    /// Waits until so many files are left.
    pub(crate) fn wait_for_files(&self, left: usize) {
        for _ in 0..1_200 {
            if self.files_left() <= left {
                return;
            }
            pause();
        }
        panic!("{} files are left: {}", self.files_left(), self.log());
    }

    /// What the auditor says of the lake in `lake`.
    pub(crate) fn audit(&self, more: &[&str]) {
        let ledger: String = self
            .ledger
            .lock()
            .unwrap()
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        self.place.write("ledger.ndjson", ledger);
        let auditor =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/audit/spool_audit.py");
        let mut command = Command::new("python3");
        command
            .arg(auditor)
            .args([
                "--ledger",
                "ledger.ndjson",
                "--lake",
                "lake",
                "--spool",
                "spool",
            ])
            .args(["--workspace", "work/collect/ndt", "--experiment", "ndt"])
            .args(["--node", "mlab1-lga01"])
            .args(more)
            .current_dir(self.place.path(""));
        let audited = ran(&mut command);
        assert_eq!(audited.code, 0, "{}\n{}", audited.snapshot(), self.log());
    }
}

/// Makes a file so old that it is not left alone any more.
pub(crate) fn age(path: &Path) {
    let long_ago =
        std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(long_ago).unwrap();
}

fn count(folder: &Path) -> usize {
    let Ok(entries) = RealDisk.read_dir(folder) else {
        return 0;
    };
    let below = |name: std::ffi::OsString| count(&folder.join(name));
    let counts = entries.into_iter().map(|entry| match entry.kind {
        Kind::Dir => below(entry.name),
        Kind::File | Kind::Other => 1,
    });
    counts.sum()
}

/// Asks a process to stop; its exit code.
pub(crate) fn stop(mut child: Child) -> i32 {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap().code().unwrap_or(-1)
}
