use axum::Router;
use axum::response::Html;
use axum::routing::get;
use cannery_testkit::browser::{Browser, ColorScheme};
use serde_json::json;

const PAGE: &str = "<!doctype html><title>Tried</title>
    <style>body { background: white } @media (prefers-color-scheme: dark) { body { background: black } }</style>
    <div style='height: 3000px'>tall</div><script src='/script.js'></script>";

async fn serve() -> String {
    let script = "console.log('hello', 7, {a: 1}); setTimeout(() => { throw new Error('late') });";
    let strict = [("content-security-policy", "default-src 'self'")];
    let router = Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route(
            "/script.js",
            get(move || async move { ([("content-type", "text/javascript")], script) }),
        )
        .route(
            "/strict",
            get(move || async move { (strict, Html("<script>window.ran = true</script>")) }),
        );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    format!("http://{address}")
}

/// Width and height from the head of a PNG.
fn size_of(png: &[u8]) -> (u32, u32) {
    assert_eq!(&png[1..4], b"PNG");
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

#[tokio::test]
async fn a_page_is_opened_measured_and_pictured() {
    let base = serve().await;
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    page.set_viewport(400, 700).await.unwrap();
    page.open(&base).await.unwrap();
    assert_eq!(page.eval("document.title").await.unwrap(), "Tried");
    assert_eq!(
        page.eval("[innerWidth, innerHeight]").await.unwrap(),
        json!([400, 700])
    );

    let background = "getComputedStyle(document.body).backgroundColor";
    page.set_color_scheme(ColorScheme::Dark).await.unwrap();
    assert_eq!(page.eval(background).await.unwrap(), "rgb(0, 0, 0)");
    page.set_color_scheme(ColorScheme::Light).await.unwrap();
    assert_eq!(page.eval(background).await.unwrap(), "rgb(255, 255, 255)");

    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("page.png");
    page.screenshot(&picture).await.unwrap();
    let (width, height) = size_of(&std::fs::read(picture).unwrap());
    assert_eq!(width, 400);
    assert!(height > 3_000, "{height}");
}

#[tokio::test]
async fn the_console_tells_of_logs_exceptions_and_breaches() {
    let base = serve().await;
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    page.open(&base).await.unwrap();
    // The exception is thrown after the page has loaded; a later timer comes after it.
    page.eval("new Promise(done => setTimeout(done, 20))")
        .await
        .unwrap();
    let console = page.console();
    let has = |source: &str, text: &str| {
        console
            .iter()
            .any(|m| m.source == source && m.text.contains(text))
    };
    assert!(has("console", "hello 7 Object"), "{console:?}");
    assert!(has("exception", "Error: late"), "{console:?}");

    let strict = browser.page().await.unwrap();
    strict.open(&format!("{base}/strict")).await.unwrap();
    assert_eq!(strict.eval("window.ran === undefined").await.unwrap(), true);
    let console = strict.console();
    let breach = console
        .iter()
        .find(|m| m.source == "security")
        .expect("the inline script was refused");
    assert!(
        breach.text.contains("Content Security Policy"),
        "{breach:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_opened_or_evaluated_is_an_error() {
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    let closed = cannery_testkit::server::free_port().unwrap();
    let error = page
        .open(&format!("http://127.0.0.1:{closed}/"))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("ERR_CONNECTION_REFUSED"),
        "{error}"
    );
    let error = page.eval("nonsense()").await.unwrap_err();
    assert!(error.to_string().contains("ReferenceError"), "{error}");
}
