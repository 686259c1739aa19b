//! Files as the tests make them up: what stands in them, and what features make of that.

use cannery_catalog::{
    Column, ColumnType, Feature, FeatureVersion, FileFacts, NewMeasurement, NewReport, NewRow,
    Place,
};
use serde_json::{Value as Json, json};

pub(crate) const BUCKET: &str = "2026-11-15";
const DAY_MS: i64 = 86_400_000;

/// A measurement. What its number is, says which uid, time and rows it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Item {
    pub(crate) number: u32,
    /// What the sanitiser made of it: another text under the same uid.
    pub(crate) text: u32,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Doc {
    /// Below the bucket.
    pub(crate) name: String,
    /// How it is cut into frames.
    pub(crate) framing: u64,
    pub(crate) reports: Vec<(String, Vec<Item>)>,
}

pub(crate) fn item(number: u32) -> Item {
    Item { number, text: 0 }
}

/// A file of one report.
pub(crate) fn doc(name: &str, numbers: &[u32]) -> Doc {
    let items = numbers.iter().copied().map(item).collect();
    Doc {
        name: name.to_owned(),
        framing: 0,
        reports: vec![(format!("{BUCKET}/{name}-report"), items)],
    }
}

impl Doc {
    pub(crate) fn full_name(&self) -> String {
        format!("{BUCKET}/{}", self.name)
    }

    pub(crate) fn facts(&self) -> FileFacts {
        let text = format!("{:?}", self.reports);
        FileFacts {
            name: self.full_name(),
            generation: "r00000001".to_owned(),
            bucket: BUCKET.to_owned(),
            kind: "ndt".to_owned(),
            file_sha1: format!("file {} {text}", self.framing),
            text_sha1: format!("text {text}"),
            file_size: 1000 + self.framing,
            text_size: u64::try_from(text.len()).unwrap(),
            rules_hash: "rules".to_owned(),
        }
    }

    /// The same text in other frames.
    pub(crate) fn reframed(&self) -> Self {
        Self {
            framing: self.framing + 1,
            ..self.clone()
        }
    }

    /// All items with their reports, in order.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, Item)> {
        self.reports
            .iter()
            .flat_map(|(report, items)| items.iter().map(move |item| (report.as_str(), *item)))
    }

    pub(crate) fn place(&self, seq: u64) -> Place {
        Place {
            frame_off: seq / 3 * 1000 + self.framing,
            frame_size: 900 + self.framing,
            intra_off: seq * 10,
            intra_size: 10,
        }
    }
}

impl Item {
    pub(crate) fn uid(self) -> String {
        uid(self.number)
    }

    /// Of its text; some are negative.
    pub(crate) fn digest(self) -> i64 {
        (i64::from(self.number) << 32 | i64::from(self.text)).wrapping_mul(-0x61c8_8646_80b5_83eb)
    }

    /// Some have no time.
    pub(crate) fn time_ms(self) -> Option<i64> {
        let number = i64::from(self.number);
        (number % 7 != 6).then(|| 1_794_700_800_000 + number % 4 * DAY_MS + number)
    }

    pub(crate) fn date(self) -> Option<String> {
        self.time_ms()
            .map(|millis| format!("2026-11-{:02}", 15 + (millis - 1_794_700_800_000) / DAY_MS))
    }

    /// Rows of the features, in order; every fifth number has one that does not fit.
    pub(crate) fn rows(self) -> Vec<NewRow> {
        let mut rows: Vec<NewRow> = (0..self.number % 3)
            .map(|row| {
                let url = format!("http://example.org/{}/{row}/{}", self.number, self.text);
                new_row("http", vec![json!(url), json!(self.number)])
            })
            .collect();
        if self.number.is_multiple_of(5) {
            rows.push(new_row("http", vec![json!("bad"), json!("many")]));
        }
        rows.push(new_row("dns", vec![json!(self.number.is_multiple_of(2))]));
        rows
    }

    pub(crate) fn measurement(self, place: Place, features: &[String]) -> NewMeasurement {
        let mut rows = self.rows();
        rows.retain(|row| features.contains(&row.feature));
        NewMeasurement {
            uid: self.uid(),
            place,
            time_ms: self.time_ms(),
            digest: Some(self.digest()),
            rows,
        }
    }
}

fn new_row(feature: &str, values: Vec<Json>) -> NewRow {
    NewRow {
        feature: feature.to_owned(),
        values,
    }
}

pub(crate) fn report(name: &str) -> NewReport {
    NewReport {
        textname: name.to_owned(),
        src_size: 5000,
        sent: None,
    }
}

/// The uid of a number; their order is that of the numbers.
pub(crate) fn uid(number: u32) -> String {
    let digits = format!("{number:032}");
    digits
        .bytes()
        .map(|digit| char::from(digit - b'0' + b'a'))
        .collect()
}

pub(crate) fn http() -> Feature {
    Feature {
        name: "http".to_owned(),
        version: 1,
        min_compatible: 1,
        columns: vec![
            Column::new("url", ColumnType::Text),
            Column::new("size", ColumnType::Int),
        ],
    }
}

pub(crate) fn dns() -> Feature {
    Feature {
        name: "dns".to_owned(),
        version: 1,
        min_compatible: 1,
        columns: vec![Column::new("works", ColumnType::Bool)],
    }
}

pub(crate) fn version_of(feature: &Feature) -> FeatureVersion {
    FeatureVersion {
        name: feature.name.clone(),
        version: feature.version,
        min_compatible: feature.min_compatible,
    }
}

/// The statements that the documentation shows, but for those of an aggregate.
pub(crate) fn documented() -> Vec<String> {
    let text = include_str!("../../../../docs/catalog.md");
    let blocks = text.split("```sql\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let statements = blocks.filter(|block| !block.contains("$1"));
    let statements: Vec<String> = statements
        .flat_map(|block| block.split(';'))
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect();
    assert!(statements.len() > 8, "{statements:?}");
    statements
}
