//! A body as it comes in: counted and unpacked piece by piece, given up at the first byte too many.

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::CONTENT_ENCODING;

use super::error::FetchError;
use super::unpack::{Broken, Step, Unpacker};

/// How much is unpacked before it is looked at.
const PIECE_BYTES: usize = 64 * 1024;
/// After so many pieces others have their turn, and the alarm clock: a server that is always faster than we are must not
/// keep it from being looked at.
const PIECES_PER_TURN: u32 = 16;

/// What has come of a body.
pub(super) struct Body {
    bytes_max: u64,
    /// As sent.
    received: u64,
    unpacker: Option<Unpacker>,
    piece: Vec<u8>,
    content: Vec<u8>,
    pieces: u32,
}

/// Reads the whole body.
pub(super) async fn read(mut answer: Response, bytes_max: u64) -> Result<Bytes, FetchError> {
    // What is announced need not be waited for.
    if answer
        .content_length()
        .is_some_and(|length| length > bytes_max)
    {
        return Err(FetchError::too_large(bytes_max));
    }
    let mut body = Body::new(&coding(&answer)?, bytes_max)?;
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| FetchError::of(&error))?
    {
        body.push(&chunk).await?;
    }
    body.finish()
}

/// All codings of the answer, which are one or none, or one that nobody knows.
fn coding(answer: &Response) -> Result<String, FetchError> {
    let values: Result<Vec<&str>, _> = answer
        .headers()
        .get_all(CONTENT_ENCODING)
        .iter()
        .map(|value| value.to_str())
        .collect();
    let values = values.map_err(|_| FetchError::broken("it is packed in an unknown way"))?;
    Ok(values.join(","))
}

impl Body {
    pub(super) fn new(coding: &str, bytes_max: u64) -> Result<Self, FetchError> {
        let unpacker = Unpacker::of(coding)?;
        let piece = vec![0; if unpacker.is_some() { PIECE_BYTES } else { 0 }];
        Ok(Self {
            bytes_max,
            received: 0,
            unpacker,
            piece,
            content: Vec::new(),
            pieces: 0,
        })
    }

    /// Takes what was received.
    pub(super) async fn push(&mut self, chunk: &[u8]) -> Result<(), FetchError> {
        self.received = self.received.saturating_add(chunk.len() as u64);
        if self.received > self.bytes_max {
            return Err(FetchError::too_large(self.bytes_max));
        }
        if self.unpacker.is_some() {
            return self.unpack(chunk).await;
        }
        self.content.extend_from_slice(chunk);
        self.take_turns().await;
        Ok(())
    }

    async fn unpack(&mut self, mut input: &[u8]) -> Result<(), FetchError> {
        while let Some(unpacker) = &mut self.unpacker {
            let step = unpacker.step(input, &mut self.piece)?;
            if step == Step::NONE {
                break;
            }
            input = &input[step.read..];
            let unpacked = self.content.len() as u64 + step.written as u64;
            if unpacked > self.bytes_max {
                return Err(FetchError::too_large(self.bytes_max));
            }
            self.content.extend_from_slice(&self.piece[..step.written]);
            self.take_turns().await;
        }
        if input.is_empty() {
            Ok(())
        } else {
            Err(FetchError::broken("what is packed in it has no end"))
        }
    }

    async fn take_turns(&mut self) {
        self.pieces += 1;
        if self.pieces == PIECES_PER_TURN {
            self.pieces = 0;
            tokio::task::yield_now().await;
        }
    }

    /// What it was, if it was whole.
    pub(super) fn finish(self) -> Result<Bytes, FetchError> {
        match &self.unpacker {
            // Nothing at all is nothing, however it is packed.
            Some(unpacker) if self.received > 0 => unpacker.finish()?,
            Some(_) | None => {}
        }
        Ok(self.content.into())
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.content.capacity()
    }
}

impl From<Broken> for FetchError {
    fn from(broken: Broken) -> Self {
        Self::broken(broken.0)
    }
}
