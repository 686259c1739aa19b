//! The reports of a day, in a folder.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use cannery_testkit::reports::web_connectivity_json;

/// Its bucket.
pub(crate) const DATE: &str = "2017-01-01";

/// A report of a probe that tried so many pages: about 2 MB.
const LINES: usize = 100;

/// Writes about so many bytes; says how many there are.
pub(crate) fn write(folder: &Path, bytes: u64) -> u64 {
    let folder = folder.join("reports").join(DATE);
    std::fs::create_dir_all(&folder).unwrap();
    let mut lines = web_connectivity_json(bytes).peekable();
    let (mut number, mut written) = (0, 0);
    while lines.peek().is_some() {
        let name = format!(
            "20170101T{:02}{:02}{:02}Z-IT-AS30722-web_connectivity-{number:050}-0.2.0-probe.json",
            number / 3_600 % 24,
            number / 60 % 60,
            number % 60
        );
        let mut file = BufWriter::new(File::create_new(folder.join(name)).unwrap());
        for line in lines.by_ref().take(LINES) {
            file.write_all(&line).unwrap();
            written += line.len() as u64;
        }
        file.flush().unwrap();
        number += 1;
    }
    written
}
