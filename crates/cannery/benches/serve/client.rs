//! The least that an HTTP client can be, so that the servers are measured and not the client.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::TcpStream;

const BUFFER: usize = 256 * 1024;

/// A connection that is kept open.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    buffer: Vec<u8>,
    host: String,
}

impl Connection {
    pub(crate) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::with_capacity(BUFFER, stream),
            buffer: vec![0; BUFFER],
            host: address.to_owned(),
        }
    }

    /// The length of what is there.
    pub(crate) fn get(&mut self, path: &str) -> u64 {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (status, length) = self.head();
        assert_eq!(status, 200, "{path}");
        self.skip(length)
    }

    /// A request with a body; its status.
    pub(crate) fn send(&mut self, method: &str, path: &str, token: &str, body: &[u8]) -> u16 {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request).unwrap();
        let (status, length) = self.head();
        self.skip(length);
        status
    }

    /// Status and length of an answer.
    fn head(&mut self) -> (u16, u64) {
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            let text = line.trim_end();
            if text.is_empty() {
                return (status, length);
            }
            if status == 0 {
                status = text.split(' ').nth(1).unwrap().parse().unwrap();
            }
            if let Some((name, value)) = text.split_once(": ")
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.parse().unwrap();
            }
        }
    }

    fn skip(&mut self, length: u64) -> u64 {
        let mut left = length;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(BUFFER).min(BUFFER);
            let read = self.stream.read(&mut self.buffer[..most]).unwrap();
            assert!(read > 0, "the answer ended early");
            left -= read as u64;
        }
        length
    }
}
