//! `/metrics` in the OpenMetrics text format.

use axum::response::Response;
use http::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::page;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn expose(registry: &Registry) -> Response {
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
