//! What everybody would do: `tar | gzip`, with the tools of the machine.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::bodies::Replica;
use cannery_testkit::usage::{Used, measure};

/// One archive of all bodies, on the disk.
pub(crate) fn run(folder: &Path, replicas: &[Replica]) -> Used {
    let path = folder.join("all.tar.gz");
    measure(|| {
        let out = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-cf").arg("-");
        for replica in replicas {
            tar.arg("-C").arg(&replica.bodies).arg(".");
        }
        let mut tar = tar.stdout(Stdio::piped()).spawn().unwrap();
        let mut gzip = Command::new("gzip")
            .stdin(tar.stdout.take().unwrap())
            .stdout(out.try_clone().unwrap())
            .spawn()
            .unwrap();
        assert!(tar.wait().unwrap().success());
        assert!(gzip.wait().unwrap().success());
        out.sync_all().unwrap();
    })
}
