//! Pages as web servers answer them: much markup that repeats, and words between it.

use super::draw::Draw;

pub(super) const WORDS: [&str; 96] = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "on",
    "with",
    "as",
    "are",
    "this",
    "be",
    "by",
    "from",
    "at",
    "an",
    "was",
    "or",
    "it",
    "news",
    "world",
    "people",
    "government",
    "report",
    "network",
    "access",
    "today",
    "more",
    "about",
    "police",
    "freedom",
    "press",
    "election",
    "minister",
    "court",
    "rights",
    "internet",
    "users",
    "company",
    "service",
    "data",
    "information",
    "public",
    "media",
    "online",
    "search",
    "video",
    "read",
    "year",
    "city",
    "country",
    "state",
    "law",
    "market",
    "health",
    "science",
    "football",
    "music",
    "culture",
    "travel",
    "weather",
    "contact",
    "privacy",
    "policy",
    "terms",
    "cookies",
    "login",
    "register",
    "archive",
    "january",
    "monday",
    "morning",
    "according",
    "officials",
    "announced",
    "international",
    "development",
    "economy",
    "percent",
    "million",
    "after",
    "before",
    "between",
    "against",
    "during",
    "without",
    "however",
    "support",
    "member",
    "comment",
    "article",
    "journalist",
    "statement",
];

const CLASSES: [&str; 12] = [
    "menu-item menu-item-type-post_type menu-item-object-page",
    "col-xs-12 col-sm-6 col-md-4",
    "entry-title",
    "widget widget_recent_entries",
    "post-thumbnail",
    "nav navbar-nav",
    "btn btn-default",
    "footer-links",
    "article-body__text",
    "teaser teaser--small",
    "icon icon-arrow-right",
    "meta date published",
];

/// Appends a page of about so many bytes, as it is on the wire.
pub(super) fn page(draw: &mut Draw, host: &str, bytes: usize, out: &mut String) {
    let end = out.len() + bytes;
    *out += "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    *out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
    words(draw, 5, out);
    *out += "</title>\n";
    for _ in 0..4 + draw.below(4) {
        let (kind, hash) = (
            draw.pick(&["main", "vendor", "theme", "print"]),
            draw.hex(20),
        );
        *out += &format!(
            "<link rel=\"stylesheet\" href=\"https://assets.{host}/assets/css/{kind}.{hash}.css\" type=\"text/css\" media=\"all\">\n"
        );
    }
    *out += "</head>\n<body class=\"home blog\">\n";
    while out.len() < end {
        match draw.below(7) {
            0..=2 => link(draw, host, out),
            3 | 4 => paragraph(draw, out),
            5 => picture(draw, host, out),
            _ => script(draw, host, out),
        }
    }
    *out += "</body>\n</html>\n";
}

/// Appends so many words.
pub(super) fn words(draw: &mut Draw, count: u32, out: &mut String) {
    for number in 0..count {
        if number > 0 {
            out.push(' ');
        }
        *out += draw.pick(&WORDS);
    }
}

fn link(draw: &mut Draw, host: &str, out: &mut String) {
    let class = draw.pick(&CLASSES);
    let number = draw.below(9_000);
    *out +=
        &format!("\t\t<li id=\"menu-item-{number}\" class=\"{class}\"><a href=\"http://{host}/");
    *out += draw.pick(&WORDS);
    out.push('-');
    *out += draw.pick(&WORDS);
    *out += &format!("-{number}/\">");
    words(draw, 3, out);
    *out += "</a></li>\n";
}

fn paragraph(draw: &mut Draw, out: &mut String) {
    let class = draw.pick(&CLASSES);
    *out += &format!("\t<div class=\"{class}\">\n\t\t<p>");
    let count = 8 + draw.below(24);
    words(draw, count, out);
    *out += ".</p>\n\t</div>\n";
}

fn picture(draw: &mut Draw, host: &str, out: &mut String) {
    let (hash, class) = (draw.hex(20), draw.pick(&CLASSES));
    *out += &format!(
        "\t<img class=\"{class}\" src=\"https://assets.{host}/wp-content/uploads/2017/01/{hash}-300x200.jpg\" alt=\""
    );
    words(draw, 3, out);
    *out += "\" width=\"300\" height=\"200\" />\n";
}

fn script(draw: &mut Draw, host: &str, out: &mut String) {
    let (kind, number) = (draw.pick(&WORDS), draw.below(90));
    *out += &format!(
        "\t<script type=\"text/javascript\" src=\"https://assets.{host}/wp-includes/js/{kind}.min.js?ver=4.7.{number}\"></script>\n"
    );
}
