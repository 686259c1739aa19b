//! The tasks, each as a function of a few lines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_collect::feed::{
    Ask, Depot, FeedSettings, Feeds, FeedsParts, Fetcher, Monitor, Uploads,
};
use cannery_formats::feed::{Codec, FeedId, Hour};
use cannery_formats::hour_archive::Compression;
use cannery_journal::{Declaration, Journal, Memory};
use cannery_lake::{Address, Credentials, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_pipeline::audit::{Auditor, Finding};
use cannery_pipeline::consolidate::{Consolidator, Report};
use cannery_pipeline::retrieve::{self, RetrieveOptions, Retrieved, Workplace};
use cannery_pipeline::{Algorithm, Scope, Scratch, Store, delete, scan};
use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, PrivateUrl, RealDisk, Rng};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Whatever went wrong.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Who does it, in what it leaves behind.
const NAME: &str = "example";

/// How long an emptying of the workspace may take.
const FLUSH_MAX: Duration = Duration::from_secs(60);

/// A lake in a folder, and everything that is needed to fill it.
pub(crate) struct Tour {
    folder: PathBuf,
    clock: Clock,
    rng: Rng,
    store: Store,
    consolidator: Consolidator,
}

impl Tour {
    /// Makes the lake. With another [`Address`], such as `s3://bucket`, everything below is the same.
    pub(crate) async fn begin(folder: &Path) -> Result<Self, Failure> {
        let (clock, rng) = (Clock::real(), Rng::from_os());
        let address = Address::File(folder.join("lake"));
        create_dir_all(&RealDisk, &folder.join("lake"))?;
        let lake = Lake::new(Parts {
            id: "main".to_owned(),
            url: address.url(),
            store: address.open(&Credentials::default(), Arc::new(RealDisk), rng.clone())?,
            prefix: String::new(),
            clock: clock.clone(),
            rng: rng.clone(),
            retry: RetryPolicy::default(),
            metrics: LakeMetrics::default(),
        })?;
        lake.ensure_probed().await?;
        let scratch = Scratch::open(&folder.join("scratch"), rng.clone())?;
        Ok(Self {
            folder: folder.to_owned(),
            clock,
            rng,
            store: Store::new(lake, Algorithm::Hashed),
            consolidator: Consolidator::new(scratch),
        })
    }

    /// One replica collects until then; at the end it ships what it has. Says how many bodies it stored.
    pub(crate) async fn collect(
        &self,
        replica: &str,
        url: &str,
        until: impl Future<Output = ()>,
    ) -> Result<u64, Failure> {
        let feeds = self.feeds(replica)?;
        feeds.set(vec![feed(url)?]);
        let stop = CancellationToken::new();
        let stopping = async {
            until.await;
            stop.cancel();
        };
        let limit = watch::Sender::new(FLUSH_MAX).subscribe();
        let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit), stopping);
        match left.is_nothing() {
            true => Ok(feeds.monitor().totals().values().map(|of| of.stored).sum()),
            false => Err(format!("not shipped: {left}").into()),
        }
    }

    /// Ships what a replica that was killed has left; nothing is asked.
    pub(crate) async fn clean(&self, replica: &str) -> Result<(), Failure> {
        let left = self.feeds(replica)?.flush(FLUSH_MAX).await;
        match left.is_nothing() {
            true => Ok(()),
            false => Err(format!("not shipped: {left}").into()),
        }
    }

    /// Makes every hour that needs it one archive.
    pub(crate) async fn consolidate(&self) -> Result<Vec<Report>, Failure> {
        let mut reports = Vec::new();
        for (feed, hour) in scan::whole_lake(&self.store, &mut |_| {}).await?.unmerged {
            let report = self.consolidator.consolidate(&self.store, &feed, hour);
            reports.push(report.await?);
        }
        Ok(reports)
    }

    /// Writes every body of the last day to a folder.
    pub(crate) async fn retrieve(&self, target: &Path) -> Result<Retrieved, Failure> {
        let end = self.clock.now();
        let start = end.checked_sub(jiff::SignedDuration::from_hours(24))?;
        let options = RetrieveOptions::new(target, start, end);
        let plan = retrieve::plan(&self.store.lake, &options).await?;
        let scratch = Scratch::open(&self.folder.join("scratch"), self.rng.clone())?;
        let workplace = Workplace::new(scratch, self.rng.clone());
        Ok(retrieve::run(&self.store.lake, &plan, &workplace, &()).await?)
    }

    /// Reads every archive, and says what is not as it should be.
    pub(crate) async fn audit(&self) -> Result<Vec<Finding>, Failure> {
        let auditor = Auditor::new(self.consolidator.clone());
        let stores = std::slice::from_ref(&self.store);
        let everything = Scope::default();
        Ok(auditor.audit(stores, &everything, &mut |_, _| ()).await?)
    }

    /// Deletes everything for good; says how many hours.
    pub(crate) async fn delete(&self) -> Result<usize, Failure> {
        let lake = &self.store.lake;
        let plan = delete::plan(lake, &Scope::default()).await?;
        let mut gone = 0;
        let now = self.clock.now();
        delete::run(lake, &plan, NAME, now, &mut |_| gone += 1).await?;
        Ok(gone)
    }

    /// What a replica collects with, in a workspace of its own.
    fn feeds(&self, replica: &str) -> Result<Feeds, Failure> {
        let (clock, rng) = (self.clock.clone(), self.rng.clone());
        let workspace = self.folder.join(replica);
        let list = Memory::new(Declaration::default(), clock.clone(), rng.clone());
        let keep = Duration::from_secs(86_400);
        let logs = workspace.join("logs");
        let mirrors = Mirrors::new(vec![self.store.lake.clone()]);
        Ok(Feeds::open(FeedsParts {
            depot: Depot::new(Arc::new(RealDisk), &workspace),
            clock: clock.clone(),
            rng,
            mirrors: mirrors.ok_or("there is no lake")?,
            journals: vec![Journal::new("shipping", Arc::new(list))],
            fetcher: Fetcher::new(clock.clone(), 10)?,
            monitor: Monitor::open(Arc::new(RealDisk), &logs, clock, keep)?,
            uploads: Arc::new(Unheard),
            replica: replica.to_owned(),
            cleared: None,
        })?)
    }
}

fn feed(url: &str) -> Result<FeedSettings, Failure> {
    let ask = Ask {
        url: PrivateUrl::new(url),
        headers: Vec::new(),
        timeout: Duration::from_secs(5),
        max_bytes: 10 << 20,
        allow_private: true,
        conditional: true,
        accept_status: vec![200],
        keep_error_body: false,
    };
    Ok(FeedSettings {
        id: FeedId::new(NAME)?,
        ask: ask.check()?,
        periodicity: Duration::from_millis(200),
        postfix: ".json".to_owned(),
        compression: Compression::of(Codec::Gzip),
    })
}

/// A process that consolidates puts the hour on its list; here it is done once, later.
struct Unheard;

#[async_trait]
impl Uploads for Unheard {
    async fn uploaded(&self, _: &str, _: &FeedId, _: Hour) {}
}
