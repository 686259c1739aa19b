use std::sync::Mutex;

use axum::extract::Request;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;

use super::*;

/// A server whose one route notes when it is entered and left, and stays inside until it is released.
struct Held {
    address: SocketAddr,
    events: Arc<Mutex<Vec<String>>>,
    entered: Arc<Notify>,
    release: Arc<Notify>,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

async fn held(connections_max: usize) -> Held {
    let (events, entered, release) = (
        Arc::<Mutex<Vec<String>>>::default(),
        Arc::<Notify>::default(),
        Arc::<Notify>::default(),
    );
    let handler = {
        let (events, entered, release) = (
            Arc::clone(&events),
            Arc::clone(&entered),
            Arc::clone(&release),
        );
        move |request: Request| async move {
            let who = request.uri().query().unwrap_or_default().to_owned();
            events.lock().unwrap().push(format!("{who} in"));
            entered.notify_one();
            release.notified().await;
            events.lock().unwrap().push(format!("{who} out"));
            "held"
        }
    };
    let (listener, address) = bind("127.0.0.1:0".parse().unwrap(), Audience::Main)
        .await
        .unwrap();
    let stop = CancellationToken::new();
    let router = Router::new().route("/", get(handler));
    let limits = ConnectionLimits {
        connections: connections_max,
        api_connections: connections_max,
    };
    let running = tokio::spawn(run(
        listener,
        router,
        Clock::real(),
        stop.clone(),
        limits,
        None,
    ));
    Held {
        address,
        events,
        entered,
        release,
        stop,
        running,
    }
}

async fn ask(address: SocketAddr, who: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /?{who} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_client_beyond_the_limit_waits_for_a_place() {
    let server = held(1).await;
    let first = ask(server.address, "first").await;
    server.entered.notified().await;
    let second = ask(server.address, "second").await;
    // Time for the second to get in, if the limit did not hold it.
    Clock::real().sleep(Duration::from_millis(100)).await;
    server.release.notify_one();
    assert!(answer(first).await.ends_with("held"));
    server.entered.notified().await;
    server.release.notify_one();
    assert!(answer(second).await.ends_with("held"));
    assert_eq!(
        *server.events.lock().unwrap(),
        ["first in", "first out", "second in", "second out"]
    );
}

#[tokio::test]
async fn connections_of_the_api_leave_some_for_the_dashboard() {
    let handler = |request: Request| async move {
        let origin = request.extensions().get::<ConnectionOrigin>().unwrap();
        match request.uri().path() {
            "/api" if origin.may_use_api() => "api",
            "/api" => "busy",
            _ => "dashboard",
        }
    };
    let bound = bind("127.0.0.1:0".parse().unwrap(), Audience::Main).await;
    let (listener, address) = bound.unwrap();
    let limits = ConnectionLimits {
        connections: 8,
        api_connections: 2,
    };
    let (stop, router) = (CancellationToken::new(), Router::new().fallback(handler));
    let running = tokio::spawn(run(
        listener,
        router,
        Clock::real(),
        stop.clone(),
        limits,
        None,
    ));
    // Connections are kept open, and count as long as they are.
    let mut kept = Vec::new();
    for (path, expected) in [
        ("/api", "api"),
        ("/", "dashboard"),
        ("/api", "api"),
        ("/api", "busy"),
        ("/", "dashboard"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        assert_eq!(keep_asking(&mut stream, path).await, expected);
        kept.push(stream);
    }
    // The first is one of those that may; the second never will be.
    assert_eq!(keep_asking(&mut kept[0], "/api").await, "api");
    assert_eq!(keep_asking(&mut kept[1], "/api").await, "busy");
    kept.remove(0);
    while keep_asking(&mut kept[0], "/api").await == "busy" {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    drop(kept);
    running.await.unwrap();
}

/// The body of an answer on a connection that stays open.
async fn keep_asking(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    loop {
        text.push(char::from(stream.read_u8().await.unwrap()));
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() == length {
            return body.to_owned();
        }
    }
}

#[tokio::test]
async fn stopping_refuses_newcomers_and_lets_a_request_finish() {
    let server = held(8).await;
    let under_way = ask(server.address, "under-way").await;
    server.entered.notified().await;
    server.stop.cancel();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.release.notify_one();
    assert!(answer(under_way).await.ends_with("held"));
    server.running.await.unwrap();
}

#[tokio::test]
async fn a_taken_address_is_refused_with_the_setting_to_change() {
    let (_listener, taken) = bind("127.0.0.1:0".parse().unwrap(), Audience::Main)
        .await
        .unwrap();
    let text = |error: Result<_, ListenError>| error.map(drop).unwrap_err().to_string();
    assert_eq!(
        text(bind(taken, Audience::Main).await),
        format!(
            "cannot listen on `{taken}`: address in use; set `serve.listen` in the configuration, or `--listen`"
        )
    );
    assert!(text(bind(taken, Audience::Monitoring).await).ends_with("or `--monitoring-port`"));
    assert!(
        text(bind(taken, Audience::Admin).await)
            .ends_with("set `serve.admin_listen` in the configuration")
    );
    let foreign = "192.0.2.1:0".parse().unwrap();
    assert!(text(bind(foreign, Audience::Main).await).contains("this machine has no such address"));
}
