//! What everybody has: the `tar` of the system reads what we write, and we read what it writes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use super::support::*;
use crate::feed::Codec;
use crate::hour_archive::Origin;

fn tool(codec: Codec) -> &'static str {
    match codec {
        Codec::Gzip => "gzip",
        Codec::Zstd => "zstd",
        Codec::Xz => "xz",
        Codec::Bzip2 => "bzip2",
    }
}

/// Whether this machine has the tool.
fn has(tool: &str) -> bool {
    let is_there = Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        println!("without `{tool}`, its archives are not tried");
    }
    is_there
}

fn file_of(content: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    file
}

fn run(tar: &mut Command) -> Vec<u8> {
    let output = tar.output().unwrap();
    assert!(output.status.success(), "{tar:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{tar:?}: {output:?}");
    output.stdout
}

fn bodies_with_long_names() -> Vec<Body> {
    let mut bodies = some_bodies();
    bodies.push(body(&"n".repeat(150), b"long"));
    bodies.push(body(
        &format!("{}/{}", "p".repeat(120), "n".repeat(90)),
        b"deep",
    ));
    bodies
}

#[test]
fn gnu_tar_reads_what_we_write() {
    let bodies = bodies_with_long_names();
    let set = set_of(&bodies);
    for codec in Codec::ALL.into_iter().filter(|codec| has(tool(*codec))) {
        let folder = tempfile::tempdir().unwrap();
        let archive = file_of(&ours(&bodies, fast(codec)));
        run(Command::new("tar")
            .args(["-I", tool(codec), "-xf"])
            .arg(archive.path())
            .arg("-C")
            .arg(folder.path()));
        for (path, member) in set.paths(&feed()) {
            let content = fs::read(folder.path().join(&path)).unwrap();
            let body = bodies
                .iter()
                .find(|body| super::support::member(body) == *member);
            assert_eq!(content, body.unwrap().1, "{path}");
        }
        assert!(folder.path().join(".manifest.json").is_file());
        check_download(&folder.path().join(&bodies[0].0));
    }
}

/// Its time is that in its name, and everybody may read it.
fn check_download(path: &Path) {
    let data = fs::metadata(path).unwrap();
    let at: jiff::Timestamp = "2026-11-15T18:24:03Z".parse().unwrap();
    let seconds = Duration::from_secs(at.as_second().unsigned_abs());
    assert_eq!(data.modified().unwrap(), UNIX_EPOCH + seconds);
    assert_eq!(
        data.permissions().mode() & 0o7133,
        0,
        "nothing to run, nobody else writes"
    );
}

#[test]
fn we_read_what_gnu_tar_writes() {
    let bodies = [
        body("a", b"1"),
        body(&"n".repeat(150), b"2"),
        body("d/ü", &[3; 2_000]),
    ];
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("mkdir").arg(folder.path().join("d")));
    for (name, content) in &bodies {
        let file = file_of(content);
        file.persist(folder.path().join(name)).unwrap();
    }
    for format in ["gnu", "pax", "ustar"] {
        for codec in Codec::ALL.into_iter().filter(|codec| has(tool(*codec))) {
            let mut tar = Command::new("tar");
            tar.args(["--format", format, "-I", tool(codec), "-cf", "-", "-C"]);
            tar.arg(folder.path());
            // A name of 150 bytes without a `/` has no place in USTAR.
            let expected = match format {
                "ustar" => {
                    tar.args(["a", "d"]);
                    set_of(&[bodies[0].clone(), bodies[2].clone()])
                }
                _ => {
                    tar.arg(".");
                    set_of(&bodies)
                }
            };
            let survey = look(&run(&mut tar)).unwrap();
            assert_eq!(survey.set, expected, "{format} {codec}");
            assert_eq!(survey.origin, Origin::Foreign);
            assert_eq!(survey.codec, codec);
        }
    }
}
