//! A client that sends exactly the bytes a test wants, which no proper HTTP client would.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map_or("", |(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends `request` and reads until the server closes.
pub(crate) async fn send(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request).await.unwrap();
    read(stream).await
}

pub(crate) async fn read(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.into(), value.into()));
    let mut answer = Answer {
        status,
        headers: headers.collect(),
        body: body.into(),
    };
    if answer.header("transfer-encoding") == "chunked" {
        answer.body = joined(body);
    }
    answer
}

/// The pieces of a body whose length was not known, each after its length; also those of one that was cut off.
fn joined(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        body += &after[..length];
        rest = after[length..].trim_start_matches("\r\n");
    }
    body
}

/// A request with the headers a browser would send, and `more` lines such as `accept: text/html\r\n`.
pub(crate) async fn request(address: SocketAddr, method: &str, path: &str, more: &str) -> Answer {
    let text =
        format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{more}\r\n");
    send(address, text.as_bytes()).await
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, "GET", path, "").await
}
