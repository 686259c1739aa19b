//! Questions.

use cannery_state::{Cursor, Filter, Outcome};

use crate::subject::{LIMIT, Subject, after, badly, begin, well};

pub(crate) async fn pages_have_everything_once_newest_first(subject: &Subject) {
    // Many begin in the same moment.
    let keys: Vec<String> = (0..23)
        .map(|n| format!("can/2026-11-15/k{n:02}/open"))
        .collect();
    let told: Vec<(&str, i64, i64)> = (0..)
        .zip(&keys)
        .map(|(place, key)| (key.as_str(), place / 5, 100))
        .collect();
    subject.tell(&told[..11]).await;
    subject.tell(&told[11..]).await;
    let (mut seen, mut place) = (Vec::new(), None);
    loop {
        let page = subject
            .executions(&Filter::default(), place, 4)
            .await
            .unwrap();
        assert!(page.items.len() <= 4);
        seen.extend(page.items);
        let Some(next) = page.next else { break };
        // It survives its way through a URL.
        place = Some(next.to_string().parse::<Cursor>().unwrap());
    }
    let times: Vec<_> = seen.iter().map(|one| one.started).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "newest first");
    let mut found: Vec<String> = seen.into_iter().map(|one| one.key).collect();
    found.sort_unstable();
    assert_eq!(found, keys);
    for wrong in ["", "1.2", "1.a.x", "a.b.1", "1.a.1.1"] {
        assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
    }
}

pub(crate) async fn filters_hold_at_once(subject: &Subject) {
    subject
        .tell(&[
            ("can/2026-11-14/ndt/open", 0, 1),
            ("can/2026-11-15/ndt/open", 10, 11),
            ("can/2026-11-15/dns/open", 20, 21),
            ("seal/2026-11-15/-/-", 30, 31),
        ])
        .await;
    let recorder = subject.recorder("node-2");
    recorder.record(
        begin("can/2026-11-15/ndt/open", 40),
        &badly(41, Outcome::Failed, "no"),
    );
    assert!(recorder.close(LIMIT).await);
    let some = |text: &str| Some(text.to_owned());
    let none = Filter::default;
    #[rustfmt::skip]
    let cases = [
        (none(), vec![40, 30, 20, 10, 0]),
        (Filter { stage: some("can"), ..none() }, vec![40, 20, 10, 0]),
        (Filter { bucket: some("2026-11-15"), ..none() }, vec![40, 30, 20, 10]),
        (Filter { kind: some("ndt"), ..none() }, vec![40, 10, 0]),
        (Filter { kind: some("ndt"), bucket: some("2026-11-15"), stage: some("can"), ..none() }, vec![40, 10]),
        (Filter { slice: some("open"), worker: some("node-1"), ..none() }, vec![20, 10, 0]),
        (Filter { key: some("seal/2026-11-15/-/-"), ..none() }, vec![30]),
        (Filter { results: Outcome::TROUBLE.to_vec(), ..none() }, vec![40]),
        (Filter { results: vec![Outcome::Done], since: Some(after(10)), until: Some(after(30)), ..none() }, vec![20, 10]),
        (Filter { results: vec![Outcome::Running], ..none() }, vec![]),
        (Filter { stage: some("' or 1 = 1 --"), ..none() }, vec![]),
    ];
    for (filter, expected) in cases {
        let page = subject.executions(&filter, None, 100).await.unwrap();
        let found: Vec<i64> = page
            .items
            .iter()
            .map(|one| one.started.duration_since(after(0)).as_secs())
            .collect();
        assert_eq!(found, expected, "{filter:?}");
    }
}

pub(crate) async fn the_last_of_each_bucket_and_stage(subject: &Subject) {
    subject
        .tell(&[
            ("can/2026-11-14/ndt/open", 0, 1),
            ("can/2026-11-15/ndt/open", 10, 11),
            ("can/2026-11-15/dns/open", 20, 21),
            ("seal/2026-11-15/-/-", 15, 31),
            ("odd", 5, 6),
            ("odd", 7, 8),
        ])
        .await;
    let last = |filter: Filter, limit| async move {
        let found = subject.last(&filter, limit).await.unwrap();
        let found = found.into_iter().map(|one| one.key);
        found.collect::<Vec<String>>()
    };
    let expected = [
        "can/2026-11-15/dns/open",
        "seal/2026-11-15/-/-",
        "odd",
        "can/2026-11-14/ndt/open",
    ];
    assert_eq!(last(Filter::default(), 100).await, expected);
    assert_eq!(last(Filter::default(), 2).await, expected[..2]);
    let ndt = Filter {
        kind: Some("ndt".to_owned()),
        results: vec![Outcome::Done],
        ..Filter::default()
    };
    let expected = ["can/2026-11-15/ndt/open", "can/2026-11-14/ndt/open"];
    assert_eq!(last(ndt, 100).await, expected);
}

pub(crate) async fn a_summary_counts_and_ranks(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    // 1 to 40 seconds, in no order; the 20th and the 38th are the ranks.
    for number in 0..40 {
        let seconds = (number * 7) % 40 + 1;
        recorder.record(begin("can/2026-11-15/ndt/open", 100), &well(100 + seconds));
    }
    recorder.record(
        begin("can/2026-11-15/ndt/open", 100),
        &badly(5_000, Outcome::Failed, "no"),
    );
    recorder.record(
        begin("can/2026-11-15/ndt/open", 100),
        &badly(5_000, Outcome::PutOff, "later"),
    );
    recorder.record(begin("seal/2026-11-15/-/-", 110), &well(109));
    drop(recorder.begin(begin("verify/2026-11-15/-/-", 120)));
    recorder.record(begin("can/2026-11-15/ndt/open", 99), &well(100));
    assert!(recorder.flush().await);
    let period = Filter {
        since: Some(after(100)),
        until: Some(after(121)),
        ..Filter::default()
    };
    let found = subject.summary(&period).await.unwrap();
    let names: Vec<&str> = found.iter().map(|one| one.stage.as_str()).collect();
    assert_eq!(names, ["can", "seal", "verify"]);
    let can = &found[0];
    assert_eq!((can.executions, can.done, can.failed), (42, 40, 1));
    assert_eq!(
        (can.put_off, can.retried, can.lost, can.cut_off),
        (1, 0, 0, 0)
    );
    assert_eq!((can.p50_ms, can.p95_ms), (Some(20_000), Some(38_000)));
    assert_eq!((can.bytes_in, can.bytes_out), (40_000, 4_000));
    let seal = &found[1];
    assert_eq!(
        (seal.p50_ms, seal.p95_ms),
        (Some(0), Some(0)),
        "the clock was set back"
    );
    let verify = &found[2];
    assert_eq!(
        (verify.executions, verify.running, verify.p50_ms),
        (1, 1, None)
    );
    let other = Filter {
        stage: Some("sweep".to_owned()),
        ..period
    };
    assert!(subject.summary(&other).await.unwrap().is_empty());
    assert!(recorder.close(LIMIT).await);
}
