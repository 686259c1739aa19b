//! What the tables keep, and how much of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_journal::{Data, ErrorKind, Journal, NewEntry, Token};
use cannery_testkit::postgres::Postgres;
use tokio_postgres::Client;

use super::{fresh, open_real, raw, server, tables};
use crate::subject::{data_of, entry, json, key, token};

#[tokio::test]
async fn two_keys_under_one_hash_are_refused() {
    let server = server().await;
    let name = fresh();
    let (_database, work) = open_real(&server.url(), &name).await;
    work.add_one(entry("a")).await.unwrap();
    let client = raw(&server.url()).await;
    let tables = tables(&client, &name).await;
    let forge = format!("update {tables}_waiting set key = 'forged'");
    client.execute(&forge, &[]).await.unwrap();
    let single = work.add_one(NewEntry::new("a", json("new"))).await;
    let batch = vec![
        NewEntry::new("b", json("b")),
        NewEntry::new("a", json("new")),
    ];
    for refused in [single.map(drop), work.add(batch).await.map(drop)] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
        assert!(error.message.contains("forged"), "{error}");
    }
    assert_eq!(work.get(key("b")).await.unwrap(), []);
    let forged = work.get(key("forged")).await.unwrap();
    assert_eq!(forged, [], "it is found by its hash only");
    let claimed = work.claim("w", 9).await.unwrap().entries;
    assert_eq!(claimed.len(), 1);
    assert_eq!(data_of(&claimed[0]), "a");
    // The same where an entry comes back to one that waits.
    let held = token(&claimed[0]);
    work.add_one(NewEntry::new("forged", json("c")))
        .await
        .unwrap();
    let update = format!(
        "update {tables}_waiting set key_hash = (select key_hash from {tables}_processing), key = 'x'"
    );
    client.execute(&update, &[]).await.unwrap();
    let error = work.release(held, None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    work.done(held).await.unwrap();
}

async fn bytes(client: &Client, tables: &str) -> i64 {
    let sql = format!(
        "select pg_total_relation_size('{tables}_waiting') \
         + pg_total_relation_size('{tables}_processing')"
    );
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Adds `count` entries and has them done, some of them by others.
async fn work_through(work: Journal, who: usize, count: usize, done: Arc<AtomicU64>) {
    let data = Data::from_value(&"x".repeat(1_000)).unwrap();
    for n in 0..count {
        let entries = (0..10).map(|m| NewEntry::new(format!("{who}-{n}-{m}"), data.clone()));
        work.add(entries.collect()).await.unwrap();
        end_some(&work, &done).await;
    }
}

async fn end_some(work: &Journal, done: &AtomicU64) -> usize {
    let claimed = work.claim("w", 20).await.unwrap().entries;
    let tokens: Vec<Token> = claimed.iter().map(token).collect();
    for token in &tokens {
        work.done(*token).await.unwrap();
    }
    done.fetch_add(tokens.len() as u64, Ordering::SeqCst);
    tokens.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_empty_journal_gives_its_space_back_and_loses_nothing() {
    let server = server().await;
    let name = fresh();
    let (_database, work) = open_real(&server.url(), &name).await;
    let client = raw(&server.url()).await;
    let tables = tables(&client, &name).await;
    let file = async || -> u32 {
        let sql = format!("select pg_relation_filenode('{tables}_waiting')");
        client.query_one(&sql, &[]).await.unwrap().get(0)
    };
    let done = Arc::new(AtomicU64::new(0));
    let mut truncated = 0;
    // Between the bursts it is empty for moments only, which is when it may be truncated.
    for round in 0..4 {
        let before = file().await;
        let workers: Vec<_> = (0..3)
            .map(|who| {
                let part = work_through(work.clone(), round * 3 + who, 40, Arc::clone(&done));
                tokio::spawn(part)
            })
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            work.sweep().await.unwrap();
        }
        for worker in workers {
            worker.await.unwrap();
        }
        while end_some(&work, &done).await > 0 {}
        let stats = work.stats().await.unwrap();
        assert_eq!((stats.waiting(), stats.processing()), (0, 0));
        work.sweep().await.unwrap();
        truncated += u32::from(file().await != before);
    }
    assert_eq!(done.load(Ordering::SeqCst), 4 * 3 * 40 * 10);
    assert!(truncated > 0);
    assert!(bytes(&client, &tables).await < 256 * 1024);
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.adds, counts.done), (4_800, 4_800), "{counts:?}");
}

/// Blocks that one claim looks at, on average, in `rounds` rounds of adding, claiming and ending ten entries.
async fn blocks_a_claim(work: &Journal, client: &Client, from: usize, rounds: usize) -> f64 {
    let reset = "select pg_stat_statements_reset()";
    client.query_one(reset, &[]).await.unwrap();
    for n in from..from + rounds {
        let entries = (0..10).map(|m| entry(&format!("{n}-{m}")));
        work.add(entries.collect()).await.unwrap();
        let claimed = work.claim("w", 10).await.unwrap().entries;
        assert_eq!(claimed.len(), 10);
        let tokens: Vec<Token> = claimed.iter().map(token).collect();
        let op = cannery_journal::Op::Done(tokens);
        work.end_all(op).await.unwrap();
    }
    let sql = "select sum(shared_blks_hit + shared_blks_read)::float8 / sum(calls)::float8 \
        from pg_stat_statements where query like '%skip locked%taken as%'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn an_old_transaction_does_not_slow_claims_down() {
    let settings = [
        ("fsync", "off"),
        ("shared_preload_libraries", "pg_stat_statements"),
    ];
    let server = Postgres::start_with(&settings).await.unwrap();
    let name = fresh();
    let (_database, work) = open_real(&server.url(), &name).await;
    let client = raw(&server.url()).await;
    client
        .batch_execute("create extension pg_stat_statements")
        .await
        .unwrap();
    let old = raw(&server.url()).await;
    old.batch_execute("begin isolation level repeatable read; select count(*) from pg_class")
        .await
        .unwrap();
    let early = blocks_a_claim(&work, &client, 0, 30).await;
    blocks_a_claim(&work, &client, 30, 200).await;
    let late = blocks_a_claim(&work, &client, 230, 30).await;
    // What died cannot be removed: 2,300 versions lie before the mark.
    let tables = tables(&client, &name).await;
    let vacuum = format!("vacuum {tables}_waiting");
    client.batch_execute(&vacuum).await.unwrap();
    let dead = format!("select pg_relation_size('{tables}_waiting')");
    let kept: i64 = client.query_one(&dead, &[]).await.unwrap().get(0);
    assert!(kept > 30 * 8_192, "the old transaction holds nothing back");
    assert!(late < early * 1.5 + 20.0, "{early} blocks, then {late}");
    old.batch_execute("commit").await.unwrap();
}
