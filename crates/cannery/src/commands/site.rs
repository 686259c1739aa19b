//! The lake that a command about hours works on, with its configuration.

use std::collections::BTreeSet;

use cannery_formats::Key;
use cannery_formats::feed::FeedId;
use cannery_lake::Mirrors;
use cannery_pipeline::consolidate::Consolidator;
use cannery_pipeline::scan::Found;
use cannery_pipeline::{Scope, Scratch, Store, scan};
use futures::TryStreamExt as _;
use indicatif::ProgressBar;

use super::{Context, Patience};
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::{feeds, lakes};

/// So many ids are named in a message.
const IDS_SHOWN_MAX: usize = 20;
const LISTED_SHOWN_EVERY: u64 = 100;

/// Nothing is between an end and a start that is later: to say that all is well there would be a lie.
pub(super) fn checked(scope: Scope) -> Result<Scope, Failure> {
    match (scope.from, scope.to) {
        (Some(from), Some(to)) if from >= to => {
            let message = format!("there is no hour from `{from}` to `{to}`");
            let next = "choose an `--end-time` after `--start-time`";
            Err(Failure::new(ExitCode::Usage, "range", message, next))
        }
        _ => Ok(scope),
    }
}

/// The lake of a command, with its configuration.
pub(super) struct Site {
    pub(super) config: Config,
    mirrors: Mirrors,
    stores: Vec<Store>,
}

impl Site {
    pub(super) async fn open(context: &Context) -> Result<Self, Failure> {
        let config = context.config().await?;
        let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
        Ok(Self {
            stores: feeds::stores(&config, &mirrors),
            mirrors: lakes::collecting(&config, &mirrors),
            config,
        })
    }

    /// The stores with these ids, all of them when none is named; each of them there, and of the lake that this workspace belongs to. The
    /// others are not asked: what is read in an outage must not need them.
    pub(super) async fn stores(&self, ids: &[String]) -> Result<Vec<&Store>, Failure> {
        let chosen = self.named(ids)?;
        let lakes = chosen.iter().map(|store| store.lake.clone()).collect();
        if let Some(lakes) = Mirrors::new(lakes) {
            lakes::verify(&lakes, &self.config.workspace).await?;
        }
        Ok(chosen)
    }

    /// The first store alone.
    pub(super) async fn first(&self) -> Result<Vec<&Store>, Failure> {
        let first = self.mirrors.first().id().to_owned();
        self.stores(&[first]).await
    }

    fn named(&self, ids: &[String]) -> Result<Vec<&Store>, Failure> {
        if ids.is_empty() {
            return Ok(self.stores.iter().collect());
        }
        let mut chosen: Vec<&Store> = Vec::new();
        let mut seen = BTreeSet::new();
        for id in ids.iter().filter(|id| seen.insert(id.as_str())) {
            let named = crate::cli::StorageArg {
                storage: Some(id.clone()),
            };
            let lake = lakes::chosen(&self.mirrors, &named)?;
            chosen.extend(self.stores.iter().find(|store| store.id() == lake.id()));
        }
        Ok(chosen)
    }

    pub(super) fn scratch(&self, context: &Context) -> Result<Scratch, Failure> {
        let own = feeds::scratch(&self.config.workspace, &context.rng);
        // What only reads the lake needs no workspace of its own to write to.
        let scratch = own.or_else(|own| {
            let elsewhere = Scratch::temporary(&context.temporary, context.rng.clone());
            elsewhere.map_err(|_| own)
        });
        Ok(scratch?)
    }

    pub(super) fn consolidator(&self, context: &Context) -> Result<Consolidator, Failure> {
        Ok(Consolidator::new(self.scratch(context)?))
    }

    /// The feeds of the configuration; those of the lake where there are none.
    pub(super) async fn feeds(
        &self,
        store: &Store,
        context: &Context,
    ) -> Result<BTreeSet<FeedId>, Failure> {
        if !self.config.feeds.is_empty() {
            let feeds = self.config.feeds.iter();
            return Ok(feeds.map(|feed| feed.id.clone()).collect());
        }
        Ok(self.scanned(store, context).await?.feeds)
    }

    /// Looks at every object of a store.
    pub(super) async fn scanned(&self, store: &Store, context: &Context) -> Result<Found, Failure> {
        let counter = context.output.counter();
        let mut seen = |objects| show_listed(&counter, objects);
        let found = scan::whole_lake(store, &mut seen).await;
        counter.finish_and_clear();
        Ok(found?)
    }

    /// Makes sure that each feed that was named is one: of the configuration, or with data in one of the stores. What a mistyped name
    /// finds would look like good news.
    pub(super) async fn known(
        &self,
        stores: &[&Store],
        named: Option<&BTreeSet<FeedId>>,
        context: &Context,
    ) -> Result<(), Failure> {
        for id in named.into_iter().flatten() {
            let is_configured = self.config.feeds.iter().any(|feed| feed.id == *id);
            if !is_configured && !has_data(stores, id).await? {
                let known = match stores.first() {
                    Some(store) => self.feeds(store, context).await?,
                    None => BTreeSet::new(),
                };
                return Err(unknown_feed(id.as_str(), known.iter().map(FeedId::as_str)));
            }
        }
        Ok(())
    }
}

async fn has_data(stores: &[&Store], feed: &FeedId) -> Result<bool, Failure> {
    for store in stores {
        let folder = Key::feed_folder(feed);
        let mut entries = store.lake.list(Some(&folder));
        while let Some(entry) = entries.try_next().await? {
            if entry.key.as_feed_object().is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// There is no feed with this id, and which there are.
pub(super) fn unknown_feed<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.collect();
    let shown = known.iter().take(IDS_SHOWN_MAX).copied();
    let shown = shown.collect::<Vec<_>>().join(", ");
    let next = match known.len() {
        0 => "list feeds in the configuration under `feeds`".to_owned(),
        count if count > IDS_SHOWN_MAX => {
            format!("choose one of: {shown}, and {} more", count - IDS_SHOWN_MAX)
        }
        _ => format!("choose one of: {shown}"),
    };
    let message = format!("there is no feed `{id}`");
    Failure::new(ExitCode::Absent, "unknown_feed", message, next)
}

/// Says how far a listing is; not for each of millions of objects.
pub(super) fn show_listed(counter: &ProgressBar, objects: u64) {
    if objects.is_multiple_of(LISTED_SHOWN_EVERY) {
        counter.set_message(format!("looking at {}", counted(objects, "object")));
    }
}
