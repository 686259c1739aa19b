//! The lakes of a running process: made sure of at the start, asked again and again, shown on the dashboard.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cannery_collect::feed::Cleared;
use cannery_lake::{ErrorKind, Identity, Lake, Mirrors, Remembered, probe};
use cannery_runtime::Clock;
use cannery_serve::{Card, Check, Readiness, Section, State};
use futures::future::{BoxFuture, join_all};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::failure::{ExitCode, Failure};
use crate::lakes;

const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// As many as a curve shows.
const SAMPLES_MAX: usize = 240;

/// Every third sample also asks the store.
const ASK_EVERY: u64 = 3;

/// A store that is down must not keep the dashboard from starting: it is where a person looks.
const FIRST_LIMIT: Duration = Duration::from_secs(15);

/// Longer than every operation of a lake takes.
const ESTABLISH_LIMIT: Duration = Duration::from_secs(600);

/// Which look at the lakes it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// At the start: what does not pass by itself ends the process.
    First,
    /// Later.
    Again,
}

impl Look {
    fn limit(self) -> Duration {
        match self {
            Self::First => FIRST_LIMIT,
            Self::Again => ESTABLISH_LIMIT,
        }
    }

    /// Whether the process ends with this failure, so that it is told by whoever ends it.
    fn ends_with(self, failure: &Failure) -> bool {
        self == Self::First && !is_passing(failure)
    }
}

/// The lakes, and what is known of them.
#[derive(Debug)]
pub(super) struct LakeWatch {
    mirrors: Mirrors,
    workspace: PathBuf,
    clock: Clock,
    identity: OnceLock<Identity>,
    /// The lakes that are known to be the right ones.
    cleared: watch::Sender<Cleared>,
    readiness: Readiness,
    samples: Mutex<Samples>,
}

/// Operations in each interval, and why a lake cannot be used, for each lake.
#[derive(Debug, Default)]
struct Samples {
    seen: Vec<u64>,
    series: Vec<VecDeque<f64>>,
    unusable: Vec<Option<String>>,
}

impl LakeWatch {
    pub(super) fn new(mirrors: Mirrors, workspace: &Path, clock: Clock) -> Self {
        let count = mirrors.iter().count();
        let samples = Samples {
            seen: vec![0; count],
            series: vec![VecDeque::new(); count],
            unusable: vec![None; count],
        };
        let readiness = Readiness::new();
        for lake in mirrors.iter() {
            let reason = "not reached yet".to_owned();
            readiness.set(check_name(lake), Check::NotReady(reason));
        }
        Self {
            mirrors,
            workspace: workspace.to_owned(),
            clock,
            identity: OnceLock::new(),
            cleared: watch::Sender::default(),
            readiness,
            samples: Mutex::new(samples),
        }
    }

    pub(super) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    pub(super) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// The lakes that were reached and are known to be the right ones, from now on.
    pub(super) fn cleared(&self) -> watch::Receiver<Cleared> {
        self.cleared.subscribe()
    }

    /// The lake, once it was reached in every mirror.
    pub(super) fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    /// Whether these lakes were reached: a store of archives alone holds up nobody who does not write to it.
    pub(super) fn has_reached(&self, mirrors: &Mirrors) -> bool {
        let cleared = self.cleared.borrow();
        self.identity.get().is_some() || mirrors.iter().all(|lake| cleared.contains(lake.id()))
    }

    /// The first look. A store that does not answer is no failure: the watch keeps trying. Anything else is.
    pub(super) async fn first(&self) -> Result<(), Failure> {
        match self.look(Look::First).await {
            Err(failure) if is_passing(&failure) => Ok(()),
            outcome => outcome,
        }
    }

    /// Why each lake does not answer, if it does not.
    async fn look_at_each(&self) -> Vec<Option<String>> {
        let looks = self.mirrors.iter().map(|lake| async {
            match self.clock.timeout(FIRST_LIMIT, lake.manifest()).await {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(late) => Some(late.to_string()),
            }
        });
        join_all(looks).await
    }

    /// Marks the lakes that do not answer, and all of them with `reason` when each does.
    fn mark_those(&self, reason: &str, looks: Vec<Option<String>>) {
        if looks.iter().all(Option::is_none) {
            return self.mark_all(reason);
        }
        for ((at, lake), look) in self.mirrors.iter().enumerate().zip(looks) {
            self.mark(at, lake, look);
        }
    }

    /// Whether nothing is known to be wrong with a lake.
    pub(super) fn is_usable(&self, at: usize) -> bool {
        self.lock().unusable[at].is_none()
    }

