//! The pipeline as a user runs it: `cannery work`, `cannery up`, `cannery backfill`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use cannery_runtime::Rng;
use cannery_testkit::reports::{Options, write_bucket};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::program::{Place, Ran, Up, http_get, pause};

const DATE: &str = "2017-01-02";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni/rules.yml");
const FEATURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/ooni/features.yml"
);

/// A place with a configuration; `more` are keys of `pipeline`.
fn place(more: &str) -> Place {
    let place = Place::new();
    let keys = format!("rules: '{RULES}', features: '{FEATURES}', can_bytes: 1MiB{more}");
    place.write(
        "c.yml",
        format!("node: n1\npipeline: {{{keys}}}\njournals: {{pipeline: {{lease: 2s}}}}\n"),
    );
    place
}

fn run(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[arguments, &["--json", "--config-file", "c.yml"]].concat())
}

fn once(place: &Place) -> serde_json::Value {
    let ran = run(place, &["work", "--once"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let mut lines = ran.json().into_iter();
    lines.rfind(|line| line["event"] == "ended").unwrap()
}

fn uids_of(place: &Place, bucket: &str) -> BTreeSet<String> {
    let ran = run(place, &["ls", "--bucket", bucket]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let uid = |line: &serde_json::Value| line["uid"].as_str().unwrap().to_owned();
    ran.json().iter().map(uid).collect()
}

fn get(place: &Place, uid: &str) -> serde_json::Value {
    serde_json::from_str(&text_of(place, uid)).unwrap()
}

fn text_of(place: &Place, uid: &str) -> String {
    let got = place.run(&["get", uid, "--config-file", "c.yml"]);
    assert_eq!(got.code, 0, "{}", got.all());
    got.stdout
}

/// Every object below these folders, with its bytes.
fn objects(place: &Place, folders: &[&str]) -> BTreeMap<String, Vec<u8>> {
    fn collect(root: &Path, folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => collect(root, &path, into),
                false => {
                    let name = path.strip_prefix(root).unwrap().display().to_string();
                    into.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    let root = place.path("cannery-data/lake");
    let mut all = BTreeMap::new();
    for folder in folders {
        collect(&root, &root.join(folder), &mut all);
    }
    all
}

#[test]
fn a_bucket_goes_through_all_stages_with_one_command() {
    let place = place("");
    let folder = place.path("cannery-data/reports-raw");
    let expected = write_bucket(&folder, DATE, Options::default()).unwrap();
    let ended = once(&place);
    for stage in ["can", "seal", "autoclave", "centrifuge", "aggregate"] {
        assert!(ended["done"][stage].as_u64() > Some(0), "{stage}: {ended}");
    }
    assert_eq!(
        (&ended["failed"], &ended["troubled"]),
        (&0.into(), &0.into())
    );
    let history = run(
        &place,
        &["history", "--stage", "centrifuge", "--bucket", DATE],
    );
    assert_eq!(history.code, 0, "{}", history.all());
    let told = history.json().len() as u64;
    assert_eq!(Some(told), ended["done"]["centrifuge"].as_u64());
    let uids = uids_of(&place, DATE);
    assert_eq!(uids.len(), expected.measurements - expected.duplicates);
    for uid in uids.iter().step_by(17) {
        assert_eq!(get(&place, uid)["id"], uid.as_str());
    }
    // What is sealed is what `cannery can` makes of the same reports at once.
    let other = self::place("");
    write_bucket(
        &other.path("cannery-data/reports-raw"),
        DATE,
        Options::default(),
    )
    .unwrap();
    assert_eq!(run(&other, &["can", DATE]).code, 0);
    let index = format!("canned/{DATE}/index.json.gz");
    let canned = |place: &Place| objects(place, &["canned"]).remove(&index).unwrap();
    assert!(canned(&place) == canned(&other), "the sealed cans differ");
    // Once more: there is nothing to do, and nothing is done.
    assert_eq!(once(&place)["done"], serde_json::json!({}));
}

/// Waits until the catalog has so many measurements of a bucket; their uids.
fn wait_for(place: &Place, up: &Up, bucket: &str, count: usize) -> BTreeSet<String> {
    for _ in 0..600 {
        let uids = uids_of(place, bucket);
        if uids.len() >= count {
            return uids;
        }
        pause();
    }
    panic!("never {count}: {}", up.log());
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

fn today() -> jiff::Zoned {
    cannery_runtime::Clock::real()
        .now()
        .to_zoned(jiff::tz::TimeZone::UTC)
}

/// A report file, a bundle and the archive of an hour, each put while `up` runs, can be read.
#[test]
fn what_arrives_while_up_runs_can_be_read() {
    let place = place(", debounce: 0s");
    let up = place.up(&["--config-file", "c.yml"]);
    let day = today().strftime("%Y-%m-%d").to_string();
    let folder = place.path(&format!("cannery-data/reports-raw/{day}"));
    std::fs::create_dir_all(&folder).unwrap();
    let name = "20170102T000030Z-US-AS7922-ndt-abc-0.2.0-probe.json";
    let text = "{\"test_name\":\"ndt\",\"n\":1}\n{\"test_name\":\"ndt\",\"n\":2}\n";
    place.write(&format!("cannery-data/reports-raw/{day}/.new"), text);
    #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
    std::fs::rename(folder.join(".new"), folder.join(name)).unwrap();
    let first = wait_for(&place, &up, &day, 2);

    place.write("bundle", gzip(b"{\"row\":1}\n{\"row\":2}\n{\"row\":3}\n"));
    let stamp = today()
        .strftime("%Y/%m/%d/%Y%m%dT%H%M%S.000000Z")
        .to_string();
    let key = format!("autoload/v1/ndt/scamper1/{stamp}-scamper1-mlab1-lga01-ndt-data.jsonl.gz");
    let put = run(&place, &["lake", "put", &key, "bundle"]);
    assert_eq!(put.code, 0, "{}", put.all());
    let second = wait_for(&place, &up, &day, 5);

    let hour = hour_archive();
    place.write("hour", &hour.1);
    let put = run(&place, &["lake", "put", &hour.0, "hour"]);
    assert_eq!(put.code, 0, "{}", put.all());
    let third = wait_for(&place, &up, &day, 6);
    assert!(first.is_subset(&second) && second.is_subset(&third));
    let kinds = run(&place, &["ls", "--bucket", &day]).json();
    let kinds: BTreeSet<&str> = kinds
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["feed-f", "ndt", "spool-scamper1"].into());
    for uid in &third {
        let got = place.run(&["get", uid, "--config-file", "c.yml"]);
        assert_eq!(got.code, 0, "{}", got.all());
    }
    let metrics = http_get(&up.url("metrics"));
    for line in [
        "cannery_pipeline_executions_total{stage=\"centrifuge\",result=\"done\"}",
        "cannery_pipeline_duration_seconds_count{stage=\"autoclave\"}",
        "cannery_pipeline_read_bytes_total{stage=\"can\"}",
        "cannery_pipeline_admitted_bytes 0",
        "cannery_journal_due{journal=\"pipeline\"",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert_eq!(up.stop().0, 0);
}

/// The archive of an hour as a collector uploads it: its key, and its bytes.
fn hour_archive() -> (String, Vec<u8>) {
    use cannery_formats::feed::{ArchiveName, Codec, ContentSet, FeedId, Holding, Hour, Member};
    use cannery_formats::hour_archive::{ArchiveWriter, Compression};
    let feed = FeedId::new("f").unwrap();
    let hour = Hour::of(today().timestamp());
    let (body, codec) = (b"{\"line\":\"a\"}", Codec::Gzip);
    let digest = cannery_formats::Digest::of(body);
    let member = Member::new("a".to_owned(), body.len() as u64, digest).unwrap();
    let set: ContentSet = [member].into_iter().collect();
    let compression = Compression { codec, level: None };
    let mut writer = ArchiveWriter::new(Vec::new(), &feed, hour, &set, &compression).unwrap();
    while writer.next_member().is_some() {
        writer.append(&body[..]).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let name = ArchiveName {
        feed,
        hour,
        holding: Holding::Set(set.hash(), codec),
    };
    (cannery_formats::Key::feed_archive(&name).to_string(), bytes)
}

/// The tables of the catalog, without what differs from run to run.
fn dump(place: &Place) -> Vec<(String, Vec<String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let address = format!("sqlite:{}", place.path("cannery-data/catalog.db").display());
        let clock = cannery_runtime::Clock::real();
        let catalog = cannery_catalog::Catalog::open(&address, clock)
            .await
            .unwrap();
        assert_eq!(catalog.check().await.unwrap(), Vec::<String>::new());
        let mut tables = Vec::new();
        for table in catalog.tables().await.unwrap() {
            let mut rows = Vec::new();
            let mut dump = catalog.dump(&table).await.unwrap();
            while let Some(row) = dump.next().await.unwrap() {
                rows.push(row);
            }
            tables.push((table, rows));
        }
        catalog.close().await;
        tables
    })
}

/// A place with the same lake key as every other one, and the same reports.
fn filled() -> Place {
    let place = place("");
    std::fs::create_dir_all(place.path("cannery-data/reports-raw")).unwrap();
    let options = Options {
        json_reports: 12,
        yaml_reports: 2,
        ..Options::default()
    };
    write_bucket(&place.path("cannery-data/reports-raw"), DATE, options).unwrap();
    // Made once for each lake, by chance: here it is the same.
    let put = run(&place, &["lake", "put", "hello", "c.yml"]);
    assert_eq!(put.code, 0, "{}", put.all());
    std::fs::create_dir_all(place.path("cannery-data/lake/.cannery")).unwrap();
    let key = cannery_formats::LakeKey::new([7; 32]).to_object();
    place.write("cannery-data/lake/.cannery/lake-key", key);
    place
}

#[test]
fn killed_at_random_it_ends_with_the_same_bytes_and_rows() {
    let rounds = if cannery_testkit::long_run() { 200 } else { 10 };
    let whole = filled();
    once(&whole);
    let broken = filled();
    let rng = Rng::seeded(815);
    for _ in 0..rounds {
        let mut command = broken.command(&["work", "--once", "--config-file", "c.yml"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
        std::thread::sleep(std::time::Duration::from_millis(rng.below(1_500)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    once(&broken);
    let of_both = [&whole, &broken].map(|place| objects(place, &["canned", "autoclaved"]));
    let sealed = |all: &BTreeMap<String, Vec<u8>>| {
        let index = cannery_formats::can::read_canned_index(
            &all[&format!("canned/{DATE}/index.json.gz")][..],
            Default::default(),
        );
        let files = index.unwrap().files.into_iter();
        let names: Vec<String> = files.map(|file| file.filename.name.to_string()).collect();
        let is_sealed = |key: &str| names.iter().any(|name| key.contains(name.as_str()));
        let kept = all.iter().filter(|(key, _)| is_sealed(key));
        kept.map(|(key, bytes)| (key.clone(), bytes.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    let [one, two] = of_both.map(|all| sealed(&all));
    assert!(one.len() > 6, "{:?}", one.keys());
    assert!(
        one.keys().eq(two.keys()),
        "{:?}\n{:?}",
        one.keys(),
        two.keys()
    );
    for (key, bytes) in &one {
        assert!(two[key] == *bytes, "{key} differs");
    }
    for ((table, one), (_, two)) in dump(&whole).iter().zip(&dump(&broken)) {
        assert_eq!(one, two, "table {table}");
    }
    println!("result: {rounds} kills of `cannery work`: the same bytes and rows");
}

#[test]
fn a_backfill_prints_its_plan_and_workers_do_it() {
    let place = filled();
    once(&place);
    let range = ["backfill", "--from", DATE, "--to", DATE];
    let plan = |more: &[&str]| run(&place, &[&range[..], more].concat());
    let dry = plan(&["--stage", "centrifuge", "--stage", "verify", "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.all());
    let keys: Vec<String> = dry
        .json()
        .iter()
        .filter(|line| line["event"] == "planned")
        .map(|line| line["key"].as_str().unwrap().to_owned())
        .collect();
    assert!(keys.contains(&format!("verify/{DATE}/-/-")), "{keys:?}");
    assert!(keys.len() > 3, "{keys:?}");
    assert_eq!(once(&place)["done"], serde_json::json!({}), "it was dry");
    let added = plan(&["--stage", "centrifuge", "--stage", "verify"]);
    assert_eq!(added.json().last().unwrap()["keys"], keys.len());
    let ended = once(&place);
    assert_eq!(ended["done"]["verify"], 1);
    assert_eq!(ended["done"]["centrifuge"], keys.len() - 1);
    for (arguments, code) in [
        (
            &[
                "--from",
                "2016-01-01",
                "--to",
                "2016-02-01",
                "--stage",
                "seal",
            ][..],
            10,
        ),
        (
            &["--from", DATE, "--to", "2016-02-01", "--stage", "seal"],
            2,
        ),
        (&["--from", DATE, "--to", DATE, "--stage", "discover"], 2),
        (&["--from", DATE, "--to", DATE], 2),
    ] {
        let ran = run(&place, &[&["backfill"], arguments].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.all());
    }
}

#[test]
fn a_worker_says_what_it_works_on_and_stops_when_it_is_asked_to() {
    let place = filled();
    let mut command = place.command(&["work", "--json", "--config-file", "c.yml"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let started: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        (&started["event"], &started["journal"]),
        (&"started".into(), &"pipeline".into())
    );
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
    assert!(rest.last().unwrap().contains("stopped"), "{rest:?}");
}

/// Rules of this version that drop one key.
fn dropping(place: &Place, version: u32, key: &str) {
    let rules = format!("version: {version}\nrules:\n  - op: drop\n    at: [{key}]\n");
    place.write("rules.yml", rules);
}

fn current(place: &Place) -> serde_json::Value {
    let path = place.path("cannery-data/lake/autoclaved/current.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn newer_rules_are_applied_to_everything_and_older_ones_are_refused() {
    let place = Place::new();
    let config = "node: n1\npipeline: {rules: rules.yml, grace: 0s}\n";
    place.write("c.yml", config);
    let folder = place.path("cannery-data/reports-raw");
    write_bucket(&folder, DATE, Options::default()).unwrap();
    dropping(&place, 9, "probe_cc");
    once(&place);
    let (uids, first) = (uids_of(&place, DATE), current(&place));
    // Not every one of them is JSON that a strict parser takes.
    let has = |key: &str| {
        let key = format!("\"{key}\"");
        uids.iter().any(|uid| text_of(&place, uid).contains(&key))
    };
    assert!(!has("probe_cc") && has("probe_asn"));

    dropping(&place, 10, "probe_asn");
    once(&place);
    assert_eq!(uids_of(&place, DATE), uids);
    assert!(has("probe_cc") && !has("probe_asn"));
    let second = current(&place);
    assert_eq!(
        (&second["version"], second.get("next")),
        (&"10".into(), None)
    );
    // The grace is none, so what the old rules made goes with the next look at the latest.
    once(&place);
    let old = first["generation"].as_str().unwrap();
    let left = objects(&place, &["autoclaved"]);
    let of_old = left.keys().filter(|key| key.contains(old));
    assert_eq!(of_old.count(), 0, "{:?}", left.keys());

    for (version, why) in [(9, "higher `version:`"), (10, "raise `version:`")] {
        dropping(&place, version, "probe_cc");
        for command in [&["work", "--once"][..], &["autoclave", DATE]] {
            let ran = run(&place, command);
            assert_eq!(ran.code, 2, "{}", ran.all());
            assert!(ran.stderr.contains(why), "{}", ran.all());
        }
    }
    assert_eq!(current(&place), second);
    assert_eq!(objects(&place, &["autoclaved"]), left);
    assert!(!has("probe_asn"));
}

#[test]
fn without_inputs_the_pipeline_is_off() {
    let place = place(", inputs: []");
    let ran = run(&place, &["work", "--once"]);
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(ran.stderr.contains("turned off"), "{}", ran.all());
    let up = place.up(&["--config-file", "c.yml"]);
    assert_eq!(up.stop().0, 0);
    assert!(!place.path("cannery-data/catalog.db").exists());
}
