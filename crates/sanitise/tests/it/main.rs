//! What the sanitiser promises, from outside.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod engine;
mod fuzz;
mod model;
mod ooni;
mod same_as_model;

use cannery_formats::uid::LakeKey;
use cannery_sanitise::{Clean, Context, Rules, Sanitiser};

/// The key of all tests.
pub(crate) const KEY: [u8; 32] = [7; 32];

pub(crate) const CONTEXT: Context<'static> = Context {
    bucket: "2017-01-01",
    textname: "2017-01-01/report.json",
    kind: "ndt",
    report_id: Some("the-report"),
    time_ms: Some(1_483_228_800_000),
};

/// Rules without tables, from the lines after `version`.
pub(crate) fn rules(lines: &str) -> Rules {
    let text = format!("version: 1\n{lines}");
    Rules::parse(&text, |_| Err("no table".to_owned()))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Sanitises one document, which is good.
pub(crate) fn clean(rules: &Rules, raw: &str) -> (String, Clean) {
    let mut out = b"before".to_vec();
    let clean =
        Sanitiser::new(rules, LakeKey::new(KEY)).measurement(raw.as_bytes(), &CONTEXT, &mut out);
    let clean = clean.unwrap_or_else(|bad| panic!("{raw}: {bad}"));
    let out = String::from_utf8(out).unwrap();
    (out.strip_prefix("before").unwrap().to_owned(), clean)
}