    /// Opens the lake for good: ours, the same in every mirror, noted in the workspace, and probed. Where the workspace knows its lake,
    /// each mirror is opened by itself, also when another cannot be.
    pub(super) async fn establish(&self) -> Result<(), Failure> {
        self.look(Look::Again).await
    }

    async fn look(&self, look: Look) -> Result<(), Failure> {
        match lakes::remembered(&self.mirrors, &self.workspace)? {
            Some(known) => self.establish_each(&known, look).await,
            None => self.establish_new(look).await,
        }
    }

    async fn establish_each(&self, known: &Remembered, look: Look) -> Result<(), Failure> {
        let one_by_one = self.mirrors.iter().enumerate();
        let one_by_one = one_by_one.map(|(at, lake)| async move {
            let opened = self.in_time(look, self.establish_one(at, lake, known));
            (at, lake, opened.await)
        });
        let mut created = false;
        let mut failed: Option<Failure> = None;
        let mut reasons = Vec::new();
        for (at, lake, outcome) in join_all(one_by_one).await {
            match outcome {
                Ok(made) => created |= made,
                Err(failure) => {
                    reasons.push((at, lake, failure.message.clone()));
                    // One that a person must mend says more than one that may answer later.
                    if failed.as_ref().is_none_or(is_passing) {
                        failed = Some(failure);
                    }
                }
            }
        }
        if let Some(failure) = failed {
            for (at, lake, reason) in reasons.into_iter().filter(|_| !look.ends_with(&failure)) {
                self.mark(at, lake, Some(reason));
            }
            return Err(failure);
        }
        let lake = known.lake.clone();
        self.identity.get_or_init(|| Identity { lake, created });
        Ok(())
    }

    /// Nobody knows yet which lake it should be: all mirrors must agree.
    async fn establish_new(&self, look: Look) -> Result<(), Failure> {
        let opening = self.in_time(look, self.open_new());
        let (opened, looks) = tokio::join!(opening, self.look_at_each());
        if let Err(failure) = &opened
            && !look.ends_with(failure)
        {
            self.mark_those(&failure.message, looks);
        }
        opened
    }

    async fn open_new(&self) -> Result<(), Failure> {
        let identity = lakes::establish(&self.mirrors, &self.workspace).await?;
        lakes::note(&self.workspace, &identity.lake, self.mirrors.iter())?;
        for (at, lake) in self.mirrors.iter().enumerate() {
            self.open(at, lake).await?;
        }
        self.identity.get_or_init(|| identity);
        Ok(())
    }

    async fn in_time<T>(
        &self,
        look: Look,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match self.clock.timeout(look.limit(), work).await {
            Ok(outcome) => outcome,
            Err(late) => Err(Failure::new(
                ExitCode::Error,
                ErrorKind::Unavailable.name(),
                late.to_string(),
                "check the network and the store",
            )),
        }
    }

    /// Whether it was made just now.
    async fn establish_one(
        &self,
        at: usize,
        lake: &Lake,
        known: &Remembered,
    ) -> Result<bool, Failure> {
        if self.cleared.borrow().contains(lake.id()) {
            return Ok(false);
        }
        let created = self.mirrors.establish_one(lake, known).await?;
        lakes::note(&self.workspace, &known.lake, std::iter::once(lake))?;
        self.open(at, lake).await?;
        Ok(created)
    }

    /// The lake is the right one: finds out what its store honours, and lets everybody use it.
    async fn open(&self, at: usize, lake: &Lake) -> Result<(), Failure> {
        for weakness in probe::probe(lake).await?.weaknesses() {
            tracing::warn!(
                lake = lake.id(),
                weakness,
                "the store is weaker than it should be; see `cannery doctor`"
            );
        }
        self.mark(at, lake, None);
        self.clear(lake, true);
        Ok(())
    }

    fn clear(&self, lake: &Lake, is_right: bool) {
        self.cleared.send_if_modified(|cleared| match is_right {
            true => cleared.insert(lake.id().to_owned()),
            false => cleared.remove(lake.id()),
        });
    }

