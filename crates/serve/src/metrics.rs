//! `/metrics` in the OpenMetrics text format.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::response::Response;
use futures::FutureExt as _;
use futures::future::join_all;
use http::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::page;
use crate::section::Section;
use crate::shell::Parts;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long a section may take to bring its metrics up to date.
const REFRESH_LIMIT: Duration = Duration::from_secs(1);

/// The metrics, as fresh as the sections can make them in time.
pub(crate) async fn show(parts: &Parts) -> Response {
    join_all(
        parts
            .sections
            .iter()
            .map(|section| refresh(parts, section.as_ref())),
    )
    .await;
    expose(&parts.metrics)
}

async fn refresh(parts: &Parts, section: &dyn Section) {
    let refreshing = AssertUnwindSafe(async { section.refresh().await }).catch_unwind();
    match parts.clock.timeout(REFRESH_LIMIT, refreshing).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::error!(
            section = section.slug(),
            "section panicked; its metrics are those of before"
        ),
        Err(_) => tracing::debug!(
            section = section.slug(),
            "section is slow; its metrics are those of before"
        ),
    }
}

fn expose(registry: &Registry) -> Response {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => page::answer(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => {
            tracing::error!(%error, "cannot encode the metrics");
            page::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot encode the metrics; the log says why\n",
            )
        }
    }
}
