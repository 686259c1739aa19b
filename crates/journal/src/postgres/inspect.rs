//! Looking without touching.

use std::collections::{BTreeMap, HashMap};

use super::Fault;
use super::journal::{PgJournal, View};
use super::marks::Position;
use super::pool::{LONG_LIMIT, Session, Step};
use super::row::{self, Place};
use super::tally;
use crate::data::Data;
use crate::date::Date;
use crate::entry::{Cursor, Entry, Page, Query, Status};
use crate::error::Error;
use crate::key::Key;
use crate::op::{Depth, Op, Stats};
use crate::priority::Priority;

/// How many entries one page may look at, as in the model.
const EXAMINED_MAX: usize = 10_000;

/// Several statements see one moment, and may read whole tables.
const BEGIN: &str = "begin isolation level repeatable read read only; \
    set local statement_timeout = '50s'; \
    set local enable_seqscan = on; set local enable_hashjoin = on; \
    set local enable_bitmapscan = on";

impl PgJournal {
    /// The entries of a key: processing, waiting, dead.
    pub(super) async fn get(&self, key: &Key) -> Result<Vec<Entry<Data>>, Fault> {
        let hash = row::hash(key);
        let bytes = key.as_str().as_bytes();
        let sql = self.view().sql.get();
        let mut session = self.session().await?;
        let rows = session
            .query(&sql, &[&self.shared.now(), &&hash[..], &bytes])
            .await?;
        let entry = |row| row::entry(row, 2, row::cell(row, 1)?);
        Ok(rows.iter().map(entry).collect::<Result<_, Error>>()?)
    }

    pub(super) async fn stats(&self) -> Result<Stats, Fault> {
        let view = self.view();
        let sql = StatsSql::new(&view);
        let mut session = self.session().await?;
        let waiting = session
            .begin(BEGIN, &sql.waiting, &[&self.shared.now()], LONG_LIMIT)
            .await?;
        let step = |sql| Step {
            sql,
            params: Vec::new(),
        };
        let rest = session
            .commit(&[
                step(&sql.processing),
                step(&sql.dead),
                step(&sql.counts),
                Step {
                    sql: &sql.expired,
                    params: vec![Box::new(self.shared.now())],
                },
            ])
            .await?;
        let mut stats = Stats {
            version: view.version,
            ..Stats::default()
        };
        let mut depths = BTreeMap::new();
        for row in &waiting {
            read_waiting(row, &mut stats, &mut depths)?;
        }
        for row in &rest[0] {
            depth_of(&mut depths, row::cell(row, 0)?)?.processing = count(row, 1)?;
            let start = Some(Date::from_millis(row::cell(row, 2)?));
            stats.oldest_lease = earliest(stats.oldest_lease, start);
        }
        if let Some(row) = rest[1].first() {
            stats.dead = count(row, 0)?;
        }
        if let Some(row) = rest[2].first() {
            stats.counts = tally::read(row, 0);
        }
        // What nobody has swept yet is gone all the same.
        if let Some(row) = rest[3].first() {
            stats.counts.expired += count(row, 0)?;
        }
        stats.depths = depths.into_values().collect();
        Ok(stats)
    }

    pub(super) async fn list(&self, query: &Query) -> Result<Page<Data>, Fault> {
        let view = self.view();
        let limit = query.limit.clamp(1, Query::LIMIT_MAX) as usize;
        let mut walk = Walk::new(limit);
        let mut session = self.session().await?;
        session.script(BEGIN).await?;
        for stage in query.stages() {
            let rows = self.stage(&mut session, &view, query, stage, &walk).await?;
            for row in &rows {
                if !walk.visit(stage, row)? {
                    break;
                }
            }
            if walk.full {
                break;
            }
        }
        let entries = self.fetch(&mut session, &view, &walk.chosen).await?;
        session.rollback().await;
        Ok(Page {
            entries,
            next: if walk.full { walk.next } else { None },
        })
    }

