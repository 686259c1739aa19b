//! Random histories on an engine, compared after each step with a model that knows only the files.
//!
//! The model is what the rules say in short: of all places of a uid the first holds it, and everything else follows from the
//! files that are there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use cannery_catalog::{Decision, LoadPlan, Residual};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};

use crate::doc::{Doc, Item};
use crate::subject::{Subject, plan};

/// One test of random histories on the engine that `$open` opens.
macro_rules! suite {
    ($open:ident, $cases:expr) => {
        #[test]
        fn random_histories_are_as_the_model_says() {
            $crate::model::run($cases, $open);
        }
    };
}
pub(crate) use suite;

#[derive(Clone, Debug)]
enum Step {
    /// A file has this text now, known or not.
    Write { name: u8, reports: Vec<Vec<Item>> },
    /// The same text in other frames.
    Reframe { name: u8 },
    /// A file takes the place of others.
    Merge {
        name: u8,
        others: Vec<u8>,
        features: bool,
    },
    /// A file is taken out.
    Forget { name: u8 },
}

fn name() -> impl Strategy<Value = u8> {
    0..5_u8
}

fn step() -> impl Strategy<Value = Step> {
    let item = (0..14_u32, 0..2_u32).prop_map(|(number, text)| Item { number, text });
    let reports = vec(vec(item, 0..5), 0..3);
    prop_oneof![
        4 => (name(), reports).prop_map(|(name, reports)| Step::Write { name, reports }),
        1 => name().prop_map(|name| Step::Reframe { name }),
        2 => (name(), vec(name(), 1..4), any::<bool>())
            .prop_map(|(name, others, features)| Step::Merge { name, others, features }),
        1 => name().prop_map(|name| Step::Forget { name }),
    ]
}

pub(crate) fn run<F: Future<Output = Subject>>(cases: u32, open: impl Fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    // What the engines share lives as long as this.
    let kept = runtime.block_on(open());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let tested = TestRunner::new(config).run(&vec(step(), 1..14), |steps| {
        runtime.block_on(async {
            let subject = open().await;
            let mut files = Files::default();
            for step in &steps {
                files.take(&subject, step).await;
                files.compare(&subject).await;
            }
        });
        Ok(())
    });
    drop(kept);
    if let Err(failure) = tested {
        panic!("{failure}");
    }
}

/// The model: the files by name.
#[derive(Default)]
struct Files(BTreeMap<String, Doc>);

impl Files {
    async fn take(&mut self, subject: &Subject, step: &Step) {
        let mut outdated = match step {
            Step::Write { name, reports } => self.write(subject, *name, reports).await,
            Step::Reframe { name } => self.reframe(subject, *name).await,
            Step::Merge {
                name,
                others,
                features,
            } => self.merge(subject, *name, others, *features).await,
            Step::Forget { name } => self.forget(subject, *name).await,
        };
        outdated.sort_unstable();
        for doc in self.0.values() {
            let (steps, done) = subject.bring(doc).await;
            if !outdated.contains(&doc.full_name()) {
                assert_eq!(steps, [], "{} had nothing to do", doc.name);
            }
            for done in done {
                assert_eq!((done.added, done.removed), (0, 0));
            }
        }
    }

    async fn write(&mut self, subject: &Subject, name: u8, reports: &[Vec<Item>]) -> Vec<String> {
        let reports = reports.iter().enumerate();
        let doc = Doc {
            name: file_name(name),
            framing: 0,
            reports: reports
                .map(|(at, items)| (format!("report-{name}-{at}"), items.clone()))
                .collect(),
        };
        let (_, done) = subject.bring(&doc).await;
        self.0.insert(doc.name.clone(), doc);
        done.into_iter().flat_map(|done| done.outdated).collect()
    }

    async fn reframe(&mut self, subject: &Subject, name: u8) -> Vec<String> {
        if let Some(doc) = self.0.get_mut(&file_name(name)) {
            *doc = doc.reframed();
            let (steps, _) = subject.bring(doc).await;
            assert_eq!(steps, [Decision::Repoint]);
        }
        Vec::new()
    }

    async fn merge(
        &mut self,
        subject: &Subject,
        name: u8,
        others: &[u8],
        features: bool,
    ) -> Vec<String> {
        let name = file_name(name);
        let known = self.0.remove(&name);
        let others: Vec<Doc> = others
            .iter()
            .filter_map(|other| self.0.remove(&file_name(*other)))
            .collect();
        let mut sorted: Vec<&Doc> = others.iter().collect();
        sorted.sort_by_key(|doc| &doc.name);
        let doc = Doc {
            name: name.clone(),
            framing: 3,
            reports: sorted.iter().flat_map(|doc| doc.reports.clone()).collect(),
        };
        let decision = if known.is_some() {
            Decision::Reingest
        } else {
            Decision::Ingest
        };
        let mut plan = LoadPlan {
            replaces: others.iter().map(Doc::full_name).collect(),
            residual: Residual::Keep,
            ..plan(&doc, known.as_ref(), decision)
        };
        if !features {
            plan.features.clear();
        }
        let done = subject.run(&doc, plan).await.unwrap();
        let mut outdated = done.outdated;
        outdated.push(doc.full_name());
        self.0.insert(name, doc);
        outdated
    }

