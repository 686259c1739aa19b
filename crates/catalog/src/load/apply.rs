//! The transaction of a load.

use cannery_database::{Dialect, Session, Value, stored};

use super::{Committed, LoadPlan, features, place, rest};
use crate::aggregate;
use crate::catalog;
use crate::coverage::nodes;
use crate::decide::{Decision, FileFacts, FileState};
use crate::error::Error;
use crate::feature::{self, Feature};

/// A load that is being committed.
pub(super) struct Applying<'a> {
    pub(super) session: &'a mut dyn Session,
    pub(super) dialect: Dialect,
    pub(super) prefix: String,
    pub(super) plan: &'a LoadPlan,
    pub(super) features: &'a [Feature],
    /// Reports, measurements, bad pieces.
    pub(super) counts: [i64; 3],
    pub(super) now_ms: i64,
}

impl Applying<'_> {
    pub(super) async fn run(&mut self) -> Result<Committed, Error> {
        expect_state(
            self.session,
            &self.plan.facts.name,
            self.plan.expected.as_ref(),
        )
        .await?;
        features::expect_declared(self.session, self.features).await?;
        match self.plan.decision {
            Decision::Ingest | Decision::Reingest => self.whole().await,
            Decision::Repoint => self.repoint().await,
            Decision::Reprocess { .. } => self.reprocess().await,
            Decision::Skip | Decision::MarkCurrent { .. } | Decision::NewerThanCode { .. } => {
                Err(Error::invalid("there is nothing to load"))
            }
        }
    }

    /// The file anew, and the files that it replaces.
    async fn whole(&mut self) -> Result<Committed, Error> {
        let (p, session) = (self.prefix.as_str(), &mut *self.session);
        let file = write_file(session, &self.plan.facts, self.counts, self.now_ms).await?;
        place::make_tables(session, self.dialect, p).await?;
        touch(session, self.dialect, p, file, &self.plan.replaces).await?;
        let mut dates = rest::dates_before(session, p).await?;
        let mut sent = nodes::sent(session, p).await?;
        rest::write_reports(session, p, file).await?;
        sent.extend(nodes::sent(session, p).await?);
        nodes::cover(session, &sent).await?;
        place::compare(session, self.dialect, p, Some(file)).await?;
        rest::dates_after(session, p, &mut dates).await?;
        let outdated = place::promoted(session, p, Some(file)).await?;
        let (removed, moved) = remove_gone(session, self.dialect, p, Some(file)).await?;
        let added = place::write(session, p).await?;
        // Rows survive where the file only takes the place of others: nothing in it is new.
        let keeps = self.plan.decision == Decision::Ingest && added + moved == 0;
        let kept = if keeps {
            features::kept_versions(session, p, Some(file), self.features).await?
        } else {
            Vec::new()
        };
        features::write_rows(session, p, file, self.features).await?;
        features::move_bad_rows(session, p, file, self.features).await?;
        features::write_bad_rows(session, p, file).await?;
        features::write_versions(session, file, self.features, kept).await?;
        rest::write_badblobs(session, p, file).await?;
        rest::write_residual(session, p, file, self.plan.residual).await?;
        remove_files(session, p, Some(file)).await?;
        aggregate::touch(session, &dates).await?;
        Ok(Committed {
            added,
            removed,
            duplicates: rest::duplicates_of(session, file).await?,
            dates,
            outdated,
            bad_rows: 0,
        })
    }

    /// Offsets only.
    async fn repoint(&mut self) -> Result<Committed, Error> {
        let file = self.same_measurements().await?;
        let (p, session) = (self.prefix.as_str(), &mut *self.session);
        for table in ["measurement", "duplicate"] {
            session
                .execute(
                    &format!(
                        "update {table} set frame_off = s.frame_off, frame_size = s.frame_size, \
                         intra_off = s.intra_off, intra_size = s.intra_size from {p}measurement s \
                         where {table}.file = $1 and {table}.seq = s.seq and {table}.uid = s.uid"
                    ),
                    vec![file.into()],
                )
                .await?;
        }
        rewrite_file(session, file, &self.plan.facts, self.now_ms).await?;
        Ok(Committed::default())
    }

    /// The tables of the features only.
    async fn reprocess(&mut self) -> Result<Committed, Error> {
        if let Some(known) = catalog::known(self.session, &self.plan.facts.name).await?
            && known.facts != self.plan.facts
        {
            return Err(Error::conflict(
                "the catalog has another state of it; decide again",
            ));
        }
        let file = self.same_measurements().await?;
        let (p, session) = (self.prefix.as_str(), &mut *self.session);
        place::make_tables(session, self.dialect, p).await?;
        touch(session, self.dialect, p, file, &[]).await?;
        place::take_held(session, self.dialect, p, file).await?;
        features::write_rows(session, p, file, self.features).await?;
        features::drop_bad_rows(session, file, self.features).await?;
        features::write_bad_rows(session, p, file).await?;
        let kept = features::kept_versions(session, p, None, self.features).await?;
        features::write_versions(session, file, self.features, kept).await?;
        if self.plan.residual == super::Residual::Replace {
            rest::write_residual(session, p, file, self.plan.residual).await?;
        }
        let dates = rest::dates_before(session, p).await?;
        aggregate::touch(session, &dates).await?;
        Ok(Committed {
            dates,
            ..Committed::default()
        })
    }

    /// Makes sure that what was pushed is what the catalog has of the file, uid by uid.
    async fn same_measurements(&mut self) -> Result<i64, Error> {
        let p = &self.prefix;
        let rows = self
            .session
            .query(
                &format!(
                    "select f.id, f.measurements, \
                     (select count(*) from {p}measurement s cross join measurement m \
                        where m.uid = s.uid and m.seq = s.seq and m.file = f.id) + \
                     (select count(*) from {p}measurement s cross join duplicate d \
                        where d.uid = s.uid and d.seq = s.seq and d.file = f.id) \
                     from file f where f.name = $1"
                ),
                vec![self.plan.facts.name.as_str().into()],
            )
            .await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::corrupt("a file went away inside of a transaction"))?;
        let [_, pushed, _] = self.counts;
        if row.int(1)? != pushed || row.int(2)? != pushed {
            return Err(Error::invalid(format!(
                "{pushed} measurements were pushed, the catalog has {} of the same text, and {} of them are equal; reingest it",
                row.int(1)?,
                row.int(2)?
            )));
        }
        Ok(row.int(0)?)
    }
}

