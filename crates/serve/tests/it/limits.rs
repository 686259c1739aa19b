//! Clients that send too much, or too little.

use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{get, read, request, send};
use crate::demo::{demo, start};

#[tokio::test]
async fn half_a_header_does_not_block_others() {
    let demo = demo(vec![]).await;
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(demo.address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: local")
            .await
            .unwrap();
        slow.push(stream);
    }
    assert_eq!(get(demo.address, "/").await.status, 200);
    let mut patient = slow.pop().unwrap();
    patient
        .write_all(b"host\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read(patient).await.status, 200);
}

#[tokio::test]
async fn a_client_that_never_finishes_its_header_is_let_go() {
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let demo = start(simulated.clock(), "edge-1", vec![], |builder| builder).await;
    for beginning in ["", "PRI * HT", "GET / HTTP/1.1\r\nhost: local"] {
        let mut stream = TcpStream::connect(demo.address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let mut closed = std::pin::pin!(stream.read_to_end(&mut rest));
        // Ends only because the server closes the connection: nothing else would.
        loop {
            tokio::select! {
                ended = &mut closed => break ended.map(drop).unwrap(),
                () = simulated.advance(Duration::from_secs(1)) => {}
            }
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_open_for_nothing_is_let_go() {
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let demo = start(simulated.clock(), "edge-1", vec![], |builder| builder).await;
    let mut stream = TcpStream::connect(demo.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let mut closed = std::pin::pin!(stream.read_to_end(&mut answer));
    loop {
        tokio::select! {
            ended = &mut closed => break ended.map(drop).unwrap(),
            () = simulated.advance(Duration::from_secs(1)) => {}
        }
    }
    assert!(
        String::from_utf8(answer)
            .unwrap()
            .starts_with("HTTP/1.1 200 OK")
    );
}

#[tokio::test]
async fn a_header_that_is_too_large_is_refused() {
    let demo = demo(vec![]).await;
    let large = format!("x-large: {}\r\n", "x".repeat(40 * 1024));
    assert_eq!(request(demo.address, "GET", "/", &large).await.status, 431);
    let many: String = (0..100).map(|n| format!("x-{n}: 1\r\n")).collect();
    assert_eq!(request(demo.address, "GET", "/", &many).await.status, 431);
    let most = format!("x-large: {}\r\n", "x".repeat(16 * 1024));
    assert_eq!(request(demo.address, "GET", "/", &most).await.status, 200);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let demo = demo(vec![]).await;
    for (length, status) in [
        ("65536", 200),
        ("65537", 413),
        ("99999999999999999999", 400),
    ] {
        let answer = request(
            demo.address,
            "GET",
            "/",
            &format!("content-length: {length}\r\n"),
        )
        .await;
        assert_eq!(answer.status, status, "{length}: {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_to_rubbish_is_400() {
    let demo = demo(vec![]).await;
    assert_eq!(
        send(
            demo.address,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"
        )
        .await
        .status,
        400
    );
}
