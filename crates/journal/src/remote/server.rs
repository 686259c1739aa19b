//! The side of the process that owns the journal.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_runtime::{Clock, Tasks};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::frame::{self, ANSWER_BYTES_MAX, Message};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::op::Op;
use crate::wake::Alarm;

mod answer;
mod connection;

/// The most connections at once.
const CONNECTIONS_MAX: usize = 64;
/// The pause after a connection that could not be accepted; of real time, like the trouble it waits for.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often it is looked whether the socket is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a stop waits for answers to requests that are under way; of real time, like the clients.
const DRAIN: Duration = Duration::from_secs(5);

/// A socket that is being served.
#[must_use = "the socket is served until its tasks are stopped; keep this to end it before"]
#[derive(Debug)]
pub struct Served {
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Served {
    /// Answers what is under way, ends all connections, removes the socket and waits until that is done. To be called before the engine is closed and the lock on its folder let go.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

/// Serves an engine on a socket, to processes of the same user and of root, until [`Served::stop`] or until `tasks` are
/// stopped; then the socket is removed.
///
/// What is left of a socket by a process that was killed is replaced. Therefore the caller must hold the lock on the folder
/// of the journal: else it would take the socket from a process that still serves it.
///
/// # Errors
/// `Invalid` when something else than a socket is at the path; `Unavailable` when the socket cannot be made.
pub async fn serve(socket: &Path, engine: Arc<dyn Engine>, tasks: &Tasks) -> Result<Served, Error> {
    let mut door = Door::open(socket).await?;
    let served = Served {
        stop: tasks.stopping().child_token(),
        ended: CancellationToken::new(),
    };
    let (stop, ended) = (served.stop.clone(), served.ended.clone().drop_guard());
    let server = Server {
        engine,
        declared: Alarm::new(),
    };
    tasks.spawn("journal socket", async move {
        server.run(&mut door, stop).await;
        drop(door);
        drop(ended);
    });
    Ok(served)
}

fn cannot_serve(socket: &Path, error: &dyn std::fmt::Display) -> Error {
    let message = format!("cannot serve socket `{}`: {error}", socket.display());
    Error::new(ErrorKind::Unavailable, message)
}

/// The socket, and where it is to be found.
#[derive(Debug)]
struct Door {
    socket: PathBuf,
    listener: UnixListener,
    bound: Bound,
}

impl Door {
    async fn open(socket: &Path) -> Result<Self, Error> {
        let place = socket.to_owned();
        let bound = tokio::task::spawn_blocking(move || Bound::new(&place)).await;
        let (bound, listener) = bound.map_err(|error| cannot_serve(socket, &error))??;
        let listener =
            UnixListener::from_std(listener).map_err(|error| cannot_serve(socket, &error))?;
        Ok(Self {
            socket: socket.to_owned(),
            listener,
            bound,
        })
    }

    /// Makes the socket again where somebody removed it. Says whether it is still ours: another one in its place is that of
    /// the next owner.
    async fn see_to_it(&mut self, engine: &dyn Engine) -> bool {
        match inode(self.bound.address.path()) {
            Ok(found) => return found == self.bound.inode,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return true,
        }
        // Only the owner may make it again, and an engine that has lost its folder notices when it is asked.
        if engine
            .call(Op::Sweep)
            .await
            .is_err_and(|error| error.kind == ErrorKind::Closed)
        {
            return false;
        }
        match Self::open(&self.socket).await {
            Ok(door) => {
                tracing::warn!(socket = %self.socket.display(), "the socket was gone; made it again");
                *self = door;
            }
            Err(error) => tracing::debug!(%error, "the socket is gone and cannot be made again"),
        }
        true
    }
}

/// The socket in the file system; gone when dropped, unless somebody put another one in its place.
#[derive(Debug)]
struct Bound {
    address: Address,
    inode: (u64, u64),
}

impl Bound {
    fn new(socket: &Path) -> Result<(Self, std::os::unix::net::UnixListener), Error> {
        let failed = |error: io::Error| cannot_serve(socket, &error);
        let address = Address::of(socket).map_err(failed)?;
        remove_stale(address.path(), socket)?;
        let listener = std::os::unix::net::UnixListener::bind(address.path()).map_err(failed)?;
        let bound = Self::of(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok((bound, listener))
    }

    fn of(address: Address) -> io::Result<Self> {
        // Until here the rights of the folder and the check of who connects stand guard.
        fs::set_permissions(address.path(), fs::Permissions::from_mode(0o600))?;
        let inode = inode(address.path())?;
        Ok(Self { address, inode })
    }
}

impl Bound {
    fn is_there(&self) -> bool {
        inode(self.address.path()).is_ok_and(|inode| inode == self.inode)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let path: PathBuf = self.address.path().to_owned();
        if self.is_there()
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(socket = %path.display(), %error, "cannot remove the socket; the next owner will");
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

fn remove_stale(path: &Path, socket: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(cannot_serve(socket, &error)),
        Ok(found) if found.file_type().is_socket() => {
            fs::remove_file(path).map_err(|error| cannot_serve(socket, &error))
        }
        Ok(_) => Err(Error::invalid(format!(
            "`{}` is not a socket; move it away",
            socket.display()
        ))),
    }
}

/// What all connections share.
#[derive(Clone, Debug)]
struct Server {
    engine: Arc<dyn Engine>,
    /// Rings when a client changed the declaration.
    declared: Alarm,
}

impl Server {
    async fn run(&self, door: &mut Door, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        let clock = Clock::real();
        let mut look = clock.elapsed();
        loop {
            if clock.since(look) >= LOOK_EVERY {
                if !door.see_to_it(&*self.engine).await {
                    tracing::warn!(socket = %door.socket.display(), "the journal is not ours any more; this process stops serving it");
                    break;
                }
                look = clock.elapsed();
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                () = clock.sleep(LOOK_EVERY.saturating_sub(clock.since(look))) => {}
                accepted = door.listener.accept() => match accepted {
                    Ok((stream, _)) => self.admit(stream, &stop, &mut connections).await,
                    Err(error) => {
                        // Out of file descriptors, most likely, which passes; the client waits in the meantime.
                        tracing::warn!(%error, "cannot accept a connection to the journal; trying again");
                        Clock::real().sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        // Requests under way are answered; who does not read his answers is not waited for.
        let answered = clock.timeout(DRAIN, async {
            while connections.join_next().await.is_some() {}
        });
        if answered.await.is_err() {
            connections.shutdown().await;
        }
    }

    async fn admit(
        &self,
        stream: UnixStream,
        stop: &CancellationToken,
        connections: &mut JoinSet<()>,
    ) {
        let refusal = match may_connect(&stream) {
            Err(error) => Some(error),
            Ok(()) if connections.len() >= CONNECTIONS_MAX => Some(Error::new(
                ErrorKind::Unavailable,
                format!("the journal has {CONNECTIONS_MAX} connections already; end one"),
            )),
            Ok(()) => None,
        };
        match refusal {
            Some(error) => refuse(stream, error).await,
            None => {
                let connection = connection::serve(self.clone(), stream, stop.clone());
                connections.spawn(connection);
            }
        }
    }
}

/// Only the same user and root: others are kept out by the rights of the folder, and by this.
fn may_connect(stream: &UnixStream) -> Result<(), Error> {
    let peer = stream.peer_cred().map(|peer| peer.uid());
    let own = rustix::process::geteuid().as_raw();
    match peer {
        Ok(uid) if is_trusted(uid, own) => Ok(()),
        Ok(uid) => Err(Error::new(
            ErrorKind::Denied,
            format!("the journal belongs to user {own}; user {uid} has no access"),
        )),
        Err(error) => Err(Error::new(
            ErrorKind::Denied,
            format!("cannot tell who connects to the journal: {error}"),
        )),
    }
}

fn is_trusted(uid: u32, own: u32) -> bool {
    uid == own || uid == 0
}

/// A few bytes to a fresh socket fit into its buffer: this does not wait for the other side.
async fn refuse(mut stream: UnixStream, error: Error) {
    tracing::warn!(%error, "refused a connection to the journal");
    if let Ok(Some(frame)) = frame::pack(&Message::Refused(error), ANSWER_BYTES_MAX) {
        // Who is gone already does not need to know.
        stream.write_all(&frame).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_root_are_trusted() {
        for (uid, own, trusted) in [
            (1_000, 1_000, true),
            (0, 1_000, true),
            (0, 0, true),
            (1_001, 1_000, false),
            (1_000, 0, false),
        ] {
            assert_eq!(is_trusted(uid, own), trusted, "{uid} at {own}");
        }
    }
}
