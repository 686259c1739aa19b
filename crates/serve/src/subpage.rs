//! The pages below a section, such as `/feeds/<id>`: which names they can have, and the way back.

use maud::{Markup, html};

use crate::section::Section;

const NAME_BYTES_MAX: usize = 100;

/// Whether a text can name a page: a letter or digit, then letters, digits, `_`, `.` and `-`. Such a name stands in an address
/// as it is.
fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// The address of a page, if it can have one.
pub(crate) fn address(section: &str, name: &str) -> Option<String> {
    is_name(name).then(|| format!("/{section}/{name}"))
}

/// Where the reader is, and the way back, above the page itself.
pub(crate) fn framed(section: &dyn Section, name: &str, content: &Markup) -> Markup {
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            ol {
                li { a href="/" { "Overview" } }
                li { a href={ "/" (section.slug()) } { (section.title()) } }
                li { span aria-current="page" { (name) } }
            }
        }
        (content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_have_a_page() {
        let longest = "a".repeat(NAME_BYTES_MAX);
        for good in ["a", "VBB.gtfs-rt_2", "0", longest.as_str()] {
            assert_eq!(address("feeds", good), Some(format!("/feeds/{good}")));
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let bad = [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "_a",
            "a/b",
            "a b",
            "a%2e",
            "a\0",
            "a\n",
            "ä",
            "<b>",
            "a\"",
            "a?b",
            "a#b",
            "a:b",
            "\u{202e}a",
            long.as_str(),
        ];
        for bad in bad {
            assert_eq!(address("feeds", bad), None, "{bad:?}");
        }
    }
}
