//! The very statements of the engine on PostgreSQL, driven by PostgreSQL's own load generator: what is lost between is ours.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use cannery_journal::{Op, Token};
use cannery_testkit::postgres::Postgres;

use crate::bench::Bench;
use crate::ours::{Ours, tokens};
use crate::server::Sql;
use crate::work::{Contestant, Kind, Side, Work};

const BATCH: u32 = 100;

/// How the sessions of the engine are set up, as far as it matters to the speed.
const OPTIONS: &str = "-c search_path=cannery_journal,pg_catalog \
    -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off \
    -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off";

/// The values that go from one statement of a client to the next, as they are before the first.
const START: [(&str, &str); 5] = [
    ("counters", "{}"),
    ("incarnations", "{}"),
    ("nonces", "{}"),
    ("date", "{0}"),
    ("seq", "{0}"),
];

pub(crate) struct Pgbench<'a>(pub(crate) &'a Bench);

impl Contestant for Pgbench<'_> {
    fn name(&self) -> &'static str {
        "pgbench"
    }

    fn can(&self, work: Work) -> bool {
        work.drains() && work.batch == BATCH
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let bench = self.0;
        let journal = bench.server().journal(bench);
        let sql = Sql::connect(&bench.runtime, bench.server().url());
        let id: i32 = sql.rows(&format!(
            "select id from cannery_journal.journals where name = '{}'",
            journal.name()
        ))[0]
            .get(0);
        Box::new(Driven {
            bench,
            ours: Ours::new(bench, journal),
            sql,
            id,
            script: None,
        })
    }

    fn pace(&self, _work: Work) -> u64 {
        80_000
    }
}

struct Driven<'a> {
    bench: &'a Bench,
    ours: Ours<'a>,
    sql: Sql<'a>,
    id: i32,
    script: Option<PathBuf>,
}

impl Side for Driven<'_> {
    fn fill(&mut self, count: u64) {
        self.ours.fill(count);
    }

    fn rate(&mut self, work: Work, _turn: Duration) -> f64 {
        if self.script.is_none() {
            let path = self.bench.folder().join("script.sql");
            let script = File::options().create_new(true).write(true).open(&path);
            script
                .unwrap()
                .write_all(self.script(work.kind).as_bytes())
                .unwrap();
            self.script = Some(path);
        }
        let rows = self.rows();
        // Half of what there is takes about a turn, and no client looks for rows in vain.
        let wanted = self.waiting() / 2 / u64::from(BATCH) / u64::from(work.clients);
        let transactions = wanted.max(1);
        let tps = self.drive(work.clients, transactions);
        let done = rows - self.rows();
        let seconds = (transactions * u64::from(work.clients)) as f64 / tps;
        done as f64 / seconds
    }

    fn waiting(&self) -> u64 {
        self.count("waiting")
    }
}

impl Driven<'_> {
    fn count(&self, table: &str) -> u64 {
        let id = self.id;
        let statement = format!("select count(*) from cannery_journal.j{id}_{table}");
        self.sql.rows(&statement)[0]
            .get::<_, i64>(0)
            .cast_unsigned()
    }

    /// What is not done.
    fn rows(&self) -> u64 {
        self.count("waiting") + self.count("processing")
    }

    /// Runs the script so many times in each client; gives back the transactions a second.
    fn drive(&self, clients: u32, transactions: u64) -> f64 {
        let mut pgbench = Command::new(Postgres::program("pgbench").unwrap());
        pgbench.args(["--no-vacuum", "--protocol=prepared", "--jobs=1"]);
        pgbench.args([
            format!("--client={clients}"),
            format!("--transactions={transactions}"),
        ]);
        for (name, value) in START {
            pgbench.arg(format!("--define={name}={value}"));
        }
        let nonces = vec!["7"; BATCH as usize].join(",");
        pgbench.arg(format!("--define=fresh_nonces={{{nonces}}}"));
        pgbench
            .arg("--file")
            .arg(self.script.as_ref().expect("it was written before"));
        pgbench.arg(self.bench.server().url());
        let output = pgbench.env("PGOPTIONS", OPTIONS).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{errors}");
        let line = text.lines().find_map(|line| line.strip_prefix("tps = "));
        let tps = line.and_then(|line| line.split(' ').next());
        tps.unwrap_or_else(|| panic!("{text}{errors}"))
            .parse()
            .unwrap()
    }
}