    /// Samples the counters, and asks each lake now and then whether it is still there and still ours.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        for round in 1_u64.. {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(SAMPLE_EVERY) => {}
            }
            self.sample();
            let asking = async {
                match self.identity.get() {
                    None => self.go_on(round).await,
                    Some(identity) if round.is_multiple_of(ASK_EVERY) => {
                        self.ask(&identity.lake).await;
                    }
                    Some(_) => {}
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = asking => {}
            }
        }
    }

    /// Opens what could not be opened yet, and looks after what could.
    async fn go_on(&self, round: u64) {
        let known = lakes::remembered(&self.mirrors, &self.workspace);
        if let Ok(Some(known)) = known
            && round.is_multiple_of(ASK_EVERY)
        {
            self.ask(&known.lake).await;
        }
        // What is wrong is marked where it is found.
        self.establish().await.ok();
    }

    /// Asks those that were opened whether they are still there and still ours.
    async fn ask(&self, id: &str) {
        for (at, lake) in self.mirrors.iter().enumerate() {
            if self.identity.get().is_none() && !self.cleared.borrow().contains(lake.id()) {
                continue;
            }
            let reason = match lake.manifest().await {
                Ok(Some(manifest)) if manifest.lake == id => None,
                Ok(Some(manifest)) => Some(format!("it is now lake `{}`", manifest.lake)),
                Ok(None) => Some("its `cannery.json` is gone".to_owned()),
                Err(error) if error.kind == ErrorKind::NotOurs => Some(error.to_string()),
                Err(error) => {
                    // That it does not answer does not make it another.
                    self.mark(at, lake, Some(error.to_string()));
                    continue;
                }
            };
            self.clear(lake, reason.is_none());
            self.mark(at, lake, reason);
        }
    }

    fn mark_all(&self, reason: &str) {
        for (at, lake) in self.mirrors.iter().enumerate() {
            self.mark(at, lake, Some(reason.to_owned()));
        }
    }

    /// Remembers whether a lake can be used, and tells about it when that changes.
    fn mark(&self, at: usize, lake: &Lake, reason: Option<String>) {
        let before = std::mem::replace(&mut self.lock().unusable[at], reason.clone());
        match reason {
            Some(reason) => {
                if before.is_none() {
                    tracing::error!(
                        lake = lake.id(),
                        reason,
                        "the lake cannot be used; trying on"
                    );
                }
                self.readiness
                    .set(check_name(lake), Check::NotReady(reason));
            }
            None => {
                if before.is_some() {
                    tracing::info!(lake = lake.id(), "the lake can be used again");
                }
                self.readiness.set(check_name(lake), Check::Ready);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sample(&self) {
        let mut samples = self.lock();
        for (at, lake) in self.mirrors.iter().enumerate() {
            let now = lake.totals().operations;
            let since = now - std::mem::replace(&mut samples.seen[at], now);
            let series = &mut samples.series[at];
            series.push_back(f64::from(u32::try_from(since).unwrap_or(u32::MAX)));
            if series.len() > SAMPLES_MAX {
                series.pop_front();
            }
        }
    }

    fn card(&self, at: usize, lake: &Lake) -> Card {
        let samples = self.lock();
        let totals = lake.totals();
        let honours = lake.honours();
        let state = match &samples.unusable[at] {
            Some(_) => State::Bad,
            None if !(honours.create && honours.update) => State::Warn,
            None => State::Good,
        };
        let mut card = Card::new(check_name(lake), state)
            .value(totals.operations.to_string(), "operations")
            .detail("where", lake.url())
            .detail(
                "lake id",
                self.identity
                    .get()
                    .map_or("not known yet", |identity| identity.lake.as_str()),
            )
            .detail("read", indicatif::HumanBytes(totals.bytes_read).to_string())
            .detail(
                "written",
                indicatif::HumanBytes(totals.bytes_written).to_string(),
            )
            .detail("failures", totals.failures.to_string())
            .detail(
                "create if absent",
                if honours.create {
                    "one winner"
                } else {
                    "not honoured"
                },
            )
            .detail(
                "replace by version",
                if honours.update {
                    "one winner"
                } else {
                    "not honoured"
                },
            );
        if let Some(reason) = &samples.unusable[at] {
            card = card.note(reason.as_str());
        }
        if samples.series[at].len() > 1 {
            card = card.series(
                "operations in 10 s, last 40 minutes",
                samples.series[at].iter().copied().collect(),
            );
        }
        card
    }
}

/// Whether it may be over the next time.
fn is_passing(failure: &Failure) -> bool {
    failure.kind == ErrorKind::Unavailable.name()
}

fn check_name(lake: &Lake) -> String {
    format!("lake {}", lake.id())
}

impl Section for LakeWatch {
    fn slug(&self) -> &str {
        "lake"
    }

    fn title(&self) -> &str {
        "Lake"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async move {
            self.mirrors
                .iter()
                .enumerate()
                .map(|(at, lake)| self.card(at, lake))
                .collect()
        })
    }
}
