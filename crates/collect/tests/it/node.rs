//! A node with its spool, its workspace and its lake, and the auditor that judges it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_collect::spool::{
    BadFiles, DatatypeSettings, Spool, SpoolFull, SpoolParts, SpoolSettings,
};
use cannery_formats::spool::{Datatype, Experiment, ObjectHome, table_key};
use cannery_formats::table_schema::{TableSchema, parse_datatype};
use cannery_formats::{Digest, NodeName};
use cannery_journal::{Declaration, Journal, Memory};
use cannery_lake::fault::{FaultStore, Faults};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::disk::{Open, create_dir_all, write_durably};
use cannery_runtime::{Clock, Disk as _, RealDisk, Rng};
use serde_json::json;
use tempfile::TempDir;

const SCHEMA: &[u8] = br#"[{"name":"n","type":"INTEGER"},{"name":"text","type":"STRING"}]"#;

/// A node with its spool, its workspace and its lake.
pub(crate) struct Node {
    folder: PathBuf,
    /// Removes the folder at the end, for who made it.
    made: Option<TempDir>,
    pub(crate) min_file_age: Duration,
    /// How much room the spool may take, and what is done when it is more.
    pub(crate) room: (Option<u64>, SpoolFull),
    pub(crate) ledger: Vec<serde_json::Value>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let made = tempfile::tempdir().unwrap();
        let mut node = Self::at(made.path().to_owned());
        node.made = Some(made);
        node
    }

    /// A node whose folder is there.
    pub(crate) fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            made: None,
            min_file_age: Duration::from_secs(7_200),
            room: (None, SpoolFull::Refuse),
            ledger: Vec::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn settings(&self) -> SpoolSettings {
        SpoolSettings {
            experiment: Experiment::new("ndt").unwrap(),
            home: self.path("spool"),
            object_home: ObjectHome::V1,
            node: NodeName::parse("mlab1-lga01").unwrap(),
            datatypes: ["foo1", "bar1"]
                .map(|name| DatatypeSettings {
                    name: Datatype::new(name).unwrap(),
                    fields: parse_datatype(SCHEMA).unwrap(),
                })
                .into(),
            extensions: vec![".json".to_owned()],
            bundle_bytes_max: 64 * 1024,
            bundle_age_max: Duration::from_secs(3_600),
            min_file_age: self.min_file_age,
            scan_interval: Duration::from_secs(300),
            settle: Duration::from_millis(50),
            bad_files: BadFiles::Quarantine,
            quarantine_bytes_max: 1 << 20,
            spool_bytes_max: self.room.0,
            spool_full: self.room.1,
            id_column: false,
            index_loadable: false,
            version: "cannery@0.1.0".to_owned(),
            git_commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        }
    }

    pub(crate) fn lake(&self) -> Mirrors {
        self.lake_with(&Faults::none())
    }

    /// The lake behind a store that fails now and then.
    pub(crate) fn lake_with(&self, faults: &Faults) -> Mirrors {
        let root = self.path("lake");
        create_dir_all(&RealDisk, &root).unwrap();
        let rng = Rng::from_os();
        let lake = Lake::new(Parts {
            id: "main".to_owned(),
            url: format!("file://{}", root.display()),
            store: Arc::new(FaultStore::new(
                Arc::new(DiskStore::new(Arc::new(RealDisk), root, rng.clone())),
                faults.clone(),
                Clock::real(),
            )),
            prefix: String::new(),
            clock: Clock::real(),
            rng,
            retry: RetryPolicy::default(),
            metrics: LakeMetrics::default(),
        });
        Mirrors::new(vec![lake.unwrap()]).unwrap()
    }

    pub(crate) async fn spool(&self) -> Spool {
        self.spool_on(self.lake()).await
    }

    pub(crate) async fn spool_on(&self, mirrors: Mirrors) -> Spool {
        let clock = Clock::real();
        // Lost with every process: it only schedules.
        let journal = Memory::new(Declaration::default(), clock.clone(), Rng::from_os());
        let journal = Journal::new("spool", Arc::new(journal));
        let parts = SpoolParts {
            outbox: self.path("work/outbox"),
            inventory: self.path("work/inventory"),
            disk: Arc::new(RealDisk),
            clock,
            rng: Rng::from_os(),
            mirrors,
            journal,
            ask_lake: false,
        };
        Spool::open(self.settings(), parts).await.unwrap()
    }

    /// A file that a producer finished: written elsewhere and moved into its place.
    pub(crate) fn produce(&mut self, datatype: &str, filename: &str, text: &str, good: bool) {
        let path = self.path("spool/ndt").join(datatype).join(filename);
        create_dir_all(&RealDisk, path.parent().unwrap()).unwrap();
        // A producer waits for no disk.
        let temp = path.with_extension("tmp");
        let file = RealDisk.open(&temp, Open::CreateNew).unwrap();
        file.write_all_at(0, text.as_bytes()).unwrap();
        RealDisk.rename(&temp, &path).unwrap();
        self.ledger.push(json!({
            "datatype": datatype, "filename": filename, "good": good,
            "sha256": Digest::of(text.as_bytes()).to_string(), "size": text.len(),
        }));
    }

    pub(crate) fn files_left(&self) -> usize {
        fn count(folder: &Path) -> usize {
            let Ok(entries) = RealDisk.read_dir(folder) else {
                return 0;
            };
            let below = |name: std::ffi::OsString| count(&folder.join(name));
            entries
                .into_iter()
                .map(|entry| match entry.kind {
                    cannery_runtime::disk::Kind::Dir => below(entry.name),
                    _ => 1,
                })
                .sum()
        }
        count(&self.path("spool/ndt"))
    }

    pub(crate) async fn drained(&self, left: usize) {
        let clock = Clock::real();
        let empty = async {
            while self.files_left() > left {
                clock.sleep(Duration::from_millis(20)).await;
            }
        };
        let drained = Clock::real().timeout(Duration::from_secs(60), empty).await;
        drained.unwrap_or_else(|_| panic!("{} files are left", self.files_left()));
    }

    /// What the auditor says.
    pub(crate) async fn audit(&self, more: &[&str]) {
        let settings = self.settings();
        for datatype in &settings.datatypes {
            let key = table_key(&settings.object_home, &settings.experiment, &datatype.name);
            let schema = TableSchema::of(&datatype.fields, false).to_bytes();
            self.lake().first().put_new(&key, schema).await.unwrap();
        }
        let lines: String = self.ledger.iter().map(|line| format!("{line}\n")).collect();
        write_durably(&RealDisk, &self.path("ledger.ndjson"), lines.as_bytes()).unwrap();
        let auditor =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/audit/spool_audit.py");
        let audited = tokio::process::Command::new("python3")
            .arg(auditor)
            .arg("--ledger")
            .arg(self.path("ledger.ndjson"))
            .arg("--lake")
            .arg(self.path("lake"))
            .arg("--spool")
            .arg(self.path("spool"))
            .arg("--workspace")
            .arg(self.path("work"))
            .args([
                "--experiment",
                "ndt",
                "--node",
                "mlab1-lga01",
                "--inventory",
            ])
            .args(more)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&audited.stdout);
        let errors = String::from_utf8_lossy(&audited.stderr);
        assert!(audited.status.success(), "{said}{errors}");
    }
}
