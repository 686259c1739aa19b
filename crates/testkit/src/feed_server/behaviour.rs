//! What a path does, and how it is put on the wire.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use cannery_runtime::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::pack::{Coding, bomb};
use super::{Request, Stream};

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
    /// A body with a `Last-Modified`; 304 to whoever names that time.
    Dated {
        /// All of it.
        body: Bytes,
        /// The time, as it stands in the header.
        last_modified: String,
    },
    /// Whatever status, headers and body, with the right length.
    Answer {
        /// The status.
        status: u16,
        /// Beside `Content-Length`.
        headers: Vec<(String, String)>,
        /// All of it.
        body: Bytes,
    },
    /// Another behaviour for each request, none of them turns; the last one stays.
    Turns(Vec<Behaviour>),
    /// Reads the request and never answers.
    Hung,
    /// Sends the first line and half a header, and then nothing.
    HungHead,
    /// Sends a head and this much of a longer body, and then nothing.
    HungBody(Bytes),
    /// Sends a header, waits, sends another, and so on.
    EndlessHead {
        /// The wait after each, on the server's clock.
        pause: Duration,
    },
    /// Reads the request and closes the connection.
    HangUp,
    /// Sends these bytes, which need not be HTTP, and closes the connection.
    Raw(Bytes),
    /// A body that does not end.
    Endless,
    /// A gzip body (`Content-Encoding: gzip`) a thousandth of what it unpacks to: zeros, rounded up to whole MiB.
    GzipBomb {
        /// What it unpacks to, at least.
        unpacked_bytes: u64,
    },
    /// As [`Behaviour::GzipBomb`], in another coding.
    Bomb {
        /// The `Content-Encoding`.
        coding: Coding,
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

    /// A body packed as `coding` says.
    #[must_use]
    pub fn packed(coding: Coding, content: &[u8]) -> Self {
        Self::Answer {
            status: 200,
            headers: vec![("content-encoding".to_owned(), coding.name().to_owned())],
            body: super::pack(coding, content).into(),
        }
    }

    /// Whether the connection ends with the answer, because that is the only way to tell its end.
    pub(super) fn closes(&self) -> bool {
        match self {
            Self::Endless | Self::HangUp | Self::Raw(_) => true,
            Self::WrongLength { claimed, body } => *claimed > body.len() as u64,
            _ => false,
        }
    }

    /// What is done for a request after `before` others.
    pub(super) fn at(&self, before: usize) -> &Self {
        match self {
            Self::Turns(turns) => turns
                .get(before)
                .or(turns.last())
                .unwrap_or(&Self::Status(404)),
            other => other,
        }
    }
}

/// One request, and what it is answered with.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) request: &'a Request,
    /// How many the behaviour has answered already.
    pub(super) before: usize,
    /// Whether the connection is kept.
    pub(super) keep: bool,
    pub(super) clock: &'a Clock,
}

/// Answers one request.
pub(super) async fn answer(
    behaviour: &Behaviour,
    turn: Turn<'_>,
    stream: &mut impl Stream,
) -> io::Result<()> {
    let (request, before, clock) = (turn.request, turn.before, turn.clock);
    let mut wire = Wire {
        stream,
        keep: turn.keep,
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
        Behaviour::Dated {
            body,
            last_modified,
        } => wire.dated(request, body, last_modified).await,
        Behaviour::Answer {
            status,
            headers,
            body,
        } => {
            let headers: Vec<(&str, String)> = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect();
            wire.whole(*status, &headers, body).await
        }
        // Turns within turns have none.
        Behaviour::Turns(_) => wire.whole(404, &[], b"").await,
        Behaviour::Hung => wire.wait_for_the_end().await,
        Behaviour::HungHead => {
            wire.part(b"HTTP/1.1 200 scripted\r\ncontent-le").await?;
            wire.wait_for_the_end().await
        }
        Behaviour::HungBody(body) => {
            let length = (body.len() + 1).to_string();
            wire.head(200, &[("content-length", length)]).await?;
            wire.part(body).await?;
            wire.wait_for_the_end().await
        }
        Behaviour::EndlessHead { pause } => {
            wire.part(b"HTTP/1.1 200 scripted\r\n").await?;
            loop {
                wire.part(b"x-more: and more\r\n").await?;
                clock.sleep(*pause).await;
            }
        }
        Behaviour::HangUp => Ok(()),
        Behaviour::Raw(bytes) => wire.part(bytes).await,
        Behaviour::Endless => {
            wire.head(200, &[]).await?;
            // A HEAD has no body to be endless.
            while !wire.head_only {
                wire.part(&[b' '; 64 * 1024]).await?;
            }
            Ok(())
        }
        Behaviour::GzipBomb { unpacked_bytes } => wire.bomb(Coding::Gzip, *unpacked_bytes).await,
        Behaviour::Bomb {
            coding,
            unpacked_bytes,
        } => wire.bomb(*coding, *unpacked_bytes).await,
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

struct Wire<'a, S> {
    stream: &'a mut S,
    keep: bool,
    head_only: bool,
}

impl<S: Stream> Wire<'_, S> {
    async fn dated(&mut self, request: &Request, body: &[u8], time: &str) -> io::Result<()> {
        let headers = [("last-modified", time.to_owned())];
        if request.header("if-modified-since") == Some(time) {
            self.head(304, &headers).await
        } else {
            self.whole(200, &headers, body).await
        }
    }

    async fn bomb(&mut self, coding: Coding, unpacked_bytes: u64) -> io::Result<()> {
        let encoding = [("content-encoding", coding.name().to_owned())];
        self.whole(200, &encoding, &bomb(coding, unpacked_bytes))
            .await
    }

    /// Says nothing more; ends when the client has gone.
    async fn wait_for_the_end(&mut self) -> io::Result<()> {
        while self.stream.read(&mut [0; 1024]).await? > 0 {}
        Err(io::ErrorKind::UnexpectedEof.into())
    }

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
        let mut head = format!("HTTP/1.1 {status} scripted\r\n");
        if !self.keep {
            head.push_str("connection: close\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.stream.write_all(head.as_bytes()).await?;
        self.stream.flush().await
    }

    async fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.head_only {
            Ok(())
        } else {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        }
    }
}

fn etag(body: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}