/// Takes a file out.
pub(super) async fn forget(
    session: &mut dyn Session,
    dialect: Dialect,
    p: &str,
    name: &str,
    expected: &FileState,
) -> Result<Committed, Error> {
    let Some(file) = file_id(session, name).await? else {
        return Ok(Committed::default());
    };
    expect_state(session, name, Some(expected)).await?;
    place::make_tables(session, dialect, p).await?;
    touch(session, dialect, p, file, &[]).await?;
    let mut dates = rest::dates_before(session, p).await?;
    place::compare(session, dialect, p, None).await?;
    rest::dates_after(session, p, &mut dates).await?;
    let outdated = place::promoted(session, p, None).await?;
    let (removed, _) = remove_gone(session, dialect, p, None).await?;
    place::write(session, p).await?;
    let sent = nodes::sent(session, p).await?;
    rest::remove_parts(session, p).await?;
    nodes::cover(session, &sent).await?;
    remove_files(session, p, None).await?;
    aggregate::touch(session, &dates).await?;
    Ok(Committed {
        removed,
        dates,
        outdated,
        ..Committed::default()
    })
}

async fn file_id(session: &mut dyn Session, name: &str) -> Result<Option<i64>, Error> {
    let rows = session
        .query("select id from file where name = $1", vec![name.into()])
        .await?;
    Ok(rows.first().map(|row| row.int(0)).transpose()?)
}

/// Refuses when the file is not as it was decided on.
async fn expect_state(
    session: &mut dyn Session,
    name: &str,
    expected: Option<&FileState>,
) -> Result<(), Error> {
    let known = catalog::known(session, name).await?;
    let state = known.map(|known| known.facts.state());
    if state.as_ref() == expected {
        return Ok(());
    }
    let shown = |state: Option<&FileState>| match state {
        Some(state) => format!("`{}` of `{}`", state.file_sha1, state.generation),
        None => "absent".to_owned(),
    };
    Err(Error::conflict(format!(
        "it was {} when the load was decided on, and is {} now; decide again",
        shown(expected),
        shown(state.as_ref())
    )))
}

async fn write_file(
    session: &mut dyn Session,
    facts: &FileFacts,
    [reports, measurements, badblobs]: [i64; 3],
    now_ms: i64,
) -> Result<i64, Error> {
    let kind = kind_id(session, &facts.kind).await?;
    let empty: Value = "".into();
    let first = vec![
        facts.name.as_str().into(),
        empty,
        facts.bucket.as_str().into(),
        kind.into(),
    ];
    session
        .execute(
            "insert into file (name, generation, bucket, kind, file_sha1, text_sha1, file_size, text_size, \
             rules_hash, reports, measurements, badblobs, ingested_ms) \
             values ($1, $2, $3, $4, '', '', 0, 0, '', 0, 0, 0, 0) on conflict (name) do nothing",
            first,
        )
        .await?;
    let file = file_id(session, &facts.name)
        .await?
        .ok_or_else(|| Error::corrupt("a row that was written is not there"))?;
    rewrite_file(session, file, facts, now_ms).await?;
    session
        .execute(
            "update file set reports = $2, measurements = $3, badblobs = $4 where id = $1",
            vec![
                file.into(),
                reports.into(),
                measurements.into(),
                badblobs.into(),
            ],
        )
        .await?;
    Ok(file)
}

