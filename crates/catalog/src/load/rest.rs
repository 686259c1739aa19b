//! Reports, bad pieces, the residual, and the dates that a load touches.

use std::collections::BTreeSet;

use cannery_database::{Session, Value};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::Residual;
use crate::error::Error;

/// The key of a skeleton, which itself may be too long for an index.
pub(super) fn skeleton_hash(skeleton: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(skeleton.as_bytes()))
}

/// The dates of what the touched files hold.
pub(super) async fn dates_before(
    session: &mut dyn Session,
    p: &str,
) -> Result<BTreeSet<String>, Error> {
    let sql = format!(
        "select distinct date from measurement where file in (select file from {p}touched)"
    );
    let rows = session.query(&sql, Vec::new()).await?;
    // Asked for those that are not null, SQLite takes the index of all dates.
    let dates = rows.iter().map(|row| row.maybe_text(0));
    let dates = dates.filter_map(Result::transpose);
    Ok(dates.collect::<Result<_, _>>()?)
}

/// The dates of what is written, and of what was held elsewhere until now.
pub(super) async fn dates_after(
    session: &mut dyn Session,
    p: &str,
    dates: &mut BTreeSet<String>,
) -> Result<(), Error> {
    // A place that another file holds before and after is not touched.
    let sql = format!(
        "select distinct n.date from {p}final n left join measurement m on m.uid = n.uid \
         where n.date is not null and (m.id is null or m.file <> n.file or m.seq <> n.seq \
            or n.file in (select file from {p}touched)) \
         union select m.date from {p}final n cross join measurement m \
         where m.uid = n.uid and m.date is not null and m.file <> n.file"
    );
    for row in session.query(&sql, Vec::new()).await? {
        dates.insert(row.text(0)?);
    }
    Ok(())
}

/// The reports of the file, in place of those of all touched files.
pub(super) async fn write_reports(
    session: &mut dyn Session,
    p: &str,
    file: i64,
) -> Result<(), Error> {
    let touched = format!("(select file from {p}touched)");
    session
        .script(&format!("delete from report where file in {touched}"))
        .await?;
    session
        .execute(
            &format!(
                "insert into report (file, seq, textname, src_size, node, hour) \
                 select cast($1 as bigint), seq, textname, src_size, node, hour from {p}report order by seq"
            ),
            vec![file.into()],
        )
        .await?;
    Ok(())
}

/// Puts the answers of a query into the dictionary of reasons.
pub(super) async fn know_reasons(session: &mut dyn Session, query: &str) -> Result<(), Error> {
    session
        .execute(
            &format!(
                "insert into reason (text) select distinct q.* from ({query}) q where true \
                 on conflict (text) do nothing"
            ),
            Vec::new(),
        )
        .await?;
    Ok(())
}

/// The bad pieces of the file, in place of those of all touched files.
pub(super) async fn write_badblobs(
    session: &mut dyn Session,
    p: &str,
    file: i64,
) -> Result<(), Error> {
    session
        .script(&format!(
            "delete from badblob where file in (select file from {p}touched)"
        ))
        .await?;
    know_reasons(session, &format!("select info from {p}badblob")).await?;
    session
        .execute(
            &format!(
                "insert into badblob (file, seq, report, src_off, src_size, reason) \
                 select r.file, s.seq, r.id, s.src_off, s.src_size, w.id from {p}badblob s \
                 join report r on r.file = $1 and r.seq = s.report \
                 join reason w on w.text = s.info order by s.seq"
            ),
            vec![file.into()],
        )
        .await?;
    Ok(())
}

/// The residual of the file: what was pushed, or the sum of what the touched files had.
pub(super) async fn write_residual(
    session: &mut dyn Session,
    p: &str,
    file: i64,
    residual: Residual,
) -> Result<(), Error> {
    let touched = format!("(select file from {p}touched)");
    if residual == Residual::Replace {
        session
            .script(&format!(
                "delete from residual where file in {touched}; \
                 insert into skeleton (hash, text) select hash, min(skeleton) from {p}residual \
                 where true group by hash on conflict (hash) do nothing"
            ))
            .await?;
        let sql = format!(
            "insert into residual (file, skeleton, count) \
             select cast($1 as bigint), k.id, cast(sum(s.count) as bigint) from {p}residual s \
             join skeleton k on k.hash = s.hash group by k.id"
        );
        session.execute(&sql, vec![file.into()]).await?;
        return Ok(());
    }
    let sql = format!(
        "insert into residual (file, skeleton, count) \
         select cast($1 as bigint), skeleton, cast(sum(count) as bigint) from residual \
         where file in {touched} group by skeleton \
         on conflict (file, skeleton) do update set count = excluded.count"
    );
    session.execute(&sql, vec![file.into()]).await?;
    session
        .execute(
            &format!("delete from residual where file in {touched} and file <> $1"),
            vec![file.into()],
        )
        .await?;
    Ok(())
}

/// Removes everything that hangs on the touched files but measurements and their rows.
pub(super) async fn remove_parts(session: &mut dyn Session, p: &str) -> Result<(), Error> {
    for table in ["report", "badblob", "badrow", "residual"] {
        session
            .script(&format!(
                "delete from {table} where file in (select file from {p}touched)"
            ))
            .await?;
    }
    Ok(())
}

/// How many places of a file another place comes before.
pub(super) async fn duplicates_of(session: &mut dyn Session, file: i64) -> Result<u64, Error> {
    let rows = session
        .query(
            "select count(*) from duplicate where file = $1",
            vec![Value::Int(file)],
        )
        .await?;
    rows.first().map_or(Ok(0), |row| Ok(row.size(0)?))
}
