//! Where one measurement lies.

use super::Datum;
use crate::frames::{FrameCodec, FrameSpan, decode_frame};
use crate::hour_archive::ArchiveFault;

/// Where a measurement lies: in which part of the file its frame is, and where it is in the text of the frame. One ranged
/// read of the file is all that it takes to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Where its frame begins in the file.
    pub frame_off: u64,
    /// How long its frame is there.
    pub frame_size: u64,
    /// Where it begins in the text of the frame.
    pub intra_off: u64,
    /// How long it is there.
    pub intra_size: u64,
}

impl Place {
    /// The place of a measurement that an index names within this frame; none if it is not within it.
    #[must_use]
    pub fn of(frame: &FrameSpan, datum: &Datum) -> Option<Self> {
        let intra_off = datum.text_off.checked_sub(frame.text_off)?;
        let end = intra_off.checked_add(datum.text_size)?;
        (end <= frame.text_size).then_some(Self {
            frame_off: frame.file_off,
            frame_size: frame.file_size,
            intra_off,
            intra_size: datum.text_size,
        })
    }

    /// The measurement in the text of its frame.
    ///
    /// # Errors
    /// [`ArchiveFault::Damaged`] when the text does not reach that far.
    pub fn slice<'t>(&self, text: &'t [u8]) -> Result<&'t [u8], ArchiveFault> {
        let from = usize::try_from(self.intra_off).ok();
        let size = usize::try_from(self.intra_size).ok();
        from.zip(size)
            .and_then(|(from, size)| text.get(from..)?.get(..size))
            .ok_or_else(|| ArchiveFault::Damaged("a measurement is not within its frame".into()))
    }

    /// The measurement in its frame, which is the part of the file from `frame_off` on, `frame_size` bytes long.
    ///
    /// # Errors
    /// [`ArchiveFault`] when the frame is damaged, has more than `text_bytes_max` bytes of text, or lacks the measurement.
    pub fn extract(
        &self,
        frame: &[u8],
        codec: FrameCodec,
        text_bytes_max: u64,
    ) -> Result<Vec<u8>, ArchiveFault> {
        let text = decode_frame(frame, codec, text_bytes_max)?;
        self.slice(&text).map(<[u8]>::to_vec)
    }
}
