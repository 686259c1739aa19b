//! From the file as it is written to rules that can be applied.

use std::collections::{BTreeMap, BTreeSet};

use serde_saphyr::Spanned;

use super::raw::{RawFile, RawRule, RawTable, RawTime};
use super::time::{TimeFormat, TimeSource, format_time, wrong_pattern};
use super::{Meaning, Missing, Op, Pattern, Rule, RulesError, Stamp, Table, Unit, When};
use crate::path::Path;

type Checked<T> = Result<T, RulesError>;

/// Each operation: the keys it must have, and those it may have.
const OPS: [(&str, &[&str], &[&str]); 13] = [
    ("rename", &["at", "map"], &[]),
    ("rename_keys", &["map"], &[]),
    ("null_fill", &["at"], &[]),
    ("stamp", &["at"], &["from", "text"]),
    ("content_id", &["at"], &[]),
    ("epoch_to_time", &["at"], &["unit", "format"]),
    ("nest", &["keep", "into"], &[]),
    ("bytes", &[], &["at"]),
    ("drop", &["at"], &[]),
    ("redact", &["at", "pattern"], &["with"]),
    ("hmac", &["at"], &["domain"]),
    ("truncate_ip", &["at"], &["v4", "v6"]),
    ("lookup", &["at", "table"], &["pattern", "missing"]),
];

/// The word in `data_format_versions` of a rule for documents that have none.
const NO_VERSION: &str = "none";

pub(super) fn check(
    raw: RawFile,
    table: impl FnMut(&str) -> Result<String, String>,
) -> Checked<(String, Meaning)> {
    let version = raw.version.ok_or_else(|| {
        RulesError::new(
            0,
            "it has no `version`; name this state of the rules, such as `version: 2026-11-16`",
        )
    })?;
    let mut meaning = Meaning {
        versions: raw.data_format_versions.into_iter().collect(),
        time: raw.time.iter().map(time).collect::<Checked<_>>()?,
        rules: Vec::new(),
        tables: tables(raw.tables, table)?,
    };
    for raw in raw.rules {
        let rule = rule(raw, &meaning)?;
        meaning.rules.push(rule);
    }
    Ok((version.value, meaning))
}

fn line<T>(spanned: &Spanned<T>) -> u64 {
    spanned.referenced.line()
}

/// Reads a text of the file; what is wrong with it gets its line.
fn read<T>(text: &Spanned<String>, parse: impl Fn(&str) -> Result<T, String>) -> Checked<T> {
    parse(&text.value).map_err(|reason| RulesError::new(line(text), reason))
}

fn time(raw: &RawTime) -> Checked<TimeSource> {
    let at = read(&raw.at, Path::parse)?;
    if !at.is_single() {
        return Err(RulesError::new(
            line(&raw.at),
            format!(
                "`{}` may be many values; a time stands at one: use keys alone",
                raw.at.value
            ),
        ));
    }
    let format = read(&raw.format, TimeFormat::parse)?;
    Ok(TimeSource { at, format })
}

fn tables(
    raw: BTreeMap<String, RawTable>,
    mut text: impl FnMut(&str) -> Result<String, String>,
) -> Checked<BTreeMap<String, Table>> {
    let mut tables = BTreeMap::new();
    for (name, RawTable { file }) in raw {
        let fail = |reason: &dyn std::fmt::Display| {
            RulesError::new(
                line(&file),
                format!("the lookup table `{}` cannot be used: {reason}", file.value),
            )
        };
        let text = text(&file.value).map_err(|reason| fail(&reason))?;
        let table = Table::parse(&text).map_err(|error| fail(&error))?;
        tables.insert(name, table);
    }
    Ok(tables)
}

fn rule(raw: RawRule, meaning: &Meaning) -> Checked<Rule> {
    keys(&raw)?;
    let when = When {
        kinds: raw.kinds.as_ref().map_or(Ok(Vec::new()), |kinds| {
            kinds.iter().map(|text| read(text, kind)).collect()
        })?,
        versions: versions(
            raw.data_format_versions.as_deref().unwrap_or_default(),
            meaning,
        )?,
    };
    let at = paths(&raw)?;
    let op = op(raw, meaning)?;
    Ok(Rule { op, at, when })
}

