//! Pages below a section that need more than one name: what is asked for, where it stands, and what is answered.

use axum::response::Response;
use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use maud::{Markup, html};

use crate::guard::Verbatim;
use crate::page;
use crate::section::Section;
use crate::shell::Parts;

const NAMES_MAX: usize = 4;
const NAME_BYTES_MAX: usize = 255;
const PAIRS_MAX: usize = 8;
const KEY_BYTES_MAX: usize = 32;

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// A letter or digit, then letters, digits, `_`, `.` and `-`. Such a name stands in an address as it is.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(is_plain)
}

fn is_pair(key: &str, value: &str) -> bool {
    let is_key = (1..=KEY_BYTES_MAX).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_lowercase());
    is_key && (1..=NAME_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_plain)
}

/// What somebody asks for below a section: `/<slug>/<name>/<name>?<key>=<value>`. Names are a letter or digit followed by
/// letters, digits, `_`, `.` and `-`, values the same without the rule of the first; both 255 at most. Whatever else is asked
/// for is answered with 404 before a section hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    names: Vec<String>,
    pairs: Vec<(String, String)>,
}

impl Asked {
    pub(crate) fn parse(rest: &str, query: Option<&str>) -> Option<Self> {
        let names: Vec<String> = rest.split('/').map(ToOwned::to_owned).collect();
        if names.len() > NAMES_MAX || !names.iter().all(|name| is_name(name)) {
            return None;
        }
        let mut pairs: Vec<(String, String)> = Vec::new();
        let query = query.filter(|query| !query.is_empty());
        for pair in query.into_iter().flat_map(|query| query.split('&')) {
            let (key, value) = pair.split_once('=')?;
            let is_new = pairs.iter().all(|(known, _)| known != key);
            if pairs.len() == PAIRS_MAX || !is_pair(key, value) || !is_new {
                return None;
            }
            pairs.push((key.to_owned(), value.to_owned()));
        }
        Some(Self { names, pairs })
    }

    /// The names, at least one.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// The value of a key behind the `?`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut pairs = self.pairs.iter();
        let (_, value) = pairs.find(|(known, _)| known == key)?;
        Some(value)
    }
}

/// The address of a page of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