/// The script: the engine does each statement once, and the server shows what it got.
impl Driven<'_> {
    fn script(&self, kind: Kind) -> String {
        if kind == Kind::DoneAndClaim {
            self.claim(Some(Vec::new()));
            return carrying(&self.seen("_counter')"));
        }
        let claimed = self.claim(None);
        let claim = carrying(&self.seen("_counter')"));
        self.done(claimed);
        let tokens = ["null", ":counters", ":incarnations", ":nonces"];
        format!("{claim}{};\n", filled(&self.seen("(done)"), &tokens))
    }

    /// Claims a batch, after ending some where they are given.
    fn claim(&self, done: Option<Vec<Token>>) -> Vec<Token> {
        let journal = self.ours.journal();
        let claimed = self.bench.runtime.block_on(async {
            match done {
                Some(done) => {
                    journal
                        .done_and_claim(done, "bench", BATCH)
                        .await
                        .unwrap()
                        .1
                }
                None => journal.claim("bench", BATCH).await.unwrap(),
            }
        });
        tokens(&claimed)
    }

    fn done(&self, held: Vec<Token>) {
        let ending = self.ours.journal().end_all(Op::Done(held));
        self.bench.runtime.block_on(ending).unwrap();
    }

    /// The last statement with this text that the engine sent to this journal.
    fn seen(&self, text: &str) -> String {
        let id = self.id;
        let text = text.replace('\'', "''");
        let rows = self.sql.rows(&format!(
            "select query from pg_stat_activity where datname = current_database() \
             and pid <> pg_backend_pid() and query ~ 'j{id}_' and strpos(query, '{text}') > 0 \
             order by query_start desc limit 1"
        ));
        let row = rows.first().expect("the engine made the statement");
        row.get(0)
    }
}

/// A claim as a line of the script whose answer feeds the next statements: the same, with its answer gathered into one row.
fn carrying(claim: &str) -> String {
    let values = [
        "null",
        "'{20}'",
        ":date",
        ":seq",
        "7",
        ":fresh_nonces",
        "'{bench}'",
        ":counters",
        ":incarnations",
        ":nonces",
    ];
    let answer = "select 0::smallint as kind";
    let (work, rest) = claim.split_once(answer).expect("the answer begins so");
    let columns: Vec<String> = (1..=20).map(|column| format!("c{column}")).collect();
    let columns = columns.join(", ");
    let gather = |name: &str, column: u8| {
        format!("coalesce(array_agg(c{column}) filter (where kind = 1), '{{}}')::text as {name}")
    };
    let ahead = |name: &str, column: u8| {
        format!("'{{' || coalesce(min(c{column}) filter (where kind = 4), 0) || '}}' as {name}")
    };
    let script = format!(
        "{work}, answer(kind, {columns}) as ({answer}{rest}) select {}, {}, {}, {}, {}, \
            sum(octet_length(c20)) as bytes from answer \\gset\n",
        gather("counters", 13),
        gather("incarnations", 14),
        gather("nonces", 15),
        ahead("date", 4),
        ahead("seq", 1)
    );
    filled(&script, &values)
}

/// A statement with its parameters written out.
fn filled(statement: &str, values: &[&str]) -> String {
    let mut parts = statement.split('$');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|it: char| !it.is_ascii_digit())
            .unwrap_or(part.len());
        let number: usize = part[..end].parse().expect("a dollar begins a parameter");
        filled.push_str(values[number - 1]);
        filled.push_str(&part[end..]);
    }
    filled
}
