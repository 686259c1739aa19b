//! What every namespace does, whatever it stands on: one function a rule.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cannery_objects::{Conditions, EtagMatch, ObjectErrorKind, RequestedChange};
use cannery_state::objects::{NeededRows, SortKey, SortOrder};
use futures::future::join_all;

use crate::world::{Server, World};

/// One test a rule, on the pair that `$open` opens.
macro_rules! suite {
    ($open:ident) => {
        $crate::conformance::rules! { $open, conformance:
            what_is_put_is_got_in_whole_and_in_part
            what_is_there_survives_the_server
            names_are_kept_as_they_are
            a_directory_is_listed_in_every_order_by_pages
            of_many_who_create_one_name_one_succeeds
            racing_replaces_with_conditions_lose_no_update
            two_servers_see_each_others_changes_at_once
            the_log_has_every_change_that_was_answered
            bytes_without_a_name_go_after_the_grace_and_linked_ones_stay
            a_database_that_is_older_than_the_lake_is_refused
            an_upload_that_is_not_what_it_promised_stores_nothing
            a_user_has_no_more_than_allowed
            an_upload_ends_at_its_limit
            bytes_of_a_refused_request_go_after_the_grace
        }
    };
}
pub(crate) use suite;

macro_rules! rules {
    ($open:ident, $group:ident: $($rule:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let world = $open().await;
                $crate::$group::$rule(&world).await;
            }
        )*
    };
}
pub(crate) use rules;

const GRACE: Duration = Duration::from_secs(3600);
const BY_NAME: (SortKey, SortOrder) = (SortKey::Name, SortOrder::Forward);

fn only_if(tag: &str) -> Conditions {
    Conditions {
        if_match: Some(EtagMatch::OneOf(vec![tag.to_owned()])),
        if_none_match: None,
    }
}

fn only_new() -> Conditions {
    Conditions {
        if_match: None,
        if_none_match: Some(EtagMatch::Any),
    }
}

/// Content that no other has.
fn content(seed: u8, bytes: usize) -> Vec<u8> {
    let mut state = u32::from(seed) + 1;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| draw()).collect()
}

pub(crate) async fn what_is_put_is_got_in_whole_and_in_part(world: &World) {
    let server = world.open().await;
    // Nothing, in memory, in a file, in several pieces.
    for (number, bytes) in [0, 1, 262_144, 262_145, 2_500_000].into_iter().enumerate() {
        let content = content(u8::try_from(number).unwrap(), bytes);
        server.put("/stor/a", &content).await.unwrap();
        assert!(
            server.get("/stor/a").await.unwrap() == content,
            "{bytes} bytes"
        );
        let object = server.object("/stor/a").await.unwrap();
        assert_eq!(object.bytes, bytes as u64);
        if bytes > 2_000 {
            let range = 1_000..object.bytes - 500;
            let part = server.read(&object, range).await.unwrap();
            assert!(part == content[1_000..bytes - 500], "{bytes} bytes");
        }
    }
    server
        .change("/stor/a", RequestedChange::Delete)
        .await
        .unwrap();
    assert_eq!(server.get("/stor/a").await, None);
    let absent = server
        .change("/stor/a", RequestedChange::Delete)
        .await
        .unwrap_err();
    assert_eq!(absent.kind, ObjectErrorKind::Absent);
    server.close().await;
}

pub(crate) async fn what_is_there_survives_the_server(world: &World) {
    let server = world.open().await;
    server.make("/stor/d").await;
    server.put("/stor/d/a", b"1").await.unwrap();
    server.put("/stor/d/a", b"2").await.unwrap();
    server.put("/public/b", b"3").await.unwrap();
    server.close().await;
    let server = world.open().await;
    assert_eq!(server.get("/stor/d/a").await.unwrap(), b"2");
    assert_eq!(server.get("/public/b").await.unwrap(), b"3");
    let refused = server
        .change("/stor/d", RequestedChange::Delete)
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::NotEmpty);
    server.close().await;
}

pub(crate) async fn names_are_kept_as_they_are(world: &World) {
    let server = world.open().await;
    let long = "x".repeat(255);
    let names = [
        "a b",
        "%41",
        "A",
        "a",
        "ä",
        "'; drop table object; --",
        "$1",
        "\u{202e}x",
        "~",
        &long,
    ];
    for name in names {
        server
            .put(&format!("/stor/{name}"), name.as_bytes())
            .await
            .unwrap();
    }
    let mut sorted: Vec<String> = names.map(ToOwned::to_owned).into();
    sorted.sort();
    assert_eq!(server.names("/stor", BY_NAME).await, sorted);
    for name in names {
        assert_eq!(
            server.get(&format!("/stor/{name}")).await.unwrap(),
            name.as_bytes()
        );
    }
    server.close().await;
}

