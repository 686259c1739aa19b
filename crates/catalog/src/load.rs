//! How a file gets into the catalog.
//!
//! What the caller pushes is staged in tables of the session's own, a bounded amount of memory at a time and outside of any
//! transaction: a load that takes minutes holds nobody up. [`Load::commit`] then moves it in one transaction, one load after
//! the other. A load that is dropped before has changed nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use cannery_database::{Session, Value, date_text, is_expressible, stored};
use serde::Serialize;

use crate::catalog::Catalog;
use crate::decide::{Decision, FileFacts, FileState};
use crate::error::Error;
use crate::feature::{self, Feature};
use crate::fit;
use crate::name;

mod apply;
mod features;
mod place;
mod rest;
mod stage;

use apply::Applying;
use stage::Stage;

/// Names of objects are shorter; the index of a database takes no more.
const NAME_BYTES_MAX: usize = 2000;
/// Reasons are cut here, so that each is worth a place in a dictionary.
const REASON_CHARS_MAX: usize = 300;
/// Of a row that did not fit, so much is kept.
const DATA_BYTES_MAX: usize = 64 * 1024;

/// What is to be loaded, and on what that was decided.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The file.
    pub facts: FileFacts,
    /// [`Decision::Ingest`], [`Decision::Reingest`], [`Decision::Repoint`] or [`Decision::Reprocess`].
    pub decision: Decision,
    /// The state of the file that was decided on: none for a file that was not there. The commit is refused when it is
    /// another by then.
    pub expected: Option<FileState>,
    /// The features whose rows are pushed, by name. Rows of other features survive with their measurement. For
    /// [`Decision::Reprocess`] these are its features, and this is empty.
    pub features: Vec<String>,
    /// Files that this one takes the place of, such as the small cans of a day that is sealed: their measurements move here,
    /// with their uids and ids, and the files go. A name that the catalog does not have is passed over.
    pub replaces: Vec<String>,
    /// What happens to the summary of what no feature reads.
    pub residual: Residual,
}

/// What happens to the summary of what no feature reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// What is pushed takes the place of what was known.
    Replace,
    /// What is known of the file, and of the files that it replaces, stays.
    Keep,
}

/// Where a measurement lies: one frame of the file, and the slice of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The frame's first byte in the file.
    pub frame_off: u64,
    /// Its bytes in the file.
    pub frame_size: u64,
    /// The measurement's first byte in the decompressed frame.
    pub intra_off: u64,
    /// Its bytes.
    pub intra_size: u64,
}

/// A report of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReport {
    /// Its name, a relative path.
    pub textname: String,
    /// Its bytes before the sanitiser.
    pub src_size: u64,
    /// Which node sent it, and when; nothing for what no node collects. It is what the coverage of nodes is made of.
    pub sent: Option<Sent>,
}

/// Which node sent a report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// The node.
    pub node: String,
    /// The hour in which it began to collect what is in it, `<yyyy>-<mm>-<dd>T<hh>` in UTC.
    pub hour: String,
}

/// A measurement of the last report that was pushed.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMeasurement {
    /// Its uid.
    pub uid: String,
    /// Where it lies.
    pub place: Place,
    /// When it was made, in milliseconds since 1970. Outside of the years 1 to 9999 it counts as unknown.
    pub time_ms: Option<i64>,
    /// Some bits of a digest of its text, by which who reads it knows that it is still the same. For [`Decision::Repoint`],
    /// when the text is the same, it is not asked for.
    pub digest: Option<i64>,
    /// What the features made of it.
    pub rows: Vec<NewRow>,
}

/// A row that a feature made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRow {
    /// The feature's name.
    pub feature: String,
    /// A value for each of its columns. A row that does not fit is kept as a bad row.
    pub values: Vec<Json>,
}

/// A piece of the last report that was pushed and could not be read as a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBadBlob {
    /// Its first byte in the source.
    pub src_off: u64,
    /// Its bytes.
    pub src_size: u64,
    /// What is wrong with it.
    pub info: String,
}

