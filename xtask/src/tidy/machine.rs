//! Nothing that is true on one build machine only: its paths, its package registries.

use super::Finding;
use super::files::TextFile;

// All patterns are in two halves, because this file is read too.

/// Folders whose mention tells of the machine that a text was written on.
const FOLDERS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// Folders of people; a name follows.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Packages are installed by name only; where they come from is the machine's affair. Hosts of registries are known by
/// their first label, so none has to be named here.
const REGISTRIES: &[&str] = &[
    concat!(":/", "/registry."),
    concat!(":/", "/index."),
    concat!(":/", "/static."),
    concat!(":/", "/pypi."),
    concat!(":/", "/files."),
    concat!(":/", "/deb."),
    concat!(":/", "/security."),
    concat!("--index", "-url"),
    concat!("replace", "-with"),
];

/// What Cargo.lock says of a crate from the public registry.
const PUBLIC_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let is_lock = file.path.ends_with("Cargo.lock");
    let lines = file.text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let reason = path(line)
                .or_else(|| registry(line))
                .or_else(|| is_lock.then(|| foreign_source(line)).flatten())?;
            Some(Finding {
                file: file.path.clone(),
                line: index + 1,
                reason,
            })
        })
        .collect()
}

fn path(line: &str) -> Option<String> {
    let folder = FOLDERS
        .iter()
        .find(|folder| starts(line, folder).next().is_some())
        .map(|folder| (*folder).to_owned());
    let home = || HOMES.iter().find_map(|home| home_of_someone(line, home));
    let found = folder.or_else(home)?;
    Some(format!(
        "`{found}` is a path of a build machine; use a relative path or a placeholder"
    ))
}

/// `/home/<user>/` is a placeholder; with a name in its place it is somebody's folder.
fn home_of_someone(line: &str, home: &str) -> Option<String> {
    starts(line, home).find_map(|at| {
        let (name, _) = line[at + home.len()..].split_once('/')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        (!name.is_empty() && name.chars().all(is_name)).then(|| format!("{home}{name}/"))
    })
}

/// Where `folder` stands as the beginning of an absolute path, also after `file://`.
fn starts<'a>(line: &'a str, folder: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(folder)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = &line[..at];
            let inside = |c: char| c.is_alphanumeric() || "_-.~*/})>]".contains(c);
            before.ends_with("://") || !before.ends_with(inside)
        })
}

fn registry(line: &str) -> Option<String> {
    let found = REGISTRIES
        .iter()
        .find(|registry| line.contains(**registry))?;
    Some(format!(
        "`{found}` fixes where packages come from; name the package only"
    ))
}

fn foreign_source(line: &str) -> Option<String> {
    let source = line.strip_prefix("source = ")?.trim_matches('"');
    (source != PUBLIC_SOURCE).then(|| {
        format!("`{source}` is not the public crate registry; a fresh clone may not reach it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(path: &str, text: &str) -> usize {
        let file = TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        check(&file).len()
    }

    #[test]
    fn absolute_paths_of_a_machine_are_found() {
        let [root, work] = [FOLDERS[0], FOLDERS[1]];
        let [home, users] = [HOMES[0], HOMES[1]];
        for line in [
            format!("{root}x"),
            format!("see `{work}main/a.rs`"),
            format!("path=\"{work}\""),
            format!("file://{root}lake"),
            format!("cd {home}ann/cannery"),
            format!("cd {users}ann/cannery"),
        ] {
            assert_eq!(reasons("a.md", &line), 1, "{line}");
        }
    }

    #[test]
    fn relative_paths_and_placeholders_are_not() {
        let (work, home) = (FOLDERS[1], HOMES[0]);
        for line in [
            format!("target{work}x"),
            format!("..{work}x"),
            format!("{{dir}}{work}x"),
            format!("https://host{work}x"),
            format!("cd {home}<user>/x"),
            format!("cd {home}$USER/x"),
            format!("{home}page"),
        ] {
            assert_eq!(reasons("a.md", &line), 0, "{line}");
        }
    }

    #[test]
    fn only_the_public_registry_is_locked() {
        let lock = format!("[[package]]\nsource = \"{PUBLIC_SOURCE}\"\n");
        assert_eq!(reasons("Cargo.lock", &lock), 0);
        let mirror = "source = \"registry+https://crates.example/index\"\n";
        assert_eq!(reasons("Cargo.lock", mirror), 1);
        assert_eq!(reasons("notes.md", mirror), 0);
    }
}
