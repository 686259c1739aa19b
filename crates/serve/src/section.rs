//! What a part of the product hands in: a section of cards on the home page, and a page of its own if it wants one.

use futures::future::BoxFuture;
use maud::Markup;
use serde::Serialize;

use crate::visit::{Answer, Asked};

/// A part of the product as the dashboard sees it.
///
/// The methods are called for every view of a page, several at once. They should answer from memory: a section that takes
/// longer than a few seconds, or panics, is shown as a red card and the other sections are not held up.
pub trait Section: Send + Sync {
    /// Its place in addresses: lower-case letters, digits and `-`; constant.
    fn slug(&self) -> &str;

    /// Its name for people; constant.
    fn title(&self) -> &str;

    /// The summary on the home page.
    fn cards(&self) -> BoxFuture<'_, Vec<Card>>;

    /// The content of `/<slug>`, or nothing if the cards say it all. Whether there is a page must not change.
    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        None
    }

    /// The content of `/<slug>/<name>`, for a section that has a page; nothing for a name it does not know, which is then
    /// answered with 404. A name is a letter or digit followed by letters, digits, `_`, `.` and `-`, 100 in all at
    /// most; others are answered without asking.
    fn subpage<'a>(&'a self, _name: &'a str) -> Option<BoxFuture<'a, Markup>> {
        None
    }

    /// The answer to whatever is asked below `/<slug>/`, for a section that has a page and whose pages need more than a name:
    /// several of them, or something behind a `?`. Nothing where it knows none; then [`Section::subpage`] is asked. Unlike the
    /// other methods it may ask a database, for a time that it bounds itself.
    fn visit(&self, _asked: Asked) -> Option<BoxFuture<'_, Answer>> {
        None
    }

    /// Brings what its metrics show up to date, before they are read. One that takes longer than a second is not waited
    /// for: the metrics then show what was last known.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// How something is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing to do, and nothing wrong.
    Idle,
    /// Working as it should.
    Good,
    /// Working, but someone should look.
    Warn,
    /// Not working.
    Bad,
}

impl State {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Good => "good",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }

    /// For those who cannot see the colour.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Good => "running",
            Self::Warn => "look at this",
            Self::Bad => "not working",
        }
    }
}

/// One summary: a state, a value to read from across the room, and what stands behind it.
#[derive(Clone, Debug, Serialize)]
pub struct Card {
    pub(crate) title: String,
    pub(crate) state: State,
    pub(crate) value: String,
    pub(crate) label: String,
    pub(crate) note: Option<String>,
    pub(crate) details: Vec<Detail>,
    pub(crate) series: Option<Series>,
    pub(crate) page: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Detail {
    pub(crate) key: String,
    pub(crate) value: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) title: String,
    pub(crate) values: Vec<f64>,
}

impl Card {
    /// A card with a title and a state only.
    #[must_use]
    pub fn new(title: impl Into<String>, state: State) -> Self {
        Self {
            title: title.into(),
            state,
            value: String::new(),
            label: String::new(),
            note: None,
            details: Vec::new(),
            series: None,
            page: None,
        }
    }

    /// The big value and, beside it, its unit or what is counted.
    #[must_use]
    pub fn value(mut self, value: impl Into<String>, label: impl Into<String>) -> Self {
        self.value = value.into();
        self.label = label.into();
        self
    }

    /// Why the state is what it is, and what to do. The home page repeats it at the top while the state is warn or bad.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// One more line of detail.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.details.push(Detail {
            key: key.into(),
            value: value.into(),
        });
        self
    }

    /// The name of the page of this card: its title leads to `/<slug>/<name>`, see [`Section::subpage`].
    #[must_use]
    pub fn page(mut self, name: impl Into<String>) -> Self {
        self.page = Some(name.into());
        self
    }

    /// A curve, oldest value first. `title` says what is drawn and over which time.
    #[must_use]
    pub fn series(mut self, title: impl Into<String>, values: Vec<f64>) -> Self {
        self.series = Some(Series {
            title: title.into(),
            values,
        });
        self
    }
}
