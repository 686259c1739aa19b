//! The entries that the page shows, read at most once a second for all who look.

use std::sync::Arc;
use std::time::Duration;

use cannery_journal::{Data, Entry, Error, Journal, Query, Status};
use cannery_runtime::Clock;
use cannery_serve::Table;

/// For how long a listing is fresh.
const FRESH: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(3);

/// Entries come with their data, so they are fetched a few at a time, and only so much of it.
const FETCHED: u32 = 10;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The last listing of a journal.
#[derive(Debug, Default)]
pub(super) struct Listings(tokio::sync::Mutex<Option<(Duration, Outcome)>>);

type Outcome = Result<Arc<Listing>, String>;

/// Entries in work and dead ones, without their data.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) processing: Vec<Entry<()>>,
    pub(super) dead: Vec<Entry<()>>,
}

impl Listings {
    /// The listing, or why there is none.
    pub(super) async fn get(&self, journal: &Journal, clock: &Clock) -> Outcome {
        let get = async {
            let mut last = self.0.lock().await;
            if let Some((at, outcome)) = &*last
                && clock.since(*at) < FRESH
            {
                return outcome.clone();
            }
            let outcome = read(journal).await.map_err(|error| error.to_string());
            *last = Some((clock.elapsed(), outcome.clone()));
            outcome
        };
        match clock.timeout(LIMIT, get).await {
            Ok(outcome) => outcome,
            Err(late) => Err(late.to_string()),
        }
    }
}

async fn read(journal: &Journal) -> Result<Arc<Listing>, Error> {
    Ok(Arc::new(Listing {
        processing: entries(journal, Status::Processing).await?,
        dead: entries(journal, Status::Dead).await?,
    }))
}

async fn entries(journal: &Journal, status: Status) -> Result<Vec<Entry<()>>, Error> {
    let mut query = Query {
        statuses: vec![status],
        limit: FETCHED,
        ..Query::all()
    };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    loop {
        let page = journal.list(query.clone()).await?;
        bytes += page.entries.iter().map(size).sum::<usize>();
        entries.extend(page.entries.into_iter().filter_map(without_data));
        query.after = page.next;
        if query.after.is_none() || entries.len() >= Table::ROWS_MAX || bytes > BYTES_MAX {
            return Ok(entries);
        }
    }
}

fn size(entry: &Entry<Data>) -> usize {
    entry.data.as_bytes().len()
}

fn without_data(entry: Entry<Data>) -> Option<Entry<()>> {
    entry
        .try_map(|_| Ok::<(), std::convert::Infallible>(()))
        .ok()
}
