//! What becomes of single polls: at the turn of the hour, and where the server answers with an error, too little or too slowly.

use std::time::Duration;

use bytes::Bytes;
use cannery_formats::Digest;
use cannery_formats::feed::{Coverage, FeedId, Slot};
use cannery_runtime::Clock;
use cannery_runtime::clock::SimulatedClock;
use cannery_testkit::feed_server::{Behaviour, FeedServer};
use tokio_util::sync::CancellationToken;

use crate::feeds::{Replica, feed, limit, wait_until};

const SECOND: Duration = Duration::from_secs(1);

/// The hours of a feed in the lake: the digests of the bodies, and what is said of the polls.
async fn hours(replica: &Replica, id: &str) -> Vec<(String, Vec<Digest>, Vec<Slot>)> {
    let mut hours = Vec::new();
    for entry in replica.lake.list_all(None).await.unwrap() {
        let (of, hour, _) = entry.key.as_feed_object().unwrap();
        if of.as_str() != id {
            continue;
        }
        let object = replica.lake.get(&entry.key, 1 << 20).await.unwrap();
        let limits = cannery_formats::hour_archive::Limits::default();
        let found =
            cannery_formats::hour_archive::survey(&*object.bytes, &of, hour, &limits).unwrap();
        let members = found.set.iter();
        let bodies = members.filter(|member| !Coverage::is_member(member.name()));
        let bodies = bodies.map(|member| member.sha256()).collect();
        let spans = found.coverage.into_iter().flat_map(|said| said.spans);
        let slots = spans
            .flat_map(|span| span.runs)
            .flat_map(|run| vec![run.slot; run.count as usize]);
        hours.push((hour.to_string(), bodies, slots.collect()));
    }
    hours
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_success_of_an_hour_is_stored_though_nothing_changed() {
    let server = FeedServer::start().await.unwrap();
    // The one answers with the same bytes again and again, the other with 304 where it may.
    server.on("/plain", Behaviour::Untagged(Bytes::from_static(b"same")));
    server.on("/tagged", Behaviour::body("same"));
    let simulated = SimulatedClock::starting_at("2026-11-15T18:59:40Z".parse().unwrap());
    let mut replica = Replica::new();
    replica.clock = simulated.clock();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let every_second = |id: &str| {
        let mut feed = feed(id, &server.url(&format!("/{id}")));
        feed.periodicity = SECOND;
        feed.ask.timeout = Duration::from_secs(60);
        feed
    };
    feeds.set(vec![every_second("plain"), every_second("tagged")]);
    let polls = || {
        let totals = feeds.monitor().totals();
        let of = |id: &str| {
            let totals = totals.get(&FeedId::new(id).unwrap());
            totals.map_or(0, |totals| totals.stored + totals.unchanged)
        };
        of("plain").min(of("tagged"))
    };
    let driving = async {
        // What falls out because this machine is slow is not asked for again: then time goes on without it.
        while polls() < 40 {
            let before = polls();
            simulated.advance(SECOND).await;
            for _ in 0..100 {
                if polls() > before {
                    break;
                }
                Clock::real().sleep(Duration::from_millis(20)).await;
            }
        }
        stop.cancel();
        loop {
            simulated.advance(SECOND).await;
            Clock::real().sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        left = feeds.run(stop.clone(), limit()) => assert!(left.is_nothing(), "{left}"),
        () = driving => unreachable!("it goes on until the other ends"),
    }
    for id in ["plain", "tagged"] {
        let hours = hours(&replica, id).await;
        let names: Vec<_> = hours.iter().map(|(hour, _, _)| hour.as_str()).collect();
        assert_eq!(names, ["20261115T18Z", "20261115T19Z"], "{id}");
        for (hour, bodies, slots) in hours {
            assert_eq!(bodies, [Digest::of(b"same")], "{id} {hour}");
            let made: Vec<_> = slots
                .iter()
                .filter(|slot| matches!(slot, Slot::Stored | Slot::Unchanged))
                .collect();
            assert_eq!(*made[0], Slot::Stored, "{id} {hour}: {slots:?}");
            let others = &made[1..];
            assert!(others.len() > 2, "{id} {hour}: {slots:?}");
            assert!(
                others.iter().all(|slot| **slot == Slot::Unchanged),
                "{id} {hour}: {slots:?}"
            );
        }
    }
    // The first request of each hour does not say what is known of the hour before.
    let asked = server.requests("/tagged");
    let plain = asked
        .iter()
        .filter(|request| request.header("if-none-match").is_none());
    assert_eq!(plain.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_an_error_is_kept_where_that_is_wanted_and_is_no_success() {
    let server = FeedServer::start().await.unwrap();
    let error = |text: &str| Behaviour::Answer {
        status: 503,
        headers: Vec::new(),
        body: Bytes::from(text.to_owned()),
    };
    let mut turns = vec![error("down for repair"), error("down for repair")];
    turns.extend([error("still down"), Behaviour::body("up again")]);
    for id in ["keep", "drop"] {
        server.on(&format!("/{id}"), Behaviour::Turns(turns.clone()));
    }
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let mut keep = feed("keep", &server.url("/keep"));
    keep.ask.keep_error_body = true;
    feeds.set(vec![keep, feed("drop", &server.url("/drop"))]);
    let watching = async {
        wait_until("polls", || {
            let often = |path| server.requests(path).len() > 8;
            often("/keep") && often("/drop")
        })
        .await;
        stop.cancel();
    };
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert!(left.is_nothing(), "{left}");
    let digests = |texts: &[&str]| -> std::collections::BTreeSet<Digest> {
        texts
            .iter()
            .map(|text| Digest::of(text.as_bytes()))
            .collect()
    };
    let kept = digests(&["down for repair", "still down", "up again"]);
    assert_eq!(replica.bodies("keep").await, kept);
    assert_eq!(replica.bodies("drop").await, digests(&["up again"]));
    for id in ["keep", "drop"] {
        let slots = replica.coverage(id).await;
        let failed = Slot::Failed {
            reason: "status 503".to_owned(),
        };
        let count = |of: &Slot| slots.iter().filter(|slot| *slot == of).count();
        assert_eq!(
            (count(&failed), count(&Slot::Stored)),
            (3, 1),
            "{id}: {slots:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_and_too_slow_are_failed_slots_with_the_reason() {
    let server = FeedServer::start().await.unwrap();
    let body = Bytes::from_static(b"this is all there is");
    server.on(
        "/short",
        Behaviour::WrongLength {
            claimed: 1_000,
            body: body.clone(),
        },
    );
    server.on(
        "/slow",
        Behaviour::Slow {
            body,
            chunk_bytes: 1,
            pause: Duration::from_millis(200),
        },
    );
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    feeds.set(vec![
        feed("short", &server.url("/short")),
        feed("slow", &server.url("/slow")),
    ]);
    let watching = async {
        wait_until("polls", || {
            server.requests("/short").len() > 5 && server.requests("/slow").len() > 2
        })
        .await;
        stop.cancel();
    };
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert!(left.is_nothing(), "{left}");
    for (id, expected) in [("short", "broken answer"), ("slow", "timeout")] {
        assert_eq!(replica.bodies(id).await.len(), 0, "{id}");
        let slots = replica.coverage(id).await;
        let reasons = slots.iter().filter_map(|slot| match slot {
            Slot::Failed { reason } => Some(reason.as_str()),
            Slot::Stored | Slot::Unchanged | Slot::NotCollected => None,
        });
        let reasons: Vec<_> = reasons.collect();
        assert!(reasons.contains(&expected), "{id}: {slots:?}");
        let known = [expected, "the one before took too long"];
        assert!(
            reasons.iter().all(|reason| known.contains(reason)),
            "{id}: {slots:?}"
        );
        let good = slots
            .iter()
            .any(|slot| matches!(slot, Slot::Stored | Slot::Unchanged));
        assert!(!good, "{id}: {slots:?}");
    }
}
