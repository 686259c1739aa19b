//! What the binary builds and starts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::UserName;
use cannery_runtime::{Clock, Tasks};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde::Serialize;

use crate::admin::OnShutdown;
use crate::api::ApiSlot;
use crate::asset::Assets;
use crate::health::Readiness;
use crate::notice::Notices;
use crate::routes;
use crate::section::Section;
use crate::server::{self, Audience, ConnectionLimits, ListenError, Tls, TlsFiles};

/// Which process this is.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    /// The version of the program.
    pub version: String,
    /// The commit it was built from.
    pub commit: String,
    /// The name of the node in object names and metrics.
    pub node: String,
    /// The folder it works in, as a person would write it.
    pub workspace: String,
    /// When the process started.
    pub started: Timestamp,
}

impl Identity {
    /// Enough of the commit for a person to tell builds apart.
    pub(crate) fn short_commit(&self) -> &str {
        self.commit.get(..12).unwrap_or(&self.commit)
    }
}

/// Something a person may want to do next.
#[derive(Clone, Debug, Serialize)]
pub struct NextStep {
    /// A few words.
    pub title: String,
    /// What it is good for.
    pub text: String,
    /// A command to copy, if there is one.
    pub command: Option<String>,
}

/// The monitoring server; cheap to clone. One shell may listen on several addresses.
#[derive(Clone)]
pub struct Shell(Arc<Parts>);

/// Collects what a [`Shell`] shows.
pub struct ShellBuilder(Parts);

/// What the pages are made from.
pub(crate) struct Parts {
    pub(crate) identity: Identity,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) built_at: Duration,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Arc<Registry>,
    pub(crate) sections: Vec<Arc<dyn Section>>,
    pub(crate) next_steps: Vec<NextStep>,
    pub(crate) notices: Notices,
    pub(crate) on_shutdown: Option<OnShutdown>,
    pub(crate) api: Option<ApiSlot>,
    pub(crate) assets: Assets,
}

impl Shell {
    /// A shell whose listeners run among `tasks` and end when these are asked to stop.
    #[must_use]
    pub fn builder(identity: Identity, clock: &Clock, tasks: &Tasks) -> ShellBuilder {
        ShellBuilder(Parts {
            identity,
            clock: clock.clone(),
            tasks: tasks.clone(),
            built_at: clock.elapsed(),
            readiness: Readiness::new(),
            metrics: Arc::default(),
            sections: Vec::new(),
            next_steps: Vec::new(),
            notices: Notices::new(),
            on_shutdown: None,
            api: None,
            assets: Assets::embedded(),
        })
    }

    /// Binds `address` and starts to answer there; gives the address bound, which matters for port 0.
    ///
    /// The listener stops when the tasks are asked to stop: it takes no new connections and gives the requests under way
    /// ten seconds to finish.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn listen(
        &self,
        address: SocketAddr,
        audience: Audience,
    ) -> Result<SocketAddr, ListenError> {
        self.start(address, audience, None).await
    }

    /// As [`Shell::listen`], speaking TLS with these files. Other files under the same names are taken into use without a restart.
    ///
    /// # Errors
    /// Also when the files cannot be used.
    pub async fn listen_tls(
        &self,
        address: SocketAddr,
        audience: Audience,
        files: &TlsFiles,
    ) -> Result<SocketAddr, ListenError> {
        let tls = Tls::load(files, &self.0.clock)?;
        self.start(address, audience, Some(tls)).await
    }

    async fn start(
        &self,
        address: SocketAddr,
        audience: Audience,
        tls: Option<Arc<Tls>>,
    ) -> Result<SocketAddr, ListenError> {
        let (listener, bound) = server::bind(address, audience).await?;
        let router = routes::router(&self.0, audience, bound);
        let serving = server::run(
            listener,
            router,
            self.0.clock.clone(),
            self.0.tasks.stopping(),
            ConnectionLimits::of_this_process(),
            tls,
        );
        self.0
            .tasks
            .spawn(format!("http {audience} on {bound}"), serving);
        Ok(bound)
    }
}

impl ShellBuilder {
    /// The checks behind `/readyz` and the banner of the home page.
    #[must_use]
    pub fn readiness(mut self, readiness: &Readiness) -> Self {
        self.0.readiness = readiness.clone();
        self
    }

    /// The registry behind `/metrics`, complete when it is handed over.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<Registry>) -> Self {
        self.0.metrics = metrics;
        self
    }

    /// One more section; they appear in the order they are added.
    ///
    /// # Panics
    /// When the slug is not made of lower-case letters, digits and `-`, or is taken: that is a mistake in the program.
    #[must_use]
    pub fn section(mut self, section: Arc<dyn Section>) -> Self {
        let slug = section.slug();
        let well_formed = slug
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(
            well_formed && !slug.is_empty(),
            "`{slug}` cannot be part of an address"
        );
        let taken =
            routes::OWN.contains(&slug) || self.0.sections.iter().any(|other| other.slug() == slug);
        assert!(!taken, "the slug `{slug}` is taken");
        self.0.sections.push(section);
        self
    }

    /// What to suggest on the home page.
    #[must_use]
    pub fn next_steps(mut self, next_steps: Vec<NextStep>) -> Self {
        self.0.next_steps = next_steps;
        self
    }

    /// The red banners at the top of every page.
    #[must_use]
    pub fn notices(mut self, notices: &Notices) -> Self {
        self.0.notices = notices.clone();
        self
    }

    /// What `POST /shutdown` on listeners for [`Audience::Admin`] does. It should return at once, as cancelling a token
    /// does, and may be called several times. Without it there is no such address anywhere.
    #[must_use]
    pub fn on_shutdown(mut self, on_shutdown: impl Fn() + Send + Sync + 'static) -> Self {
        self.0.on_shutdown = Some(Arc::new(on_shutdown));
        self
    }

    /// Where the API for programs is, on listeners for [`Audience::Main`].
    #[must_use]
    pub fn api(mut self, slot: &ApiSlot) -> Self {
        self.0.api = Some(slot.clone());
        self
    }

    /// The finished shell. Nothing listens yet.
    ///
    /// # Panics
    /// When there is an API and a section has an address that could be a user's: that is a mistake in the program.
    #[must_use]
    pub fn build(self) -> Shell {
        let slugs = self.0.sections.iter().map(|section| section.slug());
        for name in routes::OWN.into_iter().chain(slugs) {
            let may_be_a_user = self.0.api.is_some() && UserName::new(name).is_ok();
            assert!(
                !may_be_a_user,
                "`/{name}` could be the address of a user; put it into `RESERVED_USER_NAMES`"
            );
        }
        Shell(Arc::new(self.0))
    }
}