    /// The places of one status, after the cursor.
    async fn stage(
        &self,
        session: &mut Session,
        view: &View,
        query: &Query,
        stage: Status,
        walk: &Walk,
    ) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let all = query.prefix.is_empty() && query.priority.is_none();
        let needed = if all {
            walk.limit - walk.chosen.len() + 1
        } else {
            EXAMINED_MAX - walk.examined + 1
        };
        // Few different statements, because each is kept prepared.
        let rows_max = [11, 101, 1_001].into_iter().find(|max| needed <= *max);
        let sql = stage_sql(view, stage, rows_max.unwrap_or(EXAMINED_MAX + 1));
        let after = query.after.filter(|after| after.status == stage);
        let after_seq = after.map_or(-1, |after| i64::try_from(after.seq).unwrap_or(i64::MAX));
        let prefix = query.prefix.as_bytes();
        let priority = query.priority.map(|priority| i16::from(priority.0));
        if stage == Status::Waiting {
            let process = after.map_or(i64::MIN, |after| after.process.as_millis());
            let from = after.map_or(-1, |after| i16::from(after.priority.0));
            return session
                .within(
                    &sql,
                    &[
                        &self.shared.now(),
                        &after_seq,
                        &prefix,
                        &priority,
                        &from,
                        &process,
                    ],
                    LONG_LIMIT,
                )
                .await;
        }
        session
            .within(
                &sql,
                &[&self.shared.now(), &after_seq, &prefix, &priority],
                LONG_LIMIT,
            )
            .await
    }

    /// Whole entries, in the order of their places.
    async fn fetch(
        &self,
        session: &mut Session,
        view: &View,
        chosen: &[Chosen],
    ) -> Result<Vec<Entry<Data>>, Fault> {
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let of = |kind: i16| chosen.iter().filter(move |chosen| chosen.kind == kind);
        let counters: Vec<i64> = of(0).filter_map(|chosen| chosen.counter).collect();
        let priorities: Vec<i16> = of(1).map(|chosen| chosen.place.priority).collect();
        let dates: Vec<i64> = of(1).map(|chosen| chosen.place.position.process).collect();
        let seqs: Vec<i64> = of(1).map(|chosen| chosen.place.position.seq).collect();
        let dead: Vec<i64> = of(2).map(|chosen| chosen.place.position.seq).collect();
        let rows = session
            .within(
                &view.sql.fetch(),
                &[&counters, &priorities, &dates, &seqs, &dead],
                LONG_LIMIT,
            )
            .await?;
        let mut found = HashMap::new();
        for row in &rows {
            let key: (i16, i64) = (row::cell(row, 0)?, row::cell(row, 2)?);
            found.insert(key, row::entry(row, 2, row::cell(row, 1)?)?);
        }
        let entry = |chosen: &Chosen| found.remove(&(chosen.kind, chosen.place.position.seq));
        Ok(chosen.iter().filter_map(entry).collect())
    }
}

/// One entry of a page.
struct Chosen {
    /// 0 processing, 1 waiting, 2 dead.
    kind: i16,
    place: Place,
    counter: Option<i64>,
}

/// The way of a page through the places, as in the model.
struct Walk {
    limit: usize,
    examined: usize,
    bytes: usize,
    chosen: Vec<Chosen>,
    next: Option<Cursor>,
    full: bool,
}

impl Walk {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            examined: 0,
            bytes: 0,
            chosen: Vec::new(),
            next: None,
            full: false,
        }
    }

    /// Looks at the next place; false when the page is full before it.
    fn visit(&mut self, stage: Status, row: &tokio_postgres::Row) -> Result<bool, Error> {
        let wanted: bool = row::cell(row, 6)?;
        let bytes = usize::try_from(row::cell::<i32>(row, 5)?).unwrap_or(0);
        // Beyond the model: a page of large entries is short, so that it can be held in memory.
        let heavy = wanted && !self.chosen.is_empty() && self.bytes + bytes > Op::BYTES_MAX;
        if self.chosen.len() == self.limit || self.examined == EXAMINED_MAX || heavy {
            self.full = true;
            return Ok(false);
        }
        let place = Place {
            priority: row::cell(row, 1)?,
            position: Position {
                process: row::cell(row, 2)?,
                seq: row::cell(row, 3)?,
            },
        };
        self.examined += 1;
        self.next = Some(cursor(stage, &place));
        if wanted {
            self.bytes += bytes;
            self.chosen.push(Chosen {
                kind: row::cell(row, 0)?,
                place,
                counter: row::cell(row, 4)?,
            });
        }
        Ok(true)
    }
}

fn cursor(status: Status, place: &Place) -> Cursor {
    let seq = place.position.seq.cast_unsigned();
    match status {
        Status::Waiting => Cursor {
            status,
            priority: Priority(u8::try_from(place.priority).unwrap_or(u8::MAX)),
            process: Date::from_millis(place.position.process),
            seq,
        },
        Status::Processing | Status::Blocked | Status::Dead => Cursor {
            status,
            priority: Priority(0),
            process: Date::default(),
            seq,
        },
    }
}

