//! A line of a node's inventory: an object that is in the lake, chained to the line before it.
//!
//! Whoever removes, changes or adds a line breaks the chain, unless they write every later line anew. `docs/formats.md`, section
//! "Inventory", says the same for a reader without this crate.

use std::fmt;

use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};

use crate::spool::{BundleTime, Experiment};
use crate::{Digest, Key, NodeName};

#[cfg(test)]
mod tests;

/// Whose inventory it is. Each experiment of a node has its own: they may be collected by processes that know nothing of
/// each other, and a chain has one writer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InventoryHome {
    /// The node.
    pub node: NodeName,
    /// The experiment.
    pub experiment: Experiment,
}

impl fmt::Display for InventoryHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.node, self.experiment)
    }
}

/// No line is longer: a key has a limit, also with every byte of it escaped.
pub const INVENTORY_LINE_BYTES_MAX: usize = 8 * 1024;

/// One object that every mirror had when the line was written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct InventoryLine {
    /// The name of the object.
    #[serde(rename = "Key")]
    pub key: Key,
    /// Its bytes, as stored.
    #[serde(rename = "Size")]
    pub size: u64,
    /// The digest of these bytes.
    #[serde(rename = "SHA256")]
    pub sha256: Digest,
    /// When it was known that every mirror has it. Written in microseconds, rounded down.
    #[serde(rename = "Confirmed")]
    pub confirmed: Timestamp,
    /// The digest of the line before, without its end; see [`Chain`].
    #[serde(rename = "Prev")]
    pub prev: Digest,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    key: &'a Key,
    size: u64,
    #[serde(rename = "SHA256")]
    sha256: Digest,
    confirmed: String,
    prev: Digest,
}

/// A line that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged line of an inventory: {0}")]
pub struct DamagedInventoryLine(String);

impl InventoryLine {
    /// The line without its end, as its digest is taken.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let written = Written {
            key: &self.key,
            size: self.size,
            sha256: self.sha256,
            confirmed: in_micros(self.confirmed),
            prev: self.prev,
        };
        serde_json::to_vec(&written).expect("a line is plain data, and memory takes it")
    }

    /// Reads a line without its end. Unknown fields are passed over.
    ///
    /// # Errors
    /// [`DamagedInventoryLine`] says what is wrong.
    pub fn parse(line: &[u8]) -> Result<Self, DamagedInventoryLine> {
        if line.len() > INVENTORY_LINE_BYTES_MAX {
            let why = format!("it is longer than {INVENTORY_LINE_BYTES_MAX} bytes");
            return Err(DamagedInventoryLine(why));
        }
        serde_json::from_slice(line).map_err(|error| DamagedInventoryLine(error.to_string()))
    }
}

/// What the first line of a node names as the one before it: 64 zeros.
#[must_use]
pub fn beginning() -> Digest {
    "0".repeat(64)
        .parse()
        .expect("zeros are hexadecimal digits")
}

/// Follows lines in the order in which they were written, over all days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    lines: u64,
    last: Digest,
}

/// Where a chain does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// The line does not name the one before it: one was changed, removed or added.
    #[error("line {line} names `{found}` as the line before it, which is `{expected}`")]
    Link {
        /// Counted from 1, since the start of the chain.
        line: u64,
        /// The digest of the line before it.
        expected: Digest,
        /// What it names.
        found: Digest,
    },
    /// The line is none.
    #[error("line {line}: {why}")]
    Damaged {
        /// Counted from 1, since the start of the chain.
        line: u64,
        /// What is wrong with it.
        why: DamagedInventoryLine,
    },
}

impl Default for Chain {
    fn default() -> Self {
        Self::after(beginning())
    }
}

impl Chain {
    /// A chain that goes on from the line with this digest.
    #[must_use]
    pub fn after(last: Digest) -> Self {
        Self { lines: 0, last }
    }

    /// How many lines were followed.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The digest of the last line: what the next one must name.
    #[must_use]
    pub fn last(&self) -> Digest {
        self.last
    }

    /// Follows the next line, which has no end. After a break the chain goes on from this line, so that each break is said
    /// once; a line that only names the wrong one before it is returned with the break.
    ///
    /// # Errors
    /// [`Break`], with the line if it is one.
    pub fn follow(
        &mut self,
        line: &[u8],
    ) -> Result<InventoryLine, (Break, Option<Box<InventoryLine>>)> {
        let expected = std::mem::replace(&mut self.last, Digest::of(line));
        self.lines += 1;
        let number = self.lines;
        match InventoryLine::parse(line) {
            Ok(parsed) if parsed.prev == expected => Ok(parsed),
            Ok(parsed) => {
                let found = parsed.prev;
                let broken = Break::Link {
                    line: number,
                    expected,
                    found,
                };
                Err((broken, Some(Box::new(parsed))))
            }
            Err(why) => Err((Break::Damaged { line: number, why }, None)),
        }
    }
}

/// Always six digits, so that the text sorts like the time.
fn in_micros(time: Timestamp) -> String {
    let at = TimeZone::UTC.to_datetime(BundleTime::from_timestamp(time).timestamp());
    format!("{at:.6}Z")
}
