//! Multipart uploads to a [`super::DiskStore`]: parts go to one temp file, in the order in which they were handed over.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{MultipartUpload, PutMode, PutPayload, PutResult, Result, UploadPart};
use tokio::sync::Mutex;

use super::temp::TempFile;
use super::{DiskStore, generic};

#[derive(Debug)]
pub(super) struct DiskUpload {
    store: DiskStore,
    location: Path,
    progress: Arc<Mutex<Progress>>,
    handed_over: u64,
    appended: tokio::sync::watch::Sender<u64>,
}

#[derive(Debug)]
struct Progress {
    temp: Option<TempFile>,
}

impl DiskUpload {
    pub(super) fn new(store: DiskStore, location: Path, temp: TempFile) -> Self {
        let progress = Arc::new(Mutex::new(Progress { temp: Some(temp) }));
        Self {
            store,
            location,
            progress,
            handed_over: 0,
            appended: tokio::sync::watch::Sender::new(0),
        }
    }
}

fn ended() -> object_store::Error {
    generic(std::io::Error::other("the upload has ended"))
}

#[async_trait]
impl MultipartUpload for DiskUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let turn = self.handed_over;
        self.handed_over += 1;
        let (store, progress, appended) = (
            self.store.clone(),
            Arc::clone(&self.progress),
            self.appended.clone(),
        );
        Box::pin(async move {
            let mut turns = appended.subscribe();
            turns
                .wait_for(|done| *done == turn)
                .await
                .map_err(|_| ended())?;
            let mut progress = progress.lock_owned().await;
            store
                .blocking(move |_| {
                    let temp = progress.temp.as_mut().ok_or_else(ended)?;
                    data.iter()
                        .try_for_each(|chunk| temp.append(chunk))
                        .map_err(generic)
                })
                .await?;
            appended.send_replace(turn + 1);
            Ok(())
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if *self.appended.borrow() != self.handed_over {
            return Err(generic(std::io::Error::other(
                "a part of the upload is missing",
            )));
        }
        let mut temp = self.progress.lock().await.temp.take().ok_or_else(ended)?;
        let location = self.location.clone();
        self.store
            .blocking(move |inner| {
                temp.finish().map_err(generic)?;
                inner.commit(&mut temp, &location, &PutMode::Overwrite)
            })
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        let temp = self.progress.lock().await.temp.take();
        self.store
            .blocking(move |_| {
                drop(temp);
                Ok(())
            })
            .await
    }
}
