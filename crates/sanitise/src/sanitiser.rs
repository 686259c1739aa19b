//! The engine: one raw measurement in, one sanitised line out.

use std::collections::HashSet;

use cannery_formats::uid::{LakeKey, Uid};

use crate::apply::Around;
use crate::edit::Edit;
use crate::fault::Bad;
use crate::plan::Interest;
use crate::restructure::restructure;
use crate::rules::Rules;
use crate::scan::{Quoted, Scan};
use crate::walk::{Hit, Item, ValueHit, Walked, walk};

/// Applies rules to measurements. It holds nothing of them: one may serve all threads.
#[derive(Debug)]
pub struct Sanitiser<'r> {
    rules: &'r Rules,
    key: LakeKey,
}

/// What is known of a measurement besides its text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The bucket's date, `YYYY-MM-DD`.
    pub bucket: &'a str,
    /// The name of the report that it stands in.
    pub textname: &'a str,
    /// `<test name>`, `spool-<datatype>`, `feed-<id>` or `unknown`.
    pub kind: &'a str,
    /// The report's id, if its name says one.
    pub report_id: Option<&'a str>,
    /// The report's time in milliseconds since 1970, if its name says one.
    pub time_ms: Option<i64>,
}

/// A measurement that was sanitised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clean {
    /// Of the raw text, whatever the rules did to it.
    pub uid: Uid,
    /// In milliseconds since 1970: what the document says, else the report.
    pub time_ms: Option<i64>,
    /// What operators should know of.
    pub flags: Flags,
}

/// What is unusual about a measurement that is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It names a data format version that the rules do not know. Rules for certain versions were not applied.
    pub unknown_version: bool,
    /// It has strings with half a surrogate pair, which several readers refuse.
    pub lone_surrogates: bool,
    /// It is no JSON object, and was passed on as it is.
    pub not_json: bool,
}

/// The data format version of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Absent,
    /// One that the rules list; any, if they list none.
    Known(String),
    Unknown,
}

impl<'r> Sanitiser<'r> {
    /// Applies `rules` with the secret of a lake.
    #[must_use]
    pub fn new(rules: &'r Rules, key: LakeKey) -> Self {
        Self { rules, key }
    }

