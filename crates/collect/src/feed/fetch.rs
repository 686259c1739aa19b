//! The downloader of feeds: one answer, whole and within its limits, from an address that may be asked; or the reason why
//! not, without a secret in it.
//!
//! | file | what it holds |
//! |---|---|
//! | `ask.rs` | what is asked for, checked |
//! | `address.rs`, `resolve.rs` | which addresses may be connected to, and that no other is |
//! | `lookups.rs` | the lookups of names that are under way |
//! | `hop.rs` | one request on the way, and where a redirect may lead |
//! | `body.rs`, `unpack.rs` | the body, counted and unpacked piece by piece |
//! | `validators.rs` | by what the last answer is known |
//! | `error.rs` | why it failed |

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_runtime::Clock;
use reqwest::{Certificate, Client, Response};
use tokio::sync::Semaphore;

mod address;
mod ask;
mod body;
mod error;
mod hop;
mod lookups;
mod resolve;
#[cfg(test)]
mod tests;
mod unpack;
mod validators;

pub use ask::Ask;
pub use error::{FetchError, FetchErrorKind};
pub use validators::Validators;

use ask::Plan;
use hop::Hop;
use lookups::Lookups;
use resolve::{Lookup, Resolver, SystemLookup};

/// Downloads that may run at once in a process, where nobody says otherwise.
pub const DOWNLOADS_MAX: usize = 256;

const USER_AGENT: &str = concat!("cannery/", env!("CARGO_PKG_VERSION"));
/// A connection that is still being made when its download has ended another way, on one that became free, has nobody
/// else to end it.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// What came of a download that succeeded.
#[derive(Clone)]
pub enum Fetched {
    /// A body with an accepted status.
    Body {
        /// Unpacked.
        content: Bytes,
        /// For the next time.
        validators: Validators,
        /// The one that was accepted.
        status: u16,
    },
    /// The last body is still the one.
    NotModified,
}

impl fmt::Debug for Fetched {
    /// Without the content, which may be large and is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body {
                content, status, ..
            } => write!(f, "Body({} bytes, status {status})", content.len()),
            Self::NotModified => f.write_str("NotModified"),
        }
    }
}

/// Downloads for all feeds of a process: connections are shared and used again, and their number is bounded.
///
/// It has two clients, one that connects to public addresses only and one that connects to all, so that a connection
/// made for a feed that may is never used by one that may not. Neither knows proxies, cookies or redirects.
#[derive(Debug)]
pub struct Fetcher {
    clock: Clock,
    places: Semaphore,
    public: Client,
    private: Client,
    is_public: fn(IpAddr) -> bool,
}

/// What a fetcher stands on.
struct Ground {
    lookup: Arc<dyn Lookup>,
    is_public: fn(IpAddr) -> bool,
    /// Trusted beside those of the machine.
    authorities: Vec<Certificate>,
}

impl Fetcher {
    /// Makes both clients; `downloads_max` is how many downloads may run at once, for example [`DOWNLOADS_MAX`].
    ///
    /// # Errors
    /// [`FetchErrorKind::Tls`] when the machine has no certificates to trust.
    pub fn new(clock: Clock, downloads_max: usize) -> Result<Self, FetchError> {
        let ground = Ground {
            lookup: Arc::new(SystemLookup),
            is_public: address::is_public,
            authorities: Vec::new(),
        };
        Self::on(&ground, clock, downloads_max)
    }

    fn on(ground: &Ground, clock: Clock, downloads_max: usize) -> Result<Self, FetchError> {
        let lookups = Lookups::new(Arc::clone(&ground.lookup));
        let client = |allowed: fn(IpAddr) -> bool| {
            let resolver = Resolver {
                lookups: Arc::clone(&lookups),
                allowed,
            };
            client(resolver, &ground.authorities, downloads_max)
        };
        Ok(Self {
            clock,
            places: Semaphore::new(downloads_max.clamp(1, Semaphore::MAX_PERMITS)),
            public: client(ground.is_public)?,
            private: client(|_| true)?,
            is_public: ground.is_public,
        })
    }

    /// Downloads. `last` is what came with the last body; without [`Ask::conditional`] it is not used.
    ///
    /// Waits for a place among the downloads for at most the ask's timeout, and then for the last byte for at most the
    /// timeout. Whatever is under way when it ends, or when this future is dropped, is dropped with its connection.
    ///
    /// # Errors
    /// Why there is no whole body with an accepted status; the kind and [`FetchError::reason`] say it briefly.
    pub async fn fetch(&self, ask: &Ask, last: Option<&Validators>) -> Result<Fetched, FetchError> {
        let plan = ask
            .plan()
            .map_err(|why| FetchError::new(FetchErrorKind::Invalid, why))?;
        let place = self.clock.timeout(ask.timeout, self.places.acquire()).await;
        let Ok(Ok(_place)) = place else {
            let message = "too many downloads are running; raise the number that may run at once";
            return Err(FetchError::new(FetchErrorKind::Busy, message));
        };
        let last = last.filter(|_| ask.conditional);
        let download = self.download(ask, &plan, last);
        match self.clock.timeout(ask.timeout, download).await {
            Ok(done) => done,
            Err(_) => Err(FetchError::timeout(ask.timeout)),
        }
    }

    async fn download(
        &self,
        ask: &Ask,
        plan: &Plan,
        last: Option<&Validators>,
    ) -> Result<Fetched, FetchError> {
        let (client, allowed): (_, fn(IpAddr) -> bool) = if ask.allow_private {
            (&self.private, |_| true)
        } else {
            (&self.public, self.is_public)
        };
        let mut hop = Hop::first(plan);
        loop {
            hop.check_address(allowed)?;
            let (answer, conditional) = hop.send(client, last).await?;
            match hop.after(&answer)? {
                Some(next) => hop = next,
                None => return conclude(ask, &hop, answer, conditional).await,
            }
        }
    }
}

/// What the answer that is no redirect comes to.
async fn conclude(
    ask: &Ask,
    hop: &Hop<'_>,
    answer: Response,
    conditional: bool,
) -> Result<Fetched, FetchError> {
    let status = answer.status().as_u16();
    if status == 304 && conditional {
        return Ok(Fetched::NotModified);
    }
    if ask.accepts(status) {
        let validators = hop.validators(&answer);
        let content = body::read(answer, ask.max_bytes).await?;
        return Ok(Fetched::Body {
            content,
            validators,
            status,
        });
    }
    // It is an error already; that its body cannot be had is not another one.
    let body = if ask.keep_error_body {
        body::read(answer, ask.max_bytes).await.ok()
    } else {
        None
    };
    Err(FetchError::status(status, body))
}

/// HTTP/1 only: a download then has its connection to itself, and giving it up closes it.
fn client(
    resolver: Resolver,
    authorities: &[Certificate],
    idle_max: usize,
) -> Result<Client, FetchError> {
    Client::builder()
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .dns_resolver(Arc::new(resolver))
        .tls_certs_merge(authorities.iter().cloned())
        .connect_timeout(CONNECT_LIMIT)
        .pool_idle_timeout(IDLE_LIMIT)
        .pool_max_idle_per_host(idle_max)
        .user_agent(USER_AGENT)
        .build()
        .map_err(|error| FetchError::no_client(&error))
}
