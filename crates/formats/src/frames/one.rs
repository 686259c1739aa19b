//! The text of one frame.

use std::io::{self, Read};

use zstd::zstd_safe;

use super::FrameCodec;
use super::lz4_cut::Lz4Cut;
use super::reader::{ZSTD_WINDOW_LOG_MAX, end_of};
use super::source::fault_of;
use crate::hour_archive::ArchiveFault;

/// What LZ4 makes of one byte at most. Room for more is made only when it is needed: a frame may lie.
const RATIO_MAX: u64 = 255;

/// The text of the frame that `frame` is, exactly: nothing may follow it.
///
/// No more memory than for the limit is taken, whatever the frame says of its size.
///
/// # Errors
/// [`ArchiveFault::TooLarge`] when the text has more than `text_bytes_max` bytes; [`ArchiveFault::Damaged`].
pub fn decode_frame(
    frame: &[u8],
    codec: FrameCodec,
    text_bytes_max: u64,
) -> Result<Vec<u8>, ArchiveFault> {
    let text = match codec {
        FrameCodec::Lz4 => decode_lz4(frame, text_bytes_max),
        FrameCodec::Zstd => decode_zstd(frame, text_bytes_max),
    };
    text.map_err(|error| fault_of(error, codec))
}

fn decode_lz4(frame: &[u8], max: u64) -> io::Result<Vec<u8>> {
    let mut cut = Lz4Cut::new(frame);
    let head = cut.next_frame()?.ok_or_else(no_frame)?;
    let mut text = room(frame, head.content_size, max)?;
    let mut decoder = lz4::Decoder::new(cut)?;
    read_at_most(&mut decoder, &mut text, max)?;
    match end_of(decoder)?.next_frame()? {
        None => Ok(text),
        Some(_) => Err(trailing()),
    }
}

fn decode_zstd(frame: &[u8], max: u64) -> io::Result<Vec<u8>> {
    match zstd_safe::find_frame_compressed_size(frame) {
        Ok(size) if size == frame.len() => {}
        Ok(_) => return Err(trailing()),
        Err(_) => return Err(no_frame()),
    }
    let content_size = zstd_safe::get_frame_content_size(frame).map_err(|_| no_frame())?;
    let mut text = room(frame, content_size, max)?;
    let mut decoder = zstd::Decoder::with_buffer(frame)?.single_frame();
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    read_at_most(&mut decoder, &mut text, max)?;
    Ok(text)
}

/// Room for a text of the size that a frame says it has.
fn room(frame: &[u8], content_size: Option<u64>, max: u64) -> io::Result<Vec<u8>> {
    let size = content_size.unwrap_or(0);
    if size > max {
        return Err(too_large(max));
    }
    let likely = size.min((frame.len() as u64).saturating_mul(RATIO_MAX));
    let likely = usize::try_from(likely).map_err(|_| too_large(max))?;
    Ok(Vec::with_capacity(likely))
}

fn read_at_most(input: &mut impl Read, text: &mut Vec<u8>, max: u64) -> io::Result<()> {
    let count = input.take(max.saturating_add(1)).read_to_end(text)? as u64;
    match count > max {
        true => Err(too_large(max)),
        false => Ok(()),
    }
}

fn too_large(max: u64) -> io::Error {
    ArchiveFault::TooLarge(format!("a frame has more than {max} bytes of text")).into()
}

fn no_frame() -> io::Error {
    ArchiveFault::Damaged("there is no frame in it".into()).into()
}

fn trailing() -> io::Error {
    ArchiveFault::Damaged("something follows the frame".into()).into()
}
