//! The last look at a text before it leaves: known secrets are masked, whatever the escaping of the format did to them.

use axum::body::{Body, to_bytes};
use axum::response::Response;
use cannery_runtime::secret::redact;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use maud::html;
use serde_json::Value;

use super::Verbatim;
use crate::page;

/// A page larger than this is a mistake: what is large is data, and marked [`Verbatim`].
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The answer with all secrets masked, unless it is no text or marked [`Verbatim`].
pub(super) async fn response(response: Response) -> Response {
    let media_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let clean: fn(&str) -> String = match media_type.split(';').next().unwrap_or_default() {
        _ if response.extensions().get::<Verbatim>().is_some() => return response,
        "text/html" => markup,
        "application/json" => json,
        "application/openmetrics-text" => redact,
        text if text.starts_with("text/") => redact,
        _ => return response,
    };
    let (head, body) = response.into_parts();
    match to_bytes(body, TEXT_BYTES_MAX).await {
        Ok(bytes) => {
            Response::from_parts(head, Body::from(clean(&String::from_utf8_lossy(&bytes))))
        }
        Err(error) => {
            tracing::error!(%error, "cannot read the text of an answer");
            page::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the answer could not be made; the log says why\n",
            )
        }
    }
}

/// Masks in texts and attribute values only, so that a secret that happens to be the name of a tag does not break the page.
///
/// Relies on what maud guarantees: `<`, `>` and `"` stand for themselves in markup and nowhere else.
fn markup(page: &str) -> String {
    let mut clean = String::with_capacity(page.len());
    let (mut in_tag, mut in_quotes) = (false, false);
    for run in page.split_inclusive(['<', '>', '"']) {
        let text = run.trim_end_matches(['<', '>', '"']);
        let end = &run[text.len()..];
        if in_tag && !in_quotes {
            clean.push_str(text);
        } else {
            clean.push_str(&escaped(text));
        }
        clean.push_str(end);
        match end {
            "\"" => in_quotes = in_tag && !in_quotes,
            "<" => in_tag = true,
            ">" => in_tag = false,
            _ => {}
        }
    }
    clean
}

/// Masks in a text as the reader will see it. The text is left as it is when it holds no secret.
fn escaped(text: &str) -> String {
    let plain = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&");
    let clean = redact(&plain);
    if clean == plain {
        text.to_owned()
    } else {
        html! { (clean) }.into_string()
    }
}

/// Masks in the strings of a document. The document is left as it is, byte for byte, when it holds no secret.
fn json(text: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(text) else {
        return redact(text);
    };
    if mask(&mut value) {
        redact(&value.to_string())
    } else {
        redact(text)
    }
}

/// Whether anything was masked.
fn mask(value: &mut Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => {
            let clean = redact(text);
            let masked = clean != *text;
            *text = clean;
            masked
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |masked, item| mask(item) | masked),
        Value::Object(fields) => {
            let mut masked = false;
            for (key, mut field) in std::mem::take(fields) {
                let clean = redact(&key);
                masked |= mask(&mut field) | (clean != key);
                fields.insert(clean, field);
            }
            masked
        }
    }
}

#[cfg(test)]
mod tests {
    use cannery_runtime::Secret;

    use super::*;

    #[test]
    fn a_secret_is_masked_in_its_escaped_form_too() {
        let secret = Secret::new(r#"tin<&">can\opener"#);
        let page =
            html! { p title=(secret.expose()) { "a " (secret.expose()) " b & c" } }.into_string();
        assert_eq!(markup(&page), r#"<p title="***">a *** b &amp; c</p>"#);
        let document =
            serde_json::json!({ "a": [secret.expose()], secret.expose(): 1 }).to_string();
        assert_eq!(json(&document), r#"{"a":["***"],"***":1}"#);
    }

    #[test]
    fn a_secret_that_is_a_tag_does_not_break_the_page() {
        let _secret = Secret::new("blockquote");
        let page = r#"<blockquote class="x">my blockquote &lt;3</blockquote>"#;
        assert_eq!(
            markup(page),
            r#"<blockquote class="x">my *** &lt;3</blockquote>"#
        );
    }

    #[test]
    fn what_holds_no_secret_is_not_touched() {
        for page in [
            "",
            "plain",
            r#"<a href="/x?a=1&amp;b=2">&quot;x&quot; &amp;lt;</a>"#,
            "<br>a > b",
        ] {
            assert_eq!(markup(page), page);
        }
        for document in [r#"{"b":1.10,"a":9007199254740993}"#, "1e999", "not json"] {
            assert_eq!(json(document), document);
        }
    }
}
