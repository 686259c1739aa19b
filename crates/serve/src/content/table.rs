//! Tables. On a narrow screen each row becomes a small sheet of its own.

use maud::{Markup, Render, html};

use super::PROSE_CHARS_MAX;
use super::text::{clean, clean_to, shown};
use crate::page::{dot, prose};
use crate::section::State;
use crate::subpage;
use crate::visit::Address;

/// How many rows a table has at most.
const ROWS_MAX: usize = 50;

/// Rows under a title.
#[derive(Clone, Debug)]
pub struct Table {
    title: String,
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
    more: Option<String>,
    empty: String,
}

/// One cell.
#[derive(Clone, Debug)]
pub struct Cell {
    kind: Kind,
    text: String,
    link: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Time,
    Number,
    Code,
    Word,
    Command,
    Prose,
    State(State),
}

impl Cell {
    /// Words.
    #[must_use]
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::of(Kind::Text, clean(text.as_ref()))
    }

    /// A time or another few words that are not broken.
    #[must_use]
    pub fn time(text: impl AsRef<str>) -> Self {
        Self::of(Kind::Time, clean(text.as_ref()))
    }

    /// A number, set to the right.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self::of(Kind::Number, number.to_string())
    }

    /// A name of something.
    #[must_use]
    pub fn code(text: impl AsRef<str>) -> Self {
        Self::of(Kind::Code, clean(text.as_ref()))
    }

    /// A short name of something, which is not broken where there is room.
    #[must_use]
    pub fn word(text: impl AsRef<str>) -> Self {
        Self::of(Kind::Word, clean(text.as_ref()))
    }

    /// A command to copy, which is not cut.
    #[must_use]
    pub fn command(text: impl AsRef<str>) -> Self {
        Self::of(Kind::Command, shown(text.as_ref()))
    }

    /// A reason or another sentence, in which names stand in backticks. It is wrapped and has room for more words.
    #[must_use]
    pub fn prose(text: impl AsRef<str>) -> Self {
        Self::of(Kind::Prose, clean_to(text.as_ref(), PROSE_CHARS_MAX))
    }

    /// A few words with the mark of a state before them, such as how something ended.
    #[must_use]
    pub fn state(state: State, text: impl AsRef<str>) -> Self {
        Self::of(Kind::State(state), clean(text.as_ref()))
    }

    /// The name of a page of the section `slug`, leading there: see [`crate::Section::subpage`]. A name that cannot be that of
    /// a page is shown without a link.
    #[must_use]
    pub fn page(slug: &str, name: impl AsRef<str>) -> Self {
        let name = name.as_ref();
        Self {
            link: subpage::address(slug, name),
            ..Self::of(Kind::Code, clean(name))
        }
    }

    /// The same, leading to a page if there is an address.
    #[must_use]
    pub fn to(mut self, address: Option<Address>) -> Self {
        self.link = address.map(|address| address.as_str().to_owned());
        self
    }

    fn of(kind: Kind, text: String) -> Self {
        Self {
            kind,
            text,
            link: None,
        }
    }
}

impl Table {
    /// The most rows that are shown.
    pub const ROWS_MAX: usize = ROWS_MAX;

    /// A table without rows.
    #[must_use]
    pub fn new<const N: usize>(title: impl Into<String>, heads: [&str; N]) -> Self {
        Self {
            title: title.into(),
            heads: heads.map(ToOwned::to_owned).into(),
            rows: Vec::new(),
            more: None,
            empty: "Nothing to show.".to_owned(),
        }
    }

    /// One more row; of more than [`Table::ROWS_MAX`] the first are kept.
    #[must_use]
    pub fn row(mut self, cells: Vec<Cell>) -> Self {
        if self.rows.len() < ROWS_MAX {
            self.rows.push(cells);
        }
        self
    }

    /// What to say while there are no rows.
    #[must_use]
    pub fn empty(mut self, text: impl Into<String>) -> Self {
        self.empty = text.into();
        self
    }

    /// How many there are in all, and how to see the rest: said when there are more than rows.
    #[must_use]
    pub fn of(mut self, total: u64, how: &str) -> Self {
        let shown = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        if total > shown {
            self.more = Some(format!("and {} more; see all with `{how}`", total - shown));
        }
        self
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        html! {
            div.part {
                h3 { (clean(&self.title)) }
                @if self.rows.is_empty() && self.more.is_none() {
                    p.none { (clean(&self.empty)) }
                } @else {
                    div.sheet {
                        @if !self.rows.is_empty() { (self.grid()) }
                        @if let Some(more) = &self.more { p.more { (prose(&shown(more))) } }
                    }
                }
            }
        }
    }
}

impl Table {
    fn grid(&self) -> Markup {
        html! {
            table.rows {
                thead { tr { @for (at, head) in self.heads.iter().enumerate() { th class=[self.is_number(at).then_some("num")] scope="col" { (head) } } } }
                tbody {
                    @for row in &self.rows {
                        tr { @for (head, cell) in self.heads.iter().zip(row) { td class=[cell.is_number().then_some("num")] data-head=(head) { (cell) } } }
                    }
                }
            }
        }
    }

    fn is_number(&self, column: usize) -> bool {
        let first = self.rows.first().and_then(|row| row.get(column));
        first.is_some_and(Cell::is_number)
    }
}

impl Cell {
    fn is_number(&self) -> bool {
        matches!(self.kind, Kind::Number)
    }
}

impl Render for Cell {
    fn render(&self) -> Markup {
        let text = match self.kind {
            Kind::Text | Kind::Number => html! { span { (self.text) } },
            Kind::Time => html! { span.time { (self.text) } },
            Kind::Code => html! { code { (self.text) } },
            Kind::Word => html! { code.word { (self.text) } },
            Kind::Command => html! { code.command { (self.text) } },
            Kind::Prose => html! { span.prose { (prose(&self.text)) } },
            Kind::State(state) => html! { span.state { (dot(state)) (self.text) } },
        };
        match &self.link {
            Some(address) => html! { a href=(address) { (text) } },
            None => text,
        }
    }
}
