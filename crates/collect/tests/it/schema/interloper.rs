//! A store on which somebody else writes just before we do.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};

/// Puts the contents in front of ours, one before each put, then leaves us alone.
#[derive(Debug)]
pub(crate) struct Interloper {
    inner: Arc<dyn ObjectStore>,
    contents: Mutex<Vec<Bytes>>,
}

impl Interloper {
    /// The last of `contents` comes first.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, contents: Vec<Bytes>) -> Self {
        Self {
            inner,
            contents: Mutex::new(contents),
        }
    }

    /// How many contents are left.
    pub(crate) fn left(&self) -> usize {
        self.contents.lock().unwrap().len()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Interloper {
    async fn put_opts(&self, at: &Path, ours: PutPayload, how: PutOptions) -> Result<PutResult> {
        let theirs = self.contents.lock().unwrap().pop();
        if let Some(theirs) = theirs {
            self.inner.put(at, theirs.into()).await?;
        }
        self.inner.put_opts(at, ours, how).await
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
        self.inner.list(prefix)
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

impl fmt::Display for Interloper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with an interloper", self.inner)
    }
}