pub(crate) async fn a_directory_is_listed_in_every_order_by_pages(world: &World) {
    let server = world.open().await;
    server.make("/stor/d").await;
    // Written in another order than that of the names, two at each moment.
    let names = ["g", "a", "f", "b", "e", "c", "d"];
    for (number, name) in names.iter().enumerate() {
        if number % 2 == 0 {
            world.hand.advance(Duration::from_secs(1)).await;
        }
        server.put(&format!("/stor/d/{name}"), b"x").await.unwrap();
    }
    let forward = server.names("/stor/d", BY_NAME).await;
    assert_eq!(forward, ["a", "b", "c", "d", "e", "f", "g"]);
    let mut backward = server
        .names("/stor/d", (SortKey::Name, SortOrder::Reverse))
        .await;
    backward.reverse();
    assert_eq!(backward, forward);
    let by_time = server
        .names("/stor/d", (SortKey::Mtime, SortOrder::Forward))
        .await;
    assert_eq!(by_time, ["a", "g", "b", "f", "c", "e", "d"]);
    let mut backward = server
        .names("/stor/d", (SortKey::Mtime, SortOrder::Reverse))
        .await;
    backward.reverse();
    assert_eq!(backward, by_time);
    assert_eq!(server.names("/stor", BY_NAME).await, ["d"]);
    server.close().await;
}

