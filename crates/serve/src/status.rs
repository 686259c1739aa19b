//! What the home page and `/status.json` say, gathered from all parts.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use serde::Serialize;

use crate::notice::Notice;
use crate::section::{Card, Section, State};
use crate::shell::{Identity, NextStep, Parts};

/// How long the page waits for one section.
const SECTION_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Serialize)]
pub(crate) struct Status<'a> {
    pub(crate) state: State,
    pub(crate) summary: String,
    pub(crate) attention: Vec<Attention>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) process: Process<'a>,
    pub(crate) sections: Vec<Summary<'a>>,
    pub(crate) next_steps: &'a [NextStep],
}

/// One thing that needs a person.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Attention {
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) reason: String,
}

#[derive(Serialize)]
pub(crate) struct Process<'a> {
    #[serde(flatten)]
    pub(crate) identity: &'a Identity,
    pub(crate) uptime_seconds: u64,
    pub(crate) tasks: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Summary<'a> {
    pub(crate) slug: &'a str,
    pub(crate) title: &'a str,
    pub(crate) has_page: bool,
    pub(crate) cards: Vec<Card>,
}

/// Asks every section at once; one that hangs or panics becomes a red card and holds up nobody.
pub(crate) async fn gather(parts: &Parts) -> Status<'_> {
    let sections = join_all(
        parts
            .sections
            .iter()
            .map(|section| summary(parts, section.as_ref())),
    )
    .await;
    let notices = parts.notices.all();
    let attention = attention(parts, &notices, &sections);
    Status {
        state: attention
            .iter()
            .map(|item| item.state)
            .max()
            .unwrap_or(State::Good),
        summary: headline(attention.len()),
        attention,
        notices,
        process: Process {
            identity: &parts.identity,
            uptime_seconds: parts.clock.since(parts.built_at).as_secs(),
            tasks: parts.tasks.names(),
        },
        sections,
        next_steps: &parts.next_steps,
    }
}

async fn summary<'a>(parts: &Parts, section: &'a dyn Section) -> Summary<'a> {
    let cards = AssertUnwindSafe(async { section.cards().await }).catch_unwind();
    let cards = match parts.clock.timeout(SECTION_TIMEOUT, cards).await {
        Ok(Ok(cards)) => cards,
        Ok(Err(_)) => {
            tracing::error!(
                section = section.slug(),
                "section panicked; the page goes on without it"
            );
            vec![broken(
                section,
                "stopped with a panic while it was asked; the log says more",
            )]
        }
        Err(_) => vec![broken(section, "gave no answer in time")],
    };
    Summary {
        slug: section.slug(),
        title: section.title(),
        has_page: section.page().is_some(),
        cards,
    }
}

fn broken(section: &dyn Section, why: &str) -> Card {
    Card::new(section.title(), State::Bad)
        .value("?", "")
        .note(why)
}

/// Notices and failing checks first, then cards; a card named like a failing check says nothing new.
fn attention(parts: &Parts, notices: &[Notice], sections: &[Summary<'_>]) -> Vec<Attention> {
    let failing = parts.readiness.failing();
    let notices = notices.iter().map(|notice| Attention {
        name: notice.name.clone(),
        state: State::Bad,
        reason: notice.reason.clone(),
    });
    let checks = failing.iter().map(|check| Attention {
        name: check.name.clone(),
        state: State::Bad,
        reason: check.reason.clone(),
    });
    let cards = sections
        .iter()
        .flat_map(|section| &section.cards)
        .filter(|card| card.state >= State::Warn)
        .filter(|card| {
            !failing
                .iter()
                .any(|check| check.name.eq_ignore_ascii_case(&card.title))
        })
        .map(|card| Attention {
            name: card.title.clone(),
            state: card.state,
            reason: reason(card),
        });
    notices.chain(checks).chain(cards).collect()
}

fn reason(card: &Card) -> String {
    card.note
        .clone()
        .unwrap_or_else(|| format!("{} {}", card.value, card.label).trim().to_owned())
}

fn headline(things: usize) -> String {
    match things {
        0 => "Everything is running".into(),
        1 => "1 thing needs attention".into(),
        _ => format!("{things} things need attention"),
    }
}
