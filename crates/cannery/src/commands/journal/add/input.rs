//! Lines from standard input, in batches that fit into one commit. What is there is passed on at once: whoever writes a line
//! now and then must not wait for the thousandth.

use std::io::{self, BufRead, BufReader, Read as _};

use cannery_journal::{Data, Op};
use tokio::sync::mpsc;

/// The longest line: the longest data, the longest key with every character escaped, and the rest.
const LINE_BYTES_MAX: usize = Data::BYTES_MAX + 64 * 1024;

/// Half of what one add may hold: a key that the data makes counts twice.
const BATCH_BYTES_MAX: usize = Op::BYTES_MAX / 2;

const BUFFER_BYTES: usize = 1024 * 1024;

/// Lines with their numbers, the first being 1.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) lines: Vec<(u64, Vec<u8>)>,
    /// The line after them that could not be read; nothing comes after it.
    pub(super) bad: Option<(u64, String)>,
}

/// Reads standard input in a thread of its own: reading cannot be given up, the thread can.
pub(super) fn from_stdin() -> mpsc::Receiver<Batch> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let input = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
        read(input, |batch| sender.blocking_send(batch).is_ok());
    });
    receiver
}

/// Hands batches to `take` until the input ends or `take` wants no more.
fn read<R: io::Read>(mut input: BufReader<R>, mut take: impl FnMut(Batch) -> bool) {
    let mut batch = Batch::default();
    let mut bytes = 0;
    for number in 1.. {
        let text = match next_line(&mut input) {
            Ok(Some(text)) => text,
            Ok(None) => break,
            Err(reason) => {
                batch.bad = Some((number, reason));
                break;
            }
        };
        if !text.trim_ascii().is_empty() {
            bytes += text.len();
            batch.lines.push((number, text));
        }
        let full = batch.lines.len() == Op::COUNT_MAX || bytes + LINE_BYTES_MAX > BATCH_BYTES_MAX;
        let would_wait = !input.buffer().contains(&b'\n');
        if (full || would_wait) && !batch.lines.is_empty() {
            bytes = 0;
            if !take(std::mem::take(&mut batch)) {
                return;
            }
        }
    }
    if batch != Batch::default() {
        take(batch);
    }
}

fn next_line<R: io::Read>(input: &mut BufReader<R>) -> Result<Option<Vec<u8>>, String> {
    let mut text = Vec::new();
    let limit = LINE_BYTES_MAX as u64 + 1;
    let count = input
        .by_ref()
        .take(limit)
        .read_until(b'\n', &mut text)
        .map_err(|error| format!("standard input cannot be read: {error}"))?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.len() > LINE_BYTES_MAX {
        return Err(format!("it has more than {LINE_BYTES_MAX} bytes"));
    }
    Ok((count > 0).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(input: &[u8]) -> Vec<Batch> {
        let mut all = Vec::new();
        read(BufReader::with_capacity(BUFFER_BYTES, input), |batch| {
            all.push(batch);
            true
        });
        all
    }

    #[test]
    fn lines_keep_their_numbers_and_come_in_batches_of_a_thousand() {
        let text = "{}\n\n{}\n".repeat(1_000);
        let all = batches(text.as_bytes());
        assert_eq!(
            all.iter()
                .map(|batch| batch.lines.len())
                .collect::<Vec<_>>(),
            [1_000, 1_000]
        );
        assert_eq!(all[0].lines[1].0, 3);
        assert_eq!(all[1].lines[999].0, 3_000);
    }

    #[test]
    fn the_last_line_needs_no_end() {
        let all = batches(b"a\nb");
        let lines: Vec<_> = all.into_iter().flat_map(|batch| batch.lines).collect();
        assert_eq!(lines, [(1, b"a".to_vec()), (2, b"b".to_vec())]);
        assert_eq!(batches(b""), []);
        assert_eq!(batches(b"\n \n\r\n"), []);
    }

    #[test]
    fn an_endless_line_is_refused_with_what_was_before_it_kept() {
        let mut input = b"a\n".to_vec();
        input.resize(LINE_BYTES_MAX + 10, b'x');
        let all = batches(&input);
        let last = all.last().unwrap();
        assert_eq!(last.bad.as_ref().unwrap().0, 2);
        assert_eq!(all.iter().map(|batch| batch.lines.len()).sum::<usize>(), 1);
    }

    #[test]
    fn a_batch_fits_into_one_commit() {
        let mut input = Vec::new();
        for _ in 0..20 {
            input.resize(input.len() + 1_000_000, b'x');
            input.push(b'\n');
        }
        for batch in batches(&input) {
            let bytes: usize = batch.lines.iter().map(|(_, text)| text.len()).sum();
            assert!(bytes <= BATCH_BYTES_MAX, "{bytes}");
        }
    }
}
