//! Each fault of the decorator surfaces as the documented kind of error, or not at all, and leaves nothing half-written.

use std::time::Duration;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_lake::fault::{Fault, Faults, Request};
use cannery_lake::{ErrorKind, Lake, PutNew, Swap};

use crate::engines::Engine;

const FOR_EVER: u32 = u32::MAX;
const MIB: u64 = 1024 * 1024;

struct Setup {
    /// Sees what really is there.
    honest: Lake,
    lake: Lake,
    faults: Faults,
}

fn setup() -> Setup {
    let engine = Engine::memory();
    let faults = Faults::none();
    let lake = engine.with_faults(&faults).impatient_lake("");
    Setup {
        honest: engine.lake(""),
        lake,
        faults,
    }
}

fn key() -> Key {
    Key::new("a/b").unwrap()
}

#[tokio::test]
async fn a_put_that_fails_before_its_effect_is_repeated() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    faults.next(Request::Put, Fault::ErrorBefore, 3);
    assert_eq!(
        lake.put_new(&key(), b"x".to_vec()).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(&honest.get(&key(), MIB).await.unwrap().bytes[..], b"x");
    assert_eq!(faults.injected(), 3);
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_settled_by_reading() {
    for fault in [Fault::ErrorAfter, Fault::HangAfter] {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        faults.next(Request::Put, fault, 1);
        assert_eq!(
            lake.put_new(&key(), b"x".to_vec()).await.unwrap(),
            PutNew::Same,
            "{fault:?}"
        );
        assert_eq!(honest.list_all(None).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_put_that_never_succeeds_is_unavailable_and_leaves_nothing() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    faults.next(Request::Put, Fault::ErrorBefore, FOR_EVER);
    let error = lake.put_new(&key(), b"x".to_vec()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(honest.list_all(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_storm_of_409_and_412_is_not_believed_without_a_look() {
    for fault in [Fault::ConflictingWrite, Fault::PreconditionFailed] {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        faults.next(Request::Put, fault, 5);
        assert_eq!(
            lake.put_new(&key(), b"x".to_vec()).await.unwrap(),
            PutNew::Created,
            "{fault:?}"
        );
        let version = honest.get(&key(), MIB).await.unwrap().version;
        faults.next(Request::Put, fault, 5);
        assert!(
            matches!(
                lake.put_if_version(&key(), &version, "y".into())
                    .await
                    .unwrap(),
                Swap::Swapped(_)
            ),
            "{fault:?}"
        );
        assert_eq!(&honest.get(&key(), MIB).await.unwrap().bytes[..], b"y");
        let version = honest.get(&key(), MIB).await.unwrap().version;
        faults.next(Request::Put, fault, FOR_EVER);
        let error = lake
            .put_if_version(&key(), &version, "z".into())
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{fault:?}");
    }
}

#[tokio::test]
async fn a_swap_whose_answer_is_lost_is_settled_by_reading() {
    for fault in [Fault::ErrorAfter, Fault::HangAfter, Fault::ErrorBefore] {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        honest.put_new(&key(), b"old".to_vec()).await.unwrap();
        let version = honest.get(&key(), MIB).await.unwrap().version;
        faults.next(Request::Put, fault, 1);
        let swap = lake
            .put_if_version(&key(), &version, "new".into())
            .await
            .unwrap();
        let now = honest.get(&key(), MIB).await.unwrap();
        assert_eq!(swap, Swap::Swapped(now.version), "{fault:?}");
        assert_eq!(&now.bytes[..], b"new");
    }
}

#[tokio::test]
async fn another_writer_after_a_lost_answer_is_a_conflict() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    honest.put_new(&key(), b"old".to_vec()).await.unwrap();
    let version = honest.get(&key(), MIB).await.unwrap().version;
    assert!(matches!(
        honest
            .put_if_version(&key(), &version, "theirs".into())
            .await
            .unwrap(),
        Swap::Swapped(_)
    ));
    faults.next(Request::Put, Fault::ErrorBefore, 1);
    assert_eq!(
        lake.put_if_version(&key(), &version, "mine".into())
            .await
            .unwrap(),
        Swap::Conflict
    );
    assert_eq!(&honest.get(&key(), MIB).await.unwrap().bytes[..], b"theirs");
}

#[tokio::test]
async fn a_short_read_is_noticed_and_repeated() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    honest.put_new(&key(), vec![7; 5_000]).await.unwrap();
    faults.next(Request::Get, Fault::ShortRead, 2);
    assert_eq!(lake.get(&key(), MIB).await.unwrap().bytes.len(), 5_000);
    faults.next(Request::Get, Fault::ShortRead, 2);
    assert_eq!(
        lake.get_range(&key(), 100..4_000).await.unwrap().len(),
        3_900
    );
    faults.next(Request::Get, Fault::ShortRead, FOR_EVER);
    let error = lake.get(&key(), MIB).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.detail.contains("4999 bytes where 5000"), "{error}");
}

#[tokio::test]
async fn a_read_that_hangs_is_given_up_and_repeated() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    honest.put_new(&key(), b"x".to_vec()).await.unwrap();
    faults.next(Request::Get, Fault::HangAfter, 1);
    assert_eq!(&lake.get(&key(), MIB).await.unwrap().bytes[..], b"x");
    assert_eq!(faults.injected(), 1);
}

#[tokio::test]
async fn a_listing_cut_off_half_way_goes_on_or_fails_but_never_ends_early() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    for n in 0..20 {
        honest
            .put_new(&Key::new(format!("l/{n:02}")).unwrap(), b"x".to_vec())
            .await
            .unwrap();
    }
    faults.next(Request::List, Fault::ListEndsAfter(7), 2);
    assert_eq!(
        lake.list_all(None).await.unwrap(),
        honest.list_all(None).await.unwrap()
    );
    faults.next(Request::List, Fault::ListEndsAfter(0), FOR_EVER);
    assert_eq!(
        lake.list_all(None).await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn latency_alone_changes_nothing() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    for request in [Request::Put, Request::Get, Request::List, Request::Delete] {
        faults.next(request, Fault::Latency(Duration::from_millis(5)), 1);
    }
    assert_eq!(
        lake.put_new(&key(), b"x".to_vec()).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(&lake.get(&key(), MIB).await.unwrap().bytes[..], b"x");
    assert_eq!(lake.list_all(None).await.unwrap().len(), 1);
    lake.delete(&key()).await.unwrap();
    assert_eq!(honest.list_all(None).await.unwrap(), []);
    assert_eq!(faults.injected(), 4);
}

#[tokio::test]
async fn a_delete_whose_answer_is_lost_is_repeated() {
    for fault in [Fault::ErrorBefore, Fault::ErrorAfter] {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        honest.put_new(&key(), b"x".to_vec()).await.unwrap();
        faults.next(Request::Delete, fault, 2);
        lake.delete(&key()).await.unwrap();
        assert_eq!(honest.list_all(None).await.unwrap(), [], "{fault:?}");
    }
}

/// Repeated, it finishes what was cut off, wherever that was.
#[tokio::test]
async fn of_a_large_object_that_is_purged_nothing_is_left() {
    for cut in 0..3 {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        honest.put_new(&key(), large()).await.unwrap();
        let data = honest.list_all(None).await.unwrap();
        let data = data
            .into_iter()
            .find(|one| one.key.is_large_data())
            .unwrap();
        // What a purge that was cut off has done so far.
        if cut > 0 {
            honest.delete(&data.key).await.unwrap();
        }
        if cut > 1 {
            honest.delete(&key()).await.unwrap();
        }
        faults.next(Request::Delete, Fault::ErrorAfter, 1);
        lake.purge(&key()).await.unwrap();
        assert_eq!(honest.list_all(None).await.unwrap(), [], "{cut}");
    }
}

#[tokio::test]
async fn a_probe_that_meets_trouble_does_not_weaken_the_lake() {
    for (request, fault) in [
        (Request::Put, Fault::ErrorBefore),
        (Request::Put, Fault::ErrorAfter),
        (Request::Get, Fault::ErrorBefore),
        (Request::List, Fault::ErrorBefore),
    ] {
        for times in 1..8 {
            let Setup {
                honest,
                lake,
                faults,
            } = setup();
            faults.next(request, fault, times);
            let report = cannery_lake::probe::probe(&lake).await.unwrap();
            assert!(
                report.is_sound(),
                "{request:?} {fault:?} x{times}: {report:?}"
            );
            assert_eq!(
                honest.list_all(None).await.unwrap(),
                [],
                "{request:?} {fault:?} x{times}"
            );
        }
    }
}

fn large() -> Bytes {
    Bytes::from(vec![42; 65 << 20])
}

#[tokio::test]
async fn a_broken_upload_starts_again_and_leaves_one_copy() {
    for (request, fault) in [
        (Request::Part, Fault::ErrorBefore),
        (Request::Part, Fault::ErrorAfter),
        (Request::Complete, Fault::ErrorBefore),
        (Request::Complete, Fault::ErrorAfter),
        (Request::Put, Fault::ErrorBefore),
        (Request::Put, Fault::ErrorAfter),
    ] {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        faults.next(request, fault, 1);
        lake.put_new(&key(), large()).await.unwrap();
        assert_eq!(
            honest.list_all(None).await.unwrap().len(),
            2,
            "{request:?} {fault:?}"
        );
        assert_eq!(honest.head(&key()).await.unwrap().bytes, 65 << 20);
        assert_eq!(honest.get(&key(), u64::MAX).await.unwrap().bytes, large());
    }
}

#[tokio::test]
async fn a_delete_or_a_listing_that_hangs_is_given_up_and_repeated() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    honest.put_new(&key(), b"x".to_vec()).await.unwrap();
    faults.next(Request::List, Fault::HangAfter, 1);
    assert_eq!(lake.list_all(None).await.unwrap().len(), 1);
    faults.next(Request::Delete, Fault::HangAfter, 1);
    lake.delete(&key()).await.unwrap();
    assert_eq!(honest.list_all(None).await.unwrap(), []);
    assert_eq!(faults.injected(), 2);
}

#[tokio::test]
async fn an_upload_whose_end_always_fails_is_given_up() {
    for fault in [Fault::ErrorBefore, Fault::HangAfter] {
        let Setup {
            honest,
            lake,
            faults,
        } = setup();
        faults.next(Request::Complete, fault, FOR_EVER);
        let outcome = lake.put_new(&key(), large()).await;
        match fault {
            // The data had arrived, and a look at it tells.
            Fault::HangAfter => assert_eq!(outcome.unwrap(), PutNew::Created),
            _ => {
                assert_eq!(outcome.unwrap_err().kind, ErrorKind::Unavailable);
                assert_eq!(honest.list_all(None).await.unwrap(), []);
            }
        }
        assert!(faults.injected() <= 3, "{fault:?}: {}", faults.injected());
    }
}

#[tokio::test]
async fn an_abort_that_fails_changes_nothing_but_the_log() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    faults.next(Request::Part, Fault::ErrorBefore, 1);
    faults.next(Request::Abort, Fault::ErrorBefore, 1);
    assert_eq!(
        lake.put_new(&key(), large()).await.unwrap(),
        PutNew::Created
    );
    assert_eq!(honest.list_all(None).await.unwrap().len(), 2);
    assert_eq!(faults.injected(), 2);
}

#[tokio::test]
async fn an_upload_that_never_completes_leaves_nothing() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    faults.next(Request::Part, Fault::ErrorBefore, FOR_EVER);
    assert_eq!(
        lake.put_new(&key(), large()).await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
    assert_eq!(honest.list_all(None).await.unwrap(), []);
}

#[tokio::test]
async fn the_loser_of_a_race_of_large_objects_removes_its_data() {
    let Setup {
        honest,
        lake,
        faults,
    } = setup();
    // Lets the look that comes before the upload see nothing, as in a race.
    let slow = async {
        faults.next(
            Request::Complete,
            Fault::Latency(Duration::from_millis(50)),
            1,
        );
        lake.put_new(&key(), large()).await.unwrap()
    };
    let fast = async {
        tokio::task::yield_now().await;
        honest.put_new(&key(), b"first".to_vec()).await.unwrap()
    };
    let (slow, fast) = tokio::join!(slow, fast);
    assert_eq!((slow, fast), (PutNew::Different, PutNew::Created));
    assert_eq!(honest.list_all(None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_commit_whose_data_is_gone_or_changed_is_corrupt() {
    let Setup { honest, .. } = setup();
    honest.put_new(&key(), large()).await.unwrap();
    let data = honest
        .list_all(None)
        .await
        .unwrap()
        .into_iter()
        .find(|entry| entry.key.is_large_data())
        .unwrap()
        .key;
    honest.delete(&data).await.unwrap();
    assert_eq!(
        honest.get(&key(), u64::MAX).await.unwrap_err().kind,
        ErrorKind::Corrupt
    );
    assert_eq!(
        honest.get_range(&key(), 0..10).await.unwrap_err().kind,
        ErrorKind::Corrupt
    );
    assert_eq!(
        honest.put_new(&key(), large()).await.unwrap_err().kind,
        ErrorKind::Corrupt,
        "a commit alone is not the object"
    );
    honest.put_new(&data, vec![0; 65 << 20]).await.unwrap();
    assert_eq!(
        honest.get(&key(), u64::MAX).await.unwrap_err().kind,
        ErrorKind::Corrupt
    );
}

#[tokio::test]
async fn under_random_faults_nothing_is_lost_and_nothing_changes() {
    let rounds = if cannery_testkit::long_run() { 200 } else { 20 };
    for seed in 0..rounds {
        let engine = Engine::memory();
        let (honest, faults) = (engine.lake(""), Faults::by_seed(seed, 0.2));
        let lake = engine.with_faults(&faults).impatient_lake("");
        for n in 0..15 {
            let key = Key::new(format!("k/{n}")).unwrap();
            let content = format!("content {n}").into_bytes();
            let outcome = lake.put_new(&key, content.clone()).await;
            assert_ne!(
                outcome.as_ref().ok(),
                Some(&PutNew::Different),
                "seed {seed}"
            );
            if outcome.is_ok() {
                assert_eq!(
                    honest.get(&key, MIB).await.unwrap().bytes,
                    content,
                    "seed {seed}"
                );
            }
            assert_eq!(
                lake.put_new(&key, b"other".to_vec()).await.unwrap(),
                PutNew::Different,
                "seed {seed}"
            );
        }
        assert_eq!(lake.list_all(None).await.unwrap().len(), 15, "seed {seed}");
        assert!(faults.injected() > 0);
    }
}
