//! The server: as little as answers every request with a body that nobody had before. It is a process of its own, so that what it
//! takes is not taken for ours.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::BODY_BYTES;

/// Says to a process of this bench that it is the server.
const MEANT: &str = "CANNERY_BENCH_FEED_SERVER";

/// Bodies are cut from a text so many times as long.
const TEXT_BODIES: usize = 64;

pub(crate) fn is_meant() -> bool {
    std::env::var_os(MEANT).is_some()
}

/// The process; it ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(MEANT, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Answers until nobody holds the other end of its input.
pub(crate) fn serve() {
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        end.send(()).ok();
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    runtime.unwrap().block_on(async {
        tokio::select! {
            () = accept() => {}
            _ = ended => {}
        }
    });
}

async fn accept() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (text, count) = (Arc::new(text()), Arc::new(AtomicU64::new(0)));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (text, count) = (Arc::clone(&text), Arc::clone(&count));
        tokio::spawn(async move { answer(stream, &text, &count).await });
    }
}

/// One connection, for as many requests as its client likes; nothing is sent before its answer.
async fn answer(mut stream: TcpStream, text: &[u8], count: &AtomicU64) -> Option<()> {
    let mut request = Vec::new();
    let mut response = Vec::new();
    loop {
        request.clear();
        while !request.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut request).await.ok()? == 0 {
                return None;
            }
        }
        let number = count.fetch_add(1, Ordering::Relaxed);
        response.clear();
        response.extend_from_slice(
            format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n").as_bytes(),
        );
        let end = response.len() + BODY_BYTES;
        response.extend_from_slice(format!("{{\"n\":{number:016},\"stops\":[").as_bytes());
        let first =
            usize::try_from(number.wrapping_mul(2_654_435_761) % text.len() as u64).unwrap();
        let mut rest = &text[first..];
        while response.len() < end {
            let piece = rest.len().min(end - response.len());
            response.extend_from_slice(&rest[..piece]);
            rest = text;
        }
        stream.write_all(&response).await.ok()?;
    }
}

/// JSON of the kind that feeds are: names again and again, and numbers.
fn text() -> Vec<u8> {
    let mut text = String::new();
    let mut chance = 1_u64;
    while text.len() < TEXT_BODIES * BODY_BYTES {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (id, delay, at) = (
            chance >> 44,
            (chance >> 33) & 1_023,
            chance >> 30 & 0xf_ffff,
        );
        text += &format!(
            "{{\"stop_id\":\"{id:06x}\",\"arrival\":{{\"delay\":{delay},\"time\":17{at:08}}},\"status\":\"SCHEDULED\"}},"
        );
    }
    text.into_bytes()
}
