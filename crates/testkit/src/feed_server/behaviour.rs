//! What a path does, and how it is put on the wire.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use cannery_runtime::Clock;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{Request, gzip};

/// What a path of the [`FeedServer`](super::FeedServer) does.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// A body with an ETag; 304 to whoever has it already.
    Body(Bytes),
    /// A body without ETag.
    Untagged(Bytes),
    /// As [`Behaviour::Body`], another body for each request; the last one stays.
    Bodies(Vec<Bytes>),
    /// A body in pieces of `chunk_bytes` with a pause after each.
    Slow {
        /// All of it.
        body: Bytes,
        /// The size of a piece, at least 1.
        chunk_bytes: usize,
        /// The wait after each piece, on the server's clock.
        pause: Duration,
    },
    /// Reads the request and never answers.
    Hung,
    /// A body that does not end.
    Endless,
    /// A gzip body (`Content-Encoding: gzip`) a thousandth of what it unpacks to: zeros, rounded up to whole MiB.
    GzipBomb {
        /// What it unpacks to, at least.
        unpacked_bytes: u64,
    },
    /// 302 to a location; to itself, it is a loop.
    Redirect(String),
    /// A `Content-Length` that is not the body's.
    WrongLength {
        /// What the header says.
        claimed: u64,
        /// What is sent.
        body: Bytes,
    },
    /// A status with no body.
    Status(u16),
}

impl Behaviour {
    /// A body with an ETag.
    pub fn body(content: impl Into<Bytes>) -> Self {
        Self::Body(content.into())
    }
}

/// Answers one request; `before` is how many the behaviour has answered already.
pub(super) async fn answer(
    behaviour: &Behaviour,
    request: &Request,
    before: usize,
    stream: &mut TcpStream,
    clock: &Clock,
) -> io::Result<()> {
    let mut wire = Wire {
        stream,
        head_only: request.method == "HEAD",
    };
    match behaviour {
        Behaviour::Body(body) => wire.tagged(request, body).await,
        Behaviour::Untagged(body) => wire.whole(200, &[], body).await,
        Behaviour::Bodies(bodies) => match bodies.get(before).or(bodies.last()) {
            Some(body) => wire.tagged(request, body).await,
            None => wire.whole(404, &[], b"").await,
        },
        Behaviour::Slow {
            body,
            chunk_bytes,
            pause,
        } => {
            wire.head(200, &[("content-length", body.len().to_string())])
                .await?;
            for chunk in body.chunks((*chunk_bytes).max(1)) {
                wire.part(chunk).await?;
                clock.sleep(*pause).await;
            }
            Ok(())
        }
        Behaviour::Hung => std::future::pending().await,
        Behaviour::Endless => {
            wire.head(200, &[]).await?;
            // A HEAD has no body to be endless.
            while !wire.head_only {
                wire.part(&[b' '; 64 * 1024]).await?;
            }
            Ok(())
        }
        Behaviour::GzipBomb { unpacked_bytes } => {
            let encoding = [("content-encoding", "gzip".to_owned())];
            wire.whole(200, &encoding, &gzip::bomb(*unpacked_bytes))
                .await
        }
        Behaviour::Redirect(location) => {
            wire.whole(302, &[("location", location.clone())], b"")
                .await
        }
        Behaviour::WrongLength { claimed, body } => {
            wire.head(200, &[("content-length", claimed.to_string())])
                .await?;
            wire.part(body).await
        }
        Behaviour::Status(status) => wire.whole(*status, &[], b"").await,
    }
}

struct Wire<'a> {
    stream: &'a mut TcpStream,
    head_only: bool,
}

impl Wire<'_> {
    async fn tagged(&mut self, request: &Request, body: &[u8]) -> io::Result<()> {
        let tag = etag(body);
        let known = request.header("if-none-match") == Some(tag.as_str());
        let headers = [("etag", tag)];
        if known {
            self.head(304, &headers).await
        } else {
            self.whole(200, &headers, body).await
        }
    }

    async fn whole(&mut self, status: u16, more: &[(&str, String)], body: &[u8]) -> io::Result<()> {
        let mut headers = more.to_vec();
        headers.push(("content-length", body.len().to_string()));
        self.head(status, &headers).await?;
        self.part(body).await
    }

    async fn head(&mut self, status: u16, headers: &[(&str, String)]) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} scripted\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.stream.write_all(head.as_bytes()).await
    }

    async fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.head_only {
            Ok(())
        } else {
            self.stream.write_all(bytes).await
        }
    }
}

fn etag(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
