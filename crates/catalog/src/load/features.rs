//! The rows of features, and those that did not become any.

use cannery_database::{Session, stored};

use super::rest;
use crate::error::Error;
use crate::feature::{self, Feature, names_sql};
use crate::name;

/// The ids of these features as SQL: `(1, 2)`.
async fn ids(session: &mut dyn Session, features: &[Feature]) -> Result<String, Error> {
    // An empty list is no SQL, and no id is negative.
    let mut ids = vec!["-1".to_owned()];
    for feature in features {
        let rows = session
            .query(
                "select id from feature where name = $1",
                vec![feature.name.as_str().into()],
            )
            .await?;
        for row in rows {
            ids.push(row.int(0)?.to_string());
        }
    }
    Ok(format!("({})", ids.join(", ")))
}

/// Refuses when a feature was declared anew since the load began: what is staged may not fit its table.
pub(super) async fn expect_declared(
    session: &mut dyn Session,
    features: &[Feature],
) -> Result<(), Error> {
    for wanted in features {
        if feature::find(session, &wanted.name).await?.as_ref() != Some(wanted) {
            return Err(Error::conflict(format!(
                "feature `{}` was declared anew meanwhile; decide again",
                wanted.name
            )));
        }
    }
    Ok(())
}

/// Writes the rows of what the file holds, in place of those that were there.
pub(super) async fn write_rows(
    session: &mut dyn Session,
    p: &str,
    file: i64,
    features: &[Feature],
) -> Result<(), Error> {
    for (at, feature) in features.iter().enumerate() {
        let table = name::feature_table(&feature.name)?;
        let names = names_sql(&feature.columns)?;
        let held = format!("{p}final n cross join measurement m");
        session
            .execute(
                &format!(
                    "delete from {table} where measurement in \
                     (select m.id from {held} where m.uid = n.uid and n.file = $1)"
                ),
                vec![file.into()],
            )
            .await?;
        session
            .execute(
                &format!(
                    "insert into {table} (measurement, \"row\", {names}) \
                     select m.id, s.\"row\", {} from {p}f{at} s \
                     cross join {p}final n cross join measurement m \
                     where n.seq = s.seq and n.file = $1 and m.uid = n.uid",
                    prefixed(&names)
                ),
                vec![file.into()],
            )
            .await?;
    }
    Ok(())
}

/// `"a", "b"` as `s."a", s."b"`.
fn prefixed(names: &str) -> String {
    let names: Vec<String> = names.split(", ").map(|name| format!("s.{name}")).collect();
    names.join(", ")
}

/// The bad rows of what the file took over: those of features that this load does not write move along, all others of the
/// touched files go, and so do those of whoever held a measurement before.
pub(super) async fn move_bad_rows(
    session: &mut dyn Session,
    p: &str,
    file: i64,
    features: &[Feature],
) -> Result<(), Error> {
    let written = ids(session, features).await?;
    let touched = format!("(select file from {p}touched)");
    session
        .script(&format!(
            "delete from badrow where file in {touched} and feature in {written}; \
             delete from badrow where file in {touched} and \
                not exists (select 1 from {p}final n where n.uid = badrow.uid and n.file = {file})"
        ))
        .await?;
    session
        .script(&format!(
            "update badrow set file = {file}, seq = n.seq from {p}final n \
             where n.uid = badrow.uid and n.file = {file} and badrow.file in {touched}; \
             delete from badrow where uid in (select uid from {p}final) \
                and file <> (select n.file from {p}final n where n.uid = badrow.uid)"
        ))
        .await?;
    Ok(())
}

/// Removes the bad rows that these features have in a file.
pub(super) async fn drop_bad_rows(
    session: &mut dyn Session,
    file: i64,
    features: &[Feature],
) -> Result<(), Error> {
    let written = ids(session, features).await?;
    session
        .execute(
            &format!("delete from badrow where file = $1 and feature in {written}"),
            vec![file.into()],
        )
        .await?;
    Ok(())
}

/// Writes the bad rows of what the file holds.
pub(super) async fn write_bad_rows(
    session: &mut dyn Session,
    p: &str,
    file: i64,
) -> Result<(), Error> {
    rest::know_reasons(session, &format!("select reason from {p}badrow")).await?;
    session
        .execute(
            &format!(
                "insert into badrow (file, feature, seq, \"row\", uid, reason, data) \
                 select n.file, t.id, s.seq, s.\"row\", s.uid, w.id, s.data from {p}badrow s \
                 join {p}final n on n.seq = s.seq and n.file = $1 \
                 join feature t on t.name = s.feature join reason w on w.text = s.reason"
            ),
            vec![file.into()],
        )
        .await?;
    Ok(())
}

/// Notes the versions of the rows: the declared one of what was written, and those of `kept`.
pub(super) async fn write_versions(
    session: &mut dyn Session,
    file: i64,
    features: &[Feature],
    kept: Vec<(String, i64)>,
) -> Result<(), Error> {
    session
        .execute(
            "delete from file_feature where file = $1",
            vec![file.into()],
        )
        .await?;
    let sql = "insert into file_feature (file, feature, version) \
               select cast($1 as bigint), id, cast($2 as bigint) from feature where name = $3";
    for (name, version) in kept {
        session
            .execute(sql, vec![file.into(), version.into(), name.into()])
            .await?;
    }
    for feature in features {
        let values = vec![
            file.into(),
            stored(feature.version)?,
            feature.name.as_str().into(),
        ];
        session.execute(sql, values).await?;
    }
    Ok(())
}

/// Of features that are not written, the lowest version that a touched file has, where each of them has one. `new` is a file
/// among them that had nothing to keep.
pub(super) async fn kept_versions(
    session: &mut dyn Session,
    p: &str,
    new: Option<i64>,
    features: &[Feature],
) -> Result<Vec<(String, i64)>, Error> {
    let rows = session
        .query(
            &format!(
                "select t.name, min(v.version), count(*), \
                 (select count(*) from {p}touched x where x.file <> $1) \
                 from {p}touched x join file_feature v on v.file = x.file \
                 join feature t on t.id = v.feature group by t.name order by t.name"
            ),
            vec![new.unwrap_or(-1).into()],
        )
        .await?;
    let mut kept = Vec::new();
    for row in rows {
        let name = row.text(0)?;
        let complete = row.int(2)? == row.int(3)?;
        if complete && features.iter().all(|feature| feature.name != name) {
            kept.push((name, row.int(1)?));
        }
    }
    Ok(kept)
}
