//! How fast the objects of users are served and stored by the real program, beside nginx with the same bytes in files, and beside what the
//! disk allows.
//!
//! Ours and the reference are measured in the same run, in turns. Rates: higher is better, and a ratio of 1 means as fast as the
//! reference. The client shares the machine with both. `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that meets an error has no numbers to give"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the reference is the plain call itself"
)]

mod client;
mod cores;
#[path = "../../../lake/benches/lake/row.rs"]
mod row;
mod servers;
mod soak;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use client::Connection;
use cores::SeparateCores;
use row::{Row, Table};
use servers::{Servers, resident_bytes};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Objects that are read in turns, so that not one of them alone is in some cache.
const SMALL_OBJECTS: usize = 100;

struct Effort {
    rounds: usize,
    gets: usize,
    puts: usize,
    large: usize,
    large_gets: usize,
    /// Objects that are each read once after the caches of the disk were emptied.
    cold: usize,
    soak: Duration,
}

fn main() {
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let effort = match quick {
        true => Effort {
            rounds: 1,
            gets: 1_000,
            puts: 100,
            large: 80 * MIB,
            large_gets: 2,
            cold: 100,
            soak: Duration::from_secs(12),
        },
        false => Effort {
            rounds: 3,
            gets: 40_000,
            puts: 20_000,
            large: 256 * MIB,
            large_gets: 40,
            cold: 2_000,
            soak: Duration::from_secs(600),
        },
    };
    let servers = Servers::start();
    for number in 0..SMALL_OBJECTS {
        servers.store(&format!("small{number}"), &content(10 * KIB, number));
    }
    servers.store("large", &content(effort.large, 0));
    let mut table = Table::begin();
    table.add(small(&servers, &effort));
    table.add(large(&servers, &effort));
    table.add(put(&servers, &effort));
    table.add(cold(&servers, &effort));
    table.end();
    println!(
        "memory of the server: {} MiB",
        resident_bytes(servers.ours.pid()) / MIB as u64
    );
    drop(servers);
    let seconds = std::env::var("CANNERY_BENCH_SECONDS").map(|seconds| seconds.parse().unwrap());
    soak::run(seconds.map_or(effort.soak, Duration::from_secs));
}

/// Bytes that do not compress; another beginning for each number.
fn content(bytes: usize, number: usize) -> Vec<u8> {
    let mut state = number as u64 + 0x9e37_79b9_7f4a_7c15;
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        content.extend_from_slice(&state.to_le_bytes());
    }
    content.truncate(bytes);
    content
}

/// `count` by the seconds that this takes on so many threads, each of which does its share.
fn rate(threads: usize, count: usize, work: impl Fn(usize, usize) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread, count / threads));
        }
    });
    count as f64 / start.elapsed().as_secs_f64()
}

fn small(servers: &Servers, effort: &Effort) -> Row {
    let get = |address: &str, prefix: &str| {
        rate(64, effort.gets, |thread, share| {
            let mut connection = Connection::open(address);
            for number in 0..share {
                let name = format!("{prefix}small{}", (thread * 7 + number) % SMALL_OBJECTS);
                assert_eq!(connection.get(&name), 10 * KIB as u64);
            }
        })
    };
    Row::measure(
        "GET of 10 KiB objects, 64 connections / nginx (goal: 0.4)",
        "per second",
        effort.rounds,
        || get(&servers.ours.address, "/local/public/"),
        || get(&servers.nginx, "/"),
    )
}

/// Every object once, after the system has forgotten what it had read of the disk. What the program keeps in its memory stays.
fn cold(servers: &Servers, effort: &Effort) -> Row {
    for number in 0..effort.cold {
        servers.store(&format!("cold{number}"), &content(10 * KIB, number));
    }
    let get = |address: &str, prefix: &str| {
        rustix::fs::sync();
        std::fs::write("/proc/sys/vm/drop_caches", "3")
            .expect("only root can empty the caches of the disk");
        rate(64, effort.cold, |thread, share| {
            let mut connection = Connection::open(address);
            for number in 0..share {
                let name = format!("{prefix}cold{}", thread * share + number);
                assert_eq!(connection.get(&name), 10 * KIB as u64);
            }
        })
    };
    Row::measure(
        "the same, from a disk whose caches are empty / nginx",
        "per second",
        effort.rounds,
        || get(&servers.ours.address, "/local/public/"),
        || get(&servers.nginx, "/"),
    )
}

fn large(servers: &Servers, effort: &Effort) -> Row {
    // Several times: once is over so soon that it depends on where the system lets the two run.
    let get = |address: &str, path: &str| {
        let mib = effort.large * effort.large_gets / MIB;
        rate(1, mib, |_, _| {
            let _separate = SeparateCores::new(&servers.pids());
            let mut connection = Connection::open(address);
            for _ in 0..effort.large_gets {
                assert_eq!(connection.get(path), effort.large as u64);
            }
        })
    };
    Row::measure(
        "GET of 256 MiB, one connection, client and server on a core each / nginx (goal: 0.8)",
        "MiB per second",
        effort.rounds,
        || get(&servers.ours.address, "/local/public/large"),
        || get(&servers.nginx, "/large"),
    )
}

fn put(servers: &Servers, effort: &Effort) -> Row {
    let body = content(4 * KIB, 0);
    let round = std::sync::atomic::AtomicUsize::new(0);
    let next = || round.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let ours = || {
        let round = next();
        rate(16, effort.puts, |thread, share| {
            let mut connection = Connection::open(&servers.ours.address);
            for number in 0..share {
                let path = format!("/local/stor/put{round}-{thread}-{number}");
                let status = connection.send("PUT", &path, &servers.ours.token, &body);
                assert_eq!(status, 204, "{path}");
            }
        })
    };
    let reference = || {
        let folder = servers.folder.path().join(format!("plain{}", next()));
        std::fs::create_dir(&folder).unwrap();
        rate(16, effort.puts, |thread, share| {
            for number in 0..share {
                write_durably(&folder, &format!("{thread}-{number}"), &body);
            }
        })
    };
    Row::measure(
        "PUT of 4 KiB objects, 16 clients / write, fsync, rename, fsync by 16 threads (goal: 0.4)",
        "per second",
        effort.rounds,
        ours,
        reference,
    )
}

fn write_durably(folder: &Path, name: &str, body: &[u8]) {
    let (temp, path) = (folder.join(format!("{name}.new")), folder.join(name));
    let mut file = std::fs::File::create(&temp).unwrap();
    file.write_all(body).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(&temp, &path).unwrap();
    std::fs::File::open(folder).unwrap().sync_all().unwrap();
}
