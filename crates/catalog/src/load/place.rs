//! Which place holds a measurement.
//!
//! The same measurement may stand in several files, and several times in one. Of all its places the first one holds it: the
//! one whose file's name sorts first, and in that file the one that comes first. All others are rows of `duplicate`. So the
//! catalog depends on the files alone, and not on the order in which they were loaded: a rebuilt catalog is the same.
//!
//! A load touches its own file and those that it replaces. Most of its uids stand nowhere else and are simply written; the
//! others are *contended*, and for those all places are compared.
//!
//! What a load brings is joined with what the catalog has by `cross join`: PostgreSQL takes it for any other, and SQLite keeps
//! to the order. Otherwise it may read all that it has, to have it sorted, and a load would take the longer the more was loaded.

use cannery_database::{ColumnType, Dialect, Session};

use crate::error::Error;

/// A place, as `measurement` and `duplicate` have it.
const PLACE: &str =
    "report, seq, frame_off, frame_size, intra_off, intra_size, time_ms, date, kind, digest";

/// The tables that a commit works with, in its transaction.
pub(super) async fn make_tables(
    session: &mut dyn Session,
    dialect: Dialect,
    p: &str,
) -> Result<(), Error> {
    let text = dialect.column(ColumnType::Text);
    let place = format!(
        "uid {text} not null, file bigint not null, report bigint not null, seq bigint not null, \
         frame_off bigint not null, frame_size bigint not null, intra_off bigint not null, \
         intra_size bigint not null, time_ms bigint, date {text}, kind bigint not null, digest bigint"
    );
    session
        .script(&format!(
            "create temp table {p}touched (file bigint primary key); \
             create temp table {p}contended (uid {text} primary key); \
             create temp table {p}place ({place}, rank bigint not null); \
             create temp table {p}final ({place}, primary key (uid)); \
             create temp table {p}gone (id bigint primary key); \
             create temp table {p}moved (id bigint primary key)"
        ))
        .await?;
    Ok(())
}

/// Fills `final`: one place for each uid that the load has anything to do with. `file` is the load's, or none.
pub(super) async fn compare(
    session: &mut dyn Session,
    dialect: Dialect,
    p: &str,
    file: Option<i64>,
) -> Result<(), Error> {
    find_contended(session, dialect, p).await?;
    rank(session, p, file).await?;
    let touched = format!("(select file from {p}touched)");
    let contended = format!("(select uid from {p}contended)");
    session
        .script(&format!(
            "delete from duplicate where file in {touched}; \
             delete from duplicate where uid in {contended}; \
             insert into duplicate (uid, file, {PLACE}) \
             select uid, file, {PLACE} from {p}place where rank > 1; \
             insert into {p}final (uid, file, {PLACE}) \
             select uid, file, {PLACE} from {p}place where rank = 1"
        ))
        .await?;
    if let Some(file) = file {
        let staged = staged(p);
        session
            .execute(
                &format!(
                    "insert into {p}final (uid, file, {PLACE}) \
                     select uid, file, {PLACE} from ({staged}) s where uid not in {contended}"
                ),
                vec![file.into()],
            )
            .await?;
    }
    session
        .script(&format!("create index {p}final_seq on {p}final (seq)"))
        .await?;
    know(session, dialect, &format!("{p}final")).await
}

/// Lets the planner know what is in a new table: PostgreSQL guesses thousands of rows, and reads everything else from end to
/// end.
pub(super) async fn know(
    session: &mut dyn Session,
    dialect: Dialect,
    table: &str,
) -> Result<(), Error> {
    match dialect {
        Dialect::Postgres => session.script(&format!("analyze {table}")).await?,
        Dialect::Sqlite => {}
    }
    Ok(())
}

/// A uid may have very many places on both sides: the places themselves are never joined with each other, only uids are.
async fn find_contended(session: &mut dyn Session, dialect: Dialect, p: &str) -> Result<(), Error> {
    let touched = format!("(select file from {p}touched)");
    session
        .script(&format!(
            "insert into {p}contended (uid) \
             select uid from {p}measurement group by uid having count(*) > 1 \
             union select s.uid from {p}measurement s cross join measurement m \
                where m.uid = s.uid and m.file not in {touched} \
             union select d.uid from duplicate d where d.uid in (select uid from {p}measurement) \
                and d.file not in {touched} \
             union select m.uid from measurement m where m.file in {touched} and exists \
                (select 1 from duplicate d where d.uid = m.uid and d.file not in {touched})"
        ))
        .await?;
    know(session, dialect, &format!("{p}contended")).await
}

