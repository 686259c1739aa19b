//! A shell with sections of all kinds, and a handle on what it shows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cannery_runtime::{Clock, Tasks};
use cannery_serve::{
    Audience, Card, Identity, NextStep, Readiness, Section, Shell, ShellBuilder, State,
};
use futures::future::BoxFuture;
use maud::{Markup, html};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

/// What a test section does when it is asked.
pub(crate) enum Conduct {
    Shows(Vec<Card>),
    Panics,
    Hangs,
}

pub(crate) struct Part {
    pub(crate) slug: &'static str,
    pub(crate) title: String,
    pub(crate) cards: Conduct,
    pub(crate) page: Option<Conduct>,
    pub(crate) refresh: Conduct,
    pub(crate) refreshed: Arc<AtomicUsize>,
}

impl Part {
    pub(crate) fn named(slug: &'static str, cards: Vec<Card>) -> Self {
        Self {
            slug,
            title: format!("Part {slug}"),
            cards: Conduct::Shows(cards),
            page: None,
            refresh: Conduct::Shows(vec![]),
            refreshed: Arc::default(),
        }
    }
}

impl Section for Part {
    fn slug(&self) -> &str {
        self.slug
    }

    fn title(&self) -> &str {
        &self.title
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        match &self.cards {
            Conduct::Shows(cards) => Box::pin(async { cards.clone() }),
            Conduct::Panics => panic!("on purpose"),
            Conduct::Hangs => Box::pin(std::future::pending()),
        }
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        match self.page.as_ref()? {
            Conduct::Shows(_) => Some(Box::pin(async {
                html! { p { "The page of " (self.title) } }
            })),
            Conduct::Panics => Some(Box::pin(async { panic!("on purpose") })),
            Conduct::Hangs => Some(Box::pin(std::future::pending())),
        }
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        match &self.refresh {
            Conduct::Shows(_) => Box::pin(async {
                self.refreshed.fetch_add(1, Ordering::Relaxed);
            }),
            Conduct::Panics => panic!("on purpose"),
            Conduct::Hangs => Box::pin(std::future::pending()),
        }
    }
}

/// A running shell.
pub(crate) struct Demo {
    pub(crate) address: SocketAddr,
    pub(crate) shell: Shell,
    pub(crate) tasks: Tasks,
    pub(crate) readiness: Readiness,
}

pub(crate) async fn demo(parts: Vec<Part>) -> Demo {
    start(Clock::real(), "edge-1", parts, |builder| builder).await
}

pub(crate) async fn start(
    clock: Clock,
    node: &str,
    parts: Vec<Part>,
    more: impl FnOnce(ShellBuilder) -> ShellBuilder,
) -> Demo {
    let tasks = Tasks::new(clock.clone(), CancellationToken::new());
    let readiness = Readiness::new();
    let mut registry = Registry::default();
    let shipped = Counter::<u64>::default();
    registry.register("shipped_records", "Records shipped", shipped.clone());
    shipped.inc_by(7);
    let identity = Identity {
        version: "1.2.3".into(),
        commit: "abc1234".into(),
        node: node.into(),
        workspace: "./data".into(),
        started: "2026-11-15T18:24:03Z".parse().unwrap(),
    };
    let step = NextStep {
        title: "Look".into(),
        text: "See `it`.".into(),
        command: Some("cannery doctor".into()),
    };
    let mut builder = Shell::builder(identity, &clock, &tasks)
        .readiness(&readiness)
        .metrics(Arc::new(registry))
        .next_steps(vec![step]);
    for part in parts {
        builder = builder.section(Arc::new(part));
    }
    let shell = more(builder).build();
    let address = shell
        .listen("127.0.0.1:0".parse().unwrap(), Audience::Main)
        .await
        .unwrap();
    Demo {
        address,
        shell,
        tasks,
        readiness,
    }
}

pub(crate) fn good(title: &str) -> Card {
    Card::new(title, State::Good).value("12", "records")
}