    async fn forget(&mut self, subject: &Subject, name: u8) -> Vec<String> {
        let Some(doc) = self.0.remove(&file_name(name)) else {
            return Vec::new();
        };
        let state = doc.facts().state();
        let done = subject.forget(&doc.full_name(), &state).await.unwrap();
        done.outdated
    }

    /// The first place of every uid, and all others.
    fn places(&self) -> (BTreeMap<String, Spot<'_>>, Vec<Spot<'_>>) {
        let (mut held, mut duplicates) = (BTreeMap::new(), Vec::new());
        for doc in self.0.values() {
            for (seq, (report, item)) in (0..).zip(doc.items()) {
                let spot = Spot {
                    doc,
                    report,
                    seq,
                    item,
                };
                match held.entry(item.uid()) {
                    Entry::Occupied(_) => duplicates.push(spot),
                    Entry::Vacant(free) => {
                        free.insert(spot);
                    }
                }
            }
        }
        (held, duplicates)
    }

    async fn compare(&self, subject: &Subject) {
        let (held, duplicates) = self.places();
        let measurements = held.values().map(|spot| spot.row(json!(spot.item.uid())));
        expect(subject, "measurement", measurements).await;
        let others = duplicates.iter().map(|spot| {
            let mut row = spot.row(json!(spot.doc.full_name()));
            row[1] = json!(spot.seq);
            row.insert(2, json!(spot.item.uid()));
            row
        });
        expect(subject, "duplicate", others).await;
        let rows = |feature: &'static str| {
            held.values()
                .flat_map(move |spot| spot.good_rows(feature))
                .collect::<Vec<_>>()
        };
        expect(subject, "feature_http", rows("http")).await;
        expect(subject, "feature_dns", rows("dns")).await;
        let mut bad: Vec<_> = held.values().filter_map(Spot::bad_row).collect();
        bad.sort_by_key(|row| (row[0].to_string(), row[2].as_u64()));
        expect(subject, "badrow", bad).await;
        let versions = self.0.values().flat_map(|doc| {
            ["dns", "http"].map(|feature| vec![json!(doc.full_name()), json!(feature), json!(1)])
        });
        expect(subject, "file_feature", versions).await;
        let reports = self.0.values().flat_map(|doc| {
            (0..).zip(&doc.reports).map(|(seq, (report, _)): (u64, _)| {
                vec![
                    json!(doc.full_name()),
                    json!(seq),
                    json!(report),
                    json!(5000),
                    Json::Null,
                    Json::Null,
                ]
            })
        });
        expect(subject, "report", reports).await;
        assert_eq!(subject.rows("file").await.len(), self.0.len());
        subject.is_sound().await;
    }
}

/// A measurement in a file.
struct Spot<'a> {
    doc: &'a Doc,
    report: &'a str,
    seq: u64,
    item: Item,
}

impl Spot<'_> {
    /// As in `measurement`, after what it is known by.
    fn row(&self, key: Json) -> Vec<Json> {
        let place = self.doc.place(self.seq);
        vec![
            key,
            json!(self.doc.full_name()),
            json!(self.report),
            json!(self.seq),
            json!(place.frame_off),
            json!(place.frame_size),
            json!(place.intra_off),
            json!(place.intra_size),
            json!(self.item.time_ms()),
            json!(self.item.date()),
            json!("ndt"),
            json!(self.item.digest()),
        ]
    }

    fn good_rows(&self, feature: &str) -> Vec<Vec<Json>> {
        let rows = self.item.rows().into_iter();
        let rows = rows.filter(|row| row.feature == feature && !row.values.contains(&json!("bad")));
        (0..)
            .zip(rows)
            .map(|(number, row): (u64, _)| {
                let mut cells = vec![json!(self.item.uid()), json!(number)];
                cells.extend(row.values.into_iter().map(|value| match value {
                    Json::Bool(truth) => json!(u8::from(truth)),
                    other => other,
                }));
                cells
            })
            .collect()
    }

    fn bad_row(&self) -> Option<Vec<Json>> {
        let number = self.item.number;
        number.is_multiple_of(5).then(|| {
            vec![
                json!(self.doc.full_name()),
                json!("http"),
                json!(self.seq),
                json!(number % 3),
                json!(self.item.uid()),
                json!("column `size`: this text is no whole number of 64 bits"),
                json!("[\"bad\",\"many\"]"),
            ]
        })
    }
}

async fn expect(subject: &Subject, table: &str, rows: impl IntoIterator<Item = Vec<Json>>) {
    let rows = rows.into_iter().map(|row| Json::Array(row).to_string());
    let expected: Vec<String> = rows.collect();
    assert_eq!(subject.rows(table).await, expected, "{table}");
}

fn file_name(name: u8) -> String {
    format!("f{name}")
}