/// A row that a feature could not make, of the last measurement that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBadRow {
    /// The feature's name.
    pub feature: String,
    /// What is wrong with it.
    pub reason: String,
    /// What it was to be made of.
    pub data: String,
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Committed {
    /// Measurements that the catalog did not have before.
    pub added: u64,
    /// Measurements that it has no more.
    pub removed: u64,
    /// Measurements of this file that an earlier place holds: rows in `duplicate`.
    pub duplicates: u64,
    /// Rows of features that did not fit.
    pub bad_rows: u64,
    /// The dates whose aggregates are to be computed anew, in order.
    pub dates: BTreeSet<String>,
    /// Other files that now hold measurements which this one held: their features are to be decided on again.
    pub outdated: Vec<String>,
}

/// A load under way. Reports, their measurements and their bad pieces are pushed in the order of the file.
pub struct Load {
    plan: LoadPlan,
    features: Vec<Feature>,
    /// Where a feature stands in `features`, and how many rows of the last measurement it has.
    by_name: BTreeMap<String, usize>,
    row_counts: Vec<i64>,
    session: Box<dyn Session>,
    stage: Stage,
    reports: i64,
    measurements: i64,
    badblobs: i64,
    badrows: u64,
    last_uid: String,
    now_ms: i64,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Catalog {
    /// Begins a load.
    ///
    /// # Errors
    /// `Invalid` for a plan that is none, `Conflict` when a feature of it is not declared; by kind.
    pub async fn load(&self, mut plan: LoadPlan) -> Result<Load, Error> {
        check(&plan)?;
        if let Decision::Reprocess { features } = &plan.decision {
            plan.features.clone_from(features);
        }
        let mut session = self.database().writer().await?;
        let mut features = Vec::new();
        for wanted in &plan.features {
            let feature = feature::find(session.as_mut(), wanted).await?;
            features.push(feature.ok_or_else(|| {
                Error::conflict(format!("feature `{wanted}` is not declared in the catalog"))
            })?);
        }
        let stage = Stage::make(session.as_mut(), self.dialect(), &features).await?;
        let by_name = features.iter().enumerate();
        Ok(Load {
            by_name: by_name.map(|(at, f)| (f.name.clone(), at)).collect(),
            row_counts: vec![0; features.len()],
            plan,
            features,
            session,
            stage,
            reports: 0,
            measurements: 0,
            badblobs: 0,
            badrows: 0,
            last_uid: String::new(),
            now_ms: self.clock.now().as_millisecond(),
        })
    }

    /// Takes a file out of the catalog, because a person or a retention rule says so. Measurements that stand in another
    /// file as well are held by that one from then on. A file that is not there is no error.
    ///
    /// # Errors
    /// `Conflict` when the file is in another state than `expected`; by kind.
    pub async fn forget(&self, name: &str, expected: &FileState) -> Result<Committed, Error> {
        let mut session = self.database().writer().await?;
        let stage = Stage::make(session.as_mut(), self.dialect(), &[]).await?;
        session.begin().await?;
        let done = apply::forget(
            session.as_mut(),
            self.dialect(),
            stage.prefix(),
            name,
            expected,
        )
        .await;
        finish(session, done).await
    }
}

/// Ends the transaction of a load and drops what it staged.
async fn finish(
    mut session: Box<dyn Session>,
    done: Result<Committed, Error>,
) -> Result<Committed, Error> {
    match done {
        Ok(committed) => {
            session.commit().await?;
            if let Err(error) = session.clean().await {
                tracing::debug!(%error, "cannot drop what a load staged; its connection is given up");
            }
            Ok(committed)
        }
        Err(error) => {
            session.rollback().await;
            Err(error)
        }
    }
}

fn check(plan: &LoadPlan) -> Result<(), Error> {
    let facts = &plan.facts;
    name::date(&facts.bucket)?;
    let expected_name = facts.name.strip_prefix(&facts.bucket);
    let named = expected_name.is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
    if !named || facts.name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "`{}` is no file `<date>/<name>` of bucket `{}`",
            facts.name, facts.bucket
        )));
    }
    for text in [&facts.name, &facts.kind, &facts.generation] {
        name::text("a name", text)?;
    }
    if facts.kind.is_empty() {
        return Err(Error::invalid(format!("file `{}` has no kind", facts.name)));
    }
    let fits = match &plan.decision {
        Decision::Ingest => plan.expected.is_none(),
        Decision::Reingest => plan.expected.is_some(),
        Decision::Repoint | Decision::Reprocess { .. } => {
            plan.expected.is_some() && plan.replaces.is_empty() && plan.features.is_empty()
        }
        Decision::Skip | Decision::MarkCurrent { .. } | Decision::NewerThanCode { .. } => false,
    };
    if !fits || plan.replaces.contains(&facts.name) {
        return Err(Error::invalid(format!(
            "file `{}`: the plan contradicts itself; an ingest expects no file, all else expects one, and only whole files replace others",
            facts.name
        )));
    }
    Ok(())
}

