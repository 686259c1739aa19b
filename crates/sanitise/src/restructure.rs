//! Arranges the keys of the document itself: other names, and unknown keys in an object of their own.

use std::collections::{BTreeMap, BTreeSet};

use crate::fault::Bad;
use crate::rules::Op;
use crate::scan::{Quoted, Scan, quote};

/// A member of the document: what its key says now, and its value as it is written.
struct Member<'a> {
    name: String,
    /// The key as it is written, unless it was renamed.
    written: Option<&'a str>,
    value: &'a str,
}

/// Applies `ops` in their order to a document that is well-formed, and gives it without white space between its members.
pub(crate) fn restructure<'o>(
    document: &str,
    ops: impl Iterator<Item = &'o Op>,
) -> Result<String, Bad> {
    let mut document = document.to_owned();
    for op in ops {
        let mut members = members(&document)?;
        document = match op {
            Op::RenameKeys { map } => {
                rename(&mut members, map);
                object(&members)
            }
            Op::Nest { keep, into } => nest(members, keep, into)?,
            _ => continue,
        };
    }
    Ok(document)
}

fn members(object: &str) -> Result<Vec<Member<'_>>, Bad> {
    let mut scan = Scan::of_text(object);
    scan.space();
    let mut members = Vec::new();
    scan.members(|scan, member| {
        let start = scan.position();
        scan.value()?;
        members.push(Member {
            name: text_of(member.name),
            written: Some(&object[member.start..=member.start + 1 + member.name.written.len()]),
            value: &object[start..scan.position()],
        });
        Ok(())
    })?;
    Ok(members)
}

fn text_of(name: Quoted<'_>) -> String {
    name.text().into_owned()
}

fn object(members: &[Member<'_>]) -> String {
    let mut out = vec![b'{'];
    for (number, member) in members.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        match member.written {
            Some(written) => out.extend_from_slice(written.as_bytes()),
            None => quote(&member.name, &mut out),
        }
        out.push(b':');
        out.extend_from_slice(member.value.as_bytes());
    }
    out.push(b'}');
    String::from_utf8(out).expect("pieces of text are text")
}

/// Renames all at once, so that names can be swapped. A name that another member keeps is not taken from it.
fn rename(members: &mut [Member<'_>], map: &BTreeMap<String, String>) {
    let mut kept: BTreeSet<String> = members
        .iter()
        .filter(|member| !map.contains_key(&member.name))
        .map(|member| member.name.clone())
        .collect();
    // Who cannot be renamed keeps its name, which may stop another: again until nobody is stopped any more.
    loop {
        let stopped = members
            .iter()
            .filter(|member| !kept.contains(&member.name))
            .find(|member| kept.contains(&map[&member.name]));
        match stopped {
            Some(member) => kept.insert(member.name.clone()),
            None => break,
        };
    }
    for member in members {
        if !kept.contains(&member.name) {
            member.name = map[&member.name].clone();
            member.written = None;
        }
    }
}

/// Moves what is not in `keep` into the member `into`, behind what it has. A key that `into` has already stays outside; so do
/// all if `into` is something else than an object or null.
fn nest(members: Vec<Member<'_>>, keep: &BTreeSet<String>, into: &str) -> Result<String, Bad> {
    let target = members.iter().position(|member| member.name == into);
    let inside = match target.map(|target| members[target].value) {
        None | Some("null") => Vec::new(),
        Some(value) if value.starts_with('{') => self::members(value)?,
        Some(_) => return Ok(object(&members)),
    };
    let taken: BTreeSet<&str> = inside.iter().map(|member| member.name.as_str()).collect();
    let moves = |member: &Member<'_>| {
        member.name != into && !keep.contains(&member.name) && !taken.contains(member.name.as_str())
    };
    let (moved, mut stay): (Vec<_>, Vec<_>) = members.into_iter().partition(moves);
    if moved.is_empty() {
        return Ok(object(&stay));
    }
    drop(taken);
    let all: Vec<Member<'_>> = inside.into_iter().chain(moved).collect();
    let all = object(&all);
    match stay.iter_mut().find(|member| member.name == into) {
        Some(member) => member.value = &all,
        None => stay.push(Member {
            name: into.to_owned(),
            written: None,
            value: &all,
        }),
    }
    Ok(object(&stay))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(document: &str, ops: &[Op]) -> String {
        restructure(document, ops.iter()).unwrap()
    }

    #[test]
    fn keys_are_renamed_at_once() {
        let map = |pairs: &[(&str, &str)]| Op::RenameKeys {
            map: pairs
                .iter()
                .map(|(from, to)| ((*from).to_owned(), (*to).to_owned()))
                .collect(),
        };
        let swap = [map(&[("a", "b"), ("b", "c")])];
        assert_eq!(run(r#"{"a": 1, "b": 2}"#, &swap), r#"{"b":1,"c":2}"#);
        assert_eq!(
            run(r#"{"a":1,"b":2,"c":3}"#, &swap),
            r#"{"a":1,"b":2,"c":3}"#
        );
        assert_eq!(run(r#"{"\u0061":1,"x":2}"#, &swap), r#"{"b":1,"x":2}"#);
        let circle = [map(&[("a", "b"), ("b", "a")])];
        assert_eq!(run(r#"{"a":1,"b":2}"#, &circle), r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn unknown_keys_move_and_none_is_lost() {
        let ops = [Op::Nest {
            keep: ["id".to_owned()].into(),
            into: "keys".to_owned(),
        }];
        for (before, after) in [
            (r#"{"x":1,"id":2}"#, r#"{"id":2,"keys":{"x":1}}"#),
            (r#"{"keys":null,"x":[ 1 ]}"#, r#"{"keys":{"x":[ 1 ]}}"#),
            (r#"{"keys":{"y": 1},"x":2}"#, r#"{"keys":{"y":1,"x":2}}"#),
            (
                r#"{"keys":{"x":1},"x":2,"z":3}"#,
                r#"{"keys":{"x":1,"z":3},"x":2}"#,
            ),
            (r#"{"keys":[],"x":2}"#, r#"{"keys":[],"x":2}"#),
            (r#"{ "id" : 1 }"#, r#"{"id":1}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(run(before, &ops), after, "{before}");
        }
    }
}
