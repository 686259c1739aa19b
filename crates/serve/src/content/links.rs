//! Rows of links: what can be chosen, and where the next page is.

use maud::{Markup, Render, html};

use super::text::clean;
use crate::visit::Address;

/// More would be no choice any more.
const LINKS_MAX: usize = 40;

/// Links side by side, after a word that says what they choose.
#[derive(Clone, Debug)]
pub struct Links {
    title: String,
    links: Vec<(String, Address, bool)>,
}

impl Links {
    /// No links yet; without any nothing is shown.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            links: Vec::new(),
        }
    }

    /// One more link, if it has an address; whether it leads to what is shown now.
    #[must_use]
    pub fn link(
        mut self,
        words: impl Into<String>,
        address: Option<Address>,
        is_chosen: bool,
    ) -> Self {
        if let Some(address) = address.filter(|_| self.links.len() < LINKS_MAX) {
            self.links.push((words.into(), address, is_chosen));
        }
        self
    }
}

impl Render for Links {
    fn render(&self) -> Markup {
        html! {
            @if !self.links.is_empty() {
                nav.choice aria-label=(clean(&self.title)) {
                    span.choice-title { (clean(&self.title)) }
                    @for (words, address, is_chosen) in &self.links {
                        a href=(address.as_str()) aria-current=[is_chosen.then_some("true")] { (clean(words)) }
                    }
                }
            }
        }
    }
}