async fn rewrite_file(
    session: &mut dyn Session,
    file: i64,
    facts: &FileFacts,
    now_ms: i64,
) -> Result<(), Error> {
    let kind = kind_id(session, &facts.kind).await?;
    let values = vec![
        file.into(),
        facts.generation.as_str().into(),
        kind.into(),
        facts.file_sha1.as_str().into(),
        facts.text_sha1.as_str().into(),
        stored(facts.file_size)?,
        stored(facts.text_size)?,
        facts.rules_hash.as_str().into(),
        now_ms.into(),
    ];
    session
        .execute(
            "update file set generation = $2, kind = $3, file_sha1 = $4, text_sha1 = $5, file_size = $6, \
             text_size = $7, rules_hash = $8, ingested_ms = $9 where id = $1",
            values,
        )
        .await?;
    Ok(())
}

async fn kind_id(session: &mut dyn Session, kind: &str) -> Result<i64, Error> {
    session
        .execute(
            "insert into kind (name) values ($1) on conflict (name) do nothing",
            vec![kind.into()],
        )
        .await?;
    let rows = session
        .query("select id from kind where name = $1", vec![kind.into()])
        .await?;
    Ok(rows
        .first()
        .ok_or_else(|| Error::corrupt("a row that was written is not there"))?
        .int(0)?)
}

/// Notes the file and those that it replaces, as far as the catalog has them.
async fn touch(
    session: &mut dyn Session,
    dialect: Dialect,
    p: &str,
    file: i64,
    replaces: &[String],
) -> Result<(), Error> {
    let sql = format!("insert into {p}touched (file) values ($1) on conflict do nothing");
    session.execute(&sql, vec![file.into()]).await?;
    for name in replaces {
        if let Some(replaced) = file_id(session, name).await? {
            session.execute(&sql, vec![replaced.into()]).await?;
        }
    }
    place::know(session, dialect, &format!("{p}touched")).await
}

/// Removes the measurements of touched files that have no place any more, with their rows, and the rows of measurements that
/// a file takes over without replacing their holder: each file's features are made of that file. Answers with how many
/// measurements went, and how many were taken over.
async fn remove_gone(
    session: &mut dyn Session,
    dialect: Dialect,
    p: &str,
    own: Option<i64>,
) -> Result<(u64, u64), Error> {
    let gone = session
        .execute(
            &format!(
                "insert into {p}gone (id) select m.id from measurement m \
                 where m.file in (select file from {p}touched) \
                 and not exists (select 1 from {p}final n where n.uid = m.uid)"
            ),
            Vec::new(),
        )
        .await?;
    let moved = session
        .execute(
            &format!(
                "insert into {p}moved (id) select m.id from {p}final n cross join measurement m \
                 where m.uid = n.uid and m.file <> n.file and (n.file <> $1 or m.file not in (select file from {p}touched))"
            ),
            vec![own.unwrap_or(-1).into()],
        )
        .await?;
    if gone + moved == 0 {
        return Ok((0, 0));
    }
    place::know(session, dialect, &format!("{p}gone, {p}moved")).await?;
    for feature in feature::all(session).await? {
        let table = crate::name::feature_table(&feature.name)?;
        let rows_of = |ids: &str| {
            format!("delete from {table} where measurement in (select id from {p}{ids})")
        };
        session
            .script(&format!("{}; {}", rows_of("gone"), rows_of("moved")))
            .await?;
    }
    session
        .script(&format!(
            "delete from measurement where id in (select id from {p}gone)"
        ))
        .await?;
    Ok((gone, moved))
}

/// Removes the rows of the touched files themselves, but for the load's own.
async fn remove_files(session: &mut dyn Session, p: &str, own: Option<i64>) -> Result<(), Error> {
    let condition = format!("in (select file from {p}touched) and");
    let params = || vec![own.unwrap_or(-1).into()];
    for (table, column) in [("file_feature", "file"), ("file", "id")] {
        let sql = format!("delete from {table} where {column} {condition} {column} <> $1");
        session.execute(&sql, params()).await?;
    }
    Ok(())
}
