//! Objects that are files on the server's disk are sent without being read: the bytes are the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use cannery_serve::Audience;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::api_demo::{ApiDemo, Setup};
use crate::api_tls::{certificate, client};

async fn on_disk() -> ApiDemo {
    let setup = Setup {
        has_folder: true,
        ..Setup::default()
    };
    setup.start().await
}

/// Text of which no two stretches are equal.
fn text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        let number = text.len();
        writeln!(text, "{number:07}").unwrap();
    }
    text.truncate(bytes);
    text
}

/// The largest file below a folder.
fn largest(folder: &Path) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    let mut found = (0, PathBuf::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.metadata().unwrap() {
                known if known.is_dir() => folders.push(entry.path()),
                known => found = found.max((known.len(), entry.path())),
            }
        }
    }
    found.1
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_behind_each_other_get_what_they_ask_for() {
    let api = on_disk().await;
    let content = text(9_000_017);
    assert_eq!(api.put("/ann/stor/large", "", &content).await.status, 204);
    assert_eq!(api.put("/ann/stor/small", "", "hello").await.status, 204);
    // One that ends in the middle of a window, one that begins there, and others that are read.
    let asked = [
        ("large", Some((3, 5_000_000))),
        ("small", None),
        ("large", None),
        ("large", Some((1_234_567, 9_000_016))),
        ("large", Some((10, 19))),
        ("small", None),
        ("large", Some((4_194_304, 8_388_607))),
    ];
    let mut requests = String::new();
    for (number, (name, range)) in asked.iter().enumerate() {
        let end = match number + 1 == asked.len() {
            true => "connection: close\r\n",
            false => "",
        };
        let range = range.map(|(first, last)| format!("range: bytes={first}-{last}\r\n"));
        let (ann, address, range) = (&api.ann, api.demo.address, range.unwrap_or_default());
        write!(
            requests,
            "GET /ann/stor/{name} HTTP/1.1\r\nhost: {address}\r\n{ann}{range}{end}\r\n"
        )
        .unwrap();
    }
    let mut stream = TcpStream::connect(api.demo.address).await.unwrap();
    stream.write_all(requests.as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    let mut rest = answers.as_str();
    for (name, range) in asked {
        let whole = if name == "large" { &content } else { "hello" };
        let expected = range.map_or(whole, |(first, last)| &whole[first..=last]);
        let (head, after) = rest.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", expected.len());
        assert!(head.contains(&length), "{name} {range:?}: {head}");
        assert!(after.starts_with(expected), "{name} {range:?}");
        rest = &after[expected.len()..];
    }
    assert_eq!(rest, "");
    let head = api.ask("HEAD", "/ann/stor/large", "").await;
    assert_eq!(head.header("content-length"), "9000017");
    assert_eq!(head.body, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_encrypted_is_the_same() {
    let api = on_disk().await;
    let content = text(5_000_017);
    assert_eq!(api.put("/ann/public/large", "", &content).await.status, 204);
    let folder = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(folder.path());
    let listen = "127.0.0.1:0".parse().unwrap();
    let bound = api.demo.shell.listen_tls(listen, Audience::Main, &files);
    let port = bound.await.unwrap().port();
    let url = format!("https://localhost:{port}/ann/public/large");
    let whole = client(&trusted).get(&url).send().await.unwrap();
    assert!(whole.text().await.unwrap() == content);
    let part = client(&trusted)
        .get(&url)
        .header("range", "bytes=3-4000000");
    let part = part.send().await.unwrap();
    assert_eq!(part.status(), 206);
    assert!(part.text().await.unwrap() == content[3..=4_000_000]);
}

/// Nothing that a client could take for the content is sent in its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_becomes_shorter_ends_the_answer_early() {
    let api = on_disk().await;
    let content = text(60_000_000);
    assert_eq!(api.put("/ann/public/large", "", &content).await.status, 204);
    let address = api.demo.address;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request =
        format!("GET /ann/public/large HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 1_000];
    stream.read_exact(&mut first).await.unwrap();
    let file = largest(&api.folder.path().join("lake"));
    let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(50_000_000).unwrap();
    let mut rest = Vec::new();
    // It may be reset.
    let _ended = stream.read_to_end(&mut rest).await;
    let answer = [&first[..], &rest].concat();
    let start = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    let got = &answer[start..];
    assert!(got.len() <= 50_000_000, "{}", got.len());
    assert!(got == &content.as_bytes()[..got.len()]);

    // The next one is told before the answer begins.
    let refused = api.ask("GET", "/ann/public/large", "").await;
    assert_eq!(refused.status, 500, "{}", refused.body);
}
