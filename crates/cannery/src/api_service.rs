//! The objects of users in a running process: opened once the lake answers, however late that is; looked after; closed.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cannery_formats::UserName;
use cannery_lake::Mirrors;
use cannery_objects::{
    DISK_RESERVE_BYTES, Namespace, NamespaceParts, OBJECT_BYTES_MAX, ObjectError, ObjectErrorKind,
    SweepGrace, record_users,
};
use cannery_runtime::disk::write_private;
use cannery_serve::{ApiParts, ApiSlot, Notices, ServedLakes};
use cannery_state::State;
use cannery_state::identity::{IdentityErrorKind, LOCAL_USER, Scope};
use tokio_util::sync::CancellationToken;

use crate::api_client::{ApiFile, read_token, token_path};
use crate::commands::Context;
use crate::config::Config;
use crate::failure::{ExitCode, Failure};
use crate::lakes::StageLakes;
use crate::{lakes, plant};

/// How often it is looked whether the lake is there.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);
/// How often changes of a server that died are written to the log of the lake.
const FLUSH_EVERY: Duration = Duration::from_secs(60);
/// How often bytes without a name are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// How long tokens are listed that are worth nothing any more.
const TOKENS_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// When what is done from time to time is done first.
const FIRST_AFTER: Duration = Duration::from_secs(600);
/// How often everything is written down as one object, so that the log before it can go.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(24 * 3600);
const NOTICE: &str = "objects";

/// The objects of users, open or not.
pub(crate) struct ApiService<'a> {
    config: &'a Config,
    context: &'a Context,
    slot: ApiSlot,
    notices: Notices,
    open: Mutex<Option<OpenObjects>>,
}

#[derive(Clone)]
struct OpenObjects {
    state: State,
    namespace: Arc<Namespace>,
}

/// What the namespace of this configuration is made of.
pub(crate) fn namespace_parts(
    state: &State,
    mirrors: &Arc<Mirrors>,
    config: &Config,
    context: &Context,
) -> NamespaceParts {
    NamespaceParts {
        state: state.clone(),
        mirrors: Arc::clone(mirrors),
        uploads: config.workspace.join("uploads"),
        disk: context.disk(),
        disk_reserve: DISK_RESERVE_BYTES,
        object_bytes_max: OBJECT_BYTES_MAX,
        clock: context.clock.clone(),
        rng: context.rng.clone(),
    }
}

impl<'a> ApiService<'a> {
    pub(crate) fn new(config: &'a Config, context: &'a Context, notices: &Notices) -> Self {
        Self {
            config,
            context,
            slot: ApiSlot::default(),
            notices: notices.clone(),
            open: Mutex::default(),
        }
    }

    /// Where the server finds it.
    pub(crate) fn slot(&self) -> &ApiSlot {
        &self.slot
    }

