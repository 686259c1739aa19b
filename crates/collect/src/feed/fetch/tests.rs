use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use cannery_runtime::{PrivateUrl, Secret};
use cannery_testkit::feed_server::{Behaviour, FeedServer, Identity};

use super::*;

mod asks;
mod conditions;
mod connections;
mod feeds;
mod lookups;
mod redirects;
mod secrets;
mod ssrf;
mod tls;

const PATIENCE: Duration = Duration::from_secs(60);

/// An ask that may go everywhere.
fn ask(url: impl Into<String>) -> Ask {
    Ask {
        url: PrivateUrl::new(url),
        headers: Vec::new(),
        timeout: PATIENCE,
        max_bytes: 1024 * 1024,
        allow_private: true,
        conditional: false,
        accept_status: Vec::new(),
        keep_error_body: false,
    }
}

fn public(url: impl Into<String>) -> Ask {
    Ask {
        allow_private: false,
        ..ask(url)
    }
}

fn with_header(ask: Ask, name: &str, value: &str) -> Ask {
    let mut headers = ask.headers;
    headers.push((name.to_owned(), Secret::unremembered(value)));
    Ask { headers, ..ask }
}

fn fetcher() -> Fetcher {
    Fetcher::new(Clock::real(), 8).unwrap()
}

/// The body of an answer with status 200.
async fn body(fetcher: &Fetcher, ask: &Ask) -> Bytes {
    match fetcher.fetch(ask, None).await.unwrap() {
        Fetched::Body {
            content,
            status: 200,
            ..
        } => content,
        other => panic!("{other:?}"),
    }
}

async fn failure(fetcher: &Fetcher, ask: &Ask) -> FetchError {
    fetcher.fetch(ask, None).await.unwrap_err()
}

/// Waits until the server has noticed that every connection is closed.
async fn all_closed(server: &FeedServer) {
    let clock = Clock::real();
    let closed = async {
        while server.open() > 0 {
            clock.sleep(Duration::from_millis(2)).await;
        }
    };
    let closed = clock.timeout(PATIENCE, closed).await;
    closed.expect("every connection is closed");
}

/// Waits until `path` was asked for `times` times.
async fn asked(server: &FeedServer, path: &str, times: usize) {
    let clock = Clock::real();
    let asked = async {
        while server.requests(path).len() < times {
            clock.sleep(Duration::from_millis(2)).await;
        }
    };
    let asked = clock.timeout(PATIENCE, asked).await;
    asked.expect("the request comes");
}

/// A resolver that answers from a list, each time with the next entry; the last one stays.
#[derive(Default)]
struct Names(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

impl Names {
    fn of(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |turn: &&[&str]| turn.iter().map(|text| text.parse().unwrap()).collect();
        let names = names.iter().map(|(name, turns)| {
            let turns: Vec<Vec<IpAddr>> = turns.iter().rev().map(parse).collect();
            ((*name).to_owned(), turns)
        });
        Arc::new(Self(Mutex::new(names.collect())))
    }
}

impl Lookup for Names {
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut names = self.0.lock().unwrap();
        let turns = names
            .get_mut(name)
            .ok_or(io::Error::other("no such name"))?;
        match turns.as_slice() {
            [last] => Ok(last.clone()),
            [] => Ok(Vec::new()),
            [..] => Ok(turns.pop().unwrap()),
        }
    }
}

/// A fetcher with its own names.
fn fetcher_with(lookup: Arc<Names>, is_public: fn(IpAddr) -> bool) -> Fetcher {
    let ground = Ground {
        lookup,
        is_public,
        authorities: Vec::new(),
    };
    Fetcher::on(&ground, Clock::real(), 8).unwrap()
}

/// A fetcher that trusts these servers.
fn fetcher_trusting(identities: &[&Identity]) -> Fetcher {
    let certificate =
        |identity: &&Identity| Certificate::from_pem(identity.authority_pem().as_bytes()).unwrap();
    let ground = Ground {
        lookup: Arc::new(SystemLookup),
        is_public: address::is_public,
        authorities: identities.iter().map(certificate).collect(),
    };
    Fetcher::on(&ground, Clock::real(), 8).unwrap()
}
