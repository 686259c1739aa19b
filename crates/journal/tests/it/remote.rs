//! A journal through a socket: the same contract, and no harm from whoever connects.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::remote::{Remote, Served, serve};
use cannery_journal::worker::{Outcome, Worker};
use cannery_journal::{
    Data, Date, Declaration, Engine, Error, ErrorKind, FieldType, Health, Journal, Memory,
    NewEntry, Op, Query, Reply, Stats,
};
use cannery_runtime::{Clock, Rng, Tasks};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::subject::{Subject, simulated};
use crate::worker::Doing;

/// An owner of a journal in memory, and the folder of its socket.
struct Owner {
    folder: TempDir,
    memory: Arc<Memory>,
    tasks: Tasks,
    served: Served,
}

impl Owner {
    async fn new(declaration: Declaration, clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(Memory::new(declaration, clock, Rng::seeded(7)));
        let tasks = Tasks::new(Clock::real(), CancellationToken::new());
        let socket = folder.path().join("socket");
        let served = serve(&socket, memory.clone(), &tasks).await.unwrap();
        Self {
            folder,
            memory,
            tasks,
            served,
        }
    }

    async fn usual() -> Self {
        Self::new(Declaration::default(), Clock::real()).await
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    async fn journal(&self) -> Journal {
        journal(
            Remote::connect(&self.socket(), Clock::real())
                .await
                .unwrap(),
        )
    }

    async fn stranger(&self) -> UnixStream {
        UnixStream::connect(self.socket()).await.unwrap()
    }

    /// Serves again after [`Served::stop`].
    async fn again(&mut self) {
        let socket = self.socket();
        self.served = serve(&socket, self.memory.clone(), &self.tasks)
            .await
            .unwrap();
    }
}

fn journal(engine: Arc<Remote>) -> Journal {
    Journal::new("work", engine)
}

fn entry(key: &str) -> NewEntry {
    NewEntry::new(key, Data::null())
}

async fn open(declaration: Declaration) -> Subject {
    let time = simulated();
    let owner = Owner::new(declaration, time.clock()).await;
    let remote = Remote::connect(&owner.socket(), time.clock())
        .await
        .unwrap();
    Subject::new(remote, time).keeping(owner)
}

mod conformance {
    use super::open;
    use crate::model::Cases;

    crate::suites!(open, Cases::FEW);
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    Clock::real()
        .timeout(limit, what)
        .await
        .expect("it happens at all")
}

#[tokio::test]
async fn two_clients_share_a_journal_and_hear_each_other() {
    let owner = Owner::usual().await;
    let (one, two) = (owner.journal().await, owner.journal().await);
    let mut wakes = two.wakes();
    one.add_one(entry("shared")).await.unwrap();
    assert!(soon(wakes.next()).await);
    let claimed = two.claim("two", 5).await.unwrap().entries;
    assert_eq!(claimed[0].key.as_str(), "shared");
    let token = claimed[0].lease.as_ref().unwrap().token;
    assert!(one.claim("one", 5).await.unwrap().entries.is_empty());
    one.done(token).await.unwrap();
    let error = two.done(token).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::LeaseLost);
    assert_eq!(two.stats().await.unwrap().counts.done, 1);
    assert_eq!(one.health(), Health::Good);
}

#[tokio::test]
async fn many_callers_share_a_connection() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    let adds = (0..2_000).map(|number| {
        let journal = journal.clone();
        async move { journal.add_one(entry(&format!("key {number}"))).await }
    });
    for added in soon(futures::future::join_all(adds)).await {
        added.unwrap();
    }
    assert_eq!(journal.stats().await.unwrap().waiting(), 2_000);
}

