//! A catalog under test, and short words for what the tests do with it.

use std::any::Any;
use std::ops::Deref;

use cannery_catalog::{
    Catalog, Committed, Decision, Error, Feature, FeatureVersion, Found, Load, LoadPlan,
    NewBadBlob, Residual,
};

use crate::doc::{Doc, dns, http, report, uid, version_of};

pub(crate) struct Subject {
    pub(crate) catalog: Catalog,
    /// What must live as long as the catalog: a folder, a server.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Deref for Subject {
    type Target = Catalog;

    fn deref(&self) -> &Catalog {
        &self.catalog
    }
}

/// What a load of a file needs by a decision.
pub(crate) fn plan(doc: &Doc, known: Option<&Doc>, decision: Decision) -> LoadPlan {
    let whole = matches!(decision, Decision::Ingest | Decision::Reingest);
    let features = if whole { both() } else { Vec::new() };
    let residual = if matches!(decision, Decision::Repoint) {
        Residual::Keep
    } else {
        Residual::Replace
    };
    LoadPlan {
        facts: doc.facts(),
        decision,
        expected: known.map(|known| known.facts().state()),
        features,
        replaces: Vec::new(),
        residual,
    }
}

pub(crate) fn ingest(doc: &Doc) -> LoadPlan {
    plan(doc, None, Decision::Ingest)
}

fn both() -> Vec<String> {
    ["http", "dns"].map(str::to_owned).to_vec()
}

/// The declared versions.
pub(crate) fn versions() -> Vec<FeatureVersion> {
    [http(), dns()].iter().map(version_of).collect()
}

/// A load may go on.
pub(crate) async fn open_gate() -> Result<(), String> {
    Ok(())
}

/// Pushes everything of a file.
pub(crate) async fn push(load: &mut Load, doc: &Doc, plan: &LoadPlan) -> Result<(), Error> {
    let mut features = plan.features.clone();
    if let Decision::Reprocess { features: named } = &plan.decision {
        features.clone_from(named);
    }
    let mut seq = 0;
    for (name, items) in &doc.reports {
        load.report(&report(name)).await?;
        for item in items {
            let measurement = item.measurement(doc.place(seq), &features);
            load.measurement(measurement).await?;
            seq += 1;
        }
        let blob = NewBadBlob {
            src_off: 10,
            src_size: 20,
            info: format!("unreadable in \0 {name}"),
        };
        load.bad_blob(&blob).await?;
    }
    if plan.residual == Residual::Replace {
        load.residual("{\"a\":int}", seq + 1).await?;
        load.residual("{\"b\":[str]}", 1).await?;
        load.residual("{\"a\":int}", 1).await?;
    }
    Ok(())
}

impl Subject {
    /// With the two features declared.
    pub(crate) async fn new(catalog: Catalog, kept: impl Any + Send + Sync) -> Self {
        catalog.declare_feature(&http()).await.unwrap();
        catalog.declare_feature(&dns()).await.unwrap();
        Self {
            catalog,
            _kept: Box::new(kept),
        }
    }

    pub(crate) async fn run(&self, doc: &Doc, plan: LoadPlan) -> Result<Committed, Error> {
        let mut load = self.load(plan.clone()).await?;
        push(&mut load, doc, &plan).await?;
        load.commit(open_gate()).await
    }

    pub(crate) async fn ingest(&self, doc: &Doc) -> Committed {
        self.run(doc, ingest(doc)).await.unwrap()
    }

    /// What is to be done with a file.
    pub(crate) async fn decided(&self, doc: &Doc) -> Decision {
        self.decide(&doc.facts(), &versions()).await.unwrap()
    }

    /// Does it, step by step, until there is nothing to do; answers with the steps.
    pub(crate) async fn bring(&self, doc: &Doc) -> (Vec<Decision>, Vec<Committed>) {
        let (mut steps, mut done) = (Vec::new(), Vec::new());
        loop {
            assert!(steps.len() < 4, "{steps:?}");
            let decision = self.decided(doc).await;
            let known = self.known(&doc.full_name()).await.unwrap();
            match &decision {
                Decision::Skip | Decision::NewerThanCode { .. } => return (steps, done),
                Decision::MarkCurrent { features } => {
                    let marked = self.mark_current(&doc.full_name(), features).await;
                    marked.unwrap();
                }
                _ => {
                    let mut plan = plan(doc, None, decision.clone());
                    plan.expected = known.map(|known| known.facts.state());
                    done.push(self.run(doc, plan).await.unwrap());
                }
            }
            steps.push(decision);
        }
    }

    /// All rows of a table.
    pub(crate) async fn rows(&self, table: &str) -> Vec<String> {
        let mut dump = self.dump(table).await.unwrap();
        let mut rows = Vec::new();
        while let Some(row) = dump.next().await.unwrap() {
            rows.push(row);
        }
        rows
    }

    /// Everything, to show that something changed nothing.
    pub(crate) async fn picture(&self) -> Vec<(String, Vec<String>)> {
        let mut picture = Vec::new();
        for table in self.tables().await.unwrap() {
            let rows = self.rows(&table).await;
            picture.push((table, rows));
        }
        picture
    }

    /// That the catalog does not contradict itself.
    pub(crate) async fn is_sound(&self) {
        assert_eq!(self.check().await.unwrap(), Vec::<String>::new());
    }

    pub(crate) async fn find(&self, number: u32) -> Option<Found> {
        self.lookup(&uid(number)).await.unwrap()
    }

    pub(crate) async fn declare(&self, feature: &Feature) {
        self.declare_feature(feature).await.unwrap();
    }
}
