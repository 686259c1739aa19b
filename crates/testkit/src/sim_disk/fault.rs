//! Which operation fails, and how: operations are numbered, so a test can break each one in turn.

use std::collections::BTreeMap;
use std::io;

/// The error an operation is made to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// An error of this kind.
    Kind(io::ErrorKind),
    /// The error with this number of the operating system.
    Os(i32),
}

impl From<io::ErrorKind> for DiskError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Kind(kind)
    }
}

impl From<i32> for DiskError {
    fn from(number: i32) -> Self {
        Self::Os(number)
    }
}

impl From<DiskError> for io::Error {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Kind(kind) => kind.into(),
            DiskError::Os(number) => Self::from_raw_os_error(number),
        }
    }
}

/// When the error comes: in place of the effect, or on top of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Before,
    After,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) moment: Moment,
    pub(super) error: DiskError,
}

/// Counts and logs the operations, and knows what is to happen at which number.
#[derive(Debug, Default)]
pub(super) struct Faults {
    operations: u64,
    planned: BTreeMap<u64, Fault>,
    /// What every operation from a number on meets.
    lasting: Option<(u64, Fault)>,
    power_off_at: Option<u64>,
    no_power: bool,
    log: Vec<String>,
}

impl Faults {
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn log(&self) -> &[String] {
        &self.log
    }

    pub(super) fn plan(&mut self, n: u64, moment: Moment, error: DiskError) {
        self.planned.insert(n, Fault { moment, error });
    }

    pub(super) fn plan_from(&mut self, n: u64, moment: Moment, error: DiskError) {
        self.lasting = Some((n, Fault { moment, error }));
    }

    /// Forgets what was planned. What failed so far has failed, and power that is off stays off.
    pub(super) fn clear(&mut self) {
        self.planned.clear();
        self.lasting = None;
    }

    pub(super) fn power_off_at(&mut self, n: u64) {
        self.power_off_at = Some(n);
        self.no_power |= n <= self.operations;
    }

    pub(super) fn power_off(&mut self) {
        self.no_power = true;
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.no_power {
            Err(io::Error::other("the simulated disk has no power"))
        } else {
            Ok(())
        }
    }

    /// Numbers the next operation and says how it is to fail, if it is.
    pub(super) fn begin(&mut self, what: &str) -> io::Result<Option<Fault>> {
        self.operations += 1;
        self.log.push(format!("{} {what}", self.operations));
        self.no_power |= self.power_off_at.is_some_and(|n| n <= self.operations);
        self.check_power()?;
        let lasting = self.lasting.filter(|(n, _)| *n <= self.operations);
        let planned = self.planned.remove(&self.operations);
        Ok(planned.or(lasting.map(|(_, fault)| fault)))
    }

    /// Adds to the log why the operation just begun failed.
    pub(super) fn note(&mut self, error: &io::Error) {
        if let Some(line) = self.log.last_mut() {
            line.push_str(&format!(": {error}"));
        }
    }
}
