//! Reports become a can in a scratch file. Frames are compressed on all cores while the next ones are read.

use std::collections::VecDeque;
use std::io::{self, BufWriter};
use std::sync::mpsc;

use cannery_formats::Sums;
use cannery_formats::can::{CAN_FRAME_BYTES, CanText, CanTexts, Canned, CannedText, TextName};
use cannery_formats::frames::{FrameEncoder, FrameFile};

use super::reading::Reading;
use crate::error::Error;
use crate::inputs::time_of;
use crate::scratch::{Place, Scratch, ScratchFile};

/// What the text of a can is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A tar of reports.
    Tar,
    /// One report.
    Plain,
}

/// A can whose text was read; its last frames are still being compressed.
pub(crate) struct Pressing {
    canned: Canned,
    press: Press,
    file: ScratchFile,
}

impl Pressing {
    /// Waits for the last frames. It blocks.
    pub(crate) fn finish(self) -> io::Result<Pressed> {
        Ok(Pressed {
            canned: self.canned,
            sums: self.press.finish()?,
            file: self.file,
        })
    }
}

/// A can that is not in the lake yet.
pub(crate) struct Pressed {
    pub(crate) canned: Canned,
    pub(crate) sums: Sums,
    pub(crate) file: ScratchFile,
}

impl Pressed {
    /// Its reports.
    pub(crate) fn texts(&self) -> &[CannedText] {
        match &self.canned {
            Canned::Tar { texts, .. } => texts,
            Canned::Plain(text) => std::slice::from_ref(text),
        }
    }
}

/// How many frames are being compressed, or wait for it.
pub(super) fn depth() -> usize {
    rayon::current_num_threads() + 1
}

/// A frame, and how long its text is.
type Frame = io::Result<(Vec<u8>, u64)>;

/// Writes frames in their order, whichever is ready first.
struct Press {
    encoder: FrameEncoder,
    out: FrameFile<BufWriter<Place>>,
    pending: VecDeque<mpsc::Receiver<Frame>>,
}

impl Press {
    fn push(&mut self, text: Vec<u8>) -> io::Result<()> {
        if self.pending.len() >= depth() {
            self.write_one()?;
        }
        let (give, frame) = mpsc::sync_channel(1);
        let encoder = self.encoder;
        rayon::spawn(move || {
            let frame = encoder.encode(&text);
            // Nobody takes it once the can was given up.
            drop(give.send(frame.map(|frame| (frame, text.len() as u64))));
        });
        self.pending.push_back(frame);
        Ok(())
    }

    fn write_one(&mut self) -> io::Result<()> {
        let Some(frame) = self.pending.pop_front() else {
            return Ok(());
        };
        let (frame, text_size) = frame.recv().map_err(io::Error::other)??;
        self.out.push(&frame, text_size).map(drop)
    }

    fn finish(mut self) -> io::Result<Sums> {
        while !self.pending.is_empty() {
            self.write_one()?;
        }
        let (_, sums) = self.out.finish()?;
        Ok(sums)
    }
}

/// Makes a can of these reports, which must be in order. The sums of everything are computed on the way. It blocks. What
/// comes next may be read while the can is finished.
pub(crate) fn press(
    reading: &mut Reading<'_>,
    names: &[TextName],
    shape: Shape,
    encoder: FrameEncoder,
    scratch: &Scratch,
) -> Result<Pressing, Error> {
    let failed = |why: io::Error| Error::scratch(scratch.folder(), why);
    let file = scratch.file().map_err(failed)?;
    let out = BufWriter::with_capacity(1 << 20, file.begin());
    let mut press = Press {
        encoder,
        out: FrameFile::new(out, encoder.codec()),
        pending: VecDeque::new(),
    };
    let mut text = match shape {
        Shape::Tar => CanText::tar(CAN_FRAME_BYTES),
        Shape::Plain => CanText::plain(CAN_FRAME_BYTES),
    };
    let plan = reading.plan();
    for name in names {
        let place = plan.texts[name];
        text.begin(name, place.size, time_of(&plan.kind, name))
            .map_err(failed)?;
        // It can only be too long or too short here.
        let changed = reading.changed(place);
        reading.text(place, &mut |piece| {
            text.write(piece).map_err(&changed)?;
            while let Some(frame) = text.take_frame() {
                press.push(frame).map_err(failed)?;
            }
            Ok(())
        })?;
        text.end().map_err(&changed)?;
    }
    let CanTexts { canned, frames } = text.finish().map_err(failed)?;
    for frame in frames {
        press.push(frame).map_err(failed)?;
    }
    Ok(Pressing {
        canned,
        press,
        file,
    })
}
