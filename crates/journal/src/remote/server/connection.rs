//! One connection: requests in, answers and news out.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Server, answer};
use crate::declaration::Declaration;
use crate::engine::Engine;
use crate::error::Error;
use crate::op::{Op, Reply};
use crate::remote::frame::{
    self, ANSWER_BYTES_MAX, Message, PROTOCOL, REQUEST_BYTES_MAX, RawRequest,
};
use crate::token::Token;
use crate::wake::{Alarm, Wakes};

/// The most requests under way at once; the next is not read before one is answered.
const REQUESTS_MAX: usize = 256;
/// The most requests under way whose answers hold data, which may be megabytes.
const LARGE_MAX: usize = 8;
/// The most KiB of requests under way.
const REQUEST_KIB_MAX: usize = 2 * REQUEST_BYTES_MAX / 1024;
/// Frames that wait to be written.
const QUEUE: usize = 16;

/// A frame to write, with what its request holds until it is written.
type Outgoing = (Vec<u8>, Vec<OwnedSemaphorePermit>);

/// Serves one client until it leaves, talks nonsense, or a stop is asked for; then requests under way are answered.
pub(super) async fn serve(server: Server, stream: UnixStream, stop: CancellationToken) {
    // Listening begins before the greeting: what happens after it is told.
    let (wakes, declared) = (server.engine.wakes(), server.declared.listen());
    let (from, to) = stream.into_split();
    let (connection, queue) = Connection::new(server);
    let mut writing = pin!(write(to, queue));
    let ended = tokio::select! {
        ended = &mut writing => ended,
        ended = connection.read(from, &stop) => {
            // The last answers are written when nobody can add another.
            drop(connection);
            ended.and(writing.await)
        }
        ended = connection.tell(wakes, declared) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the journal ended badly");
    }
}

async fn write(mut to: OwnedWriteHalf, mut queue: mpsc::Receiver<Outgoing>) -> io::Result<()> {
    while let Some((frame, _permits)) = queue.recv().await {
        to.write_all(&frame).await?;
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Connection {
    engine: Arc<dyn Engine>,
    declared: Alarm,
    out: mpsc::Sender<Outgoing>,
    /// The declaration that the client was told last. Locked while it is being told, so that an older one is never told
    /// after a newer one.
    known: Arc<Mutex<Option<Declaration>>>,
    requests: Arc<Semaphore>,
    large: Arc<Semaphore>,
    kib: Arc<Semaphore>,
}

impl Connection {
    fn new(server: Server) -> (Self, mpsc::Receiver<Outgoing>) {
        let (out, queue) = mpsc::channel(QUEUE);
        let connection = Self {
            engine: server.engine,
            declared: server.declared,
            out,
            known: Arc::default(),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            large: Arc::new(Semaphore::new(LARGE_MAX)),
            kib: Arc::new(Semaphore::new(REQUEST_KIB_MAX)),
        };
        (connection, queue)
    }

    /// Greets, and passes on wake-ups and changes of the declaration. Many that come while the client does not read are
    /// one.
    async fn tell(&self, mut wakes: Wakes, mut declared: Wakes) -> io::Result<()> {
        self.tell_declaration().await?;
        loop {
            let woken = tokio::select! {
                alive = wakes.next() => alive,
                _ = declared.next() => {
                    self.tell_declaration().await?;
                    continue;
                }
            };
            if !woken {
                return Ok(());
            }
            // The owner itself may have changed the declaration, too.
            self.tell_declaration().await?;
            self.put(&Message::Wake, Vec::new()).await?;
        }
    }

    /// Says which declaration is in force, unless the client knows; the first time with the greeting.
    async fn tell_declaration(&self) -> io::Result<()> {
        let mut known = self.known.lock().await;
        let declaration = Box::new(self.engine.declaration());
        let message = match known.as_ref() {
            None => Message::Hello {
                protocol: PROTOCOL,
                declaration: declaration.clone(),
            },
            Some(known) if *known == *declaration => return Ok(()),
            Some(_) => Message::Declared(declaration.clone()),
        };
        self.put(&message, Vec::new()).await?;
        *known = Some(*declaration);
        Ok(())
    }

    async fn read(&self, from: OwnedReadHalf, stop: &CancellationToken) -> io::Result<()> {
        let mut from = BufReader::new(from);
        let mut calls = JoinSet::new();
        loop {
            let content = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                content = frame::read(&mut from, REQUEST_BYTES_MAX) => content?,
            };
            let Some(content) = content else {
                return Ok(());
            };
            let kib = u32::try_from(content.len().div_ceil(1024)).unwrap_or(u32::MAX);
            let permits = vec![
                permits(&self.requests, 1).await?,
                permits(&self.kib, kib).await?,
            ];
            let RawRequest { id, op } = serde_json::from_slice(&content)?;
            let op = serde_json::from_str(op.get())
                .map_err(|error| Error::invalid(format!("the request is not understood: {error}")));
            calls.spawn(self.clone().answer(id, op, permits));
            while calls.try_join_next().is_some() {}
        }
        while calls.join_next().await.is_some() {}
        Ok(())
    }

    async fn answer(self, id: u64, op: Result<Op, Error>, mut held: Vec<OwnedSemaphorePermit>) {
        if op.as_ref().is_ok_and(answer::is_large) {
            let Ok(permit) = permits(&self.large, 1).await else {
                return;
            };
            held.push(permit);
        }
        let declares = matches!(op, Ok(Op::Declare(_)));
        let result = match op {
            Ok(op) => answer::to(self.engine.as_ref(), op).await,
            Err(error) => Err(error),
        };
        let told = if declares && result.is_ok() {
            self.declared.ring();
            self.tell_declaration().await
        } else {
            Ok(())
        };
        let claimed = claimed_in(&result);
        let answered = match told {
            Ok(()) => self.put_answer(id, result, held).await,
            Err(error) => Err(error),
        };
        // Writing fails when the connection is over: then nobody waits for the answer, and others may have what it holds.
        if answered.is_err() && !claimed.is_empty() {
            let release = Op::Release {
                tokens: claimed,
                at: None,
            };
            self.engine.call(release).await.ok();
        }
    }

    async fn put_answer(
        &self,
        id: u64,
        result: answer::Answer,
        held: Vec<OwnedSemaphorePermit>,
    ) -> io::Result<()> {
        match frame::pack(&Message::Answer { id, result }, ANSWER_BYTES_MAX)? {
            Some(frame) => self.send(frame, held).await,
            None => {
                let result = Err(answer::too_long());
                self.put(&Message::Answer { id, result }, held).await
            }
        }
    }

    async fn put(&self, message: &Message, held: Vec<OwnedSemaphorePermit>) -> io::Result<()> {
        let frame = frame::pack(message, ANSWER_BYTES_MAX)?;
        self.send(frame.ok_or(io::ErrorKind::InvalidData)?, held)
            .await
    }

    async fn send(&self, frame: Vec<u8>, held: Vec<OwnedSemaphorePermit>) -> io::Result<()> {
        let sent = self.out.send((frame, held)).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// The leases that an answer gives.
fn claimed_in(result: &answer::Answer) -> Vec<Token> {
    match result {
        Ok(Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed)) => {
            let leases = claimed
                .entries
                .iter()
                .filter_map(|entry| entry.lease.as_ref());
            leases.map(|lease| lease.token).collect()
        }
        Ok(_) | Err(_) => Vec::new(),
    }
}

async fn permits(of: &Arc<Semaphore>, count: u32) -> io::Result<OwnedSemaphorePermit> {
    let permit = Arc::clone(of).acquire_many_owned(count).await;
    permit.map_err(io::Error::other)
}
