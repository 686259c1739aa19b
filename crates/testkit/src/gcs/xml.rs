//! The few bits of XML that go to and fro.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

pub(super) fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escape(text))
}

pub(super) fn document(root: &str, content: &str) -> Response {
    let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><{root}>{content}</{root}>");
    ([("content-type", "application/xml")], text).into_response()
}

/// An error as GCS words it.
pub(super) fn refusal(status: StatusCode, code: &str) -> Response {
    (status, document("Error", &element("Code", code))).into_response()
}

/// The unescaped texts of all elements of that name, which must hold no others.
pub(super) fn texts(document: &str, name: &str) -> Vec<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    document
        .split(&open)
        .skip(1)
        .filter_map(|rest| rest.split_once(&close))
        .map(|(text, _)| unescape(text))
        .collect()
}

fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("&amp;", "&")
}
