//! What is left when the database is lost, a server is killed, or the lake is damaged: snapshots, rebuilds and sweeps, broken at
//! every request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_formats::{Key, UserName};
use cannery_lake::fault::{Fault, Faults, Request};
use cannery_objects::{Conditions, ObjectErrorKind, RequestedChange, record_users};
use cannery_runtime::Rng;
use cannery_state::objects::ObjectWrites;
use object_store::memory::InMemory;

use crate::world::{NamespaceDump, Server, World};

/// One test a rule, on the pair that `$open` opens.
macro_rules! suite {
    ($open:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_new_database_gets_the_same_namespace() {
            $crate::recovery::a_new_database_gets_the_same_namespace($open().await).await;
        }

        $crate::conformance::rules! { $open, recovery:
            a_rebuild_of_what_is_there_changes_nothing
            a_rebuild_during_a_change_is_refused
            what_removed_users_had_goes
            bytes_that_never_got_a_name_go
        }
    };
}
pub(crate) use suite;

fn memory() -> World {
    World::new(Arc::new(InMemory::new()), None, ())
}

/// Every kind of change, in two rounds.
async fn fill(server: &Server, round: u8) {
    let directory = format!("/stor/d{round}");
    server.make(&directory).await;
    for name in ["a", "b", "c"] {
        let path = format!("{directory}/{name}");
        server.put(&path, &[round; 10]).await.unwrap();
    }
    server.put("/stor/same", &[round]).await.unwrap();
    let gone = format!("{directory}/b");
    server.change(&gone, RequestedChange::Delete).await.unwrap();
    let source = server.key(&format!("{directory}/c"));
    let link = format!("/public/l{round}");
    let linked = server.change(&link, RequestedChange::Link { source }).await;
    linked.unwrap();
    let headers = BTreeMap::from([("m-round".to_owned(), round.to_string())]);
    let headers = RequestedChange::SetHeaders { headers };
    let changed = server.change(&format!("{directory}/a"), headers).await;
    changed.unwrap();
}

async fn dump_of(world: &World) -> NamespaceDump {
    let server = world.open().await;
    let dump = server.dump().await;
    server.close().await;
    dump
}

pub(crate) async fn a_new_database_gets_the_same_namespace(world: World) {
    let server = world.open().await;
    fill(&server, 1).await;
    assert_eq!(server.namespace.snapshot().await.unwrap().entries, 5);
    assert_eq!(world.log().await.len(), 0, "the snapshot stands for it");
    fill(&server, 2).await;
    let delete = server.change("/stor/d1/a", RequestedChange::Delete);
    delete.await.unwrap();
    let before = server.dump().await;
    server.close().await;

    let world = world.with_new_database();
    // As `cannery up` does: the same name, and another id.
    let refused = world.try_open().await.map(drop).unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::BehindLake);
    let rebuilt = world.rebuild(None).await.unwrap();
    assert_eq!(
        (rebuilt.version, rebuilt.entries),
        (before.version, before.entries.len() as u64)
    );
    let server = world.open().await;
    assert_eq!(server.dump().await, before);
    assert_eq!(server.get("/public/l1").await.unwrap(), [1; 10]);
    assert_eq!(server.get("/stor/same").await.unwrap(), [2]);
    fill(&server, 3).await;
    // Nothing that has a name was taken for left over.
    server.sweep_now().await.unwrap();
    assert_eq!(server.get("/stor/d2/c").await.unwrap(), [2; 10]);
    server.close().await;
}

pub(crate) async fn a_rebuild_of_what_is_there_changes_nothing(world: &World) {
    let server = world.open().await;
    fill(&server, 1).await;
    let before = server.dump().await;
    server.close().await;
    for _ in 0..2 {
        world.rebuild(None).await.unwrap();
        assert_eq!(dump_of(world).await, before);
    }
}

