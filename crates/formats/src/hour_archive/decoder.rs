//! Decompression with a bound on memory and on what comes out.

use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;

use super::fault::ArchiveFault;
use crate::feed::Codec;

/// The window of a zstd frame: 2^27 bytes, what the `zstd` tool takes without being told more.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The highest preset of xz needs 65 MiB.
const XZ_MEMORY_MAX: u64 = 128 << 20;

/// Tar tools fill up their last record with zeros. This is far more than any of them does.
const PADDING_BYTES_MAX: u64 = 1 << 20;

/// The longest magic number is that of xz.
const MAGIC_BYTES: usize = 6;

const CHUNK_BYTES: usize = 64 * 1024;

/// What the caller's input failed with, so that it is told apart from what a codec complains of.
#[derive(Debug)]
struct InputFailed(io::Error);

impl fmt::Display for InputFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for InputFailed {}

struct Source<R>(R);

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io::Error::new(error.kind(), InputFailed(error))),
                Ok(count) => return Ok(count),
            }
        }
    }
}

/// The first bytes were read to find out the codec, and come first again.
type Raw<R> = BufReader<Chain<Cursor<Vec<u8>>, Source<R>>>;

/// One gzip member, zstd frame, or stream of xz or bzip2.
enum Stream<R: Read> {
    Gzip(Box<GzDecoder<Raw<R>>>),
    Zstd(Box<zstd::Decoder<'static, Raw<R>>>),
    Xz(Box<XzDecoder<Raw<R>>>),
    Bzip2(Box<bzip2::bufread::BzDecoder<Raw<R>>>),
}

impl<R: Read> Stream<R> {
    fn new(raw: Raw<R>, codec: Codec) -> io::Result<Self> {
        Ok(match codec {
            Codec::Gzip => Self::Gzip(Box::new(GzDecoder::new(raw))),
            Codec::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(raw)?.single_frame();
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Self::Zstd(Box::new(decoder))
            }
            Codec::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_MAX, 0)?;
                Self::Xz(Box::new(XzDecoder::new_stream(raw, stream)))
            }
            Codec::Bzip2 => Self::Bzip2(Box::new(bzip2::bufread::BzDecoder::new(raw))),
        })
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
            Self::Xz(decoder) => decoder.read(buffer),
            Self::Bzip2(decoder) => decoder.read(buffer),
        }
    }

    fn into_raw(self) -> Raw<R> {
        match self {
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.into_inner(),
            Self::Xz(decoder) => decoder.into_inner(),
            Self::Bzip2(decoder) => decoder.into_inner(),
        }
    }
}

/// The decompressed content. Several streams of the codec in a row are one content, as its tools have it. All errors
/// are faults.
pub(super) struct Decoder<R: Read> {
    /// None at the end.
    stream: Option<Stream<R>>,
    codec: Codec,
    decoded: u64,
    decoded_max: u64,
}

impl<R: Read> Decoder<R> {
    /// Finds out the codec by the first bytes.
    pub(super) fn new(input: R, decoded_max: u64) -> Result<Self, ArchiveFault> {
        let mut source = Source(input);
        let mut head = Vec::with_capacity(MAGIC_BYTES);
        source
            .by_ref()
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut head)
            .map_err(input_fault)?;
        let codec = codec_of(&head)?;
        let raw = BufReader::with_capacity(CHUNK_BYTES, Cursor::new(head).chain(source));
        let stream = Stream::new(raw, codec).map_err(ArchiveFault::Io)?;
        Ok(Self {
            stream: Some(stream),
            codec,
            decoded: 0,
            decoded_max,
        })
    }

    pub(super) fn codec(&self) -> Codec {
        self.codec
    }

    /// How much came out so far.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Reads what is behind the end of the tar: zeros to the end of this stream, and nothing after it.
    pub(super) fn finish(&mut self) -> Result<(), ArchiveFault> {
        let Some(mut stream) = self.stream.take() else {
            return Ok(());
        };
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut padding = 0;
        loop {
            let count = self.read_stream(&mut stream, &mut buffer)?;
            if count == 0 {
                break;
            }
            padding += count as u64;
            if padding > PADDING_BYTES_MAX || buffer[..count].iter().any(|byte| *byte != 0) {
                let what = "something follows the end of the tar within its stream";
                return Err(ArchiveFault::Hostile(what.into()));
            }
        }
        match is_at_end(&mut stream.into_raw())? {
            true => Ok(()),
            false => Err(ArchiveFault::Hostile(format!(
                "something follows the {} stream that the tar ends in",
                self.codec
            ))),
        }
    }

    fn read_stream(
        &mut self,
        stream: &mut Stream<R>,
        buffer: &mut [u8],
    ) -> Result<usize, ArchiveFault> {
        let count = stream
            .read(buffer)
            .map_err(|error| fault_of(error, self.codec))?;
        self.decoded = self.decoded.saturating_add(count as u64);
        if self.decoded > self.decoded_max {
            let max = self.decoded_max;
            return Err(ArchiveFault::TooLarge(format!(
                "it has more than {max} bytes without its compression"
            )));
        }
        Ok(count)
    }
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(mut stream) = self.stream.take() {
            let count = self.read_stream(&mut stream, buffer)?;
            if count > 0 {
                self.stream = Some(stream);
                return Ok(count);
            }
            let mut raw = stream.into_raw();
            if !is_at_end(&mut raw)? {
                self.stream = Some(Stream::new(raw, self.codec)?);
            }
        }
        Ok(0)
    }
}

fn codec_of(head: &[u8]) -> Result<Codec, ArchiveFault> {
    Codec::of_content(head).ok_or_else(|| {
        ArchiveFault::Damaged(match head.is_empty() {
            true => "it is empty".into(),
            false => "it is neither gzip, zstd, xz nor bzip2".into(),
        })
    })
}

fn is_at_end<R: Read>(raw: &mut Raw<R>) -> Result<bool, ArchiveFault> {
    Ok(raw.fill_buf().map_err(input_fault)?.is_empty())
}

/// What the caller's input failed with.
fn input_fault(error: io::Error) -> ArchiveFault {
    ArchiveFault::Io(match error.downcast::<InputFailed>() {
        Ok(InputFailed(error)) | Err(error) => error,
    })
}

/// The caller's own error, or what the codec says of the content.
fn fault_of(error: io::Error, codec: Codec) -> ArchiveFault {
    let error = match error.downcast::<InputFailed>() {
        Ok(InputFailed(error)) => return ArchiveFault::Io(error),
        Err(error) => error,
    };
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return ArchiveFault::Damaged(format!("its {codec} stream ends too early"));
    }
    let text = error.to_string();
    let wants_memory = matches!(
        error.downcast(),
        Ok(liblzma::stream::Error::MemLimit | liblzma::stream::Error::Mem)
    ) || text.contains("too much memory");
    match wants_memory {
        true => ArchiveFault::TooLarge(format!("its {codec} stream needs too much memory")),
        false => ArchiveFault::Damaged(format!("its {codec} stream: {text}")),
    }
}
