//! Multipart uploads that fail on purpose.

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::{FaultStore, Request};

#[derive(Debug)]
pub(super) struct FaultUpload {
    store: FaultStore,
    location: Path,
    inner: Box<dyn MultipartUpload>,
}

impl FaultUpload {
    pub(super) fn new(store: FaultStore, location: Path, inner: Box<dyn MultipartUpload>) -> Self {
        Self {
            store,
            location,
            inner,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.put_part(data);
        let (store, location) = (self.store.clone(), self.location.clone());
        Box::pin(async move { store.meet(Request::Part, &location, part).await })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (store, location) = (self.store.clone(), self.location.clone());
        store
            .meet(Request::Complete, &location, self.inner.complete())
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        let (store, location) = (self.store.clone(), self.location.clone());
        store
            .meet(Request::Abort, &location, self.inner.abort())
            .await
    }
}
