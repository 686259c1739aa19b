//! The text of all frames of a file, one after the other.

use std::io::{self, BufRead, BufReader, Read};

use super::FrameCodec;
use super::lz4_cut::Lz4Cut;
use super::source::{Source, fault_of};
use crate::hour_archive::ArchiveFault;

/// The window of a zstd frame: 2^27 bytes, what the `zstd` tool takes without being told more.
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 27;

enum State<R: Read> {
    /// The text of an LZ4 frame comes next.
    Lz4(Box<lz4::Decoder<Lz4Cut<R>>>),
    /// The beginning of an LZ4 frame, or the end, comes next.
    Lz4Between(Lz4Cut<R>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Source<R>>>>),
    /// Everything was read.
    End(R),
    /// Nothing is read on after a fault.
    Broken,
}

/// Reads a file of frames that anybody may have made: independent or linked blocks of any size, skippable frames between
/// them. The end is reported only when every frame was whole and nothing else follows; a file without a frame is damaged.
///
/// Errors are [`ArchiveFault`]s within an [`io::Error`].
pub struct FrameReader<R: Read> {
    state: State<R>,
    codec: FrameCodec,
    frames: u64,
    decoded: u64,
    decoded_max: u64,
}

impl<R: Read> FrameReader<R> {
    /// Reads `input`, whose text has at most `text_bytes_max` bytes.
    ///
    /// # Errors
    /// [`ArchiveFault::Io`] when the codec has no memory, or the input cannot be read.
    pub fn new(input: R, codec: FrameCodec, text_bytes_max: u64) -> Result<Self, ArchiveFault> {
        let state = match codec {
            FrameCodec::Lz4 => State::Lz4Between(Lz4Cut::new(input)),
            FrameCodec::Zstd => {
                let mut input = BufReader::with_capacity(64 * 1024, Source(input));
                let is_empty = input
                    .fill_buf()
                    .map_err(|error| fault_of(error, codec))?
                    .is_empty();
                match is_empty {
                    true => State::End(input.into_inner().0),
                    false => {
                        let mut decoder = zstd::Decoder::with_buffer(input)?;
                        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                        State::Zstd(Box::new(decoder))
                    }
                }
            }
        };
        let frames = u64::from(matches!(state, State::Zstd(_)));
        Ok(Self {
            state,
            codec,
            frames,
            decoded: 0,
            decoded_max: text_bytes_max,
        })
    }

    /// The input, once everything was read.
    #[must_use]
    pub fn into_input(self) -> Option<R> {
        match self.state {
            State::End(input) => Some(input),
            _ => None,
        }
    }

    /// Reads some text, or goes one step on; None if there is another step.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let state = std::mem::replace(&mut self.state, State::Broken);
        let (state, count) = match state {
            State::Lz4(mut decoder) => match decoder.read(buffer)? {
                0 => (State::Lz4Between(end_of(*decoder)?), None),
                count => (State::Lz4(decoder), Some(count)),
            },
            State::Lz4Between(mut cut) => match cut.next_frame()? {
                None => (State::End(cut.into_input()), None),
                Some(_) => {
                    self.frames += 1;
                    (State::Lz4(Box::new(lz4::Decoder::new(cut)?)), None)
                }
            },
            State::Zstd(mut decoder) => match decoder.read(buffer)? {
                0 => (State::End(decoder.finish().into_inner().0), None),
                count => (State::Zstd(decoder), Some(count)),
            },
            State::End(input) if self.frames > 0 => (State::End(input), Some(0)),
            State::End(_) => return Err(damaged("there is no frame in it")),
            State::Broken => return Err(damaged("it was given up after an error")),
        };
        self.state = state;
        Ok(count)
    }

    fn count(&mut self, count: usize) -> Result<usize, ArchiveFault> {
        self.decoded = self.decoded.saturating_add(count as u64);
        if self.decoded <= self.decoded_max {
            return Ok(count);
        }
        self.state = State::Broken;
        let max = self.decoded_max;
        Err(ArchiveFault::TooLarge(format!(
            "it has more than {max} bytes without its compression"
        )))
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let step = self.step(buffer);
            if let Some(count) = step.map_err(|error| fault_of(error, self.codec))? {
                return Ok(self.count(count)?);
            }
        }
    }
}

/// What follows a frame that was decoded as a whole.
pub(super) fn end_of<R: Read>(decoder: lz4::Decoder<Lz4Cut<R>>) -> io::Result<Lz4Cut<R>> {
    let (mut cut, result) = decoder.finish();
    let is_whole = result.is_ok() && cut.read(&mut [0])? == 0;
    match is_whole {
        true => Ok(cut),
        false => Err(damaged("an LZ4 frame has not the length that it says")),
    }
}

fn damaged(what: &str) -> io::Error {
    ArchiveFault::Damaged(what.into()).into()
}