impl Load {
    /// Begins a report; what is pushed next is of it.
    ///
    /// # Errors
    /// `Invalid` for a name that is none; by kind.
    pub async fn report(&mut self, report: &NewReport) -> Result<(), Error> {
        name::text("the name of a report", &report.textname)?;
        if report.textname.is_empty() || report.textname.len() > NAME_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the name of report {} of file `{}` is empty or longer than {NAME_BYTES_MAX} bytes",
                self.reports, self.plan.facts.name
            )));
        }
        if let Some(Sent { node, hour }) = &report.sent {
            name::text("the name of a node", node)?;
            name::hour(hour)?;
        }
        let sent = report.sent.as_ref();
        let row = vec![
            Value::Int(self.reports),
            report.textname.as_str().into(),
            stored(report.src_size)?,
            sent.map(|sent| sent.node.clone()).into(),
            sent.map(|sent| sent.hour.clone()).into(),
        ];
        self.reports += 1;
        self.stage.report(row);
        self.make_room().await
    }

    /// Adds a measurement of the last report. For [`Decision::Reprocess`] all measurements are pushed as well, in the same
    /// order; only their rows are used. For [`Decision::Repoint`] only the places are.
    ///
    /// # Errors
    /// `Invalid` for a uid that is none, a feature that the plan does not name, or a measurement before the first report;
    /// by kind.
    pub async fn measurement(&mut self, measurement: NewMeasurement) -> Result<(), Error> {
        name::uid(&measurement.uid)?;
        let report = self.last_report()?;
        let seq = self.measurements;
        let time_ms = measurement.time_ms.filter(|millis| is_expressible(*millis));
        let place = measurement.place;
        self.stage.measurement(vec![
            seq.into(),
            measurement.uid.as_str().into(),
            report.into(),
            stored(place.frame_off)?,
            stored(place.frame_size)?,
            stored(place.intra_off)?,
            stored(place.intra_size)?,
            time_ms.into(),
            time_ms.map(date_text).into(),
            measurement.digest.into(),
        ]);
        self.measurements += 1;
        self.last_uid = measurement.uid;
        self.row_counts.fill(0);
        for row in measurement.rows {
            self.row(row)?;
        }
        self.make_room().await
    }

    /// Adds a piece of the last report that is no measurement.
    ///
    /// # Errors
    /// `Invalid` before the first report; by kind.
    pub async fn bad_blob(&mut self, blob: &NewBadBlob) -> Result<(), Error> {
        let row = vec![
            self.badblobs.into(),
            self.last_report()?.into(),
            stored(blob.src_off)?,
            stored(blob.src_size)?,
            reason(&blob.info).into(),
        ];
        self.badblobs += 1;
        self.stage.badblob(row);
        self.make_room().await
    }

    /// Adds a row that a feature could not make of the last measurement.
    ///
    /// # Errors
    /// `Invalid` for a feature that the plan does not name, and before the first measurement; by kind.
    pub async fn bad_row(&mut self, row: &NewBadRow) -> Result<(), Error> {
        let at = self.feature(&row.feature)?;
        if self.measurements == 0 {
            return Err(Error::invalid("a bad row belongs to a measurement"));
        }
        self.keep_bad(at, &row.reason, &row.data);
        self.make_room().await
    }

    /// Adds to the summary of what no feature reads.
    ///
    /// # Errors
    /// `Invalid` when the plan keeps what is known; by kind.
    pub async fn residual(&mut self, skeleton: &str, count: u64) -> Result<(), Error> {
        name::text("a skeleton", skeleton)?;
        if self.plan.residual == Residual::Keep {
            return Err(Error::invalid("the plan keeps the residual that is known"));
        }
        let hash = rest::skeleton_hash(skeleton);
        self.stage
            .residual(vec![hash.into(), skeleton.into(), stored(count)?]);
        self.make_room().await
    }

    /// Moves what was pushed into the catalog, in one transaction. Before the transaction ends, `fence` is asked whether this
    /// load may still write; it should answer within seconds, because no other load commits meanwhile.
    ///
    /// # Errors
    /// `Conflict` when the file, since it was decided on, was loaded by somebody else, or the fence refuses; `Invalid` when
    /// what was pushed contradicts the decision. Nothing was changed then. After `Unavailable` it may have been done: decide
    /// again.
    pub async fn commit(
        mut self,
        fence: impl Future<Output = Result<(), String>> + Send,
    ) -> Result<Committed, Error> {
        let name = self.plan.facts.name.clone();
        self.stage.flush(self.session.as_mut()).await?;
        self.stage.loaded(self.session.as_mut()).await?;
        self.session.begin().await?;
        let mut applying = Applying {
            session: self.session.as_mut(),
            dialect: self.stage.dialect(),
            prefix: self.stage.prefix().to_owned(),
            plan: &self.plan,
            features: &self.features,
            counts: [self.reports, self.measurements, self.badblobs],
            now_ms: self.now_ms,
        };
        let mut done = applying.run().await;
        if let Ok(committed) = &mut done {
            committed.bad_rows = self.badrows;
            if let Err(why) = fence.await {
                done = Err(Error::conflict(format!("the load may not go on: {why}")));
            }
        }
        let done = done.map_err(|error| error.while_doing(format!("file `{name}`")));
        finish(self.session, done).await
    }

    fn last_report(&self) -> Result<i64, Error> {
        if self.reports == 0 {
            return Err(Error::invalid("a report comes before what is in it"));
        }
        Ok(self.reports - 1)
    }

    fn feature(&self, name: &str) -> Result<usize, Error> {
        self.by_name.get(name).copied().ok_or_else(|| {
            Error::invalid(format!(
                "the load does not write the rows of feature `{name}`"
            ))
        })
    }

    fn row(&mut self, row: NewRow) -> Result<(), Error> {
        let at = self.feature(&row.feature)?;
        match fit::row(&self.features[at].columns, &row.values) {
            Ok(cells) => {
                let mut values = vec![(self.measurements - 1).into(), self.row_counts[at].into()];
                values.extend(cells);
                self.stage.row(at, values);
                self.row_counts[at] += 1;
            }
            Err(why) => self.keep_bad(at, &why, &Json::Array(row.values).to_string()),
        }
        Ok(())
    }

    fn keep_bad(&mut self, at: usize, why: &str, data: &str) {
        self.stage.badrow(vec![
            self.features[at].name.as_str().into(),
            (self.measurements - 1).into(),
            self.row_counts[at].into(),
            self.last_uid.as_str().into(),
            reason(why).into(),
            cut(&data.replace('\0', "\u{fffd}"), DATA_BYTES_MAX).into(),
        ]);
        self.row_counts[at] += 1;
        self.badrows += 1;
    }

    async fn make_room(&mut self) -> Result<(), Error> {
        if self.stage.is_full() {
            self.stage.flush(self.session.as_mut()).await?;
        }
        Ok(())
    }
}

/// A reason, short and storable.
fn reason(text: &str) -> String {
    let text = text.replace('\0', "\u{fffd}");
    text.chars().take(REASON_CHARS_MAX).collect()
}

/// At most so many bytes, whole characters.
fn cut(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
