//! What goes over the socket: frames, and what is in them.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::data::Data;
use crate::declaration::Declaration;
use crate::error::Error;
use crate::op::{Op, Reply};

/// Changes whenever one side would misunderstand the other.
pub(super) const PROTOCOL: u32 = 1;
/// The longest frame from a server: a claim of [`Op::BYTES_MAX`] of data with the longest keys, escaped, fits twice.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest frame from a client.
pub(super) const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The length before each frame.
const HEADER_BYTES: usize = size_of::<u32>();
/// No reader believes more than this of a length before the bytes are there.
const TRUST_BYTES: usize = 64 * 1024;

/// What a client sends.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    pub(super) id: u64,
    pub(super) op: &'a Op,
}

/// The same as a server reads it: the number first, so that a wrong operation can be answered.
#[derive(Debug, Deserialize)]
pub(super) struct RawRequest<'a> {
    pub(super) id: u64,
    #[serde(borrow)]
    pub(super) op: &'a RawValue,
}

/// What a server sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// First of all.
    Hello {
        protocol: u32,
        declaration: Box<Declaration>,
    },
    /// Instead of it: the connection ends here.
    Refused(Error),
    /// The answer to a request.
    Answer {
        id: u64,
        result: Result<Reply<Data>, Error>,
    },
    /// Something may be due.
    Wake,
    /// The declaration changed.
    Declared(Box<Declaration>),
}

/// A frame of a value; nothing when it is longer than `bytes_max`. No more than that is ever written.
pub(super) fn pack(value: &impl Serialize, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut frame = Capped {
        bytes: vec![0; HEADER_BYTES],
        bytes_max: bytes_max.saturating_add(HEADER_BYTES),
        is_over: false,
    };
    let written = serde_json::to_writer(&mut frame, value);
    if frame.is_over {
        return Ok(None);
    }
    written?;
    let mut frame = frame.bytes;
    let length = u32::try_from(frame.len() - HEADER_BYTES).map_err(io::Error::other)?;
    frame[..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(Some(frame))
}

/// Bytes in memory up to a limit.
struct Capped {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

impl io::Write for Capped {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > self.bytes_max - self.bytes.len() {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The content of the next frame; nothing when the other side ended between two frames.
pub(super) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    if from.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut header[1..]).await?;
    let length = u32::from_le_bytes(header);
    let Some(expected) = usize::try_from(length).ok().filter(|len| *len <= bytes_max) else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes; at most {bytes_max} are allowed"),
        ));
    };
    let mut content = Vec::with_capacity(expected.min(TRUST_BYTES));
    from.take(length.into()).read_to_end(&mut content).await?;
    if content.len() < expected {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_comes_back_and_a_wrong_one_does_not() {
        let frame = pack(&"text", 6).unwrap().unwrap();
        assert_eq!(frame, b"\x06\0\0\0\"text\"");
        assert_eq!(
            read(&mut &frame[..], 6).await.unwrap().unwrap(),
            b"\"text\""
        );
        assert!(read(&mut &b""[..], 6).await.unwrap().is_none());
        for part in 1..frame.len() {
            let error = read(&mut &frame[..part], 6).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{part}");
        }
        assert!(read(&mut &frame[..], 5).await.is_err());
        assert!(pack(&"text", 5).unwrap().is_none());
    }
}
