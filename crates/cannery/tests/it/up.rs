//! `cannery up`, from start to stop, also the ones that nobody asked for.

use cannery_runtime::Rng;
use rustix::process::Signal;

#[cfg(feature = "sim")]
use crate::program::advance;
use crate::program::{Place, http_get};

#[test]
fn it_starts_serves_and_stops() {
    let place = Place::new();
    let up = place.up(&[]);
    assert_eq!(up.started["created"], true);
    assert!(http_get(&up.url("healthz")).contains("200 OK"));
    assert!(http_get(&up.url("readyz")).contains("200 OK"));
    assert!(http_get(&up.url("metrics")).contains("cannery_lake_operations_total"));
    let home = http_get(&up.url(""));
    assert!(
        home.contains("lake main") && home.contains("cannery-data"),
        "{home}"
    );
    let status = http_get(&up.url("status.json"));
    serde_json::from_str::<serde_json::Value>(status.split_once("\r\n\r\n").unwrap().1.trim())
        .unwrap();
    let (code, rest) = up.stop();
    assert_eq!((code, rest.as_str()), (0, "{\"event\":\"stopped\"}"));
}

#[test]
fn the_lake_is_the_same_after_a_restart() {
    let place = Place::new();
    let first = place.up(&[]);
    let id = first.started["lake"].clone();
    assert_eq!(first.stop().0, 0);
    let second = place.up(&[]);
    assert_eq!(
        (&second.started["lake"], &second.started["created"]),
        (&id, &serde_json::json!(false))
    );
}

/// Killed at any moment of its start, it starts again by itself, and there is one lake.
#[test]
fn killed_at_random_it_comes_back_by_itself() {
    let rounds = if cannery_testkit::long_run() { 200 } else { 20 };
    let place = Place::new();
    let rng = Rng::seeded(4711);
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..rounds {
        let mut command = place.command(&["up", "--json", "--listen", "127.0.0.1:0"]);
        let mut child = command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
        std::thread::sleep(std::time::Duration::from_micros(rng.below(60_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Ok(text) = std::fs::read(place.path("cannery-data/lake/cannery.json")) {
            let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap();
            ids.insert(manifest["lake"].as_str().unwrap().to_owned());
        }
    }
    let up = place.up(&[]);
    ids.insert(up.started["lake"].as_str().unwrap().to_owned());
    assert_eq!(ids.len(), 1, "{ids:?}");
    println!("result: {rounds} kills of `cannery up`: one lake");
    up.kill();
    assert_eq!(place.up(&[]).stop().0, 0);
}

#[test]
fn it_reads_its_configuration_again_on_sighup() {
    let place = Place::new();
    place.write("c.yml", "flush_timeout: 30s\n");
    let up = place.up(&["--config-file", "c.yml"]);
    place.write("c.yml", "flush_timeout: 20s\nnode: another\n");
    up.signal(Signal::HUP);
    up.wait_for_log("the configuration was read again");
    assert!(
        up.log().contains("only a restart changes them"),
        "{}",
        up.log()
    );
    place.write("c.yml", "flush_timeoutt: 20s\n");
    up.signal(Signal::HUP);
    up.wait_for_log("the old one stays in force");
    assert_eq!(up.stop().0, 0);
}

#[cfg(feature = "sim")]
#[test]
fn it_is_not_ready_while_its_lake_is_gone() {
    let place = Place::with_clock();
    let up = place.up(&[]);
    let manifest = std::fs::read(place.path("cannery-data/lake/cannery.json")).unwrap();
    std::fs::remove_file(place.path("cannery-data/lake/cannery.json")).unwrap();
    advance(&place, &up, "503");
    place.write("cannery-data/lake/cannery.json", manifest);
    advance(&place, &up, "200 OK");
}

#[test]
fn the_monitoring_port_serves_too() {
    let place = Place::new();
    let port = cannery_testkit::server::free_port().unwrap();
    let up = place.up(&["--monitoring-port", &port.to_string()]);
    assert!(http_get(&format!("http://127.0.0.1:{port}/healthz")).contains("200 OK"));
    assert_eq!(up.stop().0, 0);
}
