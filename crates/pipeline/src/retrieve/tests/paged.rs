//! A store that lists in pages, between which others are at work.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// The first page of the first listing has one object, and this is done before the second page.
pub(super) struct Paged {
    inner: Arc<dyn ObjectStore>,
    between: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Paged {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, between: BoxFuture<'static, ()>) -> Self {
        Self {
            inner,
            between: Mutex::new(Some(between)),
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Paged {
    async fn put_opts(&self, at: &Path, body: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(at, body, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(at, how).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(at, ranges).await
    }

    fn delete_stream(
        &self,
        all: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(all)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let Some(between) = self.between.lock().unwrap().take() else {
            return self.inner.list(prefix);
        };
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        let pages = async move {
            let page: Vec<_> = inner.list(prefix.as_ref()).take(1).collect().await;
            let last = page[0].as_ref().unwrap().location.clone();
            between.await;
            let rest = inner.list_with_offset(prefix.as_ref(), &last);
            stream::iter(page).chain(rest)
        };
        stream::once(pages).flatten().boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, how: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, how).await
    }
}

impl fmt::Display for Paged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in pages", self.inner)
    }
}

impl fmt::Debug for Paged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Paged({:?})", self.inner)
    }
}
