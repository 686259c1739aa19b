//! A day of `web_connectivity` measurements through all stages, beside `tar | lz4 -5` and ratarmount.
//!
//! Every part runs in a process of its own, so that its CPU time and its memory are its own. Everything is on the disk of
//! cargo's output. `CANNERY_BENCH_GB=10` takes 10 GB of text through it after 0.1 and 1; `CANNERY_BENCH_QUICK=1` shows that the bench works, not
//! how fast anything is.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a bench prints its numbers, and has none to give when it meets an error; its files live as long as it does"
)]

mod chosen;
mod crowd;
mod floor;
mod parts;
mod reports;
mod settings;
mod table;

use std::path::Path;

use cannery_testkit::postgres::Postgres;
use tempfile::TempDir;

use chosen::Chosen;
use parts::Part;
use table::{Goal, Table};

const GB: u64 = 1_000_000_000;

/// So many measurements are in the catalog when one of them is read.
const MEASUREMENTS: u64 = 1_000_000;

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let [part, folder, address] = words[..] {
        parts::run(part, Path::new(folder), address);
        return;
    }
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let sizes: Vec<u64> = match std::env::var("CANNERY_BENCH_GB") {
        Ok(gigabytes) => {
            let most = gigabytes.parse::<u64>().unwrap() * GB;
            let below = [GB / 10, GB].into_iter().filter(|size| *size < most);
            below.chain([most]).collect()
        }
        Err(_) if quick => vec![10_000_000, 20_000_000],
        Err(_) => vec![GB / 10, GB],
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut table = Table::default();
    for bytes in sizes {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = TempDir::with_prefix_in("bench-archive-", place).unwrap();
        let bytes = reports::write(folder.path(), bytes);
        // Not in a folder of root's own: the server's user must get there.
        let server = runtime.block_on(Postgres::durable(place, &[])).unwrap();
        day(folder.path(), bytes, &server.url(), &mut table);
        // About one of them, whatever is asked for beside it.
        if (GB / 2..2 * GB).contains(&bytes) || quick {
            let crowd = if quick { 10_000 } else { MEASUREMENTS };
            reads(folder.path(), crowd, &mut table);
        }
    }
    table.growth();
}

/// Every stage, with what it is compared to just before it.
fn day(folder: &Path, bytes: u64, postgres: &str, table: &mut Table) {
    println!("\n{:.1} GB of web_connectivity reports", bytes as f64 / 1e9);
    table.head();
    let floor = floor::tar_lz4(folder);
    table.floor("tar c | lz4 -5", bytes, floor);
    let can = table.part(Part::Can.measure(folder, ""), bytes);
    can.against(
        "wall speed",
        floor.seconds / can.seconds,
        Goal::AtLeast(1.6),
    );
    can.against(
        "CPU",
        can.cpu_seconds / floor.cpu_seconds,
        Goal::AtMost(1.2),
    );
    can.against("peak RSS, MB", can.peak_mb(), Goal::Below(256.0));

    let autoclave = table.part(Part::Autoclave.measure(folder, ""), bytes);
    let compress = table.part(Part::Compress.measure(folder, ""), bytes);
    let before = bytes as f64 / 1e6 / (autoclave.cpu_seconds - compress.cpu_seconds);
    autoclave.against("MB/CPU s before compression", before, Goal::AtLeast(150.0));
    autoclave.against(
        "MB/CPU s in all",
        autoclave.mb_per_cpu(bytes),
        Goal::AtLeast(50.0),
    );

    let catalog = catalog(folder);
    for address in [postgres, &catalog] {
        let spun = table.part(Part::Centrifuge.measure(folder, address), bytes);
        spun.against(
            "MB/CPU s of ours",
            spun.mb_per_cpu(bytes),
            Goal::AtLeast(60.0),
        );
    }
}

/// One measurement among many.
fn reads(folder: &Path, crowd: u64, table: &mut Table) {
    println!("\none measurement of {crowd}");
    let catalog = catalog(folder);
    crowd::fill(&catalog, crowd);
    table.head();
    let warm = table.part(Part::Get.measure(folder, &catalog), 0);
    warm.against("p50, ms", warm.p50_ms(), Goal::Below(1.0));
    let cold = table.part(Part::GetCold.measure(folder, &catalog), 0);
    match floor::ratarmount(folder, &Chosen::read(folder)) {
        Ok(seconds) => {
            println!("{:<24} {:>9.3}", "ratarmount, cold", seconds);
            cold.against(
                "of ratarmount's speed, both cold",
                seconds / cold.seconds,
                Goal::AtLeast(10.0),
            );
        }
        Err(why) => println!("ratarmount, cold: cannot read it: {why}"),
    }
}

fn catalog(folder: &Path) -> String {
    folder.join("catalog.sqlite").display().to_string()
}