/// Whether exactly the keys are there that the operation takes.
fn keys(raw: &RawRule) -> Checked<()> {
    let fail = |reason: String| Err(RulesError::new(line(&raw.op), reason));
    let op = raw.op.value.as_str();
    let Some((_, must, may)) = OPS.iter().find(|(name, ..)| *name == op) else {
        let names: Vec<&str> = OPS.iter().map(|(name, ..)| *name).collect();
        return fail(format!(
            "`{op}` is not an operation; there are {}",
            names.join(", ")
        ));
    };
    let given = raw.given();
    if let Some(missing) = must.iter().find(|key| !given.contains(key)) {
        return fail(format!("`{op}` needs `{missing}`; add it to this rule"));
    }
    let takes = |key: &&'static str| must.contains(key) || may.contains(key);
    if let Some(other) = given.iter().find(|key| !takes(key)) {
        let all: Vec<String> = must
            .iter()
            .chain(*may)
            .map(|key| format!("`{key}`"))
            .collect();
        return fail(format!(
            "`{op}` takes no `{other}`; it takes {}, `kinds` and `data_format_versions`",
            all.join(", ")
        ));
    }
    Ok(())
}

fn kind(text: &str) -> Result<String, String> {
    match text.strip_suffix('*').unwrap_or(text) {
        start if start.contains('*') => Err(format!(
            "`{text}` has a star inside; a kind may only end in one"
        )),
        _ => Ok(text.to_owned()),
    }
}

fn versions(raw: &[Spanned<String>], meaning: &Meaning) -> Checked<Vec<Option<String>>> {
    let known = |text: &str| match text {
        NO_VERSION => Ok(None),
        known if meaning.versions.contains(known) => Ok(Some(known.to_owned())),
        other => Err(format!(
            "`{other}` is not among the `data_format_versions` at the top of the file; add it there"
        )),
    };
    raw.iter().map(|text| read(text, known)).collect()
}

fn paths(raw: &RawRule) -> Checked<Vec<Path>> {
    let texts = raw.at.as_deref().unwrap_or_default();
    let op = raw.op.value.as_str();
    if raw.at.is_some() && texts.is_empty() {
        let reason = format!("`at` of `{op}` is empty; name at least one path");
        return Err(RulesError::new(line(&raw.op), reason));
    }
    let sets = matches!(op, "null_fill" | "stamp" | "content_id");
    texts
        .iter()
        .map(|text| {
            let path = read(text, Path::parse)?;
            if sets && !path.ends_in_key() {
                let reason = format!(
                    "`{}` names no key; `{op}` puts in a key, so its paths end in one",
                    text.value
                );
                return Err(RulesError::new(line(text), reason));
            }
            Ok(path)
        })
        .collect()
}

fn op(raw: RawRule, meaning: &Meaning) -> Checked<Op> {
    const CHECKED: &str = "the keys were checked";
    Ok(match raw.op.value.as_str() {
        "rename" => Op::Rename {
            map: raw.map.expect(CHECKED),
        },
        "rename_keys" => Op::RenameKeys {
            map: renames(raw.map.expect(CHECKED), line(&raw.op))?,
        },
        "null_fill" => Op::NullFill,
        "stamp" => Op::Stamp(stamp(&raw)?),
        "content_id" => Op::ContentId,
        "epoch_to_time" => epoch_to_time(&raw)?,
        "nest" => Op::Nest {
            keep: raw.keep.expect(CHECKED).into_iter().collect(),
            into: raw.into.expect(CHECKED),
        },
        "bytes" => Op::Bytes,
        "drop" => Op::Drop,
        "redact" => Op::Redact {
            pattern: read(&raw.pattern.expect(CHECKED), Pattern::parse)?,
            with: raw.with.unwrap_or_else(|| "[redacted]".to_owned()),
        },
        "hmac" => Op::Hmac {
            domain: raw.domain.unwrap_or_default(),
        },
        "truncate_ip" => Op::TruncateIp {
            v4: bits(raw.v4.as_ref(), "v4", 24, 32)?,
            v6: bits(raw.v6.as_ref(), "v6", 48, 128)?,
        },
        _ => lookup(&raw, meaning)?,
    })
}

