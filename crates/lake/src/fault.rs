//! A store that fails on purpose, by script or by seed.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cannery_runtime::{Clock, Rng};
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    Result,
};

mod upload;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error, and nothing has happened.
    ErrorBefore,
    /// It has happened, but the answer is an error.
    ErrorAfter,
    /// It has happened, but no answer ever comes.
    HangAfter,
    /// The answer to a read ends early.
    ShortRead,
    /// The condition is said not to hold (412), whatever is there.
    PreconditionFailed,
    /// Another write is said to be under way (409), whatever is there.
    ConflictingWrite,
    /// A listing ends with an error after this many objects.
    ListEndsAfter(usize),
    /// The answer comes this much later.
    Latency(Duration),
}

/// What a request is, for choosing which ones fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Any put of a whole object.
    Put,
    /// A part of an upload.
    Part,
    /// The end of an upload that makes it an object.
    Complete,
    /// The end of an upload that throws it away.
    Abort,
    /// A read, whole, of a range, or of nothing but the head.
    Get,
    /// A listing.
    List,
    /// A delete.
    Delete,
}

/// One line of the script: the next `times` requests of this kind meet the fault.
#[derive(Clone, Copy, Debug)]
struct Rule {
    request: Request,
    fault: Fault,
    times: u32,
}

/// The faults to come, shared by all clones of a store.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug)]
struct Plan {
    rules: Vec<Rule>,
    chance: Option<(Rng, f64)>,
    injected: u64,
    requests: u64,
    /// The last request that is answered, and how.
    last: Option<(u64, Fault)>,
}

impl Faults {
    /// Nothing fails yet.
    #[must_use]
    pub fn none() -> Self {
        Self::build(None)
    }

    /// Every request meets a fault that fits it with the given probability.
    #[must_use]
    pub fn by_seed(seed: u64, probability: f64) -> Self {
        Self::build(Some((Rng::seeded(seed), probability)))
    }

    fn build(chance: Option<(Rng, f64)>) -> Self {
        Self(Arc::new(Mutex::new(Plan {
            rules: Vec::new(),
            chance,
            injected: 0,
            requests: 0,
            last: None,
        })))
    }

    /// The next `times` requests of this kind meet `fault`.
    pub fn next(&self, request: Request, fault: Fault, times: u32) {
        self.lock().rules.push(Rule {
            request,
            fault,
            times,
        });
    }

    /// The request after `more` others meets `fault`, and no later one has an effect: as if the process was killed there.
    pub fn die_after(&self, more: u64, fault: Fault) {
        let mut plan = self.lock();
        plan.last = Some((plan.requests + more + 1, fault));
    }

    /// How many faults were met so far.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.lock().injected
    }

    /// How many requests were made so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Nothing fails from now on.
    pub fn stop(&self) {
        let mut plan = self.lock();
        plan.rules.clear();
        plan.chance = None;
        plan.last = None;
    }

    fn draw(&self, request: Request) -> Option<Fault> {
        let mut plan = self.lock();
        plan.requests += 1;
        if let Some((last, fault)) = plan.last
            && plan.requests >= last
        {
            plan.injected += 1;
            let is_last = plan.requests == last;
            return Some(if is_last { fault } else { Fault::ErrorBefore });
        }
        let scripted = plan
            .rules
            .iter_mut()
            .find(|rule| rule.request == request && rule.times > 0)
            .map(|rule| {
                rule.times -= 1;
                rule.fault
            });
        let fault = scripted.or_else(|| {
            let (rng, probability) = plan.chance.as_ref()?;
            rng.chance(*probability).then(|| any_fault(request, rng))
        });
        plan.injected += u64::from(fault.is_some());
        fault
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SHORT_LATENCY: Fault = Fault::Latency(Duration::from_millis(1));

fn any_fault(request: Request, rng: &Rng) -> Fault {
    let fitting: &[Fault] = match request {
        Request::Put => &[
            Fault::ErrorBefore,
            Fault::ErrorAfter,
            Fault::HangAfter,
            Fault::PreconditionFailed,
            Fault::ConflictingWrite,
            SHORT_LATENCY,
        ],
        Request::Complete | Request::Delete => &[
            Fault::ErrorBefore,
            Fault::ErrorAfter,
            Fault::HangAfter,
            SHORT_LATENCY,
        ],
        Request::Part | Request::Abort => &[Fault::ErrorBefore, Fault::ErrorAfter, SHORT_LATENCY],
        Request::Get => &[
            Fault::ErrorBefore,
            Fault::ShortRead,
            Fault::HangAfter,
            SHORT_LATENCY,
        ],
        Request::List => &[
            Fault::ErrorBefore,
            Fault::ListEndsAfter(3),
            Fault::HangAfter,
            SHORT_LATENCY,
        ],
    };

    let at = usize::try_from(rng.below(fitting.len() as u64)).expect("an index fits");
    fitting[at]
}

/// A store in front of another that makes requests fail.
#[derive(Clone)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    faults: Faults,
    clock: Clock,
}

