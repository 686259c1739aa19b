//! What everybody who looks at any page has to know.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use maud::{Markup, html};
use serde::Serialize;

use crate::content::{PROSE_CHARS_MAX, clean_to};
use crate::page::{dot, prose};
use crate::section::State;

/// Red banners, shared between those who raise them and the server; cheap to clone.
///
/// A notice stands at the top of every page and in `/status.json` until it is cleared.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<RwLock<BTreeMap<String, String>>>);

/// One notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Notice {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Notices {
    /// No notices yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises the notice `name`, such as `configuration`, or gives it another reason: a sentence that says what is wrong and
    /// what to do, with names in backticks.
    pub fn set(&self, name: impl Into<String>, reason: impl Into<String>) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.into(), reason.into());
    }

    /// Takes the notice `name` down; one that was never raised is no mistake.
    pub fn clear(&self, name: &str) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    pub(crate) fn all(&self) -> Vec<Notice> {
        let notices = self.0.read().unwrap_or_else(PoisonError::into_inner);
        notices
            .iter()
            .map(|(name, reason)| Notice {
                name: clean_to(name, PROSE_CHARS_MAX),
                reason: clean_to(reason, PROSE_CHARS_MAX),
            })
            .collect()
    }
}

/// The banner of a page that does not begin with the state of everything, as the home page does.
pub(crate) fn banner(notices: &[Notice]) -> Markup {
    html! {
        @if !notices.is_empty() {
            // No live region: the script replaces it with the rest of the page, and it would be read aloud each time.
            section.notices aria-label="Notices" {
                ul {
                    @for notice in notices {
                        li { (dot(State::Bad)) p { strong { (notice.name) } " " span { (prose(&notice.reason)) } } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_stands_until_it_is_cleared() {
        let notices = Notices::new();
        let held_by_the_reload = notices.clone();
        held_by_the_reload.set("configuration", "line 3");
        held_by_the_reload.set("configuration", "line 4");
        notices.set("disk", "full");
        let names = |notices: &Notices| -> Vec<_> {
            let all = notices.all().into_iter();
            all.map(|notice| (notice.name, notice.reason)).collect()
        };
        assert_eq!(
            names(&notices),
            [
                ("configuration".into(), "line 4".into()),
                ("disk".into(), "full".into())
            ]
        );
        held_by_the_reload.clear("configuration");
        held_by_the_reload.clear("never raised");
        assert_eq!(names(&notices), [("disk".into(), "full".into())]);
    }

    #[test]
    fn a_hostile_reason_stays_text_and_is_cut() {
        let notices = Notices::new();
        assert_eq!(banner(&notices.all()).into_string(), "");
        let evil = format!("<script>\u{1b}[2J\u{202e}`<b>` {}", "x".repeat(5_000));
        notices.set(evil.clone(), evil);
        let drawn = banner(&notices.all()).into_string();
        assert!(
            !drawn.contains("<script") && !drawn.contains("<b>"),
            "{drawn}"
        );
        assert!(
            drawn.contains("&lt;script&gt;�[2J�<code>&lt;b&gt;</code>"),
            "{drawn}"
        );
        assert!(drawn.len() < 3 * PROSE_CHARS_MAX, "{}", drawn.len());
    }
}
