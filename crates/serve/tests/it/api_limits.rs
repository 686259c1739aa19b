//! Clients of the API that are slow, many, or send too much.

use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::api_demo::{ApiDemo, Setup, code};
use crate::api_login::{cookie, log_in};
use crate::client::{get, read, request, send};

/// As many requests as the API answers at once.
const REQUESTS_MAX: usize = 256;

/// Sends a request and reads the beginning of the answer.
async fn begin(api: &ApiDemo, request: &str, beginning: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.demo.address).await.unwrap();
    let (ann, address) = (&api.ann, api.demo.address);
    let text = format!("{request}host: {address}\r\nconnection: close\r\n{ann}\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut read = vec![0; beginning.len()];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), beginning);
    stream
}

/// An upload whose body is waited for.
async fn begin_upload(api: &ApiDemo) -> TcpStream {
    let request = "PUT /ann/stor/slow HTTP/1.1\r\ncontent-length: 5\r\nexpect: 100-continue\r\n";
    begin(api, request, "HTTP/1.1 100 Continue\r\n\r\n").await
}

#[tokio::test]
async fn a_crowd_is_told_to_come_back_and_the_dashboard_stays() {
    let api = ApiDemo::start().await;
    let large = "x".repeat(32 * 1024 * 1024);
    assert_eq!(api.put("/ann/stor/large", "", &large).await.status, 204);
    let mut uploads = Vec::new();
    for _ in 1..REQUESTS_MAX {
        uploads.push(begin_upload(&api).await);
    }
    // An answer counts until somebody has taken it.
    let request = "GET /ann/stor/large HTTP/1.1\r\n";
    let mut unread = begin(&api, request, "HTTP/1.1 200 OK\r\n").await;
    let busy = api.ask("GET", "/ann/stor", "").await;
    assert_eq!(code(&busy), (503, "Throttled".to_owned()));
    assert_eq!(busy.header("retry-after"), "1");
    for path in ["/healthz", "/"] {
        assert_eq!(get(api.demo.address, path).await.status, 200, "{path}");
    }
    // The public has places of its own, and takes none of the users'.
    let public = get(api.demo.address, "/ann/public/a").await;
    assert_eq!(public.status, 404);
    let mut rest = Vec::new();
    unread.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > large.len());
    while api.ask("GET", "/ann/stor", "").await.status == 503 {
        tokio::task::yield_now().await;
    }
    let mut last = uploads.pop().unwrap();
    last.write_all(b"hello").await.unwrap();
    assert_eq!(read(last).await.status, 204);
}

/// Whichever way a user proves to be one, neither the public nor who only claims to be one is in the way.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_the_places_of_users() {
    let api = ApiDemo::start().await;
    let large = "x".repeat(32 * 1024 * 1024);
    assert_eq!(api.put("/ann/public/large", "", &large).await.status, 204);
    let cookie = cookie(&log_in(&api).await);
    let address = api.demo.address;
    let ask = async |who: &str, path: &str| api.ask_as(who, "GET", path).await.status;
    let mut held = Vec::new();
    for _ in 0..REQUESTS_MAX {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!("GET /ann/public/large HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
        held.push(stream);
    }
    assert_eq!(ask("", "/ann/public/none").await, 503);
    assert_eq!(ask(&cookie, "/ann/stor").await, 200);
    assert_eq!(ask(&api.ann, "/ann/stor").await, 200);
    drop(held);
    let mut held = Vec::new();
    for _ in 0..=REQUESTS_MAX {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!(
            "PUT /ann/stor/a HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer x\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 401");
        held.push(stream);
    }
    assert_eq!(ask(&api.ann, "/ann/stor").await, 200);
}

#[tokio::test]
async fn an_upload_that_falls_silent_is_given_up() {
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let clock = simulated.clock();
    let setup = Setup {
        clock,
        ..Setup::default()
    };
    let passing = async {
        loop {
            simulated.advance(Duration::from_secs(1)).await;
        }
    };
    let silent = async {
        let api = setup.start().await;
        let mut stream = begin_upload(&api).await;
        stream.write_all(b"hell").await.unwrap();
        let answer = read(stream).await;
        (answer, api.ask("GET", "/ann/stor/slow", "").await.status)
    };
    let (answer, stored) = tokio::select! {
        outcome = silent => outcome,
        () = passing => unreachable!("time passes for ever"),
    };
    assert_eq!(code(&answer), (408, "BadRequest".to_owned()));
    assert_eq!(stored, 404);
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let api = ApiDemo::start().await;
    let headers = format!("m-x: {}\r\n", "x".repeat(100 * 1024));
    assert_eq!(api.ask("GET", "/ann/stor", &headers).await.status, 431);
    let long = format!("/ann/stor/{}", "a".repeat(5_000));
    let answer = api.ask("GET", &long, "").await;
    assert_eq!(code(&answer), (400, "InvalidArgument".to_owned()));
    let longest = format!("/ann/stor/{}", "a".repeat(70_000));
    assert_eq!(api.ask("GET", &longest, "").await.status, 431);
    let announced = "content-length: 70000\r\n";
    for method in ["GET", "HEAD", "DELETE"] {
        let answer = api.ask(method, "/ann/stor/a", announced).await;
        assert_eq!(answer.status, 413, "{method}");
    }
    for special in [
        "content-type: application/json; type=directory\r\n",
        "content-type: application/json; type=link\r\nlocation: /ann/stor/b\r\n",
    ] {
        let answer = api
            .ask("PUT", "/ann/stor/a", &format!("{announced}{special}"))
            .await;
        assert_eq!(code(&answer), (413, "MaxContentLength".to_owned()));
    }
    let smuggled = "GET /ann/public HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
    assert_eq!(
        send(api.demo.address, smuggled.as_bytes()).await.status,
        400
    );
    assert_eq!(
        request(api.demo.address, "GET", "/healthz", "")
            .await
            .status,
        200
    );
}

/// It is sent to the end, so that the client reads why and is not cut off.
#[tokio::test]
async fn who_is_refused_in_the_middle_of_an_upload_is_told_why() {
    let api = ApiDemo::start().await;
    let body = "x".repeat(30_000_000);
    for _ in 0..3 {
        let refused = api.put("/ann/stor/missing/a", "", &body).await;
        assert_eq!(code(&refused), (404, "DirectoryDoesNotExist".to_owned()));
    }
    // Also who was told to go on, and has more than was known then.
    api.state.limit_user("ann", Some(1_000_000)).await.unwrap();
    let (ann, address) = (&api.ann, api.demo.address);
    let length = body.len();
    for _ in 0..3 {
        let text = format!(
            "PUT /ann/stor/a HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{ann}expect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
        );
        let told = send(address, text.as_bytes()).await;
        assert_eq!(told.status, 100);
        assert!(told.body.contains("QuotaExceeded"), "{}", told.body);
    }
}