    /// Sanitises one measurement, which must be one JSON object, and appends it as one line. What is bad appends nothing.
    pub fn measurement(
        &self,
        raw: &[u8],
        context: &Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Clean, Bad> {
        let walked = walk(&self.rules.plan, Scan::new(raw)?)?;
        if walked.scan.broke_line {
            // It has to become one line, so it cannot be copied as it is.
            let compact = walked.scan.into_compact().into_owned();
            let walked = walk(&self.rules.plan, Scan::new(&compact)?)?;
            return self.walked(walked, context, out);
        }
        self.walked(walked, context, out)
    }

    /// Sanitises what may be anything: one JSON object as [`measurement`](Self::measurement) does, all else unchanged, byte
    /// for byte and without a newline behind it.
    pub fn download(&self, raw: &[u8], context: &Context<'_>, out: &mut Vec<u8>) -> Clean {
        if let Ok(clean) = self.measurement(raw, context, out) {
            return clean;
        }
        out.extend_from_slice(raw);
        Clean {
            uid: self.uid(context.time_ms, context, raw),
            time_ms: context.time_ms,
            flags: Flags {
                not_json: true,
                ..Flags::default()
            },
        }
    }

    fn uid(&self, time_ms: Option<i64>, context: &Context<'_>, text: &[u8]) -> Uid {
        let source = context.report_id.unwrap_or(context.textname);
        Uid::of_bytes(&self.key, time_ms.unwrap_or(0), source.as_bytes(), text)
    }

    fn walked(
        &self,
        walked: Walked<'_, '_>,
        context: &Context<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Clean, Bad> {
        let text = walked.scan.text();
        let version = self.version(text, &walked.hits);
        let time_ms = self.time(text, &walked.hits).or(context.time_ms);
        let active = self.active(context.kind, &version);
        let Walked { mut hits, scan } = walked;
        let flags = Flags {
            unknown_version: version == Version::Unknown,
            lone_surrogates: scan.lone_key
                || !(scan.lone.is_empty() || self.is_everywhere(&active)),
            not_json: false,
        };
        self.add_lone(&mut hits, &scan, &active);
        let compact = scan.into_compact();
        let uid = self.uid(time_ms, context, &compact);
        let around = Around {
            meaning: &self.rules.meaning,
            key: &self.key,
            context,
            uid,
        };
        let rules = &self.rules.meaning.rules;
        let structure = rules
            .iter()
            .zip(&active)
            .filter(|(rule, active)| **active && rule.restructures())
            .map(|(rule, _)| &rule.op);
        if structure.clone().next().is_some() {
            let text = restructure(text, structure)?;
            let walked = walk(&self.rules.plan, Scan::of_text(&text))?;
            let mut hits = walked.hits;
            self.add_lone(&mut hits, &walked.scan, &active);
            Edit::new(&text, &around, &active, out).write(&hits);
        } else {
            Edit::new(text, &around, &active, out).write(&hits);
        }
        out.push(b'\n');
        Ok(Clean {
            uid,
            time_ms,
            flags,
        })
    }

    fn version(&self, text: &str, hits: &[Hit<'_>]) -> Version {
        let Some(value) = first_of(text, hits, Interest::Version) else {
            return Version::Absent;
        };
        let known = &self.rules.meaning.versions;
        match Quoted::of_json(value).map(Quoted::text) {
            Some(version) if known.is_empty() || known.contains(&*version) => {
                Version::Known(version.into_owned())
            }
            None if value == "null" => Version::Absent,
            _ => Version::Unknown,
        }
    }

    /// The first of the rules' times that is there and can be read.
    fn time(&self, text: &str, hits: &[Hit<'_>]) -> Option<i64> {
        let sources = self.rules.meaning.time.iter().enumerate();
        let read = sources.filter_map(|(number, source)| {
            let value = first_of(text, hits, Interest::Time(number))?;
            match Quoted::of_json(value) {
                Some(string) => source.format.read(&string.text(), true),
                None => source.format.read(value, false),
            }
        });
        read.into_iter().next()
    }

    fn active(&self, kind: &str, version: &Version) -> Vec<bool> {
        let rules = self.rules.meaning.rules.iter();
        rules.map(|rule| rule.when.holds(kind, version)).collect()
    }

    fn is_everywhere(&self, active: &[bool]) -> bool {
        let rules = self.rules.meaning.rules.iter().zip(active);
        rules
            .into_iter()
            .any(|(rule, active)| *active && rule.is_everywhere())
    }

    /// Strings that are no text are of interest to a rule that looks at every string.
    fn add_lone(&self, hits: &mut Vec<Hit<'_>>, scan: &Scan<'_>, active: &[bool]) {
        if scan.lone.is_empty() || !self.is_everywhere(active) {
            return;
        }
        let known: HashSet<usize> = hits.iter().map(Hit::place).collect();
        for (start, end) in &scan.lone {
            if known.contains(start) {
                continue;
            }
            hits.push(Hit::Value(ValueHit {
                node: None,
                start: *start,
                end: *end,
                item_start: *start,
                item: Item {
                    container: 0,
                    index: 0,
                },
            }));
        }
        hits.sort_by_key(Hit::place);
    }
}

/// The value of the first hit that this is interested in.
fn first_of<'a>(text: &'a str, hits: &[Hit<'_>], interest: Interest) -> Option<&'a str> {
    hits.iter().find_map(|hit| match hit {
        Hit::Value(hit)
            if hit
                .node
                .is_some_and(|node| node.interests.contains(&interest)) =>
        {
            Some(&text[hit.start..hit.end])
        }
        Hit::Value(_) | Hit::Close(_) => None,
    })
}
