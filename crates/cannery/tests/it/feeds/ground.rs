//! Where the lakes of a test are: folders, or prefixes of a bucket; and what lies in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cannery_runtime::RealDisk;
use cannery_runtime::disk::create_dir_all;

use crate::program::{Place, Ran, ran};

/// One mirror for each algorithm.
pub(super) const ALGORITHMS: [&str; 2] = ["hashed", "primary"];

/// Everything that several replicas share.
pub(super) struct Ground {
    place: Place,
    kind: Kind,
}

enum Kind {
    Folders,
    #[cfg(feature = "real-servers")]
    Bucket(Box<super::bucket::Bucket>),
}

impl Ground {
    pub(super) fn folders() -> Self {
        Self::new(Kind::Folders)
    }

    #[cfg(feature = "real-servers")]
    pub(super) fn bucket(bucket: super::bucket::Bucket) -> Self {
        Self::new(Kind::Bucket(Box::new(bucket)))
    }

    fn new(kind: Kind) -> Self {
        let place = Place::new();
        for algorithm in ALGORITHMS {
            create_dir_all(&RealDisk, &place.path(algorithm)).unwrap();
        }
        Self { place, kind }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        self.place.write(name, content);
    }

    /// A process that is stopped in the middle of a change keeps others from changing the same object.
    pub(super) fn has_locks(&self) -> bool {
        matches!(self.kind, Kind::Folders)
    }

    /// The storages as a configuration has them.
    pub(super) fn config(&self) -> String {
        let storages = ALGORITHMS.map(|algorithm| {
            let place = match &self.kind {
                Kind::Folders => {
                    let folder = self.path(algorithm);
                    format!("url: \"file:{}\"", folder.display())
                }
                #[cfg(feature = "real-servers")]
                Kind::Bucket(bucket) => bucket.config(algorithm),
            };
            format!("- {{id: {algorithm}, reconciliation_algorithm: {algorithm}, {place}}}\n")
        });
        format!("object_storage:\n{}", storages.concat())
    }

    /// The objects of hours in one of the lakes.
    pub(super) fn keys(&self, algorithm: &str) -> BTreeSet<String> {
        let keys = match &self.kind {
            Kind::Folders => files_below(&self.path(algorithm)),
            #[cfg(feature = "real-servers")]
            Kind::Bucket(bucket) => bucket.keys(algorithm),
        };
        let of_an_hour = |key: &String| key.starts_with('f') && key.matches('/').count() == 5;
        keys.into_iter().filter(of_an_hour).collect()
    }

    /// What the auditor says.
    pub(super) fn audit(&self, ledger: &str, more: &[&str]) -> Ran {
        self.download();
        self.write("ledger.ndjson", ledger);
        let auditor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/audit/feed_audit.py");
        let mut command = Command::new("python3");
        command.arg(auditor).args(["--ledger", "ledger.ndjson"]);
        for algorithm in ALGORITHMS {
            command.args(["--lake", &format!("{algorithm}={algorithm}")]);
        }
        ran(command.args(more).current_dir(self.path("")))
    }

    /// Brings everything to the folders for the auditor.
    fn download(&self) {
        match &self.kind {
            Kind::Folders => {}
            #[cfg(feature = "real-servers")]
            Kind::Bucket(bucket) => {
                for algorithm in ALGORITHMS {
                    let keys = self.keys(algorithm);
                    bucket.download(algorithm, &keys, &self.place);
                    let folder = self.path(algorithm);
                    for key in files_below(&folder).difference(&keys) {
                        std::fs::remove_file(folder.join(key)).unwrap();
                    }
                }
            }
        }
    }
}

/// The paths of all files below a folder, relative to it.
pub(super) fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![folder.to_owned()];
    while let Some(at) = left.pop() {
        // What others remove meanwhile is not there.
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(_) => {
                    let path = entry.path();
                    let relative = path.strip_prefix(folder).unwrap();
                    found.insert(relative.to_str().unwrap().to_owned());
                }
                Err(_) => {}
            }
        }
    }
    found
}
