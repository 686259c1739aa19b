//! Feeds by the commands of the real binary, where something is not as it should be.

use std::path::Path;

use cannery_testkit::feed_server::{Behaviour, FeedServer};
use rustix::process::Signal;

use crate::feed_commands::{RANGE, collect, config, files, place, with};
use crate::program::{Place, pause};

#[tokio::test(flavor = "multi_thread")]
async fn gaps_count_what_was_due_and_say_what_was_left_out() {
    let (place, server) = place().await;
    collect(&place, &server);
    let only_a = ["--feed-ids", "a"];
    let gaps = place.run(&with(&["gaps"], &only_a));
    assert_eq!(gaps.code, 20, "{}", gaps.all());
    assert!(
        gaps.stdout.contains("is not over and left out"),
        "{}",
        gaps.stdout
    );
    assert!(
        gaps.stdout.contains("no archive for 24 hours"),
        "{}",
        gaps.stdout
    );

    // When it was collected, wherever that is: the hour may end while this runs.
    let names = files(&place.path("cannery-data/lake/a"));
    let name = names.first().unwrap().rsplit('/').next().unwrap();
    let hour = name["a_".len()..].split('_').next().unwrap().to_owned();
    let now = [
        &only_a[..],
        &["--start-time", &hour, "--end-time", "2099-01-01"],
    ]
    .concat();
    let gaps = place.run(&with(&["gaps", "--json"], &now));
    let lines = gaps.json();
    let last = lines.last().unwrap();
    assert_eq!(last["event"], "covered", "{}", gaps.all());
    let number = |name: &str| last[name].as_u64().unwrap();
    assert!(
        number("hours") <= 2,
        "hours that have not begun are not counted: {last}"
    );
    // A busy machine loses some of twelve polls to their timeout.
    assert!(number("stored") >= 4, "{last}");
    for gap in lines.iter().filter(|line| line["event"] == "gap") {
        let to: jiff::Timestamp = gap["to"].as_str().unwrap().parse().unwrap();
        assert!(to <= cannery_runtime::Clock::real().now(), "{gap}");
        assert!(gap["reasons"][0]["count"].as_u64().unwrap() > 0, "{gap}");
    }

    let delete = ["delete", "--object-storage-ids", "main", "--feed-ids", "a"];
    let archived = [&RANGE[..], &["--archived-only"]].concat();
    assert_eq!(place.run(&with(&delete, &archived)).code, 0);
    let gaps = place.run(&with(&["gaps"], &now));
    assert!(
        gaps.stdout.contains(": 1 hour deleted on purpose"),
        "{}",
        gaps.stdout
    );
    assert!(!gaps.stdout.contains("no archive"), "{}", gaps.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_whose_only_archive_is_damaged_is_a_finding_of_gaps() {
    let (place, _server) = place().await;
    let key = "a/2020/01/01/00/a_20200101T00Z_abcdefghij23.tar.gz";
    let put = place.run(&with(&["lake", "put", key, "c.yml"], &[]));
    assert_eq!(put.code, 0, "{}", put.all());
    let hour = [
        "--start-time",
        "2020-01-01T00",
        "--end-time",
        "2020-01-01T01",
    ];
    let of_a = [&hour[..], &["--feed-ids", "a"]].concat();
    let gaps = place.run(&with(&["gaps", "--json"], &of_a));
    assert_eq!(gaps.code, 20, "{}", gaps.all());
    let lines = gaps.json();
    assert_eq!(
        (&lines[0]["event"], &lines[0]["key"]),
        (&"unreadable".into(), &key.into())
    );
    let last = lines.last().unwrap();
    let counts = ["unknown_hours", "unreadable", "gaps"].map(|name| last[name].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(0)], "{last}");
    let text = place.run(&with(&["gaps"], &of_a)).stdout;
    assert!(text.contains("; 1 archive not readable; 0 gaps"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_does_not_exist_is_named_with_those_that_do() {
    let (place, server) = place().await;
    collect(&place, &server);
    let nope = ["--feed-ids", "a,nope"];
    let out = ["--target-directory", "out"];
    let storages = ["--object-storage-ids", "main"];
    for (command, more) in [
        (&["audit"][..], vec![&nope[..]]),
        (&["consolidate"], vec![&nope]),
        (&["gaps"], vec![&nope]),
        (&["retrieve"], vec![&nope, &RANGE, &out]),
        (&["delete"], vec![&nope, &RANGE, &storages]),
        (&["feed", "status", "nope"], vec![]),
        (&["feed", "test", "nope"], vec![]),
    ] {
        let ran = place.run(&with(command, &more.concat()));
        assert_eq!(ran.code, 10, "{command:?}: {}", ran.all());
        let expected = "error: there is no feed `nope`\n next: choose one of: a, b, down\n";
        assert_eq!(ran.stderr, expected, "{command:?}");
    }
    assert!(!place.path("out").exists());
    // What the lake has of a feed is reached after it left the configuration.
    place.write("c.yml", config(&server, &["b"]));
    let audited = place.run(&with(&["audit"], &["--feed-ids", "a"]));
    assert_eq!(audited.code, 0, "{}", audited.all());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_is_set_aside_and_a_sound_copy_is_taken_back() {
    let (place, server) = place().await;
    collect(&place, &server);
    let lake = place.path("cannery-data/lake/a");
    let archive = files(&lake).into_iter().next().unwrap();
    let sound = std::fs::read(&archive).unwrap();
    overwrite(Path::new(&archive), &sound[..sound.len() / 2]);
    let found = place.run(&with(&["audit", "--json"], &[]));
    assert_eq!(found.code, 20, "{}", found.all());
    let lines = found.json();
    assert!(
        lines.iter().all(|line| line["event"].is_string()),
        "{lines:?}"
    );
    assert_eq!(lines[0]["finding"], "damaged");
    assert!(lines[0]["next"].as_str().unwrap().contains("audit --fix"));
    let fixed = place.run(&with(&["audit", "--fix"], &[]));
    assert_eq!(fixed.code, 0, "{}", fixed.all());
    assert!(
        fixed.stdout.contains("1 finding, 0 left"),
        "{}",
        fixed.stdout
    );
    assert_eq!(place.run(&with(&["audit"], &[])).code, 0);
    let merged = place.run(&with(&["consolidate"], &[]));
    assert!(
        merged.stdout.contains("0 hours changed of 0 hours"),
        "{}",
        merged.all()
    );
    assert_eq!(files(&lake).len(), 2, "it is still there, with its mark");
    let target = [&RANGE[..], &["--target-directory", "out"]].concat();
    let got = place.run(&with(&["retrieve"], &target));
    assert_eq!(got.code, 0, "{}", got.all());
    assert!(
        got.stdout.contains("damaged and set aside"),
        "{}",
        got.stdout
    );

    overwrite(Path::new(&archive), &sound);
    assert_eq!(place.run(&with(&["audit"], &[])).code, 20);
    assert_eq!(place.run(&with(&["audit", "--fix"], &[])).code, 0);
    assert_eq!(files(&lake).len(), 1);
}

/// Feeds that were collected and not packed.
async fn killed() -> (Place, FeedServer) {
    let (place, server) = place().await;
    let up = place.up(&["--config-file", "c.yml"]);
    for _ in 0..400 {
        if server.requests("/b").len() >= 8 && server.requests("/a").len() >= 8 {
            break;
        }
        pause();
    }
    up.kill();
    (place, server)
}

fn pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_among_the_bodies_is_named_and_left_alone() {
    let (place, _server) = killed().await;
    let body = files(&place.path("cannery-data/downloads/b"));
    let body = body
        .into_iter()
        .find(|name| name.ends_with(".txt"))
        .unwrap();
    let folder = Path::new(&body).parent().unwrap();
    pipe(&folder.join("pipe"));
    std::os::unix::fs::symlink("/etc/hostname", folder.join("link")).unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    std::fs::create_dir(folder.join("x\nerror: y\u{7}")).unwrap();
    let cleaned = place.run(&with(&["clean", "-v"], &[]));
    assert_eq!(cleaned.code, 0, "{}", cleaned.all());
    let named = "x\\nerror: y\u{fffd}";
    assert!(cleaned.stderr.contains(named), "{}", cleaned.stderr);
    let shown = place.run(&with(&["feed", "status"], &[]));
    assert!(shown.stdout.contains(named), "{}", shown.stdout);
    for name in ["pipe", "link", "folder"] {
        assert!(folder.join(name).symlink_metadata().is_ok(), "{name}");
        let said = format!(
            "left where it is: {}",
            folder
                .strip_prefix(place.path(""))
                .unwrap()
                .join(name)
                .display()
        );
        assert!(cleaned.stderr.contains(&said), "{said}: {}", cleaned.all());
    }
    assert!(
        cleaned.stdout.contains(" hours packed, "),
        "{}",
        cleaned.all()
    );
    assert!(
        cleaned.stderr.contains("packed an hour"),
        "{}",
        cleaned.stderr
    );
    assert!(cleaned.stderr.contains("uploaded"), "{}", cleaned.stderr);
    let again = place.run(&with(&["clean"], &[]));
    assert_eq!(again.code, 0, "{}", again.all());
    let status = place.run(&with(&["feed", "status", "b", "--json"], &[]));
    let status = &status.json()[0];
    assert_eq!(
        (&status["event"], &status["feed"]),
        (&"feed".into(), &"b".into())
    );
    assert_eq!(status["hours_unpacked"], 0);
    assert_eq!(status["totals"]["archives"]["ok"], 1, "{status}");
    assert_eq!(status["totals"]["uploads"]["ok"], 1, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_does_not_end_what_is_collected() {
    let (place, server) = place().await;
    let up = place.up(&["--config-file", "c.yml"]);
    place.write("c.yml", "# nothing yet\n");
    up.signal(Signal::HUP);
    up.wait_for_log("it is empty; write `{}`");
    let asked = server.requests("/a").len();
    for _ in 0..400 {
        if server.requests("/a").len() > asked + 3 {
            break;
        }
        pause();
    }
    assert!(server.requests("/a").len() > asked + 3, "{}", up.log());
    place.write("c.yml", "{}\n");
    up.signal(Signal::HUP);
    up.wait_for_log("the configuration was read again");
    // What is said about `serve` is said again: it is still not in force.
    let warned = |log: &str| log.matches("only a restart changes them").count();
    let before = warned(&up.log());
    assert_eq!(before, 1, "{}", up.log());
    up.signal(Signal::HUP);
    for _ in 0..400 {
        if warned(&up.log()) == 2 {
            break;
        }
        pause();
    }
    assert_eq!(warned(&up.log()), 2, "{}", up.log());
    assert_eq!(up.stop().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_down_holds_up_no_poll_and_is_the_only_one_named() {
    let (place, server) = place().await;
    // Takes connections, and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let storages = format!(
        "{}flush_timeout: 1s\nobject_storage:\n  - {{id: main, url: 'file:cannery-data/lake'}}\n  - {{id: two, url: 's3://silent', \
         endpoint_url: '{silent}', aws_access_key_id: x, aws_secret_access_key: y}}\n",
        config(&server, &["a"])
    );
    place.write("c.yml", storages);
    let arguments = [
        "up",
        "-v",
        "--listen",
        "127.0.0.1:0",
        "--config-file",
        "c.yml",
    ];
    let log = place.path("log");
    #[allow(
        clippy::disallowed_methods,
        reason = "a log of a test need not be durable"
    )]
    let file = std::fs::File::create(&log).unwrap();
    let mut command = place.command(&arguments);
    let mut child = command
        .stderr(file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..1_200 {
        if server.requests("/a").len() >= 3 {
            break;
        }
        pause();
    }
    let polled = server.requests("/a").len();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(polled >= 3, "{text}");
    assert!(
        !text.contains("cannot be used"),
        "polls began before the first look was over: {text}"
    );
    let told = || std::fs::read_to_string(&log).unwrap();
    for _ in 0..1_200 {
        if told().contains("the lake cannot be used") {
            break;
        }
        pause();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let named: Vec<String> = told()
        .lines()
        .filter(|line| line.contains("the lake cannot be used"))
        .map(str::to_owned)
        .collect();
    assert!(
        named.iter().all(|line| line.contains("two")) && !named.is_empty(),
        "{}",
        told()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_sends_back_of_our_credentials_is_not_shown() {
    let (mut place, server) = place().await;
    place.set("TOKEN", "bearer-canary-1");
    place.set("WORD", "weather");
    // `me:basic-canary-2` as a request carries it.
    let echo = "weather: Basic bWU6YmFzaWMtY2FuYXJ5LTI=, bearer-canary-1";
    server.on("/echo", Behaviour::body(echo));
    let url = server
        .url("/echo")
        .replace("http://", "http://me:basic-canary-2@");
    place.write(
        "c.yml",
        format!("feeds:\n  - {{id: echo, url: '{url}', allow_private: true, headers: {{x-key: 'Bearer {{{{ env.TOKEN }}}}'}}}}\n"),
    );
    let shown = place.run(&with(&["feed", "test", "echo"], &[]));
    assert_eq!(shown.code, 0, "{}", shown.all());
    assert!(
        shown.stdout.contains("weather: Basic ***, ***"),
        "{}",
        shown.stdout
    );
    assert!(
        !shown.all().contains("canary") && !shown.all().contains("bWU6"),
        "{}",
        shown.all()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_is_named_and_the_rest_is_retrieved() {
    let (place, server) = place().await;
    collect(&place, &server);
    let target = [
        &RANGE[..],
        &["--feed-ids", "a", "--target-directory", "out"],
    ]
    .concat();
    assert_eq!(place.run(&with(&["retrieve"], &target)).code, 0);
    let before = files(&place.path("out"));
    let names: Vec<&String> = before.iter().collect();
    for name in &names[..2] {
        overwrite(Path::new(name), b"mine");
    }
    for name in &names[2..] {
        std::fs::remove_file(name).unwrap();
    }
    let got = place.run(&with(&["retrieve"], &target));
    assert_eq!(got.code, 3, "{}", got.all());
    assert_eq!(
        got.stderr.matches("is in the way").count(),
        2,
        "{}",
        got.stderr
    );
    assert!(got.stdout.contains("2 not written"), "{}", got.stdout);
    assert_eq!(
        files(&place.path("out")),
        before,
        "the others are there again"
    );
    for name in &names[..2] {
        assert_eq!(std::fs::read(name).unwrap(), b"mine");
    }
}

#[allow(clippy::disallowed_methods, reason = "damage need not be durable")]
fn overwrite(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
}

#[cfg(feature = "real-servers")]
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_the_store_was_reached_still_ships_once_it_answers() {
    use cannery_testkit::proxy::{Fault, FaultProxy};
    use cannery_testkit::s3::S3Server;

    let (place, server) = place().await;
    let s3 = S3Server::moto().await.unwrap();
    let access = s3.access();
    let port = access.endpoint.rsplit(':').next().unwrap().parse().unwrap();
    let upstream = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let proxy = FaultProxy::start(upstream).await.unwrap();
    proxy.set(Fault::Refuse).await;
    let storage = format!(
        "{}object_storage:\n  - {{id: main, url: 's3://{}', endpoint_url: 'http://{}', region_name: {}, aws_access_key_id: {}, \
         aws_secret_access_key: {}}}\n",
        config(&server, &["a"]),
        access.bucket,
        proxy.address(),
        access.region,
        access.key_id,
        access.secret
    );
    place.write("c.yml", storage);
    let mut child = place
        .command(&["collect", "-v", "--config-file", "c.yml"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..1_200 {
        if server.requests("/a").len() >= 3 {
            break;
        }
        pause();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    // The process hears of the stop before the store answers.
    pause();
    proxy.set(Fault::None).await;
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap().code());
    assert_eq!(ended.await.unwrap(), Some(0), "nothing is left behind");
    let there = place.run(&["lake", "ls", "a/", "--config-file", "c.yml"]);
    assert_eq!(there.code, 0, "{}", there.all());
    assert!(there.stdout.contains(".tar.gz"), "{}", there.all());
}
