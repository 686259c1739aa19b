//! Names to addresses: only to addresses that were checked, and a connection is made to no other.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::lookups::Lookups;

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
/// next question gains nothing by it. An answer that clients share is checked by each of them.
pub(super) struct Resolver {
    pub(super) lookups: Arc<Lookups>,
    pub(super) allowed: fn(IpAddr) -> bool,
}

/// Why a name has no address to connect to. Found again in the chain of causes of a failed request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unresolved {
    #[error("its name leads to a private address")]
    Private,
    #[error("its name cannot be resolved: {0}")]
    Failed(Arc<io::Error>),
    #[error("its name has no address")]
    Nothing,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookups, allowed) = (Arc::clone(&self.lookups), self.allowed);
        Box::pin(async move {
            let found = lookups.find(name.as_str()).await;
            let found = found.map_err(Unresolved::Failed)?;
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
