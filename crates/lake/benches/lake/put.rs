//! Creating many small objects in one folder.

use bytes::Bytes;
use cannery_lake::{Lake, PutNew};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore as _, PutMode, PutPayload};

use crate::bench::{Bench, KIB, fresh_name, key};
use crate::plain;
use crate::row::Row;

const UNIT: &str = "puts/s";

pub(crate) fn one_client(bench: &Bench) -> Row {
    let name = "put_new 4 KiB, 1 client / write, fsync, rename, fsync folder";
    beside_plain(bench, name, 1)
}

pub(crate) fn sixteen_clients(bench: &Bench) -> Row {
    let name = "put_new 4 KiB, 16 clients / the same sequence in 16 threads";
    beside_plain(bench, name, 16)
}

pub(crate) fn beside_durable_peer(bench: &Bench) -> Row {
    let name = "put_new 4 KiB, 1 client / object_store LocalFileSystem with_fsync";
    beside_peer(bench, name, true)
}

pub(crate) fn beside_undurable_peer(bench: &Bench) -> Row {
    let name = "put_new 4 KiB, 1 client / object_store LocalFileSystem, NOT DURABLE";
    beside_peer(bench, name, false)
}

fn beside_plain(bench: &Bench, name: &str, clients: u64) -> Row {
    let content = Bytes::from(bench.content(4 * KIB));
    let lake = bench.lake(&bench.folder());
    let folder = bench.folder();
    let puts = bench.effort.puts;
    let client = || {
        for _ in 0..puts / clients {
            plain::put(&folder, &fresh_name(), &content);
        }
    };
    let reference = || {
        bench.rate(puts, || {
            std::thread::scope(|scope| {
                for _ in 0..clients {
                    scope.spawn(client);
                }
            });
        })
    };
    let ours = || lake_round(bench, &lake, &content, clients);
    Row::measure(name, UNIT, bench.effort.rounds, ours, reference)
}

fn beside_peer(bench: &Bench, name: &str, fsync: bool) -> Row {
    let content = Bytes::from(bench.content(4 * KIB));
    let lake = bench.lake(&bench.folder());
    let peer = LocalFileSystem::new_with_prefix(bench.folder()).unwrap();
    let peer = peer.with_fsync(fsync);
    let reference = || {
        bench.rate(bench.effort.puts, || {
            let client = peer_client(peer.clone(), content.clone(), bench.effort.puts);
            bench.runtime.block_on(bench.runtime.spawn(client)).unwrap();
        })
    };
    let ours = || lake_round(bench, &lake, &content, 1);
    Row::measure(name, UNIT, bench.effort.rounds, ours, reference)
}

fn lake_round(bench: &Bench, lake: &Lake, content: &Bytes, clients: u64) -> f64 {
    let puts = bench.effort.puts;
    let client = || lake_client(lake.clone(), content.clone(), puts / clients);
    bench.rate(puts, || {
        let clients: Vec<_> = (0..clients)
            .map(|_| bench.runtime.spawn(client()))
            .collect();
        for client in clients {
            bench.runtime.block_on(client).unwrap();
        }
    })
}

async fn lake_client(lake: Lake, content: Bytes, puts: u64) {
    for _ in 0..puts {
        let key = key(&fresh_name());
        let put = lake.put_new(&key, content.clone()).await.unwrap();
        assert_eq!(put, PutNew::Created);
    }
}

async fn peer_client(peer: LocalFileSystem, content: Bytes, puts: u64) {
    for _ in 0..puts {
        let path = Path::from(key(&fresh_name()).as_str());
        let payload = PutPayload::from_bytes(content.clone());
        peer.put_opts(&path, payload, PutMode::Create.into())
            .await
            .unwrap();
    }
}
