//! Which address shows what.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State};
use axum::middleware;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use http::{HeaderMap, StatusCode};
use tower::ServiceExt as _;

use crate::api::{self, Api, ApiSlot};
use crate::guard::{self, BODY_BYTES_MAX, Guard};
use crate::section::Section;
use crate::server::Audience;
use crate::shell::Parts;
use crate::visit::{self, Asked};
use crate::{admin, health, home, login, metrics, objects_page, page, status, subpage};

/// First parts of addresses that the server has for itself: no section can have one of them.
pub(crate) const OWN: [&str; 13] = [
    "api",
    "assets",
    "config",
    "healthz",
    "login",
    "logout",
    "metrics",
    "objects",
    "openapi.json",
    "readyz",
    "shutdown",
    "status",
    "status.json",
];

/// The routes of one listener behind its guard. Here the audience decides which routes exist.
pub(crate) fn router(parts: &Arc<Parts>, audience: Audience, bound: SocketAddr) -> Router {
    let dashboard = dashboard(parts, audience, bound);
    match (&parts.api, audience) {
        (Some(api), Audience::Main) => beside(dashboard, api, bound),
        (_, Audience::Main | Audience::Monitoring | Audience::Admin) => dashboard,
    }
}

/// The dashboard and the API on one listener: the path alone says whose a request is.
fn beside(dashboard: Router, slot: &ApiSlot, bound: SocketAddr) -> Router {
    let slot = slot.clone();
    let on_loopback = guard::is_loopback(bound);
    Router::new().fallback(async move |request: Request| {
        if Api::answers(request.uri().path()) {
            return match slot.api() {
                Some(api) => api::answer(api.listener(on_loopback), request).await,
                None => api::not_open(),
            };
        }
        let shown = dashboard.oneshot(request).await;
        shown.unwrap_or_else(|never| match never {})
    })
}

fn dashboard(parts: &Arc<Parts>, audience: Audience, bound: SocketAddr) -> Router {
    let guard = Guard::new(parts, audience, bound);
    let admin = match audience {
        Audience::Admin => admin::routes(parts),
        Audience::Main | Audience::Monitoring => None,
    };
    let for_users = match (audience, &parts.api) {
        (Audience::Main, Some(_)) => login::routes(parts)
            .merge(objects_page::routes())
            .route("/openapi.json", get(show_openapi)),
        (Audience::Main | Audience::Monitoring | Audience::Admin, _) => Router::new(),
    };
    reading(parts)
        .merge(for_users)
        .merge(admin.unwrap_or_else(|| Router::new().route("/", get(show_home))))
        .fallback(async |State(parts): State<Arc<Parts>>| page::not_found(&parts))
        .with_state(Arc::clone(parts))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(guard, guard::guard))
}

/// What every listener has besides its first page.
fn reading(parts: &Arc<Parts>) -> Router<Arc<Parts>> {
    let mut router = Router::new()
        .route("/status.json", get(show_status))
        .route("/healthz", get(async || health::alive()))
        .route("/readyz", get(show_readiness))
        .route(
            "/metrics",
            get(async |State(parts): State<Arc<Parts>>| metrics::show(&parts).await),
        );
    for asset in parts.assets.all() {
        let served = asset.clone();
        router = router.route(&asset.path, get(async move || served.serve()));
    }
    for section in parts
        .sections
        .iter()
        .filter(|section| section.page().is_some())
    {
        let path = format!("/{}", section.slug());
        let below = subpages(Arc::clone(section));
        let section = Arc::clone(section);
        let show = async move |State(parts): State<Arc<Parts>>| {
            show_section(&parts, section.as_ref()).await
        };
        router = router.route(&path, get(show));
        router = router.route(&format!("{path}/{{*rest}}"), below);
    }
    router
}

/// What answers below a section.
fn subpages(section: Arc<dyn Section>) -> MethodRouter<Arc<Parts>> {
    get(
        async move |State(parts): State<Arc<Parts>>,
                    RawQuery(query): RawQuery,
                    rest: Result<Path<String>, PathRejection>| {
            match rest {
                Ok(Path(rest)) => {
                    show_below(&parts, section.as_ref(), &rest, query.as_deref()).await
                }
                // It cannot be decoded.
                Err(_) => page::not_found(&parts),
            }
        },
    )
}

/// Asks the section for what it may be asked for.
async fn show_below(
    parts: &Parts,
    section: &dyn Section,
    rest: &str,
    query: Option<&str>,
) -> Response {
    let visited = Asked::parse(rest, query).and_then(|asked| section.visit(asked));
    match visited {
        Some(answer) => visit::respond(parts, section, answer.await),
        None => show_subpage(parts, section, rest).await,
    }
}

/// Asks the section only for names that can be one.
async fn show_subpage(parts: &Parts, section: &dyn Section, name: &str) -> Response {
    let Some(path) = subpage::address(section.slug(), name) else {
        return page::not_found(parts);
    };
    let Some(content) = section.subpage(name) else {
        return page::not_found(parts);
    };
    let main = subpage::framed(section, name, &content.await);
    let title = format!("{name} · {}", section.title());
    page::page(parts, StatusCode::OK, &path, &title, &main)
}

async fn show_home(State(parts): State<Arc<Parts>>) -> Response {
    let main = home::render(&status::gather(&parts).await);
    page::page(&parts, StatusCode::OK, "/", "Overview", &main)
}

async fn show_openapi() -> Response {
    page::json(StatusCode::OK, &api::openapi_document())
}

async fn show_status(State(parts): State<Arc<Parts>>) -> Response {
    page::json(StatusCode::OK, &status::gather(&parts).await)
}

async fn show_readiness(State(parts): State<Arc<Parts>>, asked: HeaderMap) -> Response {
    health::ready(&parts.readiness, &asked)
}

async fn show_section(parts: &Parts, section: &dyn Section) -> Response {
    match section.page() {
        Some(content) => {
            let path = format!("/{}", section.slug());
            page::page(
                parts,
                StatusCode::OK,
                &path,
                section.title(),
                &content.await,
            )
        }
        None => page::not_found(parts),
    }
}
