//! A request as the server saw it.

use tokio::io::AsyncReadExt as _;

use super::Stream;

const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`…
    pub method: String,
    /// Path and query, as sent.
    pub target: String,
    /// Names in lower case, in the order sent.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The target without its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The first header of that name, given in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Self {
            method,
            target,
            headers,
        })
    }
}

/// Reads one head; `None` when the client sends none or one that is too long.
pub(super) async fn read(stream: &mut impl Stream) -> Option<Request> {
    let mut head = Vec::new();
    loop {
        if stream.read_buf(&mut head).await.ok()? == 0 || head.len() > HEAD_BYTES_MAX {
            return None;
        }
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            return Request::parse(std::str::from_utf8(&head[..end]).ok()?);
        }
    }
}
