//! A journal of this machine that another process owns: this one goes through its socket, and takes the files over when the
//! owner ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use cannery_journal::embedded::{Embedded, Place};
use cannery_journal::metrics::JournalMetrics;
use cannery_journal::remote::{Remote, Served};
use cannery_journal::{
    Alarm, Data, Date, Declaration, Engine, Error, ErrorKind, Health, Op, Reply, Usage, Wakes,
};
use cannery_runtime::Tasks;
use tokio::sync::oneshot;

use super::{LOCK_LIMIT, LOCK_PAUSE};

/// What it takes to own the journal one day.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) socket: PathBuf,
    pub(super) tasks: Tasks,
    pub(super) metrics: Option<JournalMetrics>,
}

/// A guest at first, the owner later.
///
/// A request that is under way while the owner ends is `Unavailable`: it may or may not have been done. All later ones
/// are done by whoever owns the journal then.
#[derive(Debug)]
pub(super) struct Heir {
    claim: Claim,
    alarm: Alarm,
    /// What guests of this process talk to one day: itself, measured if anybody measures.
    face: OnceLock<Weak<dyn Engine>>,
    seat: Mutex<Seat>,
    /// Held by whoever looks for the owner, or is about to be it.
    succession: tokio::sync::Mutex<Succession>,
    me: Weak<Self>,
}

#[derive(Debug, Default)]
struct Succession {
    served: Option<Served>,
    closed: bool,
}

/// Where requests go.
#[derive(Clone, Debug)]
enum Seat {
    Guest(Arc<Remote>),
    Owner(Arc<Embedded>),
}

impl Seat {
    fn engine(&self) -> &dyn Engine {
        match self {
            Self::Guest(owner) => &**owner,
            Self::Owner(engine) => &**engine,
        }
    }
}

impl Heir {
    /// A guest of `owner`, measured if anybody measures.
    pub(super) fn of(claim: Claim, owner: Arc<Remote>) -> Arc<dyn Engine> {
        let wakes = owner.wakes();
        let heir = Arc::new_cyclic(|me| Self {
            claim,
            alarm: Alarm::new(),
            face: OnceLock::new(),
            seat: Mutex::new(Seat::Guest(owner)),
            succession: tokio::sync::Mutex::default(),
            me: Weak::clone(me),
        });
        heir.pass_on(wakes, Afterwards::AnotherOwner);
        let face: Arc<dyn Engine> = match &heir.claim.metrics {
            Some(metrics) => metrics.measure(&heir.claim.name, Arc::<Self>::clone(&heir)),
            None => Arc::<Self>::clone(&heir),
        };
        heir.face.get_or_init(|| Arc::downgrade(&face));
        face
    }

    fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine that requests go to now. Where the owner has ended, the next one is found, or this process is it.
    async fn engine(&self) -> Result<Seat, Error> {
        let seat = self.seat().clone();
        if let Seat::Guest(owner) = &seat {
            match owner.reach().await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Unavailable => {
                    return self.succeed(error).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(seat)
    }

    /// The owner is gone, or goes: waits for its successor, which may be this process. Who does not wait any more does not
    /// break it off: half of it would be an owner that lets nobody in.
    async fn succeed(&self, gone: Error) -> Result<Seat, Error> {
        let Some(me) = self.me.upgrade() else {
            return Err(gone);
        };
        let lost = gone.clone();
        let begun = self.claim.place.clock.elapsed();
        let (answer, answered) = oneshot::channel();
        self.claim.tasks.spawn("journal succession", async move {
            // Who does not wait any more needs no answer.
            drop(answer.send(me.succeed_since(begun, gone).await));
        });
        answered.await.unwrap_or(Err(lost))
    }

    async fn succeed_since(&self, begun: Duration, mut gone: Error) -> Result<Seat, Error> {
        let mut succession = self.succession.lock().await;
        let clock = &self.claim.place.clock;
        loop {
            if succession.closed {
                return Err(Error::new(ErrorKind::Closed, "the journal is closed"));
            }
            let seat = self.seat().clone();
            let owner = match &seat {
                // Somebody else was faster, in this process or in another.
                Seat::Owner(_) => return Ok(seat),
                Seat::Guest(owner) => match owner.reach().await {
                    Ok(()) => return Ok(seat),
                    Err(error) if error.kind == ErrorKind::Unavailable => owner,
                    Err(error) => return Err(error),
                },
            };
            match Embedded::open(self.claim.place.clone(), None).await {
                Ok(engine) => {
                    succession.served = self.take_over(Arc::clone(&engine)).await;
                    owner.close().await;
                    return Ok(Seat::Owner(engine));
                }
                Err(error) if error.kind == ErrorKind::Locked => gone.message = error.message,
                Err(error) => return Err(error),
            }
            if clock.since(begun) >= LOCK_LIMIT {
                return Err(gone);
            }
            clock
                .sleep(LOCK_PAUSE + self.claim.place.rng.jitter(LOCK_PAUSE))
                .await;
        }
    }

    async fn take_over(&self, engine: Arc<Embedded>) -> Option<Served> {
        let Claim {
            name,
            socket,
            tasks,
            ..
        } = &self.claim;
        tracing::info!(
            journal = name,
            "the owner has ended; this process owns the journal now"
        );
        self.pass_on(engine.wakes(), Afterwards::Nothing);
        *self.seat() = Seat::Owner(engine);
        // Nobody knows what was missed.
        self.alarm.ring();
        let face = self.face.get().and_then(Weak::upgrade)?;
        super::let_in(socket, face, tasks).await
    }

    /// Who listens here hears all owners, one after the other. After this process there is none.
    fn pass_on(&self, mut wakes: Wakes, afterwards: Afterwards) {
        let alarm = self.alarm.clone();
        let stop = self.claim.tasks.stopping();
        self.claim.tasks.spawn("journal wake-ups", async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    more = wakes.next() => match (more, afterwards) {
                        (true, _) => alarm.ring(),
                        (false, Afterwards::AnotherOwner) => return,
                        (false, Afterwards::Nothing) => return alarm.close(),
                    },
                }
            }
        });
    }
}

/// What comes when an engine rings no more.
#[derive(Clone, Copy)]
enum Afterwards {
    AnotherOwner,
    Nothing,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Engine for Heir {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        self.engine().await?.engine().call(op).await
    }

    fn now(&self) -> Date {
        self.seat().engine().now()
    }

    fn wakes(&self) -> Wakes {
        self.alarm.listen()
    }

    fn declaration(&self) -> Declaration {
        self.seat().engine().declaration()
    }

    fn health(&self) -> Health {
        self.seat().engine().health()
    }

    fn usage(&self) -> Option<Usage> {
        self.seat().engine().usage()
    }

    async fn close(&self) {
        let mut succession = self.succession.lock().await;
        succession.closed = true;
        if let Some(served) = succession.served.take() {
            served.stop().await;
        }
        let seat = self.seat().clone();
        seat.engine().close().await;
        self.alarm.close();
    }
}
