//! What others do with the same reports and with the same archive.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use cannery_testkit::tools;
use cannery_testkit::usage::{Used, measure};

use crate::chosen::Chosen;

/// One file of all reports, on the disk.
pub(crate) fn tar_lz4(folder: &Path) -> Used {
    let path = folder.join("all.tar.lz4");
    let used = measure(|| {
        let mut options = OpenOptions::new();
        let out = options.create_new(true).write(true).open(&path).unwrap();
        let mut tar = Command::new("tar")
            .args(["-cf", "-", "-C"])
            .arg(folder.join("reports"))
            .arg(".")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lz4 = Command::new("lz4")
            .args(["-5", "-c"])
            .stdin(tar.stdout.take().unwrap())
            .stdout(out.try_clone().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert!(tar.wait().unwrap().success());
        assert!(lz4.wait().unwrap().success());
        out.sync_all().unwrap();
    });
    std::fs::remove_file(path).unwrap();
    used
}

/// How long ratarmount takes to open an archive that it has never seen, and to read one measurement of it.
pub(crate) fn ratarmount(folder: &Path, chosen: &Chosen) -> Result<f64, String> {
    let python = tools::python("python").map_err(|error| error.to_string())?;
    let output = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/archive/ratarmount.py"))
        .arg(folder.join("lake").join(&chosen.archive))
        .args([&chosen.member, &chosen.uid])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // Before that it tells what it does.
    let last = text.lines().last().unwrap_or_default();
    last.parse().map_err(|_| format!("{text} {errors}"))
}