/// The places of one status: kind, priority, date, number, counter, bytes, whether it is wanted.
fn stage_sql(view: &View, stage: Status, rows_max: usize) -> String {
    let sql = &view.sql;
    let now =
        "coalesce($1::bigint, floor(extract(epoch from statement_timestamp()) * 1000)::bigint)";
    let wanted = "(substring(w.key from 1 for octet_length($3::bytea)) = $3::bytea \
        and w.priority = coalesce($4::smallint, w.priority))";
    let columns = |kind: u8, counter: &str| {
        format!(
            "select {kind}::smallint, w.priority, w.process_date, w.seq, {counter}, \
             octet_length(w.data), {wanted}"
        )
    };
    let (waiting, blocked) = (&sql.waiting, sql.blocked());
    match stage {
        Status::Processing => format!(
            "{} from {} w where w.seq > $2::bigint and $1::bigint is not distinct from $1 \
             order by w.seq limit {rows_max}",
            columns(0, "w.counter"),
            sql.processing
        ),
        Status::Waiting => format!(
            "{} from {waiting} w \
             where (w.priority, w.process_date, w.seq) > ($5::smallint, $6::bigint, $2::bigint) \
             and w.priority = coalesce($4::smallint, w.priority) \
             and w.expiration >= {now} and not {blocked} \
             order by w.priority, w.process_date, w.seq limit {rows_max}",
            columns(1, "null::bigint")
        ),
        Status::Blocked => format!(
            "{} from {waiting} w where w.seq > $2::bigint and w.expiration >= {now} and {blocked} \
             order by w.seq limit {rows_max}",
            columns(1, "null::bigint")
        ),
        Status::Dead => format!(
            "{} from {} w where w.seq > $2::bigint and $1::bigint is not distinct from $1 \
             order by w.seq limit {rows_max}",
            columns(2, "null::bigint"),
            sql.dead
        ),
    }
}

struct StatsSql {
    waiting: String,
    processing: String,
    dead: String,
    counts: String,
    expired: String,
}

impl StatsSql {
    fn new(view: &View) -> Self {
        let sql = &view.sql;
        let now =
            "coalesce($1::bigint, floor(extract(epoch from statement_timestamp()) * 1000)::bigint)";
        let (blocked, join) = if sql.merge {
            (
                "q.key_hash is not null",
                format!("left join {} q on q.key_hash = w.key_hash", sql.processing),
            )
        } else {
            ("false", String::new())
        };
        Self {
            waiting: format!(
                "select w.priority, count(*) filter (where not {blocked}), \
                    count(*) filter (where not {blocked} and w.process_date <= {now}), \
                    count(*) filter (where {blocked}), \
                    min(w.process_date) filter (where not {blocked} and w.process_date <= {now}), \
                    min(w.process_date) filter (where not {blocked} and w.process_date > {now}) \
                 from {} w {join} where w.expiration >= {now} group by w.priority",
                sql.waiting
            ),
            processing: format!(
                "select priority, count(*), min(start) from {} group by priority",
                sql.processing
            ),
            dead: format!("select count(*) from {}", sql.dead),
            counts: format!("select {} from {}", tally::sums(), sql.tally),
            expired: format!(
                "select count(*) from {} \
                 where expiration < 9223372036854775807 and expiration < {now}",
                sql.waiting
            ),
        }
    }
}

fn read_waiting(
    row: &tokio_postgres::Row,
    stats: &mut Stats,
    depths: &mut BTreeMap<i16, Depth>,
) -> Result<(), Error> {
    let depth = depth_of(depths, row::cell(row, 0)?)?;
    depth.waiting = count(row, 1)?;
    depth.due = count(row, 2)?;
    depth.blocked = count(row, 3)?;
    let date = |column| -> Result<Option<Date>, Error> {
        Ok(row::cell::<Option<i64>>(row, column)?.map(Date::from_millis))
    };
    stats.oldest_due = earliest(stats.oldest_due, date(4)?);
    stats.next_due = earliest(stats.next_due, date(5)?);
    Ok(())
}

fn count(row: &tokio_postgres::Row, column: usize) -> Result<u64, Error> {
    Ok(u64::try_from(row::cell::<i64>(row, column)?).unwrap_or(0))
}

fn earliest(one: Option<Date>, other: Option<Date>) -> Option<Date> {
    [one, other].into_iter().flatten().min()
}

fn depth_of(depths: &mut BTreeMap<i16, Depth>, priority: i16) -> Result<&mut Depth, Error> {
    let shown = u8::try_from(priority)
        .map_err(|_| row::corrupt(format!("the stored priority {priority} cannot be")))?;
    Ok(depths.entry(priority).or_insert(Depth {
        priority: Priority(shown),
        waiting: 0,
        due: 0,
        blocked: 0,
        processing: 0,
    }))
}
