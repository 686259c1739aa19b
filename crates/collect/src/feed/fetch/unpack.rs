//! Compressed bodies, unpacked a piece at a time: whoever asks for a piece decides how large it may be, before it is made.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, Operation as _};

/// What is asked for, in the order of liking.
pub(super) const ACCEPT_ENCODING: &str = "zstd, br, gzip, deflate";

const GZIP_WINDOW_BITS: u8 = 15;
/// 8 MiB, the most that `Content-Encoding: zstd` may need (RFC 9659); a server could ask for gigabytes otherwise.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// A body that cannot be unpacked, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) &'static str);

/// How far one step went. One that went nowhere needs more input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
}

impl Step {
    pub(super) const NONE: Self = Self {
        read: 0,
        written: 0,
    };
}

/// The state of one body.
pub(super) enum Unpacker {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli(Box<Brotli>),
    Zstd(Zstd),
}

impl Unpacker {
    /// The one for a `Content-Encoding`; `None` when the body is sent as it is.
    pub(super) fn of(coding: &str) -> Result<Option<Self>, Broken> {
        match coding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip(Gzip::new()))),
            "deflate" => Ok(Some(Self::Deflate(Deflate::default()))),
            "br" => Ok(Some(Self::Brotli(Box::new(Brotli::new())))),
            "zstd" => Ok(Some(Self::Zstd(Zstd::new()?))),
            _ => Err(Broken("it is packed in an unknown way")),
        }
    }

    /// Reads from `input` and writes to `output` as far as either goes.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        match self {
            Self::Gzip(gzip) => gzip.step(input, output),
            Self::Deflate(deflate) => deflate.step(input, output),
            Self::Brotli(brotli) => brotli.step(input, output),
            Self::Zstd(zstd) => zstd.step(input, output),
        }
    }

    /// Whether all of it was there, now that nothing more comes.
    pub(super) fn finish(&self) -> Result<(), Broken> {
        let whole = match self {
            Self::Gzip(gzip) => gzip.between_members,
            Self::Deflate(deflate) => deflate.ended,
            Self::Brotli(brotli) => brotli.ended,
            Self::Zstd(zstd) => zstd.between_frames,
        };
        if whole {
            Ok(())
        } else {
            Err(Broken("what is packed in it breaks off"))
        }
    }
}

/// One or more members, and zeros after them, which some servers pad with.
pub(super) struct Gzip {
    member: Decompress,
    between_members: bool,
}

impl Gzip {
    fn new() -> Self {
        Self {
            member: Decompress::new_gzip(GZIP_WINDOW_BITS),
            between_members: false,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if self.between_members {
            let zeros = input.iter().take_while(|byte| **byte == 0).count();
            if zeros > 0 || input.is_empty() {
                return Ok(Step {
                    read: zeros,
                    written: 0,
                });
            }
            self.member = Decompress::new_gzip(GZIP_WINDOW_BITS);
            self.between_members = false;
        }
        let (step, ended) = inflate(&mut self.member, input, output)?;
        self.between_members = ended;
        Ok(step)
    }
}

/// The zlib format, as the standard says, or bare deflate, as some servers understood it.
#[derive(Default)]
pub(super) struct Deflate {
    first: Option<u8>,
    inner: Option<Decompress>,
    ended: bool,
}

impl Deflate {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if self.ended {
            return nothing_follows(input);
        }
        let Some(inner) = &mut self.inner else {
            return self.begin(input, output);
        };
        let (step, ended) = inflate(inner, input, output)?;
        self.ended = ended;
        Ok(step)
    }

    /// Two bytes tell which of both it is.
    fn begin(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        match (self.first, input) {
            (_, []) => Ok(Step::NONE),
            (None, [first, ..]) => {
                self.first = Some(*first);
                Ok(Step {
                    read: 1,
                    written: 0,
                })
            }
            (Some(first), [second, ..]) => {
                let mut inner = Decompress::new(is_zlib(first, *second));
                // Two bytes unpack to less than any buffer holds, and none of them is left over.
                let (step, ended) = inflate(&mut inner, &[first, *second], output)?;
                let read = step.read.saturating_sub(1);
                (self.inner, self.ended) = (Some(inner), ended);
                Ok(Step { read, ..step })
            }
        }
    }
}

fn is_zlib(first: u8, second: u8) -> bool {
    first & 0x0f == 8 && u16::from_be_bytes([first, second]).is_multiple_of(31)
}

fn inflate(
    inner: &mut Decompress,
    input: &[u8],
    output: &mut [u8],
) -> Result<(Step, bool), Broken> {
    let (read, written) = (inner.total_in(), inner.total_out());
    let status = inner
        .decompress(input, output, FlushDecompress::None)
        .map_err(|_| Broken("what is packed in it is damaged"))?;
    let step = Step {
        read: difference(inner.total_in(), read),
        written: difference(inner.total_out(), written),
    };
    Ok((step, matches!(status, Status::StreamEnd)))
}

fn difference(after: u64, before: u64) -> usize {
    usize::try_from(after - before).expect("a step stays within its two buffers")
}

/// One stream; the window is at most 16 MiB, because this is the decoder without the extension for large ones.
pub(super) struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    written: usize,
    ended: bool,
}

impl Brotli {
    fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: BrotliState::new_strict(alloc(), alloc(), alloc()),
            written: 0,
            ended: false,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if self.ended {
            return nothing_follows(input);
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut space, mut written) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut space,
            &mut written,
            output,
            &mut self.written,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultSuccess => self.ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(Broken("what is packed in it is damaged")),
        }
        Ok(Step { read, written })
    }
}

/// One or more frames.
pub(super) struct Zstd {
    decoder: Decoder<'static>,
    between_frames: bool,
}

impl Zstd {
    fn new() -> Result<Self, Broken> {
        let mut decoder = Decoder::new().map_err(|_| Broken("there is no memory to unpack it"))?;
        decoder
            .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
            .expect("the limit is one that the library knows");
        Ok(Self {
            decoder,
            between_frames: false,
        })
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Broken> {
        if input.is_empty() && self.between_frames {
            return Ok(Step::NONE);
        }
        let status = self
            .decoder
            .run_on_buffers(input, output)
            .map_err(|_| Broken("what is packed in it is damaged, or needs too much memory"))?;
        self.between_frames = status.remaining == 0;
        Ok(Step {
            read: status.bytes_read,
            written: status.bytes_written,
        })
    }
}

/// Nothing may follow a stream that has an end of its own.
fn nothing_follows(input: &[u8]) -> Result<Step, Broken> {
    if input.is_empty() {
        Ok(Step::NONE)
    } else {
        Err(Broken("something follows what is packed in it"))
    }
}

#[cfg(test)]
mod tests;
