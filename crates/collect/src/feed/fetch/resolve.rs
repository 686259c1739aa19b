//! Names to addresses: only to addresses that were checked, and a connection is made to no other.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::blocking::blocking;

/// The system's resolver blocks a thread for as long as it likes: more of them would take the threads that write to the
/// disk.
const LOOKUPS_MAX: usize = 16;

/// How names are looked up; it may block.
pub(super) trait Lookup: Send + Sync + 'static {
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// As every other program of this machine does it.
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = (name, 0).to_socket_addrs()?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The resolver of one client: what it returns is what is connected to, so a name that means another address at the
/// next question gains nothing by it.
pub(super) struct Resolver {
    pub(super) lookup: Arc<dyn Lookup>,
    pub(super) allowed: fn(IpAddr) -> bool,
    pub(super) places: Arc<Semaphore>,
}

/// Why a name has no address to connect to. Found again in the chain of causes of a failed request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unresolved {
    #[error("its name leads to a private address")]
    Private,
    #[error("its name cannot be resolved: {0}")]
    Failed(io::Error),
    #[error("its name has no address")]
    Nothing,
}

impl Resolver {
    /// Places for the lookups of all clients of a process.
    pub(super) fn places() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(LOOKUPS_MAX))
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, allowed) = (Arc::clone(&self.lookup), self.allowed);
        let places = Arc::clone(&self.places);
        Box::pin(async move {
            let place = places.acquire_owned().await?;
            let found = blocking(move || {
                let found = lookup.lookup(name.as_str());
                // Not before: whoever asked may have gone long ago.
                drop(place);
                found
            });
            let found = found.await.map_err(Unresolved::Failed)?;
            let addresses = checked(found, allowed)?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// The addresses that may be connected to, without port.
fn checked(found: Vec<IpAddr>, allowed: fn(IpAddr) -> bool) -> Result<Vec<SocketAddr>, Unresolved> {
    if found.is_empty() {
        return Err(Unresolved::Nothing);
    }
    let addresses: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| allowed(*address))
        .map(|address| SocketAddr::new(address, 0))
        .collect();
    if addresses.is_empty() {
        return Err(Unresolved::Private);
    }
    Ok(addresses)
}
