//! One measurement out of an archive on a real S3 server: what it costs, as the server counts.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use cannery_testkit::reports::{Options, write_bucket};
use cannery_testkit::s3::{S3Access, S3Request, S3Server};
use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::program::{Place, Ran, ran};

const DATE: &str = "2017-01-02";
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni");
/// Its archive is shorter than the commit of a large object can be: even then nobody has to look what it is.
const TINY: &str = "20170102T000030Z-US-AS7922-tiny-abc-0.2.0-probe.json";
const TINY_BYTES_MAX: usize = 2048;

fn configured(access: &S3Access) -> Place {
    let S3Access {
        endpoint,
        region,
        bucket,
        key_id,
        secret,
    } = access;
    let place = Place::new();
    place.write(
        "c.yml",
        format!(
            "object_storage:\n- id: main\n  bucket: {bucket}\n  endpoint_url: {endpoint}\n  region_name: {region}\n  \
             aws_access_key_id: {key_id}\n  aws_secret_access_key: {secret}\n\
             pipeline: {{rules: '{EXAMPLES}/rules.yml', features: '{EXAMPLES}/features.yml', frame_bytes: 8KiB}}\n"
        ),
    );
    let reports = place.path("cannery-data/reports-raw");
    write_bucket(&reports, DATE, Options::default()).unwrap();
    let tiny = r#"{"test_name":"tiny","data_format_version":"0.2.0"}"#;
    let name = format!("cannery-data/reports-raw/{DATE}/{TINY}");
    place.write(&name, format!("{tiny}\n"));
    place
}

fn well(place: &Place, words: &[&str]) -> Ran {
    let ran = place.run(&[words, &["--config-file", "c.yml"]].concat());
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.all());
    ran
}

/// An object of the lake as a file here.
fn download(place: &Place, key: &str) -> std::path::PathBuf {
    let words = ["lake", "cat", key, "--config-file", "c.yml"];
    let output = place.command(&words).output().unwrap();
    assert!(output.status.success(), "{key}");
    place.write(&key.replace('/', "_"), output.stdout)
}

/// An archive of the lake, read by others.
struct Archive {
    key: String,
    /// The lines of its reports by their uids, as `tar -I lz4 -xO` or `lz4 -dc` gives them.
    lines: BTreeMap<String, String>,
    /// The ranges of the frames that its index names, by the uids in them, as the header of a request has them.
    frames: BTreeMap<String, String>,
    bytes: usize,
}

impl Archive {
    fn read(place: &Place, key: &str) -> Self {
        let file = download(place, key);
        let read = match key.ends_with(".tar.lz4") {
            true => ran(Command::new("tar").args(["-I", "lz4", "-xOf"]).arg(&file)),
            false => ran(Command::new("lz4").args(["-dcq"]).arg(&file)),
        };
        assert_eq!(read.code, 0, "{key}: {}", read.all());
        let uid = |line: &str| {
            Some(
                serde_json::from_str::<Value>(line).ok()?["id"]
                    .as_str()?
                    .to_owned(),
            )
        };
        let lines = read.stdout.lines();
        Self {
            lines: lines
                .filter_map(|line| Some((uid(line)?, line.to_owned())))
                .collect(),
            frames: frames(&download(place, &format!("{key}.index.json.gz"))),
            bytes: std::fs::read(file).unwrap().len(),
            key: key.to_owned(),
        }
    }
}

fn frames(index: &Path) -> BTreeMap<String, String> {
    let mut text = String::new();
    let index = std::fs::File::open(index).unwrap();
    MultiGzDecoder::new(index)
        .read_to_string(&mut text)
        .unwrap();
    let (mut frame, mut frames) = (String::new(), BTreeMap::new());
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| record[name].as_u64().unwrap();
        match record["type"].as_str().unwrap() {
            "frame" => {
                let from = number("file_off");
                frame = format!("bytes={from}-{}", from + number("file_size") - 1);
            }
            // The catalog has the first of those that are the same.
            "datum" => drop(
                frames
                    .entry(record["id"].as_str().unwrap().to_owned())
                    .or_insert_with(|| frame.clone()),
            ),
            _ => {}
        }
    }
    frames
}

/// Gets every measurement of an archive, and counts; how many there are.
fn compare(place: &Place, server: &S3Server, archive: &Archive) -> usize {
    for (uid, line) in &archive.lines {
        let before = server.requests().unwrap().len();
        let got = well(place, &["get", uid]);
        assert_eq!(got.stdout, format!("{line}\n"), "{uid} in {}", archive.key);
        // Opening the lake asks for nothing: the catalog is local, and `get` verifies the uid of what it reads instead of
        // `cannery.json`. So this is all that reached the server, on any connection.
        let asked = server.requests().unwrap().split_off(before);
        let expected = S3Request {
            method: "GET".to_owned(),
            path: format!("/{}/{}", server.access().bucket, archive.key),
            range: Some(archive.frames[uid].clone()),
        };
        assert_eq!(asked, [expected], "{uid}");
    }
    archive.lines.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_measurement_costs_one_ranged_read_of_its_frame_as_the_server_counts() {
    let server = Arc::new(S3Server::moto().await.unwrap());
    let work = move || {
        let place = configured(server.access());
        for stage in ["can", "autoclave", "centrifuge"] {
            well(&place, &[stage, DATE]);
        }
        // The server hears of everything: what is counted below would be seen.
        let made = server.requests().unwrap();
        let puts = made
            .iter()
            .filter(|request| request.method == "PUT")
            .count();
        assert!(puts > 20, "{puts}");
        let keys = well(&place, &["lake", "ls", "autoclaved/", "--json"]).json();
        let keys = keys.iter().map(|line| line["key"].as_str().unwrap());
        let archives: Vec<_> = keys
            .filter(|key| key.ends_with(".lz4"))
            .map(|key| Archive::read(&place, key))
            .collect();
        let tiny = archives.iter().find(|archive| archive.key.contains(TINY));
        assert!(tiny.unwrap().bytes <= TINY_BYTES_MAX && tiny.unwrap().lines.len() == 1);
        let count = |archive| compare(&place, &server, archive);
        let compared: usize = archives.iter().map(count).sum();
        let frames: usize = archives
            .iter()
            .map(|archive| {
                let ranges: std::collections::BTreeSet<_> = archive.frames.values().collect();
                ranges.len()
            })
            .sum();
        assert!(
            compared > 30 && frames > archives.len(),
            "{compared} in {frames} frames"
        );
        println!(
            "result: get, {compared} measurements in {frames} frames of {} archives on an S3 server: one request each",
            archives.len()
        );
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}