/// Two keys that become one would be a document with a key twice.
fn renames(map: BTreeMap<String, String>, line: u64) -> Checked<BTreeMap<String, String>> {
    let mut targets = BTreeSet::new();
    match map.values().find(|target| !targets.insert(*target)) {
        Some(twice) => Err(RulesError::new(
            line,
            format!("two keys become `{twice}`; rename one of them to something else"),
        )),
        None => Ok(map),
    }
}

fn stamp(raw: &RawRule) -> Checked<Stamp> {
    let from = |text: &str| {
        Ok(match text {
            "bucket_date" => Stamp::BucketDate,
            "textname" => Stamp::Textname,
            "kind" => Stamp::Kind,
            "report_id" => Stamp::ReportId,
            other => {
                return Err(format!(
                    "`{other}` is nothing to stamp; there are bucket_date, textname, kind, report_id"
                ));
            }
        })
    };
    match (&raw.from, &raw.text) {
        (Some(name), None) => read(name, from),
        (None, Some(text)) => Ok(Stamp::Text(text.clone())),
        (Some(_), Some(_)) | (None, None) => Err(RulesError::new(
            line(&raw.op),
            "`stamp` needs either `from` or `text`; `from` names what is stamped, `text` is stamped as it is",
        )),
    }
}

fn epoch_to_time(raw: &RawRule) -> Checked<Op> {
    let unit = |text: &str| match text {
        "s" => Ok(Unit::Seconds),
        "ms" => Ok(Unit::Milliseconds),
        other => Err(format!("`{other}` is not a unit; write `s` or `ms`")),
    };
    let pattern = |text: &str| match format_time(text, 0) {
        Some(_) => Ok(text.to_owned()),
        None => Err(wrong_pattern(text)),
    };
    Ok(Op::EpochToTime {
        unit: match &raw.unit {
            Some(text) => read(text, unit)?,
            None => Unit::Seconds,
        },
        format: match &raw.format {
            Some(text) => read(text, pattern)?,
            None => "%Y-%m-%d %H:%M:%S".to_owned(),
        },
    })
}

fn bits(raw: Option<&Spanned<String>>, name: &str, default: u8, max: u8) -> Checked<u8> {
    let number = |text: &str| match text.parse() {
        Ok(bits) if bits <= max => Ok(bits),
        _ => Err(format!(
            "`{name}: {text}` says not how many bits of an address stay; write a number from 0 to {max}"
        )),
    };
    raw.map_or(Ok(default), |text| read(text, number))
}

fn lookup(raw: &RawRule, meaning: &Meaning) -> Checked<Op> {
    let table = raw.table.as_ref().expect("the keys were checked");
    let Some(content) = meaning.tables.get(&table.value) else {
        let reason = format!(
            "there is no table `{}`; declare it under `tables` with its file",
            table.value
        );
        return Err(RulesError::new(line(table), reason));
    };
    let missing = |text: &str| match text {
        "keep" => Ok(Missing::Keep),
        "null" => Ok(Missing::Null),
        "hmac" => Ok(Missing::Hmac),
        other => Err(format!(
            "`{other}` says not what stands for a missing entry; write `keep`, `null` or `hmac`"
        )),
    };
    let pattern = match &raw.pattern {
        Some(text) => Some(read(text, Pattern::parse)?),
        None => None,
    };
    if let (Some(_), Some(key)) = (&pattern, content.first_other()) {
        let reason = format!(
            "the table `{}` has no text for `{key}`; with `pattern` it replaces parts of a text",
            table.value
        );
        return Err(RulesError::new(line(table), reason));
    }
    Ok(Op::Lookup {
        table: table.value.clone(),
        pattern,
        missing: match &raw.missing {
            Some(text) => read(text, missing)?,
            None => Missing::Hmac,
        },
    })
}
