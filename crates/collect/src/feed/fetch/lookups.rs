//! The lookups of names that are under way, for all clients of a process: at most one for each name.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, watch};

use super::resolve::Lookup;
use crate::blocking::blocking;

/// The system's resolver blocks a thread for as long as it likes: more of them would take the threads that write to the
/// disk, of which a process has 512.
pub(super) const LOOKUPS_MAX: usize = 128;

/// What a lookup found; whoever has asked for the name gets it.
pub(super) type Found = Result<Vec<IpAddr>, Arc<io::Error>>;

type Answer = watch::Receiver<Option<Found>>;

/// Who asks for a name that is being looked up waits for that answer, so that a name whose servers are dead holds one place,
/// however many feeds ask for it and however often they give up. Nothing is remembered of a lookup that has ended.
pub(super) struct Lookups {
    lookup: Arc<dyn Lookup>,
    places: Semaphore,
    under_way: Mutex<HashMap<String, Answer>>,
}

impl Lookups {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Arc<Self> {
        Arc::new(Self {
            lookup,
            places: Semaphore::new(LOOKUPS_MAX),
            under_way: Mutex::new(HashMap::new()),
        })
    }

    /// The addresses of a name, unchecked. Dropping the future ends nothing but the waiting.
    pub(super) async fn find(self: &Arc<Self>, name: &str) -> Found {
        let mut answer = self.answer(name);
        let found = answer.wait_for(Option::is_some).await;
        let found = found.ok().and_then(|found| found.clone());
        found.unwrap_or_else(|| Err(Arc::new(io::Error::other("the lookup was given up"))))
    }

    /// The answer to come, of the lookup that is under way or of a new one.
    fn answer(self: &Arc<Self>, name: &str) -> Answer {
        let mut under_way = self.lock();
        // One that nobody will answer is left behind by a runtime that has ended.
        let joined = under_way
            .get(name)
            .filter(|answer| answer.has_changed().is_ok());
        if let Some(answer) = joined {
            return answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        under_way.insert(name.to_owned(), answer.clone());
        let (lookups, name) = (Arc::clone(self), name.to_owned());
        tokio::spawn(async move { lookups.run(name, tell).await });
        answer
    }

    async fn run(&self, name: String, tell: watch::Sender<Option<Found>>) {
        let Ok(_place) = self.places.acquire().await else {
            return;
        };
        if self.is_forsaken(&name, &tell) {
            return;
        }
        let (lookup, asked) = (Arc::clone(&self.lookup), name.clone());
        let found = blocking(move || lookup.lookup(&asked)).await;
        // Before it is told: who asks from now on gets an answer of now.
        self.lock().remove(&name);
        tell.send_replace(Some(found.map_err(Arc::new)));
    }

    /// Whether all who asked have given up while there was no place; nobody can join it then any more.
    fn is_forsaken(&self, name: &str, tell: &watch::Sender<Option<Found>>) -> bool {
        let mut under_way = self.lock();
        // One of them is that of the list.
        let is_forsaken = tell.receiver_count() <= 1;
        if is_forsaken {
            under_way.remove(name);
        }
        is_forsaken
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Answer>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
