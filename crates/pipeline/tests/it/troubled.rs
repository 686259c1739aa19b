//! A store that lets others go first, and lets its client die at a chosen request.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use cannery_runtime::Rng;
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};
use tokio_util::sync::CancellationToken;

/// When the client dies: at its n-th request, counted from 1, before or after the effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) request: u64,
    pub(crate) after_effect: bool,
}

/// A client that stops at its n-th request, counted from 1, before the effect, until it is told to go on.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    request: u64,
    /// Cancelled when the client has stopped.
    pub(crate) reached: CancellationToken,
    /// To be cancelled when it may go on.
    pub(crate) over: CancellationToken,
}

impl Pause {
    pub(crate) fn at(request: u64) -> Self {
        Self {
            request,
            reached: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }
}

/// The life of a client, whatever it talks to. Nothing that it asks for is done or answered after its death.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    death: Option<Death>,
    pause: Option<Pause>,
    requests: Arc<AtomicU64>,
    /// Cancelled when the client is dead: its future must be dropped.
    pub(crate) dead: CancellationToken,
}

impl Life {
    pub(crate) fn new(death: Option<Death>) -> Self {
        Self {
            death,
            ..Self::default()
        }
    }

    pub(crate) fn paused(pause: Pause) -> Self {
        Self {
            pause: Some(pause),
            ..Self::default()
        }
    }

    /// How many requests were counted.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// A request that counts.
    pub(crate) async fn request<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> std::result::Result<T, Dead> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(pause) = self.pause.as_ref().filter(|it| it.request == number) {
            pause.reached.cancel();
            pause.over.cancelled().await;
        }
        let death = self.death.filter(|death| death.request == number);
        if death.is_some_and(|death| !death.after_effect) {
            self.dead.cancel();
        }
        let done = self.look(work).await?;
        if death.is_some() {
            self.dead.cancel();
        }
        self.alive().await?;
        Ok(done)
    }

    /// A request that does not count.
    pub(crate) async fn look<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> std::result::Result<T, Dead> {
        self.alive().await?;
        let done = work.await;
        self.alive().await?;
        Ok(done)
    }

    /// Whoever is dead hears nothing any more, and is dropped; only a thread that waits must be told.
    async fn alive(&self) -> std::result::Result<(), Dead> {
        if !self.dead.is_cancelled() {
            return Ok(());
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "what is dropped is dropped in real time"
        )]
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        Err(Dead)
    }
}

/// The client is dead.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the client is dead")]
pub(crate) struct Dead;

impl From<Dead> for object_store::Error {
    fn from(dead: Dead) -> Self {
        Self::Generic {
            store: "troubled",
            source: Box::new(dead),
        }
    }
}

/// A version of an object as it once was.
pub(crate) struct Old {
    meta: ObjectMeta,
    content: Bytes,
}

impl Old {
    pub(crate) async fn of(store: &dyn ObjectStore, location: &Path) -> Self {
        let read = store.get(location).await.unwrap();
        Self {
            meta: read.meta.clone(),
            content: read.bytes().await.unwrap(),
        }
    }

    fn answer(&self, options: &GetOptions) -> GetResult {
        let length = self.content.len() as u64;
        let asked = options.range.as_ref();
        let range = asked.map_or(0..length, |range| range.as_range(length).unwrap());
        let inside = |at: u64| usize::try_from(at).unwrap();
        let content = self.content.slice(inside(range.start)..inside(range.end));
        GetResult {
            payload: GetResultPayload::Stream(stream::once(async { Ok(content) }).boxed()),
            meta: self.meta.clone(),
            range,
            attributes: Attributes::default(),
            extensions: object_store::Extensions::default(),
        }
    }
}

/// In front of another store.
#[derive(Clone)]
pub(crate) struct Troubled {
    inner: Arc<dyn ObjectStore>,
    rng: Option<Rng>,
    /// Acknowledges a put, and keeps all but its last bytes.
    pub(crate) forgets: bool,
    /// Every read of this object gives a version of before.
    pub(crate) replays: Option<Arc<Old>>,
    /// Whether only what changes something counts.
    effects_only: bool,
    life: Life,
    pub(crate) dead: CancellationToken,
}

impl Troubled {
    /// With an `rng` every request waits for some turns of the others, before and after.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, rng: Option<Rng>, death: Option<Death>) -> Self {
        let life = Life::new(death);
        Self {
            inner,
            rng,
            forgets: false,
            replays: None,
            effects_only: false,
            dead: life.dead.clone(),
            life,
        }
    }

    /// The store of somebody who talks to others too: what it changes counts with what is changed there.
    pub(crate) fn of_life(inner: Arc<dyn ObjectStore>, life: Life) -> Self {
        Self {
            effects_only: true,
            dead: life.dead.clone(),
            life,
            ..Self::new(inner, None, None)
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.life.requests()
    }

    async fn turns(&self) {
        let turns = self.rng.as_ref().map_or(0, |rng| rng.below(12));
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    async fn request<T>(&self, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.turns().await;
        let done = self.life.request(work).await?;
        self.turns().await;
        done
    }

    async fn look<T>(&self, work: impl Future<Output = Result<T>> + Send) -> Result<T> {
        match self.effects_only {
            true => self.life.look(work).await?,
            false => self.request(work).await,
        }
    }

    fn listing(
        &self,
        found: impl Fn(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.clone();
        // The listing is taken when the request has its effect, not when the stream is made.
        stream::once(async move {
            let inner = Arc::clone(&store.inner);
            let listed = store.look(async move {
                let listed: Vec<_> = found(&*inner).collect().await;
                Ok(listed)
            });
            match listed.await {
                Ok(listed) => stream::iter(listed),
                Err(error) => stream::iter(vec![Err(error)]),
            }
        })
        .flatten()
        .boxed()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Troubled {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let payload = if self.forgets {
            let content = Bytes::from(payload);
            content.slice(..content.len().saturating_sub(9)).into()
        } else {
            payload
        };
        self.request(self.inner.put_opts(location, payload, opts))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.request(self.inner.put_multipart_opts(location, opts))
            .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(old) = self
            .replays
            .as_ref()
            .filter(|old| old.meta.location == *location)
        {
            return self.look(async { Ok(old.answer(&options)) }).await;
        }
        self.look(self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.look(self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .then(move |location| {
                let store = store.clone();
                async move {
                    let location = location?;
                    store.request(store.inner.delete(&location)).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.cloned();
        self.listing(move |store| store.list(prefix.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (prefix, offset) = (prefix.cloned(), offset.clone());
        self.listing(move |store| store.list_with_offset(prefix.as_ref(), &offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.look(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.request(self.inner.copy_opts(from, to, options)).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.request(self.inner.rename_opts(from, to, options))
            .await
    }
}

impl fmt::Display for Troubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "troubled {}", self.inner)
    }
}

impl fmt::Debug for Troubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Troubled({:?})", self.inner)
    }
}
