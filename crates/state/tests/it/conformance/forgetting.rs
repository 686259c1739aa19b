//! What is old goes.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use cannery_runtime::Rng;
use cannery_state::{Outcome, Recorder, RecorderOptions};
use futures::future::poll_fn;

use crate::subject::{LIMIT, Subject, after, begin, well};

pub(crate) async fn what_is_old_is_forgotten_unless_it_runs(subject: &Subject) {
    subject
        .tell(&[
            ("can/2026-11-14/ndt/open", 0, 50),
            ("can/2026-11-15/ndt/open", 10, 11),
        ])
        .await;
    let dead = subject.recorder("node-2");
    drop(dead.begin(begin("seal/2026-11-14/-/-", 1)));
    assert!(dead.close(LIMIT).await);
    let alive = subject.recorder("node-3");
    drop(alive.begin(begin("verify/2026-11-14/-/-", 2)));
    assert!(alive.flush().await);
    assert_eq!(subject.forget(after(0)).await.unwrap(), 0);
    assert_eq!(subject.forget(after(10)).await.unwrap(), 2);
    assert_eq!(subject.forget(after(10)).await.unwrap(), 0, "twice is once");
    let expected = [
        ("can/2026-11-15/ndt/open".to_owned(), Outcome::Done),
        ("verify/2026-11-14/-/-".to_owned(), Outcome::Running),
    ];
    assert_eq!(subject.picture().await, expected);
    assert!(alive.close(LIMIT).await);
    assert_eq!(subject.forget(after(100)).await.unwrap(), 2);
    assert!(subject.all().await.is_empty());
}

pub(crate) async fn a_recorder_forgets_by_itself(subject: &Subject) {
    let day = Duration::from_secs(86_400);
    subject.tell(&[("can/2026-11-14/ndt/open", 0, 50)]).await;
    let options = RecorderOptions {
        worker: "node-1".to_owned(),
        keep: Some(day),
    };
    let recorder = Recorder::start(&subject.state, &options, &Rng::from_os());
    assert!(recorder.flush().await);
    assert_eq!(subject.all().await.len(), 1);
    subject.hand.advance(day * 2).await;
    recorder.record(
        begin("can/2026-11-17/ndt/open", 2 * 86_400),
        &well(2 * 86_400 + 1),
    );
    assert!(recorder.flush().await);
    let expected = [("can/2026-11-17/ndt/open".to_owned(), Outcome::Done)];
    assert_eq!(subject.picture().await, expected);
    assert!(recorder.close(LIMIT).await);
}

/// Cuts it off after its first poll, its second, and so on, until it ends: what is left is whole, and goes the next time.
pub(crate) async fn forgetting_that_is_cut_off_is_done_by_the_next(subject: &Subject) {
    let mut cuts = 0;
    loop {
        subject
            .tell(&[
                ("can/2026-11-14/ndt/open", 0, 50),
                ("can/2026-11-15/ndt/open", 10, 11),
            ])
            .await;
        let mut polls = 0;
        let ended = {
            let mut forgetting = pin!(subject.forget(after(5)));
            poll_fn(|context| {
                if polls == cuts {
                    return Poll::Ready(None);
                }
                polls += 1;
                forgetting.as_mut().poll(context).map(Some)
            })
            .await
        };
        let left = subject.forget(after(5)).await.unwrap();
        assert!(left <= 1, "{left}");
        let expected = [("can/2026-11-15/ndt/open".to_owned(), Outcome::Done)];
        assert_eq!(subject.picture().await, expected);
        assert_eq!(subject.forget(after(100)).await.unwrap(), 1);
        if let Some(done) = ended {
            assert_eq!((done.unwrap(), left), (1, 0));
            break;
        }
        cuts += 1;
    }
    assert!(cuts > 0);
}
