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
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};
use tokio_util::sync::CancellationToken;

/// When the client dies: at its n-th request, counted from 1, before or after the effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    pub(crate) request: u64,
    pub(crate) after_effect: bool,
}

/// In front of another store.
#[derive(Clone)]
pub(crate) struct Troubled {
    inner: Arc<dyn ObjectStore>,
    rng: Option<Rng>,
    death: Option<Death>,
    /// Acknowledges a put, and keeps all but its last bytes.
    pub(crate) forgets: bool,
    requests: Arc<AtomicU64>,
    /// Cancelled when the client is dead: its future must be dropped.
    pub(crate) dead: CancellationToken,
}

impl Troubled {
    /// With an `rng` every request waits for some turns of the others, before and after.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, rng: Option<Rng>, death: Option<Death>) -> Self {
        Self {
            inner,
            rng,
            death,
            forgets: false,
            requests: Arc::default(),
            dead: CancellationToken::new(),
        }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    async fn turns(&self) {
        let turns = self.rng.as_ref().map_or(0, |rng| rng.below(12));
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    async fn request<T>(&self, work: impl Future<Output = T> + Send) -> T {
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let death = self.death.filter(|death| death.request == number);
        self.turns().await;
        if let Some(Death {
            after_effect: false,
            ..
        }) = death
        {
            self.die().await;
        }
        let done = work.await;
        if death.is_some() {
            self.die().await;
        }
        self.turns().await;
        done
    }

    async fn die(&self) {
        self.dead.cancel();
        std::future::pending::<()>().await;
    }

    fn listing(
        &self,
        found: impl Fn(&dyn ObjectStore) -> BoxStream<'static, Result<ObjectMeta>> + Send + 'static,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.clone();
        // The listing is taken when the request has its effect, not when the stream is made.
        stream::once(async move {
            let inner = Arc::clone(&store.inner);
            let listed = store.request(async move {
                let listed: Vec<_> = found(&*inner).collect().await;
                listed
            });
            stream::iter(listed.await)
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
        self.request(self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.request(self.inner.get_ranges(location, ranges)).await
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
        self.request(self.inner.list_with_delimiter(prefix)).await
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
