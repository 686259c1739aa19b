//! How a part of the product adds its section: implement [`Section`], pass it to the shell, report to [`Readiness`].
//!
//! `cargo run -p cannery-serve --example shell` serves made-up data on the address in its first argument
//! (default 127.0.0.1:8420); with a second argument, everything is well.
#![allow(
    clippy::print_stdout,
    reason = "an example has a person in front of it"
)]

use std::error::Error;
use std::f64::consts::TAU;
use std::sync::Arc;
use std::time::Duration;

use cannery_runtime::{Clock, Tasks};
use cannery_serve::{Audience, Card, Check, Identity, NextStep, Readiness, Section, Shell, State};
use futures::future::BoxFuture;
use maud::{Markup, html};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

struct Spool {
    all_well: bool,
}

impl Section for Spool {
    fn slug(&self) -> &str {
        "spool"
    }

    fn title(&self) -> &str {
        "Spool"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        let quarantine = if self.all_well {
            Card::new("Quarantine", State::Idle)
                .value("0", "files")
                .detail("Checked", "12 s ago")
        } else {
            Card::new("Quarantine", State::Warn)
                .value("3", "files")
                .note("3 files hold no JSON; run `cannery quarantine ls`")
                .detail("Newest", "ndt7 · 14 min ago")
        };
        let cards = vec![
            Card::new("Shipped", State::Good)
                .value("184,209", "records today")
                .detail("Bundles", "1,412")
                .detail("Oldest unshipped", "4 s")
                .series("records per minute, last two hours", wave(120, 1_400.0)),
            Card::new("Waiting", State::Good)
                .value("6.2", "MiB on disk")
                .detail("Files", "318")
                .detail("Limit", "2 GiB")
                .series("MiB waiting, last two hours", wave(90, 6.0)),
            quarantine,
        ];
        Box::pin(async { cards })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(async {
            html! {
                h1 { "Spool" }
                p.lead { "Folders that are watched, and what left them today." }
                div.sheet {
                    table {
                        tr { th { "Datatype" } th { "Files" } th { "Bundles" } th { "Oldest" } }
                        tr { td { "ndt7" } td { "211" } td { "980" } td { "4 s" } }
                        tr { td { "traceroute" } td { "107" } td { "432" } td { "2 s" } }
                    }
                }
            }
        }))
    }
}

struct Lakes {
    all_well: bool,
}

impl Section for Lakes {
    fn slug(&self) -> &str {
        "lakes"
    }

    fn title(&self) -> &str {
        "Lakes"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        let mirror = if self.all_well {
            Card::new("lake mirror", State::Good)
                .value("0 s", "behind main")
                .detail("Store", "gs://records-mirror")
        } else {
            Card::new("lake mirror", State::Bad)
                .value("41 min", "behind main")
                .note("wrong credentials; set `lakes.mirror.aws_secret_access_key`")
                .series(
                    "minutes behind, last two hours",
                    (0..40).map(f64::from).collect(),
                )
        };
        let main = Card::new("lake main", State::Good)
            .value("1.8", "TiB in 96,204 objects")
            .detail("Store", "s3://records/edge")
            .detail("Last write", "2 s ago")
            .series("writes per minute, last two hours", wave(120, 30.0));
        Box::pin(async { vec![main, mirror] })
    }
}

fn wave(points: u32, height: f64) -> Vec<f64> {
    let turn = TAU / f64::from(points);
    let at = |i: u32| f64::from(i) * turn;
    (0..points)
        .map(|i| {
            height
                * (1.2
                    + at(i).sin() * 0.4
                    + (at(i) * 9.0).cos() * 0.13
                    + (at(i) * 23.0).sin() * 0.07)
        })
        .collect()
}

fn next_steps() -> Vec<NextStep> {
    let step = |title: &str, text: &str, command: &str| NextStep {
        title: title.into(),
        text: text.into(),
        command: Some(command.into()),
    };
    vec![
        step(
            "Check the installation",
            "Looks at the configuration, the lake, the disk and the clock.",
            "cannery doctor",
        ),
        step(
            "See what was collected",
            "Lists the newest objects of the main lake.",
            "cannery lake ls autoload/",
        ),
        step(
            "Write a configuration",
            "Prints all keys with their defaults.",
            "cannery config show > cannery.yml",
        ),
    ]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments
        .next()
        .unwrap_or("127.0.0.1:8420".into())
        .parse()?;
    let all_well = arguments.next().is_some();

    let (clock, stop) = (Clock::real(), CancellationToken::new());
    let tasks = Tasks::new(clock.clone(), stop.clone());
    let mut stop_requests = cannery_runtime::shutdown::StopRequests::listen()?;
    for name in ["spool watcher", "shipper main", "shipper mirror"] {
        let stop = stop.clone();
        tasks.spawn(name, async move { stop.cancelled().await });
    }

    let readiness = Readiness::new();
    readiness.set("lake main", Check::Ready);
    if !all_well {
        let reason = "wrong credentials; set `lakes.mirror.aws_secret_access_key`";
        readiness.set("lake mirror", Check::NotReady(reason.into()));
    }
    let mut registry = Registry::default();
    let shipped = Counter::<u64>::default();
    registry.register(
        "cannery_shipped_records",
        "Records shipped to every lake",
        shipped.clone(),
    );
    shipped.inc_by(184_209);

    let identity = Identity {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: "3f9c2ab".into(),
        node: "edge-ams-01".into(),
        workspace: "./cannery-data".into(),
        started: clock.now(),
    };
    let shell = Shell::builder(identity, &clock, &tasks)
        .readiness(&readiness)
        .metrics(Arc::new(registry))
        .section(Arc::new(Spool { all_well }))
        .section(Arc::new(Lakes { all_well }))
        .next_steps(next_steps())
        .build();
    println!("http://{}/", shell.listen(address, Audience::Main).await?);
    stop_requests.next().await;
    tasks.stop(Duration::from_secs(15)).await;
    Ok(())
}
