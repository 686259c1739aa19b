//! System packages: found by the programs they bring, installed by apt-get.

use std::fs;
use std::path::Path;

use crate::failure::{Result, failed};
use crate::shell::{Cmd, on_path, retry, say};

/// A Debian package and how to see that what it brings is there, however it came.
struct Package {
    name: &'static str,
    brings: Brings,
    long_only: bool,
}

#[derive(Clone, Copy)]
enum Brings {
    Program(&'static str),
    /// Debian keeps the server's programs out of PATH.
    PostgresServer,
    /// The part of Python that Debian packages apart.
    PythonVenv,
}

const PACKAGES: &[Package] = &[
    Package::always("postgresql", Brings::PostgresServer),
    Package::always("chromium", Brings::Program("chromium")),
    Package::always("python3-venv", Brings::PythonVenv),
    // What others read our archives with.
    Package::always("lz4", Brings::Program("lz4")),
    Package::always("zstd", Brings::Program("zstd")),
    Package::always("npm", Brings::Program("npm")),
    Package::long("radosgw", Brings::Program("radosgw")),
    Package::long("ceph-mon", Brings::Program("ceph-mon")),
    Package::long("ceph-osd", Brings::Program("ceph-osd")),
    Package::long("ceph-mgr", Brings::Program("ceph-mgr")),
    Package::long("ceph-common", Brings::Program("ceph")),
    // For benchmarks.
    Package::long("beanstalkd", Brings::Program("beanstalkd")),
    Package::long("nginx", Brings::Program("nginx")),
    // Its library lets ratarmount read LZ4.
    Package::long("libarchive-tools", Brings::Program("bsdtar")),
];

impl Package {
    const fn always(name: &'static str, brings: Brings) -> Self {
        Self {
            name,
            brings,
            long_only: false,
        }
    }

    const fn long(name: &'static str, brings: Brings) -> Self {
        Self {
            name,
            brings,
            long_only: true,
        }
    }
}

/// Installs the missing packages; says whether there were any.
pub(super) fn install(tools: &Path, long: bool) -> Result<bool> {
    let missing = missing(long, |brings| is_there(brings, tools));
    if missing.is_empty() {
        return Ok(false);
    }
    let list = missing.join(" ");
    let root = Path::new("/");
    if !on_path("apt-get") {
        return failed(format!(
            "programs of these Debian packages are missing: {list}; \
             install them with your system's package manager, then run this again"
        ));
    }
    if Cmd::new("id", ["-u"]).capture(root)?.trim() != "0" {
        return failed(format!(
            "packages are missing and only root may install them; \
             run `sudo apt-get install {list}`, then run this again"
        ));
    }
    say(&format!("setup: installing system packages: {list}"));
    retry("package lists", || apt_get(&["update"]).run(root))?;
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&missing);
    retry("system packages", || apt_get(&words).run(root))?;

    let still = self::missing(long, |brings| is_there(brings, tools));
    if still.is_empty() {
        return Ok(true);
    }
    failed(format!(
        "apt-get succeeded but programs of these packages are not in PATH: {}; look at its output above",
        still.join(" ")
    ))
}

fn missing(long: bool, is_there: impl Fn(Brings) -> bool) -> Vec<&'static str> {
    PACKAGES
        .iter()
        .filter(|package| (long || !package.long_only) && !is_there(package.brings))
        .map(|package| package.name)
        .collect()
}

fn is_there(brings: Brings, tools: &Path) -> bool {
    match brings {
        Brings::Program(program) => on_path(program),
        Brings::PostgresServer => on_path("initdb") || debian_postgres_server(),
        Brings::PythonVenv => {
            super::python::interpreter(tools).exists()
                || Cmd::new("python3", ["-c", "import venv, ensurepip"]).succeeds(Path::new("/"))
        }
    }
}

fn debian_postgres_server() -> bool {
    fs::read_dir("/usr/lib/postgresql").is_ok_and(|versions| {
        versions
            .flatten()
            .any(|version| version.path().join("bin/initdb").is_file())
    })
}

/// Another package manager at work is waited for rather than failed on.
fn apt_get(words: &[&str]) -> Cmd {
    let options = ["-q", "-o", "DPkg::Lock::Timeout=300"];
    Cmd::new("apt-get", options.iter().chain(words).copied())
        .env("DEBIAN_FRONTEND", "noninteractive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_machine_needs_six_packages_and_fourteen_for_the_long_run() {
        assert_eq!(
            missing(false, |_| false),
            [
                "postgresql",
                "chromium",
                "python3-venv",
                "lz4",
                "zstd",
                "npm"
            ]
        );
        assert_eq!(missing(true, |_| false).len(), 14);
    }

    #[test]
    fn what_is_there_is_not_installed_again() {
        assert!(missing(true, |_| true).is_empty());
        let no_browser = |brings| !matches!(brings, Brings::Program("chromium"));
        assert_eq!(missing(true, no_browser), ["chromium"]);
    }
}