/// The load's own places, as in `duplicate`, with the name of its file. `$1` is the file.
fn staged(p: &str) -> String {
    format!(
        "select s.uid, f.name, f.id as file, r.id as report, s.seq, s.frame_off, s.frame_size, \
         s.intra_off, s.intra_size, s.time_ms, s.date, f.kind, s.digest from {p}measurement s \
         join report r on r.file = $1 and r.seq = s.report join file f on f.id = r.file"
    )
}

async fn rank(session: &mut dyn Session, p: &str, file: Option<i64>) -> Result<(), Error> {
    let touched = format!("(select file from {p}touched)");
    let elsewhere = |table: &str| {
        format!(
            "select e.uid, f.name, e.file, e.report, e.seq, e.frame_off, e.frame_size, e.intra_off, \
             e.intra_size, e.time_ms, e.date, e.kind, e.digest from {p}contended c cross join {table} e \
             cross join file f where e.uid = c.uid and f.id = e.file and e.file not in {touched}"
        )
    };
    let (measurement, duplicate) = (elsewhere("measurement"), elsewhere("duplicate"));
    let mut places = format!("{measurement} union all {duplicate}");
    if file.is_some() {
        let staged = staged(p);
        places += &format!(" union all {staged} where s.uid in (select uid from {p}contended)");
    }
    session
        .execute(
            &format!(
                "insert into {p}place (uid, file, {PLACE}, rank) select uid, file, {PLACE}, \
                 row_number() over (partition by uid order by name, seq) from ({places}) q"
            ),
            file.into_iter().map(Into::into).collect(),
        )
        .await?;
    Ok(())
}

/// Other files that now hold what a touched file held, by name; `file` is the load's.
pub(super) async fn promoted(
    session: &mut dyn Session,
    p: &str,
    file: Option<i64>,
) -> Result<Vec<String>, Error> {
    let changed = format!(
        "from {p}final n cross join measurement m \
         where m.uid = n.uid and n.file <> $1 and m.file <> n.file"
    );
    // Ids are never negative.
    let params = || vec![file.unwrap_or(-1).into()];
    let rows = session
        .query(
            &format!("select name from file where id in (select n.file {changed}) order by name"),
            params(),
        )
        .await?;
    session
        .execute(
            &format!("delete from file_feature where file in (select n.file {changed})"),
            params(),
        )
        .await?;
    rows.iter().map(|row| Ok(row.text(0)?)).collect()
}

/// Writes `final` into `measurement`; ids of uids that were there survive. Answers with how many are new.
pub(super) async fn write(session: &mut dyn Session, p: &str) -> Result<u64, Error> {
    let set: Vec<String> = format!("file, {PLACE}")
        .split(", ")
        .map(|column| format!("{column} = n.{column}"))
        .collect();
    session
        .script(&format!(
            "update measurement set {} from {p}final n where measurement.uid = n.uid",
            set.join(", ")
        ))
        .await?;
    let added = session
        .execute(
            &format!(
                "insert into measurement (uid, file, {PLACE}) select uid, file, {PLACE} from {p}final n \
                 where not exists (select 1 from measurement m where m.uid = n.uid) order by file, seq"
            ),
            Vec::new(),
        )
        .await?;
    Ok(added)
}

/// Fills `final` with what the file holds already.
pub(super) async fn take_held(
    session: &mut dyn Session,
    dialect: Dialect,
    p: &str,
    file: i64,
) -> Result<(), Error> {
    session
        .execute(
            &format!(
                "insert into {p}final (uid, file, {PLACE}) \
                 select uid, file, {PLACE} from measurement where file = $1"
            ),
            vec![file.into()],
        )
        .await?;
    session
        .script(&format!("create index {p}final_seq on {p}final (seq)"))
        .await?;
    know(session, dialect, &format!("{p}final")).await
}