pub(crate) async fn of_many_who_create_one_name_one_succeeds(world: &World) {
    let (one, two) = (world.open().await, world.open().await);
    let servers = [&one, &two];
    let puts = (0..16_u8).map(|number| {
        let server = servers[usize::from(number) % 2];
        async move { server.put_if("/stor/a", &[number], only_new()).await }
    });
    let outcomes = join_all(puts).await;
    let winners: Vec<usize> = (0..16).filter(|number| outcomes[*number].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(
        refused
            .into_iter()
            .all(|error| error.kind == ObjectErrorKind::ConditionFailed)
    );
    assert_eq!(
        usize::from(one.get("/stor/a").await.unwrap()[0]),
        winners[0]
    );
    one.close().await;
    two.close().await;
}

/// Reads a number, and writes it one higher if nobody else has written meanwhile.
async fn count_up(server: &Server, times: usize) {
    let mut done = 0;
    while done < times {
        let object = server.object("/stor/count").await.unwrap();
        let read = server.read(&object, 0..object.bytes).await.unwrap();
        let number: u64 = String::from_utf8(read).unwrap().parse().unwrap();
        let next = (number + 1).to_string();
        match server
            .put_if("/stor/count", next.as_bytes(), only_if(&object.etag))
            .await
        {
            Ok(_) => done += 1,
            Err(error) => assert_eq!(error.kind, ObjectErrorKind::ConditionFailed, "{error}"),
        }
    }
}

pub(crate) async fn racing_replaces_with_conditions_lose_no_update(world: &World) {
    let (one, two) = (world.open().await, world.open().await);
    one.put("/stor/count", b"0").await.unwrap();
    let (first, second) = (count_up(&one, 5), count_up(&two, 5));
    futures::future::join(first, second).await;
    assert_eq!(one.get("/stor/count").await.unwrap(), b"10");
    one.close().await;
    two.close().await;
}

pub(crate) async fn two_servers_see_each_others_changes_at_once(world: &World) {
    let (one, two) = (world.open().await, world.open().await);
    one.make("/stor/d").await;
    two.put("/stor/d/a", b"1").await.unwrap();
    assert_eq!(one.get("/stor/d/a").await.unwrap(), b"1");
    let source = one.key("/stor/d/a");
    one.change("/public/l", RequestedChange::Link { source })
        .await
        .unwrap();
    two.change("/stor/d/a", RequestedChange::Delete)
        .await
        .unwrap();
    one.change("/stor/d", RequestedChange::Delete)
        .await
        .unwrap();
    assert_eq!(two.get("/public/l").await.unwrap(), b"1");
    assert_eq!(two.names("/stor", BY_NAME).await, Vec::<String>::new());
    one.close().await;
    two.close().await;
}

pub(crate) async fn the_log_has_every_change_that_was_answered(world: &World) {
    let server = world.open().await;
    server.make("/stor/d").await;
    let puts = (0..20).map(|number| {
        let server = &server;
        async move {
            server
                .put(&format!("/stor/d/{number}"), b"x")
                .await
                .unwrap()
                .version
        }
    });
    let mut answered: BTreeSet<u64> = join_all(puts).await.into_iter().collect();
    answered.insert(
        server
            .change("/stor/d/3", RequestedChange::Delete)
            .await
            .unwrap()
            .version,
    );
    let log = world.log().await;
    assert!(answered.iter().all(|version| log.contains_key(version)));
    // The highest version of a path is what is there.
    let newest = |path: &str| {
        let mut changes = log.values().rev();
        changes
            .find(|change| change.path.as_str() == path)
            .unwrap()
            .entry
            .clone()
    };
    assert_eq!(newest("/stor/d/3"), None);
    let there = newest("/stor/d/4").unwrap();
    assert_eq!(there.as_object().cloned(), server.object("/stor/d/4").await);
    server.close().await;
    assert_eq!(
        world
            .state()
            .await
            .object_outbox(0, u64::MAX >> 1, 10)
            .await
            .unwrap(),
        []
    );
}

pub(crate) async fn bytes_without_a_name_go_after_the_grace_and_linked_ones_stay(world: &World) {
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    let source = server.key("/stor/a");
    server
        .change("/stor/l", RequestedChange::Link { source })
        .await
        .unwrap();
    server.put("/stor/b", b"2").await.unwrap();
    server.put("/stor/b", b"3").await.unwrap();
    server
        .change("/stor/a", RequestedChange::Delete)
        .await
        .unwrap();
    assert_eq!(server.stored().await, 3);
    assert_eq!(server.sweep(GRACE).await.unwrap().deleted, 0);
    world.hand.advance(GRACE).await;
    let report = server.sweep(GRACE).await.unwrap();
    assert_eq!((report.deleted, report.kept), (1, 1));
    assert_eq!(server.stored().await, 2);
    assert_eq!(server.get("/stor/l").await.unwrap(), b"1");
    assert_eq!(server.get("/stor/b").await.unwrap(), b"3");
    // The last name goes, and the bytes after it.
    server
        .change("/stor/l", RequestedChange::Delete)
        .await
        .unwrap();
    world.hand.advance(GRACE).await;
    assert_eq!(server.sweep(GRACE).await.unwrap().deleted, 1);
    assert_eq!(server.stored().await, 1);
    server.close().await;
}

pub(crate) async fn a_database_that_is_older_than_the_lake_is_refused(world: &World) {
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    // As a restored backup would: the database knows fewer changes than it did.
    let mut older = server.state.begin_objects().await.unwrap();
    assert_eq!(older.look(&NeededRows::default()).await.unwrap().version, 1);
    older
        .commit(&cannery_state::objects::ObjectWrites::default())
        .await
        .unwrap();
    server.close().await;
    let refused = world.try_open().await.map(drop).unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::BehindLake);
    assert!(refused.message.contains("an old backup"), "{refused}");
}

pub(crate) async fn an_upload_that_is_not_what_it_promised_stores_nothing(world: &World) {
    let server = world.open().await;
    let mut upload = server
        .upload("/stor/u", &Conditions::default())
        .await
        .unwrap();
    upload
        .write(Bytes::from(content(1, 300_000)))
        .await
        .unwrap();
    let wrong = Some("kAFQmDzST7DWlj99KOF/cg==");
    let refused = server.namespace.store(upload, &server.account, wrong).await;
    assert_eq!(refused.unwrap_err().kind, ObjectErrorKind::Mismatch);
    let mut cut_off = server
        .upload("/stor/u", &Conditions::default())
        .await
        .unwrap();
    cut_off
        .write(Bytes::from(content(2, 300_000)))
        .await
        .unwrap();
    drop(cut_off);
    assert_eq!(server.stored().await, 0);
    let left = walk(world.folder.path());
    assert_eq!(left, 0, "files of uploads");
    let mut upload = server
        .upload("/stor/u", &Conditions::default())
        .await
        .unwrap();
    upload.write(Bytes::from_static(b"abc")).await.unwrap();
    let good = server
        .namespace
        .store(upload, &server.account, wrong)
        .await
        .unwrap();
    assert_eq!(
        (good.bytes, good.md5.as_str()),
        (3, "kAFQmDzST7DWlj99KOF/cg==")
    );
    server.close().await;
}

