//! Cannery as a library: a feed is collected by two replicas, cleaned up, consolidated, retrieved, audited and deleted, by the
//! crates alone.
//!
//! `cargo run -p cannery-pipeline --example feeds -- URL FOLDER` asks the URL every 200 ms for two seconds, and keeps everything in
//! the folder. The tasks themselves are in `tour.rs`.
#![allow(
    clippy::print_stdout,
    reason = "an example has a person in front of it"
)]

mod tour;

use std::path::Path;
use std::time::Duration;

use cannery_runtime::Clock;
use tour::{Failure, Tour};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, folder] = &arguments[..] else {
        return Err("usage: feeds URL FOLDER".into());
    };
    let clock = Clock::real();
    let tour = Tour::begin(Path::new(folder)).await?;
    for replica in ["one", "two"] {
        let until = clock.sleep(Duration::from_secs(2));
        let stored = tour.collect(replica, url, until).await?;
        println!("replica {replica} stored {stored} bodies");
        tour.clean(replica).await?;
    }
    for report in tour.consolidate().await? {
        println!("{report}");
    }
    let retrieved = tour.retrieve(&Path::new(folder).join("retrieved")).await?;
    println!("retrieved {} files", retrieved.files);
    let findings = tour.audit().await?;
    println!("the audit found {} things to mend", findings.len());
    println!("deleted {} hours", tour.delete().await?);
    Ok(())
}
