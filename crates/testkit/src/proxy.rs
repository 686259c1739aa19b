//! A TCP proxy that puts faults between a client and a server, switched while it runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::{Error, Result};

mod pump;
#[cfg(test)]
mod tests;

/// What the proxy does to connections, open ones too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Forwards everything.
    None,
    /// Holds every piece of an answer back for so long. Never used up.
    Delay(Duration),
    /// Closes the connection after so many bytes of the answer, counted from when the fault was set.
    CutAfter(u64),
    /// Timeout after commit: the server gets the whole request and answers; the client hears nothing, ever.
    SwallowAnswer,
    /// Cut after commit: the server gets the whole request and answers; the client's connection is closed instead.
    CutAnswer,
    /// Nobody listens, and open connections are closed. Never used up.
    Refuse,
}

/// The proxy, on a port of its own. Dropping it closes every connection.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: watch::Receiver<bool>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    plan: watch::Sender<Plan>,
    fired: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    fault: Fault,
    /// How often it may still happen; `None` is for ever.
    times_left: Option<u32>,
    /// Counts the plans, so that a connection sees a new one.
    number: u64,
}

impl FaultProxy {
    /// Starts in front of `upstream`, without a fault.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let (guard, address) = reserve_port().map_err(Error::io("reserve a port for the proxy"))?;
        let listener = listen(address).map_err(Error::io("listen on the proxy's port"))?;
        let plan = Plan {
            fault: Fault::None,
            times_left: None,
            number: 0,
        };
        let plan = watch::Sender::new(plan);
        let shared = Arc::new(Shared {
            upstream,
            plan,
            fired: AtomicU64::new(0),
        });
        let (listens, listening) = watch::channel(true);
        let accepting = tokio::spawn(accept(guard, listener, Arc::clone(&shared), listens));
        Ok(Self {
            address,
            shared,
            listening,
            accepting,
        })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault from now on.
    pub async fn set(&self, fault: Fault) {
        self.plan(fault, None).await;
    }

    /// Lets the fault happen to the next `times` connections that meet it; then there is none.
    pub async fn set_times(&self, fault: Fault, times: u32) {
        self.plan(fault, Some(times)).await;
    }

    /// How many connections were cut or silenced by a fault, not counting [`Fault::Refuse`].
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.shared.fired.load(Ordering::SeqCst)
    }

    async fn plan(&self, fault: Fault, times_left: Option<u32>) {
        self.shared.plan.send_modify(|plan| {
            *plan = Plan {
                fault,
                times_left,
                number: plan.number + 1,
            };
        });
        let mut listening = self.listening.clone();
        // The task that sends lives as long as we do.
        drop(
            listening
                .wait_for(|&listens| listens == (fault != Fault::Refuse))
                .await,
        );
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    /// Takes one happening of the fault that `seen` describes; false when others used it up.
    fn fire(&self, seen: &Plan) -> bool {
        let took = self.plan.send_if_modified(|plan| {
            let (same, left) = (plan.number == seen.number, plan.times_left);
            match left {
                Some(0) => return false,
                Some(left) if same => plan.times_left = Some(left - 1),
                Some(_) | None => {}
            }
            if plan.times_left == Some(0) {
                plan.fault = Fault::None;
            }
            same
        });
        if took {
            self.fired.fetch_add(1, Ordering::SeqCst);
        }
        took
    }
}

/// A bound socket that does not listen: it keeps the port ours while nobody listens on it.
fn reserve_port() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let guard = TcpSocket::new_v4()?;
    guard.set_reuseaddr(true)?;
    guard.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = guard.local_addr()?;
    Ok((guard, address))
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(128)
}

async fn accept(
    guard: TcpSocket,
    first: TcpListener,
    shared: Arc<Shared>,
    listens: watch::Sender<bool>,
) {
    let Ok(address) = guard.local_addr() else {
        return;
    };
    let mut plans = shared.plan.subscribe();
    let mut connections = JoinSet::new();
    let mut listener = Some(first);
    loop {
        if plans.borrow_and_update().fault == Fault::Refuse {
            listener = None;
            connections.shutdown().await;
        } else if listener.is_none() {
            listener = listen(address).ok();
        }
        listens.send_replace(listener.is_some());
        tokio::select! {
            changed = plans.changed() => if changed.is_err() { return },
            Some(client) = next_client(listener.as_ref()) => {
                connections.spawn(forward(client, Arc::clone(&shared)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// `None`, which disables the branch of the select above, when nobody listens.
async fn next_client(listener: Option<&TcpListener>) -> Option<TcpStream> {
    let (client, _) = listener?.accept().await.ok()?;
    Some(client)
}

async fn forward(client: TcpStream, shared: Arc<Shared>) {
    if let Ok(upstream) = TcpStream::connect(shared.upstream).await {
        pump::connection(client, upstream, &shared).await;
    }
}