    fn opened(&self) -> Option<OpenObjects> {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Tries to open it. What keeps it from being used is logged and shown as a notice, and the rest of the process goes on.
    pub(crate) async fn try_open(&self, mirrors: &Mirrors, url: &str) {
        match self.open(mirrors, url).await {
            Ok(()) => self.notices.clear(NOTICE),
            Err(Failure { message, next, .. }) => {
                tracing::error!(
                    reason = message,
                    next,
                    "users' objects cannot be used; will retry"
                );
                let notice = format!("users' objects cannot be used: {message}; {next}");
                self.notices.set(NOTICE, notice);
            }
        }
    }

    async fn open(&self, mirrors: &Mirrors, url: &str) -> Result<(), Failure> {
        // Who asks before it can be used is told so by the server.
        let (disk, workspace) = (self.context.disk(), &self.config.workspace);
        ApiFile::write(&*disk, workspace, &own_url(url))
            .map_err(|error| unwritable(&workspace.join("api.json"), &error))?;
        let state = plant::state(self.config, self.context).await?;
        let opened = self.open_on(&state, mirrors).await;
        if opened.is_err() {
            state.close().await;
        }
        opened
    }

    async fn open_on(&self, state: &State, mirrors: &Mirrors) -> Result<(), Failure> {
        let Context { clock, rng, .. } = self.context;
        let lake = Arc::new(lakes::collecting(self.config, mirrors));
        let parts = namespace_parts(state, &lake, self.config, self.context);
        let namespace = Namespace::open(parts).await?;
        let namespace = Arc::new(namespace);
        if let Err(failure) = self.introduce(state).await {
            namespace.close().await;
            return Err(failure);
        }
        let stages = StageLakes::of(&self.config.pipeline.storage, mirrors);
        self.slot.open(ApiParts {
            state: state.clone(),
            namespace: Arc::clone(&namespace),
            lakes: ServedLakes {
                archives: stages.public,
                raw: stages.raw,
            },
            clock: clock.clone(),
            rng: rng.clone(),
            is_proxied: self.config.serve.proxied,
        });
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(OpenObjects {
            state: state.clone(),
            namespace,
        });
        Ok(())
    }

    /// Prints a link by which a browser becomes the user of this machine; not for programs, which have tokens.
    pub(crate) fn invite(&self, url: &str) {
        let output = self.context.output;
        let scopes = [Scope::Read, Scope::Write].into_iter().collect();
        let link = self.slot.login_link(&own_url(url), &local_user(), &scopes);
        if let Some(link) = link.filter(|_| !output.json) {
            let text = format!(
                "To upload and delete in a browser, log in with this link, once, within 10 minutes:\n  {}\n",
                link.expose()
            );
            output.raw(text.as_bytes());
        }
    }

    /// The user of this machine, and the files by which the command line finds the server and proves to be that user.
    async fn introduce(&self, state: &State) -> Result<(), Failure> {
        let (rng, workspace) = (&self.context.rng, &self.config.workspace);
        let local = local_user();
        match state.add_user(&local, rng).await {
            Err(error) if error.kind != IdentityErrorKind::Taken => return Err(error.into()),
            Ok(_) | Err(_) => {}
        }
        let known = match read_token(workspace) {
            Some(token) => state.authenticate(token.expose()).await?,
            None => None,
        };
        let is_whole = known.is_some_and(|(user, token)| {
            let may_all = Scope::ALL.into_iter().all(|scope| token.scopes.has(scope));
            user.name == LOCAL_USER && may_all && token.expires.is_none()
        });
        if !is_whole {
            let token = state
                .create_token(&local, &Scope::ALL.into_iter().collect(), None, rng)
                .await?;
            let text = format!("{}\n", token.text.expose());
            let path = token_path(workspace);
            write_private(&*self.context.disk(), &path, text.as_bytes())
                .map_err(|error| unwritable(&path, &error))?;
        }
        Ok(())
    }

    /// Opens it if it is not open yet, and looks after it until `stop`; then closes it.
    pub(crate) async fn run(
        &self,
        mirrors: &Mirrors,
        is_reached: impl Fn() -> bool,
        url: &str,
        stop: &CancellationToken,
    ) {
        let clock = &self.context.clock;
        let looking = async {
            let (mut sweep, mut snapshot) = (Due::every(SWEEP_EVERY), Due::every(SNAPSHOT_EVERY));
            let mut is_first = true;
            loop {
                let pause = match (self.opened(), is_reached()) {
                    (Some(_), _) => FLUSH_EVERY,
                    (None, false) => LOOK_EVERY,
                    // The start of the process has tried it already.
                    (None, true) if is_first => RETRY_AFTER,
                    (None, true) => {
                        self.try_open(mirrors, url).await;
                        self.invite(url);
                        RETRY_AFTER
                    }
                };
                is_first = false;
                clock.sleep(pause).await;
                if let Some(OpenObjects { state, namespace }) = self.opened() {
                    let mut looked_after = vec![namespace.flush_outbox().await];
                    self.record_users(&state, mirrors).await;
                    if sweep.is_due_after(pause) {
                        looked_after.push(self.sweep(&namespace).await);
                        if let Err(error) = state.forget_tokens(TOKENS_FOR).await {
                            tracing::warn!(%error, "cannot forget old tokens; will retry");
                        }
                    }
                    if snapshot.is_due_after(pause) {
                        looked_after.push(take_snapshot(&namespace).await);
                    }
                    self.judge(looked_after).await;
                }
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = looking => {}
        }
        self.close().await;
    }

    /// What failed is tried again, unless the database is not the one that has the objects of the lake: then nothing of them is
    /// served any more.
    async fn judge(&self, looked_after: Vec<Result<(), ObjectError>>) {
        for error in looked_after.into_iter().filter_map(Result::err) {
            if error.kind != ObjectErrorKind::BehindLake {
                tracing::warn!(%error, "cannot look after users' objects; will retry");
                continue;
            }
            let Failure { message, next, .. } = error.into();
            tracing::error!(
                reason = message,
                next,
                "users' objects are not served any more"
            );
            let notice = format!("users' objects are not served: {message}; {next}");
            self.notices.set(NOTICE, notice);
            return self.close_objects().await;
        }
    }

    async fn sweep(&self, namespace: &Namespace) -> Result<(), ObjectError> {
        let grace = self.config.pipeline.grace.0;
        let grace = SweepGrace {
            unnamed: grace,
            orphaned: grace.max(SweepGrace::default().orphaned),
        };
        let report = namespace.sweep(grace).await?;
        if report.deleted + report.failed > 0 {
            let (deleted, failed) = (report.deleted, report.failed);
            tracing::info!(
                deleted,
                failed,
                "swept bytes of users' objects that no name has any more"
            );
        }
        Ok(())
    }

    /// Who was added and removed meanwhile is known to the lake, too.
    async fn record_users(&self, state: &State, mirrors: &Mirrors) {
        let mirrors = lakes::collecting(self.config, mirrors);
        if let Err(error) = record_users(state, &mirrors).await {
            tracing::warn!(%error, "cannot write down in the lake who the users are; will retry");
        }
    }

    async fn close(&self) {
        self.close_objects().await;
        ApiFile::remove(&*self.context.disk(), &self.config.workspace);
    }

    /// Ends what is asked of them; they may be opened again.
    async fn close_objects(&self) {
        self.slot.close();
        let open = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(open) = open {
            open.namespace.close().await;
            open.state.close().await;
        }
    }
}

async fn take_snapshot(namespace: &Namespace) -> Result<(), ObjectError> {
    let report = namespace.snapshot().await?;
    if report.entries > 0 {
        let (version, entries) = (report.version, report.entries);
        tracing::info!(version, entries, "took a snapshot of users' objects");
    }
    Ok(())
}

/// Something that is done from time to time.
struct Due {
    every: Duration,
    waited: Duration,
}

impl Due {
    /// For the first time soon: a process may not live as long as the time in between.
    fn every(every: Duration) -> Self {
        let waited = every.saturating_sub(FIRST_AFTER);
        Self { every, waited }
    }

    /// Whether it is time, so long after the last question.
    fn is_due_after(&mut self, pause: Duration) -> bool {
        self.waited += pause;
        let is_due = self.waited >= self.every;
        if is_due {
            self.waited = Duration::ZERO;
        }
        is_due
    }
}

fn local_user() -> UserName {
    UserName::new(LOCAL_USER).expect("a valid name")
}

/// Where this machine itself reaches a server: one on all addresses by loopback.
fn own_url(url: &str) -> String {
    url.replacen("//0.0.0.0:", "//127.0.0.1:", 1)
        .replacen("//[::]:", "//[::1]:", 1)
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot write `{}`: {error}", path.display());
    let next = "make the workspace writable, or choose another with `--workspace`";
    Failure::new(ExitCode::Error, "workspace_unusable", message, next)
}