pub(crate) async fn a_rebuild_during_a_change_is_refused(world: &World) {
    let server = world.open().await;
    fill(&server, 1).await;
    let attempt = "first";
    server.state.begin_rebuild(attempt).await.unwrap();
    let version = server.state.object_version().await.unwrap();
    server.put("/stor/later", b"x").await.unwrap();
    let before = server.dump().await;
    let finish = async |attempt| {
        let nobody = std::collections::BTreeSet::new();
        let finished = server
            .state
            .finish_rebuild(attempt, version, version, &nobody, &[]);
        finished.await.unwrap_err().kind
    };
    assert_eq!(finish(attempt).await, cannery_state::ErrorKind::Invalid);
    assert_eq!(finish("another").await, cannery_state::ErrorKind::Invalid);
    assert_eq!(server.dump().await, before);
    server.close().await;
}

pub(crate) async fn what_removed_users_had_goes(world: &World) {
    let server = world.open().await;
    let bob = UserName::new("bob").unwrap();
    let bob = server.state.add_user(&bob, &Rng::from_os()).await.unwrap();
    let mut of_bob = server;
    let ann = std::mem::replace(&mut of_bob.account, bob.id.clone());
    fill(&of_bob, 1).await;
    let mut server = of_bob;
    server.account = ann;
    fill(&server, 2).await;
    assert_eq!(server.stored().await, 8);
    server.state.remove_user("bob").await.unwrap();
    let swept = server.sweep_now().await.unwrap();
    assert_eq!((swept.failed, server.stored().await), (0, 3));
    let dump = server.dump().await;
    assert!(dump.entries.keys().all(|key| key.account == server.account));
    // Whoever gets the name has nothing of it, also after a rebuild.
    let bob = UserName::new("bob").unwrap();
    let again = server.state.add_user(&bob, &Rng::from_os()).await.unwrap();
    let before = server.dump().await;
    server.close().await;
    world.rebuild(None).await.unwrap();
    let after = dump_of(world).await;
    assert_eq!(after, before);
    assert_eq!(after.users.get(&again.id).map(String::as_str), Some("bob"));
}

pub(crate) async fn bytes_that_never_got_a_name_go(world: &World) {
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    let mut upload = server
        .upload("/stor/b", &Conditions::default())
        .await
        .unwrap();
    upload.write(Bytes::from_static(b"2")).await.unwrap();
    let stored = server.namespace.store(upload, &server.account, None).await;
    stored.unwrap();
    assert_eq!(
        server.sweep(Duration::ZERO).await.unwrap().deleted,
        0,
        "too young"
    );
    let swept = server.sweep_now().await.unwrap();
    assert_eq!(
        (swept.deleted, swept.orphans, server.stored().await),
        (1, 1, 1)
    );
    assert_eq!(server.get("/stor/a").await.unwrap(), b"1");
    server.close().await;
}

/// A process that is killed at a request to the lake.
struct Kill {
    faults: Faults,
    requests: u64,
    fault: Fault,
}

impl Kill {
    /// It is killed so many requests from now.
    fn arm(&self) {
        self.faults.die_after(self.requests, self.fault);
    }
}

