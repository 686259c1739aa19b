//! Threads that own a connection each and take work from one queue.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::Error;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The way to some threads. They end when the last way to them is dropped, or by [`Threads::stop`].
#[derive(Clone, Debug)]
pub(super) struct Threads {
    queue: Arc<Mutex<Option<Sender<Job>>>>,
    ended: Arc<Mutex<Vec<oneshot::Receiver<()>>>>,
}

impl Threads {
    /// One thread for each connection.
    pub(super) fn start(name: &str, connections: Vec<Connection>) -> Result<Self, Error> {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut ended = Vec::new();
        for connection in connections {
            let receiver = Arc::clone(&receiver);
            let (end, end_seen) = oneshot::channel();
            ended.push(end_seen);
            let work = move || {
                serve(&receiver, connection);
                drop(end);
            };
            let started = thread::Builder::new().name(name.to_owned()).spawn(work);
            started.map_err(|error| {
                Error::unavailable(format!("cannot start thread `{name}`: {error}"))
            })?;
        }
        Ok(Self {
            queue: Arc::new(Mutex::new(Some(sender))),
            ended: Arc::new(Mutex::new(ended)),
        })
    }

    /// Queues work that nobody waits for; done before all that is queued later on a single thread.
    pub(super) fn post(&self, job: impl FnOnce(&mut Connection) + Send + 'static) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue
            .as_ref()
            .is_some_and(|queue| queue.send(Box::new(job)).is_ok())
    }

    /// Has a thread do something and waits for the answer. Work whose caller goes away is done all the same.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        self.post(move |connection| {
            // Nobody may be waiting any more.
            answer.send(work(connection)).unwrap_or_default();
        });
        answered
            .await
            .unwrap_or_else(|_| Err(Error::unavailable("the database was closed")))
    }

    /// Ends the threads after what is queued, and waits for them.
    pub(super) async fn stop(&self) {
        drop(
            self.queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ended {
            // The sender is dropped without a word: that is the end.
            end.await.unwrap_or_default();
        }
    }
}

fn serve(queue: &Mutex<Receiver<Job>>, mut connection: Connection) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(&mut connection),
            Err(_) => return,
        }
    }
}
