//! Many clients of two servers that are killed again and again: to each object it is as if all requests had been made one after
//! the other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cannery_objects::{Conditions, EtagMatch, ObjectError, ObjectErrorKind, RequestedChange};
use cannery_runtime::Rng;
use cannery_testkit::{long_run, scenario_rng};
use futures::future::join_all;
use object_store::memory::InMemory;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::history::{Content, Event, Operation, is_linearizable};
use crate::world::{Server, World};

const CLIENTS: u64 = 16;
const OBJECTS: u64 = 4;
const REQUESTS: u64 = 15;
const KILLS: u64 = 3;

/// A server with threads of its own, which all end in the middle of whatever they do when it is killed.
struct Process {
    server: Arc<Server>,
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
}

impl Process {
    async fn start(world: &Arc<World>) -> Arc<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let world = Arc::clone(world);
        let server = handle.spawn(async move { world.open().await });
        Arc::new(Self {
            server: Arc::new(server.await.unwrap()),
            handle,
            runtime: Mutex::new(Some(runtime)),
        })
    }

    fn kill(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
enum Ask {
    Get,
    Put(u64),
    PutIf(Content, Conditions, u64),
    Delete,
}

struct Fleet {
    world: Arc<World>,
    processes: RwLock<[Arc<Process>; 2]>,
    /// The order of questions and answers.
    time: AtomicU64,
    events: Mutex<BTreeMap<String, Vec<Event>>>,
}

impl Fleet {
    fn process(&self, number: usize) -> Arc<Process> {
        let processes = self.processes.read().unwrap();
        Arc::clone(&processes[number])
    }

    /// Kills a server, and starts another one in its place.
    async fn replace(&self, number: usize) {
        self.process(number).kill();
        let process = Process::start(&self.world).await;
        self.processes.write().unwrap()[number] = process;
    }

    /// Asks a server and writes down what came of it; what was found or put, with its tag.
    async fn ask(&self, number: usize, path: &str, ask: Ask) -> Option<(u64, String)> {
        let process = self.process(number);
        let (server, at) = (Arc::clone(&process.server), path.to_owned());
        let asked = self.time.fetch_add(1, Ordering::SeqCst);
        let to_do = ask.clone();
        let answer = process
            .handle
            .spawn(async move { answer_of(&server, &at, to_do).await })
            .await;
        let answered = self.time.fetch_add(1, Ordering::SeqCst);
        let (operation, found, is_answered) = match answer {
            Ok(Ok((operation, found))) => (operation, found, true),
            Ok(Err(error)) => {
                assert_eq!(error.kind, ObjectErrorKind::Unavailable, "{error}");
                (as_done(&ask)?, None, false)
            }
            Err(_killed) => (as_done(&ask)?, None, false),
        };
        let event = Event {
            operation,
            asked,
            answered: is_answered.then_some(answered),
        };
        let mut events = self.events.lock().unwrap();
        events.entry(path.to_owned()).or_default().push(event);
        found
    }
}

/// What an unanswered request did, if it did anything; nothing for one that changes nothing.
fn as_done(ask: &Ask) -> Option<Operation> {
    match ask {
        Ask::Get => None,
        Ask::Put(new) => Some(Operation::Put(*new)),
        Ask::PutIf(expected, _, new) => Some(Operation::PutIf {
            expected: *expected,
            new: *new,
            is_done: true,
        }),
        Ask::Delete => Some(Operation::Delete { is_done: true }),
    }
}

type Answer = (Operation, Option<(u64, String)>);

async fn answer_of(server: &Server, path: &str, ask: Ask) -> Result<Answer, ObjectError> {
    let conditions = match &ask {
        Ask::PutIf(_, conditions, _) => conditions.clone(),
        Ask::Get | Ask::Put(_) | Ask::Delete => Conditions::default(),
    };
    match ask {
        Ask::Get => {
            let found = server.namespace.find(&server.key(path)).await?;
            let object = found.and_then(|found| found.entry.as_object().cloned());
            let Some(object) = object else {
                return Ok((Operation::Get(None), None));
            };
            let read = server.read(&object, 0..object.bytes).await?;
            let number = String::from_utf8(read).unwrap().parse().unwrap();
            Ok((Operation::Get(Some(number)), Some((number, object.etag))))
        }
        Ask::Put(new) | Ask::PutIf(_, _, new) => {
            let content = new.to_string();
            let put = server.put_if(path, content.as_bytes(), conditions);
            let done = match put.await {
                Err(error) if error.kind != ObjectErrorKind::ConditionFailed => return Err(error),
                done => done.ok(),
            };
            let entry = done.and_then(|done| done.entry);
            let etag = entry.and_then(|entry| entry.as_object().map(|one| one.etag.clone()));
            let operation = match ask {
                Ask::PutIf(expected, ..) => Operation::PutIf {
                    expected,
                    new,
                    is_done: etag.is_some(),
                },
                Ask::Get | Ask::Put(_) | Ask::Delete => Operation::Put(new),
            };
            Ok((operation, etag.map(|etag| (new, etag))))
        }
        Ask::Delete => match server.change(path, RequestedChange::Delete).await {
            Ok(_) => Ok((Operation::Delete { is_done: true }, None)),
            Err(error) if error.kind == ObjectErrorKind::Absent => {
                Ok((Operation::Delete { is_done: false }, None))
            }
            Err(error) => Err(error),
        },
    }
}

async fn client(fleet: &Fleet, round: u64, client: u64, rng: &Rng) {
    // What it has last seen of each object.
    let mut seen: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for request in 0..REQUESTS {
        let path = format!("/stor/{round}-{}", rng.below(OBJECTS));
        let new = (client + 1) * 1_000 + request;
        let ask = match (rng.below(6), seen.get(&path)) {
            (0 | 1, _) | (4, None) => Ask::Get,
            (2, _) => Ask::Put(new),
            (3, _) => {
                let is_new = Conditions {
                    if_match: None,
                    if_none_match: Some(EtagMatch::Any),
                };
                Ask::PutIf(None, is_new, new)
            }
            (4, Some((number, etag))) => {
                let is_same = Conditions {
                    if_match: Some(EtagMatch::OneOf(vec![etag.clone()])),
                    if_none_match: None,
                };
                Ask::PutIf(Some(*number), is_same, new)
            }
            _ => Ask::Delete,
        };
        let number = usize::from(rng.chance(0.5));
        match fleet.ask(number, &path, ask).await {
            Some(found) => seen.insert(path, found),
            None => seen.remove(&path),
        };
    }
}

async fn run(world: World, rounds: u64, name: &str) {
    let world = Arc::new(world);
    let rng = scenario_rng(name);
    let processes = [Process::start(&world).await, Process::start(&world).await];
    let fleet = Fleet {
        world,
        processes: RwLock::new(processes),
        time: AtomicU64::new(1),
        events: Mutex::default(),
    };
    for round in 0..rounds {
        let clients = (0..CLIENTS).map(|number| client(&fleet, round, number, &rng));
        let killer = async {
            let started = fleet.time.load(Ordering::SeqCst);
            for kill in 1..=KILLS {
                // At about the same places of each history.
                let due = started + kill * (2 * CLIENTS * REQUESTS) / (KILLS + 2);
                while fleet.time.load(Ordering::SeqCst) < due {
                    tokio::task::yield_now().await;
                }
                fleet.replace(usize::from(rng.chance(0.5))).await;
            }
        };
        futures::future::join(join_all(clients), killer).await;
        let events = std::mem::take(&mut *fleet.events.lock().unwrap());
        let all: Vec<&Event> = events.values().flatten().collect();
        let answered = all.iter().filter(|one| one.answered.is_some()).count();
        assert!(
            answered > all.len() / 2,
            "{answered} of {} answers",
            all.len()
        );
        for (path, events) in &events {
            assert!(is_linearizable(events), "{path}: {events:#?}");
        }
    }
    for number in [0, 1] {
        fleet.process(number).server.namespace.close().await;
    }
    // What was answered is in the log as well: a new database says the same.
    let server = Arc::clone(&fleet.process(0).server);
    let before = server.dump().await;
    drop(server);
    let Fleet {
        world, processes, ..
    } = fleet;
    drop(processes);
    let world = Arc::into_inner(world).unwrap().with_new_database();
    world.rebuild(None).await.unwrap();
    let server = world.open().await;
    assert_eq!(server.dump().await, before);
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_an_object_are_as_if_made_one_after_the_other() {
    let world = World::new(Arc::new(InMemory::new()), None, ());
    let rounds = if long_run() { 100 } else { 3 };
    run(world, rounds, "killed servers on a file").await;
}

#[cfg(feature = "real-servers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_an_object_on_real_servers_are_as_if_made_one_after_the_other() {
    let world = crate::pairs::servers::open().await;
    let rounds = if long_run() { 100 } else { 2 };
    run(world, rounds, "killed servers on real servers").await;
}