impl FaultStore {
    /// Puts `faults` in front of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn ObjectStore>, faults: Faults, clock: Clock) -> Self {
        Self {
            inner,
            faults,
            clock,
        }
    }

    /// Runs `work` with the next fault for `request`, if there is one.
    async fn meet<T>(
        &self,
        request: Request,
        path: &Path,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let Some(fault) = self.faults.draw(request) else {
            return work.await;
        };
        match fault {
            Fault::ErrorBefore => Err(broken("error before the effect")),
            Fault::ErrorAfter => {
                work.await?;
                Err(broken("error after the effect"))
            }
            Fault::HangAfter => {
                work.await?;
                std::future::pending().await
            }
            Fault::PreconditionFailed => Err(Error::Precondition {
                path: path.to_string(),
                source: "412 on purpose".into(),
            }),
            Fault::ConflictingWrite => Err(Error::AlreadyExists {
                path: path.to_string(),
                source: "409 on purpose".into(),
            }),
            Fault::Latency(pause) => {
                self.clock.sleep(pause).await;
                work.await
            }
            // These change an answer instead of replacing it; see `get_opts` and `list`.
            Fault::ShortRead | Fault::ListEndsAfter(_) => work.await,
        }
    }

    fn faulty_list(
        &self,
        found: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.faults.draw(Request::List) {
            Some(Fault::ListEndsAfter(count)) => found
                .take(count)
                .chain(stream::once(async { Err(broken("listing cut off")) }))
                .boxed(),
            Some(Fault::Latency(pause)) => {
                let clock = self.clock.clone();
                stream::once(async move {
                    clock.sleep(pause).await;
                    found
                })
                .flatten()
                .boxed()
            }
            Some(Fault::HangAfter) => stream::pending().boxed(),
            Some(_) => stream::once(async { Err(broken("listing refused")) }).boxed(),
            None => found,
        }
    }
}

fn broken(what: &str) -> Error {
    Error::Generic {
        store: "fault",
        source: format!("{what} (on purpose)").into(),
    }
}

/// Drops the last byte of an answer and claims that it is complete.
fn cut_short(result: GetResult) -> GetResult {
    let length = result.range.end - result.range.start;
    let mut left = usize::try_from(length.saturating_sub(1)).unwrap_or(usize::MAX);
    let (meta, range, attributes, extensions) = (
        result.meta.clone(),
        result.range.clone(),
        result.attributes.clone(),
        result.extensions.clone(),
    );
    let payload = result
        .into_stream()
        .map(move |chunk| {
            let mut chunk = chunk?;
            chunk.truncate(left);
            left -= chunk.len();
            Ok(chunk)
        })
        .boxed();
    GetResult {
        payload: GetResultPayload::Stream(payload),
        meta,
        range,
        attributes,
        extensions,
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.meet(
            Request::Put,
            location,
            self.inner.put_opts(location, payload, opts),
        )
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(Box::new(upload::FaultUpload::new(
            self.clone(),
            location.clone(),
            inner,
        )))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        match self.faults.draw(Request::Get) {
            None => self.inner.get_opts(location, options).await,
            Some(Fault::ShortRead) => self.inner.get_opts(location, options).await.map(cut_short),
            Some(Fault::Latency(pause)) => {
                self.clock.sleep(pause).await;
                self.inner.get_opts(location, options).await
            }
            Some(Fault::HangAfter) => std::future::pending().await,
            Some(_) => Err(broken("read refused")),
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.meet(
            Request::Get,
            location,
            self.inner.get_ranges(location, ranges),
        )
        .await
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
                    let delete = object_store::ObjectStoreExt::delete(&*store.inner, &location);
                    store.meet(Request::Delete, &location, delete).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.faulty_list(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.faulty_list(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        self.meet(
            Request::List,
            prefix.unwrap_or(&root),
            self.inner.list_with_delimiter(prefix),
        )
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.meet(Request::Put, to, self.inner.copy_opts(from, to, options))
            .await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.meet(Request::Put, to, self.inner.rename_opts(from, to, options))
            .await
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({:?})", self.inner)
    }
}
