//! The parts that are measured. Each runs in a process of its own and prints what it took.

use std::future::ready;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use cannery_catalog::{Catalog, Filter};
use cannery_formats::can::CannedFile;
use cannery_formats::frames::FrameReader;
use cannery_formats::{BucketDate, Key, Uid};
use cannery_pipeline::autoclave::Autoclave;
use cannery_pipeline::bucket::sealed_files;
use cannery_pipeline::canning::Canner;
use cannery_pipeline::centrifuge::{Centrifuge, Target};
use cannery_pipeline::measurement;
use cannery_pipeline::stage::Plant;
use cannery_runtime::{Clock, Rng};
use cannery_testkit::usage::{measure, peak_rss_bytes};
use futures::FutureExt as _;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::chosen::Chosen;
use crate::reports::DATE;
use crate::settings::{encoder, features, inputs, plant, rules};
use crate::table::Taken;

/// How many measurements are read.
const READS: usize = 2_000;

/// So many uids are asked for at once.
const PAGE: u32 = 5_000;

#[derive(Clone, Copy)]
pub(crate) enum Part {
    Can,
    Autoclave,
    /// The compression of the archives' text, alone.
    Compress,
    Centrifuge,
    Get,
    GetCold,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Can => "can",
            Self::Autoclave => "autoclave",
            Self::Compress => "compress",
            Self::Centrifuge => "centrifuge",
            Self::Get => "get",
            Self::GetCold => "get-cold",
        }
    }

    /// Runs it in another process.
    pub(crate) fn measure(self, folder: &Path, address: &str) -> Taken {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.arg(self.name()).arg(folder).arg(address);
        let output = child.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", self.name());
        let engine = match address.split_once("://") {
            Some((engine, _)) => format!(", {engine}"),
            None if matches!(self, Self::Centrifuge) => ", sqlite".to_owned(),
            None => String::new(),
        };
        let name = format!("{}{engine}", self.name());
        Taken::of(name, &serde_json::from_slice(&output.stdout).unwrap())
    }
}

/// In that process.
pub(crate) fn run(part: &str, folder: &Path, address: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut more = Value::Null;
    let used = measure(|| {
        more = runtime.block_on(async {
            match part {
                "can" => can(folder).await,
                "autoclave" => autoclave(folder).await,
                "compress" => compress(folder).await,
                "centrifuge" => centrifuge(folder, address).await,
                "get" => get(folder, address, READS).await,
                "get-cold" => get(folder, address, 1).await,
                other => panic!("no part `{other}`"),
            }
        });
    });
    let of_its_own = |field: &str| more.get(field).and_then(Value::as_f64);
    let seconds = of_its_own("seconds").unwrap_or(used.seconds);
    let cpu_seconds = of_its_own("cpu_seconds").unwrap_or(used.cpu_seconds);
    println!(
        "{}",
        json!({ "seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak_rss_bytes(),
            "p50_seconds": more.get("p50") })
    );
}

fn bucket() -> BucketDate {
    DATE.parse().unwrap()
}

async fn cans(plant: &Plant) -> Vec<CannedFile> {
    sealed_files(&plant.raw, bucket()).await.unwrap().unwrap()
}

async fn can(folder: &Path) -> Value {
    let plant = plant(folder).await;
    let inputs = inputs(folder, &plant);
    let report = Canner::new(plant, inputs, None).bucket(bucket()).await;
    assert!(report.unwrap().reports > 0);
    Value::Null
}

async fn autoclave(folder: &Path) -> Value {
    let plant = plant(folder).await;
    let cans = cans(&plant).await;
    let autoclave = Autoclave {
        plant,
        rules: rules(),
    };
    for can in cans {
        let report = autoclave.run(&can).await.unwrap();
        assert!(report.measurements > 0 && report.bad_blobs == 0);
    }
    Value::Null
}

/// What is compressed is decoded beforehand, which does not count.
async fn compress(folder: &Path) -> Value {
    let plant = plant(folder).await;
    let generation = Autoclave {
        plant: plant.clone(),
        rules: rules(),
    }
    .generation();
    let (mut seconds, mut bytes) = (0.0, 0);
    for can in cans(&plant).await {
        let key = Key::autoclaved(generation, &can.filename);
        let object = plant.public.get(&key, 1 << 30).await.unwrap();
        let mut reader =
            FrameReader::new(&object.bytes[..], can.filename.name.codec(), 1 << 30).unwrap();
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        // On all cores at once, as in the stage: they share what they have.
        let used = measure(|| {
            let frames: Vec<&[u8]> = text.chunks(260 << 10).collect();
            let frames = frames.par_iter();
            bytes += frames
                .map(|frame| encoder().encode(frame).unwrap().len())
                .sum::<usize>();
        });
        seconds += used.cpu_seconds;
    }
    assert!(bytes > 0);
    json!({ "cpu_seconds": seconds })
}

async fn centrifuge(folder: &Path, address: &str) -> Value {
    let plant = plant(folder).await;
    let cans = cans(&plant).await;
    let autoclave = Autoclave {
        plant: plant.clone(),
        rules: rules(),
    };
    let catalog = Catalog::open(address, Clock::real()).await.unwrap();
    let centrifuge = Centrifuge {
        plant,
        catalog,
        features: features(),
    };
    centrifuge.declare().await.unwrap();
    for can in cans {
        let target = Target {
            generation: autoclave.generation(),
            file: can.filename,
            replaces: Vec::new(),
        };
        let report = centrifuge.run(&target, &|| ready(Ok(())).boxed()).await;
        assert!(report.unwrap().committed.added > 0);
    }
    centrifuge.catalog.close().await;
    Value::Null
}

/// Reads measurements of the day; one alone with a catalog that was not open.
async fn get(folder: &Path, address: &str, reads: usize) -> Value {
    let plant = plant(folder).await;
    let wanted = match reads {
        1 => vec![Chosen::read(folder).uid],
        _ => some_uids(folder, address, reads).await,
    };
    let clock = Clock::real();
    let begun = clock.elapsed();
    let catalog = Catalog::open(address, clock.clone()).await.unwrap();
    let mut spent = Vec::new();
    for uid in &wanted {
        let uid: Uid = uid.parse().unwrap();
        let begun = clock.elapsed();
        let read = measurement::read(&plant.public, &catalog, &uid).await;
        assert!(read.unwrap().is_some());
        spent.push(clock.since(begun));
    }
    let seconds = clock.since(begun).as_secs_f64();
    spent.sort_unstable();
    json!({ "p50": spent[spent.len() / 2].as_secs_f64(), "seconds": seconds })
}

async fn some_uids(folder: &Path, address: &str, count: usize) -> Vec<String> {
    let catalog = Catalog::open(address, Clock::real()).await.unwrap();
    let filter = Filter {
        bucket: Some(DATE.to_owned()),
        ..Filter::default()
    };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = catalog.measurements(&filter, after, PAGE).await.unwrap();
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    catalog.close().await;
    let rng = Rng::seeded(1);
    let drawn = (0..count).map(|_| {
        all[usize::try_from(rng.below(all.len() as u64)).unwrap()]
            .uid
            .clone()
    });
    Chosen::of(&all[all.len() / 2]).write(folder);
    drawn.collect()
}
