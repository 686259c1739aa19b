//! What only an operator of this process may do: the page and the routes of [`crate::Audience::Admin`] that write.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use maud::html;

use crate::shell::Parts;
use crate::{home, page, status};

/// The one address that writes.
pub(crate) const SHUTDOWN: &str = "/shutdown";

/// What the binary does when it is asked to stop: it returns at once, and may be called again.
pub(crate) type OnShutdown = Arc<dyn Fn() + Send + Sync>;

/// The routes, which exist if the binary said how to stop.
pub(crate) fn routes(parts: &Parts) -> Option<Router<Arc<Parts>>> {
    let on_shutdown = Arc::clone(parts.on_shutdown.as_ref()?);
    let shut_down = async move |State(parts): State<Arc<Parts>>, asked: HeaderMap| {
        tracing::info!("asked to shut down over HTTP");
        on_shutdown();
        stopping(&parts, &asked)
    };
    Some(
        Router::new()
            .route("/", get(show))
            .route(SHUTDOWN, post(shut_down)),
    )
}

async fn show(State(parts): State<Arc<Parts>>) -> Response {
    let status = status::gather(&parts).await;
    let main = html! {
        (home::banner(&status))
        div.foot-grid {
            section.block {
                div.block-head { h2 { "Shut down" } }
                article.card {
                    p {
                        "Ends this process: what is under way is finished and flushed first. Nothing starts it again unless \
                         something watches over it."
                    }
                    form method="post" action=(SHUTDOWN) { button.button.danger type="submit" { "Shut down " (parts.identity.node) } }
                }
            }
            (home::process(&status.process))
        }
    };
    page::page(&parts, StatusCode::OK, "/", "Administration", &main)
}

fn stopping(parts: &Parts, asked: &HeaderMap) -> Response {
    let accept = asked.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if !accept.is_some_and(|accept| accept.contains("text/html")) {
        return page::text(StatusCode::ACCEPTED, "stopping\n");
    }
    let main = html! {
        section.problem {
            h1 { "Stopping" }
            p { "The process finishes what is under way and then ends. The log says when it is done." }
        }
    };
    page::page(parts, StatusCode::ACCEPTED, SHUTDOWN, "Stopping", &main)
}
