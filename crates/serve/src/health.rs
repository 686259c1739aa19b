//! `/healthz` and `/readyz`: is the process alive, and can it do its work.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::response::Response;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use crate::page;

/// The checks of all parts, shared between them and the server; cheap to clone.
///
/// A process without any check is ready.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<RwLock<BTreeMap<String, Check>>>);

/// What a part says about one of its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It can do its work.
    Ready,
    /// It cannot, and this is why and what to do.
    NotReady(String),
}

/// A check that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failing {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Readiness {
    /// No checks yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the check `name`, known or new. A part sets its checks to not ready before it starts.
    pub fn set(&self, name: impl Into<String>, check: Check) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.into(), check);
    }

    /// Forgets the check `name`, for a part that was removed by a reload.
    pub fn remove(&self, name: &str) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    pub(crate) fn failing(&self) -> Vec<Failing> {
        let checks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        checks
            .iter()
            .filter_map(|(name, check)| match check {
                Check::Ready => None,
                Check::NotReady(reason) => Some(Failing {
                    name: name.clone(),
                    reason: reason.clone(),
                }),
            })
            .collect()
    }
}

pub(crate) fn alive() -> Response {
    page::text(StatusCode::OK, "ok\n")
}

pub(crate) fn ready(readiness: &Readiness, asked: &HeaderMap) -> Response {
    let failing = readiness.failing();
    let status = if failing.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    if wants_json(asked) {
        return page::json(
            status,
            &serde_json::json!({ "ready": failing.is_empty(), "failing": failing }),
        );
    }
    if failing.is_empty() {
        return page::text(status, "ready\n");
    }
    let lines: String = failing
        .iter()
        .map(|check| format!("{}: {}\n", one_line(&check.name), one_line(&check.reason)))
        .collect();
    page::text(status, &lines)
}

fn wants_json(asked: &HeaderMap) -> bool {
    asked
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/json"))
}

/// A line is a check: a reason from foreign code must not be able to add one.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_fails_until_it_is_ready_or_removed() {
        let readiness = Readiness::new();
        readiness.set("lake main", Check::NotReady("no such bucket".into()));
        readiness.set("lake mirror", Check::NotReady("slow".into()));
        let held_by_the_lake = readiness.clone();
        held_by_the_lake.set("lake main", Check::Ready);
        assert_eq!(
            readiness.failing(),
            [Failing {
                name: "lake mirror".into(),
                reason: "slow".into()
            }]
        );
        readiness.remove("lake mirror");
        assert_eq!(readiness.failing(), []);
    }

    #[test]
    fn a_reason_cannot_forge_a_line() {
        assert_eq!(
            one_line("a\nlake main: fine\r\u{1b}[31m"),
            "a lake main: fine  [31m"
        );
    }
}
