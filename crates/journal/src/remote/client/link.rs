//! One connection to a server: many callers, one task that reads and writes.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{News, cannot_connect, lock, unreachable};
use crate::data::Data;
use crate::engine::Health;
use crate::error::{Error, ErrorKind};
use crate::op::Reply;
use crate::remote::address::Address;
use crate::remote::frame::{self, ANSWER_BYTES_MAX, Message, PROTOCOL};

/// Requests that wait to be written; more callers wait for a place.
const QUEUE: usize = 64;

type Answer = Result<Reply<Data>, Error>;
/// Who waits for an answer, by its number; nothing once the connection is lost.
type Waiting = Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>;

#[derive(Debug)]
pub(super) struct Link {
    socket: PathBuf,
    waiting: Arc<Waiting>,
    requests: mpsc::Sender<Vec<u8>>,
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Link {
    /// Connects, and hears the greeting.
    pub(super) async fn open(socket: &Path, news: Arc<News>) -> Result<Self, Error> {
        let address = Address::of(socket).map_err(|error| cannot_connect(socket, &error))?;
        let stream = UnixStream::connect(address.path()).await;
        let (from, to) = stream
            .map_err(|error| cannot_connect(socket, &error))?
            .into_split();
        let mut from = BufReader::new(from);
        greet(socket, &mut from, &news).await?;
        Ok(Self::start(socket, from, to, news))
    }

    fn start(
        socket: &Path,
        from: BufReader<OwnedReadHalf>,
        to: OwnedWriteHalf,
        news: Arc<News>,
    ) -> Self {
        let (requests, queue) = mpsc::channel(QUEUE);
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let end = End {
            socket: socket.to_owned(),
            waiting: Arc::new(Mutex::new(Some(HashMap::new()))),
            news,
            _ended: ended.clone().drop_guard(),
        };
        let link = Self {
            socket: socket.to_owned(),
            waiting: Arc::clone(&end.waiting),
            requests,
            stop: stop.clone(),
            ended,
        };
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                failed = write(to, queue) => end.note(failed),
                failed = read(from, &end.waiting, &end.news) => end.note(failed),
            }
        });
        link
    }

    pub(super) fn is_over(&self) -> bool {
        lock(&self.waiting).is_none()
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&self, id: u64, request: Vec<u8>) -> Answer {
        let (answer, answered) = oneshot::channel();
        // The place comes first: who goes away while waiting for it leaves nothing behind.
        let place = self.requests.reserve().await.map_err(|_| self.lost())?;
        match lock(&self.waiting).as_mut() {
            Some(waiting) => drop(waiting.insert(id, answer)),
            None => return Err(self.lost()),
        }
        place.send(request);
        answered.await.unwrap_or_else(|_| Err(self.lost()))
    }

    fn lost(&self) -> Error {
        unreachable(&self.socket, "the connection is lost")
    }

    /// Ends the connection; those who wait hear that it is lost.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What is to be done when the connection is lost, for whatever reason.
struct End {
    socket: PathBuf,
    waiting: Arc<Waiting>,
    news: Arc<News>,
    _ended: DropGuard,
}

impl End {
    fn note(&self, failed: io::Result<()>) {
        if let Err(error) = failed {
            let socket = self.socket.display();
            tracing::debug!(%socket, %error, "the connection to the owner of the journal failed");
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let health = unreachable(&self.socket, "the connection is lost").message;
        *lock(&self.news.health) = Health::Bad(health);
        // Those who wait for answers hear of it now, and those who wait for work shall ask.
        lock(&self.waiting).take();
        self.news.ring();
    }
}

async fn greet(
    socket: &Path,
    from: &mut BufReader<OwnedReadHalf>,
    news: &News,
) -> Result<(), Error> {
    let first = message(from).await;
    match first.map_err(|error| cannot_connect(socket, &error))? {
        Some(Message::Hello {
            protocol: PROTOCOL,
            declaration,
        }) => {
            *lock(&news.declaration) = *declaration;
            *lock(&news.health) = Health::Good;
            Ok(())
        }
        Some(Message::Hello { protocol, .. }) => Err(Error::new(
            ErrorKind::Locked,
            format!(
                "the process that owns the journal speaks protocol {protocol}, this one {PROTOCOL}: run the same version of both"
            ),
        )),
        Some(Message::Refused(error)) => Err(error),
        Some(Message::Answer { .. } | Message::Wake | Message::Declared(_)) => {
            Err(unreachable(socket, "it does not greet"))
        }
        None => Err(unreachable(socket, "it hung up")),
    }
}

async fn message(from: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Message>> {
    let Some(content) = frame::read(from, ANSWER_BYTES_MAX).await? else {
        return Ok(None);
    };
    Ok(Some(serde_json::from_slice(&content)?))
}

async fn read(
    mut from: BufReader<OwnedReadHalf>,
    waiting: &Waiting,
    news: &News,
) -> io::Result<()> {
    while let Some(message) = message(&mut from).await? {
        match message {
            Message::Answer { id, result } => {
                let caller = lock(waiting).as_mut().and_then(|all| all.remove(&id));
                if let Some(caller) = caller {
                    // A caller that went away does not need the answer.
                    caller.send(result).ok();
                }
            }
            Message::Wake => news.ring(),
            Message::Declared(declaration) => *lock(&news.declaration) = *declaration,
            Message::Hello { .. } | Message::Refused(_) => {
                return Err(io::Error::other("a greeting in the middle"));
            }
        }
    }
    Ok(())
}

async fn write(mut to: OwnedWriteHalf, mut queue: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(request) = queue.recv().await {
        to.write_all(&request).await?;
    }
    Ok(())
}
