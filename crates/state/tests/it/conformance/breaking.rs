//! What goes wrong is nobody's trouble but the history's.

use std::time::Duration;

use cannery_state::ErrorKind;

use crate::subject::{Subject, begin, well};

/// More than fits, without a pause in which anything could be written.
pub(crate) async fn what_finds_no_room_is_counted_and_nobody_waits(subject: &Subject) {
    subject.state.close().await;
    let recorder = subject.recorder("node-1");
    let first = recorder.begin(begin("can/2026-11-15/ndt/open", 0));
    for number in 1..3_000 {
        recorder.record(begin("can/2026-11-15/ndt/open", number), &well(number + 1));
    }
    let (waiting, dropped) = (recorder.waiting(), recorder.dropped());
    assert!((2_048..=2_048 + 128).contains(&waiting), "{waiting}");
    let waiting = u64::try_from(waiting).unwrap();
    assert!(
        dropped >= 3_000 - waiting - 128 && dropped <= 3_000 - 2_048,
        "{dropped}"
    );
    // What was let in has room for its end.
    recorder.end(first, &well(9_000));
    assert_eq!(recorder.dropped(), dropped);
    assert!(!recorder.flush().await);
    assert!(!recorder.close(Duration::from_secs(5)).await);
}

pub(crate) async fn a_state_that_was_closed_stops_nobody(subject: &Subject) {
    let recorder = subject.recorder("node-1");
    let ticket = recorder.begin(begin("can/2026-11-15/ndt/open", 0));
    assert!(recorder.flush().await);
    subject.state.close().await;
    subject.state.close().await;
    recorder.end(ticket, &well(1));
    assert!(!recorder.flush().await);
    assert_eq!((recorder.waiting(), recorder.dropped()), (1, 0));
    let refused = subject.running().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    assert!(!recorder.close(Duration::from_secs(5)).await);
}
