//! The caller's input, whose errors are told apart from what a codec complains of.

use std::fmt;
use std::io::{self, Read};

use super::FrameCodec;
use crate::hour_archive::ArchiveFault;

#[derive(Debug)]
struct InputFailed(io::Error);

impl fmt::Display for InputFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for InputFailed {}

/// Marks the errors of an input, and tries again after an interruption.
pub(super) struct Source<R>(pub(super) R);

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

/// The caller's own error, a fault that was found here, or what the codec says of the content.
pub(super) fn fault_of(error: io::Error, codec: FrameCodec) -> ArchiveFault {
    let error = match error.downcast::<InputFailed>() {
        Ok(InputFailed(error)) => return ArchiveFault::Io(error),
        Err(error) => error,
    };
    let error = match error.downcast::<ArchiveFault>() {
        Ok(fault) => return fault,
        Err(error) => error,
    };
    let text = error.to_string();
    if error.kind() == io::ErrorKind::UnexpectedEof {
        ArchiveFault::Damaged(format!("its last {codec} frame ends too early"))
    } else if text.contains("too much memory") {
        ArchiveFault::TooLarge(format!("a {codec} frame needs too much memory"))
    } else {
        ArchiveFault::Damaged(format!("a {codec} frame: {text}"))
    }
}