impl Address {
    /// `/<slug>/<name>…?<key>=<value>…`; nothing when a name or a value cannot stand there, see [`Asked`].
    #[must_use]
    pub fn new(slug: &str, names: &[&str], pairs: &[(&str, &str)]) -> Option<Self> {
        let fits = names.len() <= NAMES_MAX
            && pairs.len() <= PAIRS_MAX
            && names.iter().all(|name| is_name(name))
            && pairs.iter().all(|(key, value)| is_pair(key, value));
        if !fits {
            return None;
        }
        let mut text = format!("/{slug}");
        for name in names {
            text = text + "/" + name;
        }
        for (at, (key, value)) in pairs.iter().enumerate() {
            let sign = if at == 0 { '?' } else { '&' };
            text = format!("{text}{sign}{key}={value}");
        }
        Some(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a section answers to what was asked, see [`Section::visit`].
#[derive(Clone, Debug)]
pub enum Answer {
    /// A page.
    Page(Visited),
    /// Bytes to be stored by the reader's browser, which does not look into them. They are not searched for secrets: data
    /// leaves as it is.
    File {
        /// The name to store them under: one that can stand in an address.
        name: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// There is nothing: 404, and a sentence why.
    Absent(String),
}

/// A page below a section.
#[derive(Clone, Debug)]
pub struct Visited {
    title: String,
    ways: Vec<(String, Address)>,
    content: Markup,
    is_still: bool,
}

impl Visited {
    /// A page with its short title, and what it shows.
    #[must_use]
    pub fn new(title: impl Into<String>, content: Markup) -> Self {
        Self {
            title: title.into(),
            ways: Vec::new(),
            content,
            is_still: false,
        }
    }

    /// One more page between the section's and this one, on the way back.
    #[must_use]
    pub fn below(mut self, title: impl Into<String>, address: Option<Address>) -> Self {
        self.ways
            .extend(address.map(|address| (title.into(), address)));
        self
    }

    /// What it shows never changes: the browser does not ask for it again and again, and what the reader unfolded stays so.
    #[must_use]
    pub fn still(mut self) -> Self {
        self.is_still = true;
        self
    }
}

/// The answer as it goes out.
pub(crate) fn respond(parts: &Parts, section: &dyn Section, answer: Answer) -> Response {
    match answer {
        Answer::Page(visited) => {
            let main = framed(section, &visited);
            let title = format!("{} · {}", visited.title, section.title());
            let path = format!("/{}/", section.slug());
            page::page_of(
                parts,
                StatusCode::OK,
                &path,
                &title,
                &main,
                visited.is_still,
            )
        }
        Answer::File { name, bytes } => {
            let mut response = page::answer(StatusCode::OK, "application/octet-stream", bytes);
            response.extensions_mut().insert(Verbatim);
            let name = if is_name(&name) {
                name.as_str()
            } else {
                "data"
            };
            let disposition = format!("attachment; filename=\"{name}\"");
            let disposition =
                HeaderValue::try_from(disposition).expect("plain letters can stand in a header");
            response
                .headers_mut()
                .insert(CONTENT_DISPOSITION, disposition);
            response
        }
        Answer::Absent(why) => {
            page::problem(parts, StatusCode::NOT_FOUND, "Nothing on this shelf", &why)
        }
    }
}

fn framed(section: &dyn Section, visited: &Visited) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            ol {
                li { a href="/" { "Overview" } }
                li { a href={ "/" (section.slug()) } { (section.title()) } }
                @for (title, address) in &visited.ways { li { a href=(address.as_str()) { (title) } } }
                li { span aria-current="page" { (visited.title) } }
            }
        }
        (visited.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_plain_is_asked_for() {
        let asked = Asked::parse(
            "2017-01-02/ndt.0.tar.lz4",
            Some("after=-1.2&kind=spool-a_b"),
        );
        let asked = asked.unwrap();
        assert_eq!(asked.names(), ["2017-01-02", "ndt.0.tar.lz4"]);
        assert_eq!(asked.get("after"), Some("-1.2"));
        assert_eq!(asked.get("kind"), Some("spool-a_b"));
        assert_eq!(asked.get("other"), None);
        for empty in [None, Some("")] {
            assert_eq!(Asked::parse("a", empty).unwrap().names(), ["a"]);
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for names in [
            "",
            "a/",
            "/a",
            "a//b",
            "../a",
            "a b",
            "a/b/c/d/e",
            "ä",
            "a\0",
            &long,
        ] {
            assert_eq!(Asked::parse(names, None), None, "{names:?}");
        }
        let many = "a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1";
        let long = format!("a={long}");
        for query in [
            "a", "=1", "a=", "a=1&a=2", "A=1", "a=%20", "a=<b>", "a=1&", many, &long,
        ] {
            assert_eq!(Asked::parse("a", Some(query)), None, "{query:?}");
        }
    }

    #[test]
    fn an_address_is_one_that_is_understood() {
        let address = Address::new("s", &["a", "b.c"], &[("x", "1"), ("y", "-2")]).unwrap();
        assert_eq!(address.as_str(), "/s/a/b.c?x=1&y=-2");
        assert_eq!(Address::new("s", &[], &[]).unwrap().as_str(), "/s");
        for (names, pairs) in [
            (&["a b"][..], &[][..]),
            (&["\"><script>"], &[]),
            (&["a"], &[("x", "a&b")]),
            (&["a"], &[("X", "a")]),
            (&["a"; 5], &[]),
        ] {
            assert_eq!(Address::new("s", names, pairs), None, "{names:?} {pairs:?}");
        }
    }
}
