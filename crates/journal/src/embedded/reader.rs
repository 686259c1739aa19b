//! Reading back the data of entries: what lies one behind the other is read at once.

use std::io;

use bytes::Bytes;

use super::home::Home;
use super::log::Log;
use super::record::DATA_CRC_BYTES;
use super::segment::Segment;

/// The longest read ahead: who keeps the data of one entry keeps all that was read with it.
const WINDOW_BYTES_MAX: usize = 64 * 1024;
const WINDOW_BYTES_MIN: usize = 4 * 1024;

/// Reads entries, and ahead as long as one that is asked for lies behind the last. What was written once never changes.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What was read last: its segment, where it begins there, and its bytes.
    window: (u32, u64, Bytes),
    ahead: usize,
}

impl Reader {
    /// The data at a place, if it still is what was written.
    pub(super) fn read(&mut self, log: &Log, home: Home) -> io::Result<Bytes> {
        let segment = log.segment(home)?;
        let begin = u64::from(home.offset) - DATA_CRC_BYTES as u64;
        let len = DATA_CRC_BYTES + home.len as usize;
        let bytes = match self.in_window(home.segment, begin, len) {
            Some(bytes) => bytes,
            None => self.load(segment, home.segment, begin, len)?,
        };
        segment.check(home, bytes)
    }

    fn in_window(&self, segment: u32, begin: u64, len: usize) -> Option<Bytes> {
        let (number, start, bytes) = &self.window;
        let from = usize::try_from(begin.checked_sub(*start)?).ok()?;
        let until = from.checked_add(len)?;
        (*number == segment && until <= bytes.len()).then(|| bytes.slice(from..until))
    }

    fn load(
        &mut self,
        segment: &Segment,
        number: u32,
        begin: u64,
        len: usize,
    ) -> io::Result<Bytes> {
        let (last, start, bytes) = &self.window;
        let end = start + bytes.len() as u64;
        let follows = *last == number && (*start..end + WINDOW_BYTES_MIN as u64).contains(&begin);
        self.ahead = if follows {
            (self.ahead * 4).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
        } else {
            0
        };
        // Behind its end a segment is yet to be written.
        let most = usize::try_from(segment.end.saturating_sub(begin)).unwrap_or(usize::MAX);
        let window = self.ahead.min(most).max(len);
        let bytes = match segment.read(begin, window) {
            // What is behind the entry may be unreadable when the entry is not.
            Err(_) if window > len => segment.read(begin, len)?,
            read => read?,
        };
        self.window = (number, begin, bytes.clone());
        Ok(bytes.slice(..len))
    }
}
