//! The home page.

use maud::{Markup, html};

use crate::content::span;
use crate::page::{dot, prose};
use crate::section::Card;
use crate::shell::NextStep;
use crate::sparkline;
use crate::status::{Process, Status, Summary};
use crate::subpage;

pub(crate) fn render(status: &Status<'_>) -> Markup {
    html! {
        (banner(status))
        @for section in &status.sections { (section_block(section)) }
        div.foot-grid {
            @if !status.next_steps.is_empty() { (next_steps(status.next_steps)) }
            (process(&status.process))
        }
    }
}

pub(crate) fn banner(status: &Status<'_>) -> Markup {
    html! {
        section.banner.(status.state.class()) {
            span.disc.(status.state.class()) aria-hidden="true" {}
            div {
                h1 { (status.summary) }
                @if status.attention.is_empty() {
                    p { "Node " strong { (status.process.identity.node) } ", up for " (span(status.process.uptime_seconds)) "." }
                } @else {
                    ul {
                        @for item in &status.attention {
                            li { (dot(item.state)) div { strong { (item.name) } " " span { (prose(&item.reason)) } } }
                        }
                    }
                }
            }
        }
    }
}

fn section_block(section: &Summary<'_>) -> Markup {
    html! {
        section.block id=(section.slug) {
            div.block-head {
                h2 { (section.title) }
                @if section.has_page {
                    a href={ "/" (section.slug) } { "Open" span.sr { " " (section.title) } span aria-hidden="true" { " →" } }
                }
            }
            @if section.cards.is_empty() {
                p.empty { "Nothing to show yet." }
            } @else {
                div.cards { @for card in &section.cards { (card_block(card, section.slug)) } }
            }
        }
    }
}

/// The title, linked where the card has a page of its own.
fn title(card: &Card, slug: &str) -> Markup {
    let address = card
        .page
        .as_ref()
        .and_then(|page| subpage::address(slug, page));
    html! {
        @match address {
            Some(address) => { a href=(address) { (card.title) } }
            None => { (card.title) }
        }
    }
}

fn card_block(card: &Card, slug: &str) -> Markup {
    html! {
        article.card.(card.state.class()) {
            h3 { (dot(card.state)) (title(card, slug)) }
            @if !card.value.is_empty() {
                p.value { (card.value) @if !card.label.is_empty() { " " span.label { (card.label) } } }
            }
            @if let Some(note) = &card.note { p.note { (prose(note)) } }
            @if !card.details.is_empty() {
                dl { @for line in &card.details { div { dt { (line.key) } dd { (line.value) } } } }
            }
            @if let Some(curve) = card.series.as_ref().and_then(sparkline::draw) { (curve) }
        }
    }
}

fn next_steps(steps: &[NextStep]) -> Markup {
    html! {
        section.block {
            div.block-head { h2 { "Next steps" } }
            ol.steps {
                @for step in steps {
                    li {
                        h3 { (step.title) }
                        p { (prose(&step.text)) }
                        @if let Some(command) = &step.command { pre tabindex="0" { code { (command) } } }
                    }
                }
            }
        }
    }
}

pub(crate) fn process(process: &Process<'_>) -> Markup {
    let identity = process.identity;
    html! {
        section.block {
            div.block-head { h2 { "This process" } }
            article.card.facts {
                dl {
                    (fact("Up for", &span(process.uptime_seconds)))
                    (fact("Since", &identity.started.strftime("%Y-%m-%d %H:%M UTC").to_string()))
                    (fact("Node", &identity.node))
                    (fact("Workspace", &identity.workspace))
                    (fact("Version", &format!("{} ({})", identity.version, identity.short_commit())))
                }
                h3 { "Running tasks: " (process.tasks.len()) }
                ul.tasks { @for task in &process.tasks { li { (task) } } }
            }
        }
    }
}

fn fact(key: &str, value: &str) -> Markup {
    html! { div { dt { (key) } dd { (value) } } }
}