/// Kills `work` at each of its requests to the lake in turn, before and after the effect, until it has none left; `check` looks
/// at what each kill left.
async fn kill_at_every_request<T>(
    work: impl AsyncFn(&World, &Kill) -> T,
    check: impl AsyncFn(World, T, &str),
) {
    for fault in [Fault::ErrorBefore, Fault::ErrorAfter] {
        for requests in 0.. {
            let mut world = memory();
            world.mirrors.push(Arc::new(InMemory::new()));
            let kill = Kill {
                faults: Faults::none(),
                requests,
                fault,
            };
            let done = work(&world, &kill).await;
            let has_ended = kill.faults.injected() == 0;
            check(world, done, &format!("{fault:?} at request {requests}")).await;
            if has_ended {
                assert!(requests > 5, "there was something to kill");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_snapshot_that_is_killed_loses_nothing() {
    kill_at_every_request(
        async |world, kill| {
            let server = world.open_with(Some(&kill.faults)).await.unwrap();
            fill(&server, 1).await;
            server.namespace.snapshot().await.unwrap();
            fill(&server, 2).await;
            let expected = server.dump().await;
            kill.arm();
            drop(server.namespace.snapshot().await);
            server.close().await;
            expected
        },
        async |world, expected, what| {
            let world = world.with_new_database();
            world.rebuild(None).await.unwrap();
            let server = world.open().await;
            assert_eq!(server.dump().await, expected, "{what}");
            // The next snapshot finishes what that one began.
            let report = server.namespace.snapshot().await.unwrap();
            assert_eq!(report.version, expected.version, "{what}");
            assert!(world.log().await.is_empty(), "{what}");
            server.close().await;
            world.rebuild(None).await.unwrap();
            assert_eq!(dump_of(&world).await, expected, "{what}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_rebuild_that_is_killed_has_changed_nothing_and_is_repeated() {
    kill_at_every_request(
        async |world, kill| {
            let server = world.open().await;
            fill(&server, 1).await;
            server.namespace.snapshot().await.unwrap();
            fill(&server, 2).await;
            let expected = server.dump().await;
            let older = server.state.begin_objects().await.unwrap();
            older.commit(&ObjectWrites::default()).await.unwrap();
            server.close().await;
            kill.arm();
            let killed = world.rebuild(Some(&kill.faults)).await;
            kill.faults.stop();
            if let Ok(server) = world.try_open().await {
                assert_eq!(server.dump().await, expected, "{killed:?}");
                server.close().await;
            }
            expected
        },
        async |world, expected, what| {
            world.rebuild(None).await.unwrap();
            assert_eq!(dump_of(&world).await, expected, "{what}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweep_that_is_killed_deletes_nothing_with_a_name_and_is_finished_later() {
    kill_at_every_request(
        async |world, kill| {
            let server = world.open_with(Some(&kill.faults)).await.unwrap();
            fill(&server, 1).await;
            fill(&server, 2).await;
            let upload = server.upload("/stor/x", &Conditions::default()).await;
            let account = &server.account;
            let stored = server.namespace.store(upload.unwrap(), account, None).await;
            stored.unwrap();
            kill.arm();
            drop(server.sweep_now().await);
            server.close().await;
        },
        async |world, (), what| {
            let server = world.open().await;
            server.sweep_now().await.unwrap();
            for path in ["/stor/d1/a", "/stor/d1/c", "/public/l2", "/stor/same"] {
                assert!(server.get(path).await.is_some(), "{what}: {path}");
            }
            for lake in world.all_lakes(None) {
                let entries = lake.list_all(Some(&Key::users())).await.unwrap();
                let data = entries
                    .iter()
                    .filter(|one| one.key.as_user_data().is_some());
                assert_eq!(data.count(), 5, "{what}: {}", lake.id());
            }
            server.close().await;
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_cannot_be_deleted_does_not_keep_the_others() {
    let world = memory();
    let faults = Faults::none();
    let server = world.open_with(Some(&faults)).await.unwrap();
    for number in 0..3 {
        let path = format!("/stor/{number}");
        server.put(&path, b"x").await.unwrap();
        server.change(&path, RequestedChange::Delete).await.unwrap();
    }
    faults.next(Request::Delete, Fault::ErrorBefore, u32::MAX);
    let swept = server.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((swept.failed, swept.deleted), (3, 0));
    faults.stop();
    let swept = server.sweep(Duration::ZERO).await.unwrap();
    assert_eq!((swept.failed, server.stored().await), (0, 0));
    server.close().await;
}

/// Whoever reads the lake alone still finds them named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_stay_until_the_log_knows_that_their_name_is_gone() {
    let world = memory();
    let faults = Faults::none();
    let server = world.open_with(Some(&faults)).await.unwrap();
    server.put("/stor/a", b"1").await.unwrap();
    faults.next(Request::Put, Fault::ErrorBefore, u32::MAX);
    let deleted = server.change("/stor/a", RequestedChange::Delete).await;
    assert_eq!(deleted.unwrap_err().kind, ObjectErrorKind::Unavailable);
    assert_eq!(server.get("/stor/a").await, None);
    let swept = server.sweep(Duration::ZERO).await;
    assert_eq!(swept.unwrap_err().kind, ObjectErrorKind::Unavailable);
    faults.stop();
    assert_eq!(server.stored().await, 1);
    assert_eq!(server.sweep(Duration::ZERO).await.unwrap().deleted, 1);
    assert_eq!(world.log().await.len(), 2);
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_restored_under_a_server_sweeps_nothing() {
    let world = memory();
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    server
        .change("/stor/a", RequestedChange::Delete)
        .await
        .unwrap();
    let older = server.state.begin_objects().await.unwrap();
    older.commit(&ObjectWrites::default()).await.unwrap();
    let refused = server.sweep_now().await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::BehindLake);
    let refused = server.namespace.snapshot().await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::BehindLake);
    assert_eq!(server.stored().await, 1);
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_named_unless_another_mirror_is_good() {
    let mut world = memory();
    world.mirrors.push(Arc::new(InMemory::new()));
    let server = world.open().await;
    fill(&server, 1).await;
    let before = server.dump().await;
    server.close().await;
    let lakes = world.all_lakes(None);
    let logs = lakes[0].list_all(Some(&Key::object_logs())).await.unwrap();
    let key = logs[0].key.clone();
    let damage = async |lake: &cannery_lake::Lake| {
        lake.delete(&key).await.unwrap();
        lake.put_new(&key, Vec::from(*b"{\n")).await.unwrap();
    };
    damage(&lakes[0]).await;
    // Only the second mirror has another part.
    lakes[0].delete(&logs[1].key).await.unwrap();
    let world = world.with_new_database();
    world.rebuild(None).await.unwrap();
    assert_eq!(dump_of(&world).await, before);
    damage(&lakes[1]).await;
    let refused = world.rebuild(None).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::Corrupt);
    assert!(refused.message.contains(key.as_str()), "{refused}");
    assert_eq!(dump_of(&world).await, before);
}

/// As a server does that was asleep while the snapshot was taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_the_log_that_comes_after_its_snapshot_brings_nothing_back() {
    let world = memory();
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    let logs = server.lake.list_all(Some(&Key::object_logs())).await;
    let key = logs.unwrap()[0].key.clone();
    let late = server.lake.get(&key, 1 << 20).await.unwrap().bytes;
    let deleted = server.change("/stor/a", RequestedChange::Delete).await;
    deleted.unwrap();
    server.put("/stor/b", b"2").await.unwrap();
    server.namespace.snapshot().await.unwrap();
    server.lake.put_new(&key, late).await.unwrap();
    let before = server.dump().await;
    server.close().await;
    let world = world.with_new_database();
    world.rebuild(None).await.unwrap();
    assert_eq!(dump_of(&world).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_database_settles_nothing() {
    let world = memory();
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    let some = std::collections::BTreeSet::from(["users/x".to_owned()]);
    let state = &server.state;
    let kind = |error: cannery_state::Error| error.kind;
    let refused = Err(cannery_state::ErrorKind::Invalid);
    assert_eq!(state.doom_garbage(&some, 0, 2).await.map_err(kind), refused);
    assert_eq!(state.doom_orphans(&some, 2).await.map_err(kind), refused);
    let removed = state.remove_entries_of_removed_users(1, 2).await;
    assert!(removed.is_err());
    assert!(state.doom_garbage(&some, 0, 1).await.is_ok());
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_mirror_tells_that_the_database_is_old() {
    let mut world = memory();
    world.mirrors.push(Arc::new(InMemory::new()));
    let server = world.open().await;
    fill(&server, 1).await;
    server.namespace.snapshot().await.unwrap();
    server.close().await;
    // The snapshot in the second mirror is all that is left of the names.
    let first = world.lake(None);
    for entry in first
        .list_all(Some(&Key::object_snapshots()))
        .await
        .unwrap()
    {
        first.delete(&entry.key).await.unwrap();
    }
    let world = world.with_new_database();
    let refused = world.try_open().await.map(drop).unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::BehindLake);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_objects_survives_the_database() {
    let world = memory();
    let state = world.state().await;
    let eve = UserName::new("eve").unwrap();
    let eve = state.add_user(&eve, &Rng::from_os()).await.unwrap();
    let parts = world.parts(&state, None);
    record_users(&state, &parts.mirrors).await.unwrap();
    state.close().await;
    let world = world.with_new_database();
    world.rebuild(None).await.unwrap();
    let restored = world.state().await.user("eve").await.unwrap();
    assert_eq!(restored.unwrap().id, eve.id);
}

/// Two programs that use one lake, each with a database of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_databases_on_one_lake_one_is_refused_before_it_acknowledges_anything() {
    let world = memory();
    let first = world.open().await;
    let world = world.with_new_database();
    let second = world.open().await;
    first.put("/stor/a", b"1").await.unwrap();
    assert!(second.put("/stor/b", b"2").await.is_err());
    let behind = ObjectErrorKind::BehindLake;
    let flushed = second.namespace.flush_outbox().await;
    assert_eq!(flushed.unwrap_err().kind, behind);
    assert_eq!(second.sweep_now().await.unwrap_err().kind, behind);
    assert_eq!(second.namespace.snapshot().await.unwrap_err().kind, behind);
    first.put("/stor/c", b"3").await.unwrap();
    second.close().await;
    assert_eq!(world.try_open().await.map(drop).unwrap_err().kind, behind);

    // A rebuild takes the objects over, and the first one notices.
    world.rebuild(None).await.unwrap();
    let second = world.open().await;
    assert_eq!(second.get("/stor/a").await.unwrap(), b"1");
    assert_eq!(second.get("/stor/c").await.unwrap(), b"3");
    assert_eq!(second.object("/stor/b").await, None);
    let flushed = first.namespace.flush_outbox().await;
    assert_eq!(flushed.unwrap_err().kind, behind);
    assert_eq!(first.sweep_now().await.unwrap_err().kind, behind);
    second.put("/stor/d", b"4").await.unwrap();
    second.close().await;
    first.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_of_the_log_that_lacks_its_last_lines_is_damaged() {
    let world = memory();
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    server.put("/stor/b", b"2").await.unwrap();
    let (lake, id) = (&server.lake, Rng::from_os().id());
    let logs = lake.list_all(Some(&Key::object_logs())).await.unwrap();
    let first = lake.get(&logs[0].key, 1 << 20).await.unwrap().bytes;
    let cut = Key::object_log(2, &id);
    lake.put_new(&cut, first).await.unwrap();
    server.close().await;
    let refused = world.rebuild(None).await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::Corrupt);
    assert!(refused.message.contains(cut.as_str()), "{refused}");
}

/// What a sweep read as a candidate may have lost its last name only since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_whose_last_name_went_a_moment_ago_are_not_settled() {
    let world = memory();
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    let data = server.object("/stor/a").await.unwrap().data.to_string();
    let deleted = server.change("/stor/a", RequestedChange::Delete).await;
    deleted.unwrap();
    let some = std::collections::BTreeSet::from([data]);
    let now = world.hand.clock().now().as_millisecond();
    let settled = server.state.doom_garbage(&some, now - 1, 1).await.unwrap();
    assert!(settled.is_empty());
    let settled = server.state.doom_garbage(&some, now, 1).await.unwrap();
    assert_eq!(settled, some);
    server.close().await;
}
