//! The real binary, killed at every operation of the disk and at random.

use std::time::Duration;

use cannery_testkit::{long_run, scenario_rng};

use super::node::Node;

const KILLED: i32 = -1;

/// One life after the other, each ended one operation later than the one before: seal, journal, objects, receipt, removal.
#[test]
fn killed_at_every_operation_of_the_disk_every_file_is_there_exactly_once() {
    let rng = scenario_rng("spool killed at every operation");
    let step = if long_run() { 1 } else { 10 };
    let node = Node::new();
    let mut number = 1 + rng.below(step);
    loop {
        node.produce_some("2026/11/15", &format!("a{number}x"), 3);
        let mut command = node.command(&["collect", "--once"]);
        command.env("CANNERY_SIM_KILL_AT", number.to_string());
        let ran = crate::program::ran(&mut command);
        if rng.below(8) == 0 {
            // Somebody loses the whole workspace.
            std::fs::remove_dir_all(node.place.path("work")).ok();
        }
        if ran.code != KILLED {
            assert_eq!(ran.code, 0, "{}", ran.snapshot());
            break;
        }
        number += step;
    }
    node.run_well(&["collect", "--once"]);
    assert!(number > 100, "only {number} operations");
    node.audit(&["--expect-drained"]);
    println!(
        "result: spool, killed at each of {number} operations of the disk, every {step}th: each file exactly once"
    );
}

/// Lines of the inventory are in the lake only after some minutes. Those that are lost before are written again for dates
/// whose files are met again, and not for others.
#[allow(clippy::disallowed_methods, reason = "nobody else is at work")]
fn lose_all_but_the_inventory(node: &Node) {
    let (work, kept) = (node.place.path("work"), node.place.path("kept"));
    let inventory = work.join("collect/ndt/inventory");
    let is_there = std::fs::rename(&inventory, &kept).is_ok();
    std::fs::remove_dir_all(&work).ok();
    if is_there {
        std::fs::create_dir_all(work.join("collect/ndt")).unwrap();
        std::fs::rename(&kept, &inventory).unwrap();
    }
}

#[test]
fn killed_at_random_every_file_is_there_exactly_once() {
    let (kills, files) = if long_run() { (500, 100) } else { (50, 100) };
    let rng = scenario_rng("spool killed at random");
    let node = Node::with(
        super::node::LOCAL_LAKE,
        "  bundle_age_max: 100ms\n  bundle_bytes_max: 20kB\n",
    );
    for kill in 0..kills {
        let mut child = node.start(&[]);
        node.produce_some(
            &format!("2026/11/{}", 10 + kill % 3),
            &format!("b{kill}x"),
            files,
        );
        #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
        std::thread::sleep(rng.jitter(Duration::from_millis(600)));
        child.kill().unwrap();
        child.wait().unwrap();
        if rng.below(10) == 0 {
            lose_all_but_the_inventory(&node);
        }
    }
    node.run_well(&["collect", "--once"]);
    node.audit(&["--expect-drained"]);
    let all = kills * files;
    println!("result: spool, {kills} kills -9 at random, {all} files: each exactly once");
}

/// A node that was killed with a sealed bundle.
fn with_a_sealed_bundle() -> Node {
    let node = Node::new();
    for number in 20.. {
        node.produce_some("2026/11/15", &format!("a{number}x"), 2);
        let mut command = node.command(&["collect", "--once"]);
        command.env("CANNERY_SIM_KILL_AT", number.to_string());
        assert_eq!(crate::program::ran(&mut command).code, KILLED);
        let status = node.run_well(&["spool", "status", "--json"]).json();
        let bundles = status[0]["bundles"].as_array().unwrap();
        if bundles.iter().any(|bundle| bundle["shipped"] == false) {
            break;
        }
    }
    node
}

#[test]
fn sealed_bundles_of_another_home_are_shipped_from_there_first() {
    let node = with_a_sealed_bundle();
    let ran = node.run(&[
        "collect",
        "--once",
        "--home",
        "elsewhere",
        "--datatype-file",
        "foo1:bar1.json",
    ]);
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("sealed bundles of files in"),
        "{}",
        ran.stderr
    );
    node.run_well(&["collect", "--once"]);
    let ran = node.run(&[
        "collect",
        "--once",
        "--home",
        "elsewhere",
        "--datatype-file",
        "foo1:bar1.json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    node.audit(&["--expect-drained"]);
}

#[test]
fn a_sealed_bundle_that_is_damaged_is_set_aside_and_its_files_are_collected_again() {
    let node = with_a_sealed_bundle();
    let outbox = node.place.path("work/collect/ndt/outbox");
    for entry in std::fs::read_dir(&outbox).unwrap() {
        let data = entry.unwrap().path().join("data.jsonl.gz");
        if let Ok(mut bytes) = std::fs::read(&data)
            && !bytes.is_empty()
        {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            node.place.write(
                data.strip_prefix(node.place.path(""))
                    .unwrap()
                    .to_str()
                    .unwrap(),
                bytes,
            );
        }
    }
    node.run(&["collect", "--once"]);
    node.run_well(&["collect", "--once"]);
    assert!(outbox.join(".damaged").exists());
    std::fs::remove_dir_all(outbox.join(".damaged")).unwrap();
    node.audit(&["--expect-drained"]);
}