pub(crate) async fn an_upload_ends_at_its_limit(world: &World) {
    let server = world.open().await;
    server.state.limit_user("ann", Some(1_000)).await.unwrap();
    server.put("/stor/a", &[0; 600]).await.unwrap();
    let at = server.key("/stor/b");
    let check = async |path: &str, announced| {
        let conditions = Conditions::default();
        let at = server.key(path);
        let checked = server.namespace.check_put(&at, &conditions, announced);
        checked.await.map(|limit| limit.bytes_max())
    };
    assert_eq!(check("/stor/b", None).await.unwrap(), 400);
    assert_eq!(check("/stor/b", Some(400)).await.unwrap(), 400);
    // What is replaced gives its bytes back.
    assert_eq!(check("/stor/a", Some(1_000)).await.unwrap(), 1_000);
    let refused = check("/stor/b", Some(401)).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::QuotaExceeded);
    let limit = server
        .namespace
        .check_put(&at, &Conditions::default(), None)
        .await;
    let mut upload = server.namespace.upload(limit.unwrap());
    upload.write(Bytes::from(vec![0; 400])).await.unwrap();
    let refused = upload.write(Bytes::from_static(b"x")).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::QuotaExceeded);
    drop(upload);
    // Whoever is over the limit may still replace an object by one that is not longer.
    server.state.limit_user("ann", Some(10)).await.unwrap();
    assert_eq!(check("/stor/a", None).await.unwrap(), 600);
    assert_eq!(server.stored().await, 1);
    server.close().await;

    let small = world
        .open_changed(None, |parts| parts.object_bytes_max = 100)
        .await;
    let small = small.unwrap();
    small.state.limit_user("ann", None).await.unwrap();
    let (at, conditions) = (small.key("/stor/b"), Conditions::default());
    let refused = small.namespace.check_put(&at, &conditions, Some(101)).await;
    assert_eq!(refused.unwrap_err().kind, ObjectErrorKind::TooLarge);
    let mut upload = small.upload("/stor/b", &conditions).await.unwrap();
    let refused = upload.write(Bytes::from(vec![0; 101])).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::TooLarge);
    small.close().await;
}

/// Both bytes are in the lake before the transaction: the loser's have no name, and nobody else knows of them.
pub(crate) async fn bytes_of_a_refused_request_go_after_the_grace(world: &World) {
    let server = world.open().await;
    let puts = (0..2_u8).map(|number| {
        let server = &server;
        async move {
            let mut upload = server.upload("/stor/a", &only_new()).await?;
            upload.write(Bytes::copy_from_slice(&[number])).await?;
            server.namespace.store(upload, &server.account, None).await
        }
    });
    let uploads = join_all(puts).await;
    let mut refused = 0;
    for bytes in uploads {
        let change = RequestedChange::Put {
            bytes: bytes.unwrap(),
            headers: std::collections::BTreeMap::new(),
        };
        let at = server.key("/stor/a");
        let done = server.namespace.change(at, change, only_new()).await;
        refused += usize::from(done.is_err());
    }
    assert_eq!((refused, server.stored().await), (1, 2));
    world.hand.advance(GRACE).await;
    assert_eq!(server.sweep(GRACE).await.unwrap().deleted, 1);
    assert_eq!(server.stored().await, 1);
    assert_eq!(server.get("/stor/a").await.unwrap(), [0]);
    server.close().await;
}

/// How many files lie in folders of uploads.
fn walk(folder: &std::path::Path) -> usize {
    let folders = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let uploads = folders.filter(|path| path.is_dir());
    uploads
        .map(|path| std::fs::read_dir(path).unwrap().count())
        .sum()
}

pub(crate) async fn a_user_has_no_more_than_allowed(world: &World) {
    let server = world.open().await;
    server.state.limit_user("ann", Some(10)).await.unwrap();
    server.put("/stor/a", &[0; 10]).await.unwrap();
    let refused = server.put("/stor/b", &[0; 1]).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::QuotaExceeded);
    server
        .change("/stor/a", RequestedChange::Delete)
        .await
        .unwrap();
    server.put("/stor/b", &[0; 10]).await.unwrap();
    server.state.remove_user("ann").await.unwrap();
    let refused = server.put("/stor/b", &[0; 1]).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::ParentAbsent);
    server.close().await;
}
