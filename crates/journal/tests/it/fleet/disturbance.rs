//! A worker that gets in the way of the others, by a plain connection beside the journal.

use std::time::Duration;

use cannery_journal::Date;
use cannery_runtime::{Clock, Rng};
use tokio_postgres::{Client, NoTls};

use super::event::{Event, Nuisance, What};
use super::{APPLICATION, JOURNAL};

const HELD_FOR: Duration = Duration::from_millis(300);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Goes on until the process ends; what fails is tried again.
pub(super) async fn run(url: String, clock: Clock, rng: Rng) {
    loop {
        if let Ok(client) = connect(&url).await {
            while !client.is_closed() {
                clock.sleep(rng.jitter(PAUSE_MAX)).await;
                let nuisance = choose(&rng);
                if disturb(&client, nuisance, &clock, &rng).await.is_ok() {
                    let at = Date::from(clock.now());
                    let what = What::Disturbed(nuisance);
                    Event { at, what }.tell();
                } else {
                    // In a transaction that failed nothing else can be done.
                    client.batch_execute("rollback").await.ok();
                }
            }
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends when the client is dropped or the server goes away.
    tokio::spawn(connection);
    let settings = "set application_name = 'disturbance'; set lock_timeout = '2s'";
    client.batch_execute(settings).await?;
    Ok(client)
}

fn choose(rng: &Rng) -> Nuisance {
    match rng.below(4) {
        0 => Nuisance::Tables,
        1 => Nuisance::Rows,
        2 => Nuisance::Cancel,
        _ => Nuisance::Terminate,
    }
}

async fn disturb(
    client: &Client,
    nuisance: Nuisance,
    clock: &Clock,
    rng: &Rng,
) -> Result<(), tokio_postgres::Error> {
    let id = "select id from cannery_journal.journals where name = $1";
    let id: i32 = client.query_one(id, &[&JOURNAL]).await?.get(0);
    let [waiting, processing] =
        ["waiting", "processing"].map(|table| format!("cannery_journal.j{id}_{table}"));
    match nuisance {
        Nuisance::Tables => {
            let tables = match rng.below(8) {
                0..4 => waiting,
                4..7 => processing,
                // Crosswise with whoever has locks already: a deadlock, which takes a second to be found.
                _ => format!("{waiting}, {processing}"),
            };
            hold(client, clock, &format!("lock table {tables} in share mode")).await
        }
        Nuisance::Rows => {
            let table = if rng.chance(0.5) { waiting } else { processing };
            let rows = format!("select from {table} order by random() limit 100 for update");
            hold(client, clock, &rows).await
        }
        Nuisance::Cancel => end_one(client, "pg_cancel_backend", "active").await,
        Nuisance::Terminate => {
            let state = ["active", "idle"][usize::from(rng.chance(0.5))];
            end_one(client, "pg_terminate_backend", state).await
        }
    }
}

async fn hold(client: &Client, clock: &Clock, lock: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(&format!("begin; {lock}")).await?;
    clock.sleep(HELD_FOR).await;
    client.batch_execute("rollback").await
}

/// Meets a connection of the engine, of whichever process.
async fn end_one(client: &Client, how: &str, state: &str) -> Result<(), tokio_postgres::Error> {
    let sql = format!(
        "select {how}(pid) from (select pid from pg_stat_activity \
         where application_name = '{APPLICATION}' and state = '{state}' \
         order by random() limit 1) one"
    );
    client.batch_execute(&sql).await
}
