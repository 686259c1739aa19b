//! What the page of a section is made of, so that a part of the product needs to know nothing of HTML.
//!
//! All text is escaped, freed of characters that command the reader's screen, and cut: keys and reasons come from anybody.

use maud::{Markup, Render, html};

use crate::page::{dot, prose};
use crate::section::State;

mod chart;
mod heat_map;
mod links;
mod plot;
mod table;
mod text;
mod tree;

pub use chart::{Bars, Curve};
pub use heat_map::{HeatMap, Tally};
pub use links::Links;
pub use plot::Plot;
pub use table::{Cell, Table};
pub(crate) use text::clean_to;
use text::shown;
pub use text::{clean, span};
pub use tree::Tree;

const BRIEF_BYTES: usize = 8;
/// Sentences are worth more characters than names: what went wrong is read to its end.
pub(crate) const PROSE_CHARS_MAX: usize = 1_000;

/// A page: its title, a sentence, and panels.
#[derive(Clone, Debug)]
pub struct Content {
    title: String,
    lead: String,
    panels: Vec<Panel>,
}

impl Content {
    /// A page without panels.
    #[must_use]
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            lead: lead.into(),
            panels: Vec::new(),
        }
    }

    /// One more panel.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// The page as [`crate::Section::page`] hands it in. Where there are several panels, it begins with links to them.
    #[must_use]
    pub fn finish(&self) -> Markup {
        html! {
            h1.page-title { (clean(&self.title)) }
            p.lead { (prose(&clean_to(&self.lead, PROSE_CHARS_MAX))) }
            @if self.panels.len() > 1 {
                nav.jump aria-label=(clean(&self.title)) {
                    @for panel in &self.panels { a href={ "#" (panel.id) } { (dot(panel.state)) (clean(&panel.title)) } }
                }
            }
            @for panel in &self.panels { (panel) }
        }
    }
}

/// One thing that the page is about.
#[derive(Clone, Debug)]
pub struct Panel {
    id: String,
    title: String,
    state: State,
    aside: String,
    note: Option<String>,
    parts: Vec<Markup>,
}

impl Panel {
    /// A panel with a title only; `id` is its place in the address.
    #[must_use]
    pub fn new(id: impl Into<String>, title: impl Into<String>, state: State) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            state,
            aside: String::new(),
            note: None,
            parts: Vec::new(),
        }
    }

    /// A few words beside the title.
    #[must_use]
    pub fn aside(mut self, aside: impl Into<String>) -> Self {
        self.aside = aside.into();
        self
    }

    /// Why the state is what it is, and what to do; names stand in backticks.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// One more part.
    #[must_use]
    pub fn part(mut self, part: &impl Render) -> Self {
        self.parts.push(part.render());
        self
    }

    /// Two parts side by side where there is room.
    #[must_use]
    pub fn beside(mut self, left: &impl Render, right: &impl Render) -> Self {
        self.parts.push(html! { div.pair { (left) (right) } });
        self
    }
}

impl Render for Panel {
    fn render(&self) -> Markup {
        html! {
            section.block.panel.(self.state.class()) id=(self.id) {
                div.block-head {
                    h2 { (dot(self.state)) (clean(&self.title)) }
                    @if !self.aside.is_empty() { p.aside { (clean(&self.aside)) } }
                }
                @if let Some(note) = &self.note { p.note { (prose(&clean(note))) } }
                @for part in &self.parts { (part) }
            }
        }
    }
}

/// A row of values to read from across the room.
#[derive(Clone, Debug, Default)]
pub struct Figures(Vec<(String, String, State)>);

impl Figures {
    /// No values yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One more value.
    #[must_use]
    pub fn figure(
        mut self,
        label: impl Into<String>,
        value: impl Into<String>,
        state: State,
    ) -> Self {
        self.0.push((label.into(), value.into(), state));
        self
    }
}

impl Render for Figures {
    fn render(&self) -> Markup {
        html! {
            dl.figures {
                @for (label, value, state) in &self.0 {
                    div.(state.class()) { dt { (clean(label)) } dd { (clean(value)) } }
                }
            }
        }
    }
}

/// Names with values, in a card.
#[derive(Clone, Debug)]
pub struct Facts {
    title: String,
    facts: Vec<(String, String)>,
}

impl Facts {
    /// No facts yet.
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            facts: Vec::new(),
        }
    }

    /// One more fact.
    #[must_use]
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.push((name.into(), value.into()));
        self
    }
}

impl Facts {
    /// Whether two columns fit onto a narrow screen.
    fn is_brief(&self) -> bool {
        self.facts
            .iter()
            .all(|(_, value)| value.len() <= BRIEF_BYTES)
    }
}

impl Render for Facts {
    fn render(&self) -> Markup {
        html! {
            article.card.many.brief[self.is_brief()] {
                h3 { (clean(&self.title)) }
                dl { @for (name, value) in &self.facts { div { dt { (clean(name)) } dd { (clean(value)) } } } }
            }
        }
    }
}

/// What to do while there is nothing to see.
#[derive(Clone, Debug)]
pub struct Hint {
    text: String,
    command: String,
}

impl Hint {
    /// A sentence, and a command to copy.
    #[must_use]
    pub fn new(text: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            command: command.into(),
        }
    }
}

impl Render for Hint {
    fn render(&self) -> Markup {
        html! {
            div.empty.hint { p { (prose(&clean_to(&self.text, PROSE_CHARS_MAX))) } pre tabindex="0" { code { (shown(&self.command)) } } }
        }
    }
}

#[cfg(test)]
mod tests;