#[tokio::test]
async fn the_declaration_is_known_and_a_change_is_told() {
    let owner = Owner::usual().await;
    let (one, two) = (owner.journal().await, owner.journal().await);
    let declaration = Declaration {
        fields: [("n".to_owned(), FieldType::U64)].into(),
        ..Declaration::default()
    };
    one.declare(declaration.clone()).await.unwrap();
    assert_eq!(one.declaration(), declaration);
    soon(async {
        while two.declaration() != declaration {
            Clock::real().sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert_eq!(owner.journal().await.declaration(), declaration);
}

#[tokio::test]
async fn what_a_client_did_not_check_the_server_refuses() {
    let declaration = Declaration {
        fields: [("n".to_owned(), FieldType::U64)].into(),
        ..Declaration::default()
    };
    let owner = Owner::new(declaration, Clock::real()).await;
    let remote = Remote::connect(&owner.socket(), Clock::real())
        .await
        .unwrap();
    let now = Date::from(Clock::real().now());
    let loose = Declaration::default();
    let wrong = loose.admit(
        NewEntry::new("k", Data::from_json("{\"n\":-1}").unwrap()),
        now,
    );
    let right = loose.admit(
        NewEntry::new("k", Data::from_json("{\"n\":1}").unwrap()),
        now,
    );
    let early = cannery_journal::Add {
        process: Date::from_millis(0),
        ..right.clone().unwrap()
    };
    let name = "x".repeat(Op::TEXT_BYTES_MAX + 1);
    for op in [
        Op::Add(vec![right.clone().unwrap(), wrong.unwrap()]),
        Op::Add(vec![early]),
        Op::Claim {
            worker: name,
            count: 1,
        },
    ] {
        assert_eq!(remote.call(op).await.unwrap_err().kind, ErrorKind::Invalid);
    }
    assert_eq!(
        owner.memory.call(Op::Stats).await,
        remote.call(Op::Stats).await
    );
    remote.call(Op::Add(vec![right.unwrap()])).await.unwrap();
}

/// One frame of bytes.
fn frame(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    [&length.to_le_bytes(), content].concat()
}

/// Whether the server hangs up; what it says before is dropped.
async fn is_hung_up(stream: &mut UnixStream) -> bool {
    let mut said = Vec::new();
    match soon(stream.read_to_end(&mut said)).await {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[tokio::test]
async fn nonsense_harms_only_the_connection_it_comes_from() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    let deep = "[".repeat(100_000);
    let nonsense: [(&str, Vec<u8>); 8] = [
        (
            "too long",
            (16 * 1024 * 1024 + 1_u32).to_le_bytes().to_vec(),
        ),
        ("the longest", u32::MAX.to_le_bytes().to_vec()),
        ("no JSON", frame(b"\xff\0nonsense")),
        ("empty", frame(b"")),
        ("no number", frame(b"{\"op\":\"Stats\"}")),
        ("another type", frame(b"[1,2,3]")),
        ("deep", frame(deep.as_bytes())),
        ("two values", frame(b"{\"id\":1,\"op\":\"Stats\"} 2")),
    ];
    for (what, bytes) in nonsense {
        let mut stream = owner.stranger().await;
        stream.write_all(&bytes).await.unwrap();
        assert!(is_hung_up(&mut stream).await, "{what}");
        journal.add_one(entry(what)).await.unwrap();
    }
    for part in [1, 3, 4, 10] {
        let whole = frame(b"{\"id\":1,\"op\":{\"Cancel\":\"empty\"}}");
        let mut stream = owner.stranger().await;
        stream.write_all(&whole[..part]).await.unwrap();
        drop(stream);
        // One that stays and says no more.
        let mut silent = owner.stranger().await;
        silent.write_all(&whole[..part]).await.unwrap();
        journal.stats().await.unwrap();
    }
    assert_eq!(journal.stats().await.unwrap().waiting(), 8);
}

#[tokio::test]
async fn an_unknown_request_is_answered_by_its_number() {
    let owner = Owner::usual().await;
    let mut stream = owner.stranger().await;
    stream
        .write_all(&frame(b"{\"id\":77,\"op\":{\"Explode\":1}}"))
        .await
        .unwrap();
    stream
        .write_all(&frame(b"{\"id\":78,\"op\":{\"Get\":\"\"}}"))
        .await
        .unwrap();
    let mut said = String::new();
    while said.matches("\"Answer\"").count() < 2 {
        let mut part = [0; 4096];
        let length = soon(stream.read(&mut part)).await.unwrap();
        assert!(length > 0, "hung up after {said}");
        said.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    assert!(
        said.contains("\"id\":77") && said.contains("\"id\":78"),
        "{said}"
    );
    assert_eq!(said.matches("\"invalid\"").count(), 2, "{said}");
}

#[tokio::test]
async fn a_client_that_never_reads_does_not_hold_up_others() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    let long = Data::from_json(format!("\"{}\"", "x".repeat(1_000_000))).unwrap();
    journal.add_one(NewEntry::new("long", long)).await.unwrap();
    let mut deaf = owner.stranger().await;
    for id in 0..2_000 {
        let request = frame(format!("{{\"id\":{id},\"op\":{{\"Get\":\"long\"}}}}").as_bytes());
        if deaf.try_write(&request).is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    for number in 0..50 {
        soon(journal.add_one(entry(&format!("key {number}"))))
            .await
            .unwrap();
    }
    assert_eq!(journal.stats().await.unwrap().waiting(), 51);
    deaf.shutdown().await.unwrap();
}

#[tokio::test]
async fn one_connection_too_many_is_refused_with_the_reason() {
    let owner = Owner::usual().await;
    let mut others = Vec::new();
    for _ in 0..64 {
        others.push(owner.journal().await);
    }
    let error = Remote::connect(&owner.socket(), Clock::real())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("64 connections"), "{error}");
    others.pop().unwrap().close().await;
    soon(async {
        while Remote::connect(&owner.socket(), Clock::real())
            .await
            .is_err()
        {
            Clock::real().sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    others[0].stats().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_gone_and_back_is_found_again() {
    let mut owner = Owner::usual().await;
    let journal = owner.journal().await;
    journal.add_one(entry("kept")).await.unwrap();
    let mut wakes = journal.wakes();
    owner.served.stop().await;
    assert!(!owner.socket().exists());
    assert!(
        soon(wakes.next()).await,
        "the loss of the connection is told"
    );
    for _ in 0..2 {
        let error = journal.stats().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(matches!(journal.health(), Health::Bad(_)));
    }
    owner.again().await;
    assert_eq!(journal.stats().await.unwrap().waiting(), 1);
    assert_eq!(journal.health(), Health::Good);
    assert!(soon(wakes.next()).await, "the new connection is told");
    journal.add_one(entry("more")).await.unwrap();
    assert!(soon(wakes.next()).await, "wake-ups go on");
}

#[tokio::test]
async fn requests_under_way_hear_that_the_server_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let server = tokio::spawn(async move {
        let mut stream = greeted(&listener).await;
        stream.read_exact(&mut [0; 4]).await.unwrap();
    });
    let other = journal(Remote::connect(&socket, Clock::real()).await.unwrap());
    let error = soon(other.stats()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    server.await.unwrap();
}

/// Accepts a connection and greets it.
async fn greeted(listener: &tokio::net::UnixListener) -> UnixStream {
    let greeting = serde_json::json!({"Hello": {"protocol": 1, "declaration": {}}});
    let (mut stream, _) = listener.accept().await.unwrap();
    let greeting = frame(greeting.to_string().as_bytes());
    stream.write_all(&greeting).await.unwrap();
    stream
}

#[tokio::test]
async fn an_owner_that_never_answers_is_left_and_asked_anew() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let connecting = tokio::spawn({
        let socket = socket.clone();
        async move { Remote::connect_within(&socket, Clock::real(), Duration::from_millis(50)).await }
    });
    let mut first = greeted(&listener).await;
    let journal = journal(connecting.await.unwrap().unwrap());

    let error = soon(journal.stats()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let said = "no answer from the owner within 0.05 s; the request may or may not have been done";
    assert!(error.message.contains(said), "{error}");
    assert!(matches!(journal.health(), Health::Bad(_)));
    assert!(is_hung_up(&mut first).await, "the connection is dropped");

    // An answer to the next request comes from a new connection.
    let asking = tokio::spawn({
        let journal = journal.clone();
        async move { journal.stats().await }
    });
    let mut second = soon(greeted(&listener)).await;
    second.read_exact(&mut [0; 4]).await.unwrap();
    let stats =
        serde_json::json!({"Answer": {"id": 2, "result": {"Ok": {"Stats": Stats::default()}}}});
    let answer = frame(stats.to_string().as_bytes());
    second.write_all(&answer).await.unwrap();
    assert_eq!(soon(asking).await.unwrap(), Ok(Stats::default()));
}

#[tokio::test]
async fn a_server_of_another_protocol_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let greetings = [
        (
            serde_json::json!({"Hello": {"protocol": 2, "declaration": {}}}),
            ErrorKind::Locked,
        ),
        (serde_json::json!("Wake"), ErrorKind::Unavailable),
        (serde_json::json!({"Unheard": "of"}), ErrorKind::Unavailable),
    ];
    for (greeting, kind) in greetings {
        let connecting = tokio::spawn({
            let socket = socket.clone();
            async move { Remote::connect(&socket, Clock::real()).await }
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        stream
            .write_all(&frame(greeting.to_string().as_bytes()))
            .await
            .unwrap();
        assert_eq!(
            connecting.await.unwrap().unwrap_err().kind,
            kind,
            "{greeting}"
        );
    }
}

#[tokio::test]
async fn a_closed_journal_of_the_owner_is_one_to_wait_for() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    owner.memory.close().await;
    assert_eq!(
        journal.stats().await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn a_closed_client_refuses_and_leaves_the_owner_alone() {
    let owner = Owner::usual().await;
    let (one, two) = (owner.journal().await, owner.journal().await);
    let mut wakes = one.wakes();
    one.close().await;
    one.close().await;
    assert_eq!(one.stats().await.unwrap_err().kind, ErrorKind::Closed);
    soon(async { while wakes.next().await {} }).await;
    assert!(!one.wakes().next().await);
    two.add_one(entry("key")).await.unwrap();
}

#[tokio::test]
async fn a_long_listing_comes_in_pages_that_fit() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    let long = Data::from_json(format!("\"{}\"", "x".repeat(Data::BYTES_MAX - 2))).unwrap();
    for number in 0..20 {
        let entry = NewEntry::new(format!("key {number}"), long.clone());
        journal.add_one(entry).await.unwrap();
    }
    let mut query = Query::all();
    let mut pages = Vec::new();
    loop {
        let page = journal.list(query.clone()).await.unwrap();
        pages.push(page.entries.len());
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    assert!(pages.len() > 1);
    assert_eq!(pages.iter().sum::<usize>(), 20);
}

#[tokio::test]
async fn a_request_that_is_too_long_is_not_sent() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    // A control character takes six bytes of JSON.
    let adds = (0..700).map(|number| entry(&format!("{}{number}", "\u{1}".repeat(4_000))));
    let error = journal.add(adds.collect()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("split it"), "{error}");
    journal.stats().await.unwrap();
}

fn deep_folder(below: &Path) -> PathBuf {
    let folder = (0..10).fold(below.to_owned(), |folder, _| {
        folder.join("a_folder_with_a_long_name")
    });
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn a_path_longer_than_an_address_holds_works() {
    let folder = tempfile::tempdir().unwrap();
    let socket = deep_folder(folder.path()).join("socket");
    assert!(socket.as_os_str().len() > 200);
    let owner = Owner::usual().await;
    let served = serve(&socket, owner.memory.clone(), &owner.tasks)
        .await
        .unwrap();
    let journal = journal(Remote::connect(&socket, Clock::real()).await.unwrap());
    journal.add_one(entry("deep")).await.unwrap();
    assert_eq!(owner.journal().await.stats().await.unwrap().waiting(), 1);
    served.stop().await;
    assert!(!socket.exists());
    assert_eq!(
        journal.stats().await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn the_socket_is_private_and_a_stale_one_is_replaced() {
    let owner = Owner::usual().await;
    let mode = std::fs::metadata(owner.socket())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let stale = owner.folder.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    let served = serve(&stale, owner.memory.clone(), &owner.tasks)
        .await
        .unwrap();
    Remote::connect(&stale, Clock::real()).await.unwrap();
    served.stop().await;
    let file = owner.folder.path().join("lock");
    std::fs::create_dir(&file).unwrap();
    let error = serve(&file, owner.memory.clone(), &owner.tasks)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(file.exists());
}

#[tokio::test]
async fn a_socket_that_somebody_removed_is_made_again() {
    let owner = Owner::usual().await;
    let before = owner.journal().await;
    std::fs::remove_file(owner.socket()).unwrap();
    soon(async {
        while Remote::connect(&owner.socket(), Clock::real())
            .await
            .is_err()
        {
            Clock::real().sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    before.add_one(entry("a")).await.unwrap();
    assert_eq!(owner.journal().await.stats().await.unwrap().waiting(), 1);
    owner.served.stop().await;
    assert!(!owner.socket().exists());
}

#[tokio::test]
async fn stopping_the_tasks_removes_the_socket() {
    let owner = Owner::usual().await;
    let journal = owner.journal().await;
    let stopped = owner.tasks.stop(Duration::from_secs(30)).await;
    assert_eq!(stopped, cannery_runtime::tasks::Stopped::default());
    assert!(!owner.socket().exists());
    assert_eq!(
        journal.stats().await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
}

#[tokio::test]
async fn a_socket_that_was_replaced_is_left_alone() {
    let owner = Owner::usual().await;
    std::fs::remove_file(owner.socket()).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(owner.socket()).unwrap();
    owner.served.stop().await;
    assert!(owner.socket().exists());
}

#[tokio::test]
async fn nobody_there_is_said_with_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let error: Error = Remote::connect(&folder.path().join("socket"), Clock::real())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("socket`"), "{error}");
}

#[tokio::test]
async fn a_worker_goes_on_when_the_owner_was_started_again() {
    let mut owner = Owner::new(Declaration::default(), Clock::real()).await;
    let journal = owner.journal().await;
    let stop = CancellationToken::new();
    let worker = Worker::new(journal, "far", Clock::real(), Rng::seeded(1)).concurrency(4);
    let worker = tokio::spawn(worker.run(Doing(|_| async { Outcome::Done }), stop.clone()));
    let local = Journal::new("work", owner.memory.clone());
    for round in 0..3_u64 {
        for number in 0..20 {
            local
                .add_one(entry(&format!("{round} {number}")))
                .await
                .unwrap();
        }
        let wanted = (round + 1) * 20;
        soon(async {
            while done(&owner.memory).await < wanted {
                Clock::real().sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        owner.served.stop().await;
        owner.again().await;
    }
    stop.cancel();
    let summary = soon(worker).await.unwrap();
    assert_eq!(summary.done + summary.lost, 60);
    assert_eq!(summary.error, None);
}

async fn done(memory: &Memory) -> u64 {
    match memory.call(Op::Stats).await.unwrap() {
        Reply::Stats(stats) => stats.counts.done,
        other => panic!("{other:?}"),
    }
}
