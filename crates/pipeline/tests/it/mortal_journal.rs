//! A journal whose client dies at a chosen request; what it has acknowledged stays.

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use cannery_journal::{
    Data, Date, Declaration, Engine, Error, ErrorKind, Health, Journal, Op, Reply, Usage, Wakes,
};

use crate::troubled::{Dead, Life};

/// In front of another journal.
#[derive(Debug)]
pub(crate) struct MortalJournal {
    inner: Arc<dyn Engine>,
    life: Life,
}

impl MortalJournal {
    pub(crate) fn of_life(inner: Arc<dyn Engine>, life: &Life) -> Journal {
        let life = life.clone();
        Journal::new("pipeline", Arc::new(Self { inner, life }))
    }

    /// A claim that hands out nothing changes nothing: how often it is asked depends on the machine.
    async fn claim(&self, op: Op) -> Result<Reply<Data>, Error> {
        let reply = self.life.look(self.inner.call(op)).await.map_err(gone)?;
        if let Ok(Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed)) = &reply
            && !claimed.entries.is_empty()
        {
            self.life.request(ready(())).await.map_err(gone)?;
        }
        reply
    }
}

fn gone(dead: Dead) -> Error {
    Error::new(ErrorKind::Closed, dead.to_string())
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Engine for MortalJournal {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        match op {
            Op::Claim { .. } => self.claim(op).await,
            Op::DoneAndClaim { ref done, .. } if done.is_empty() => self.claim(op).await,
            Op::Add(_)
            | Op::DoneAndClaim { .. }
            | Op::Done(_)
            | Op::Release { .. }
            | Op::Fail { .. }
            | Op::Cancel(_)
            | Op::Requeue(_)
            | Op::Forget(_)
            | Op::Declare(_) => {
                let call = self.life.request(self.inner.call(op));
                call.await.map_err(gone)?
            }
            // A lease that is kept alive is what it was.
            Op::Heartbeat(_) | Op::Get(_) | Op::List(_) | Op::Stats | Op::Sweep => {
                let call = self.life.look(self.inner.call(op));
                call.await.map_err(gone)?
            }
        }
    }

    fn now(&self) -> Date {
        self.inner.now()
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn declaration(&self) -> Declaration {
        self.inner.declaration()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn usage(&self) -> Option<Usage> {
        self.inner.usage()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
