//! What a journal holds and how it behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::add::{Add, NewEntry};
use crate::data::Data;
use crate::date::{Date, Expiration};
use crate::error::Error;
use crate::key::Key;

mod field;
mod millis;

pub use field::FieldType;

/// The declaration of a journal. A changed one applies to entries added from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Declaration {
    /// The fields of the data that make the key; none means that every add names its key.
    pub key: Vec<String>,
    /// The fields of the data with their types; none means any JSON.
    pub fields: BTreeMap<String, FieldType>,
    /// How long a claim holds without a heartbeat.
    #[serde(rename = "lease_ms", with = "millis")]
    pub lease: Duration,
    /// How often an entry may time out or fail before it goes to the dead list.
    pub timeouts_max: u8,
    /// How long adds of the same key may put off the first one.
    #[serde(rename = "max_delay_ms", with = "millis::optional")]
    pub max_delay: Option<Duration>,
    /// After how long the embedded engine takes new files.
    pub period: Period,
    /// What the embedded engine does with the files of an empty journal.
    pub on_empty: OnEmpty,
    /// When an entry expires whose add does not say it, after its insertion date.
    #[serde(rename = "expiry_ms", with = "millis::optional")]
    pub expiry: Option<Duration>,
    /// Whether the same key waiting twice becomes one entry.
    pub merge: bool,
    /// Whether the embedded engine overwrites what it frees.
    pub wipe: bool,
}

/// How long the embedded engine writes to the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Period {
    /// For an hour, by UTC.
    #[serde(rename = "1h")]
    Hour,
    /// For a day, by UTC.
    #[serde(rename = "1d")]
    Day,
    /// For a month, by UTC.
    #[serde(rename = "1mo")]
    Month,
    /// For ever.
    #[serde(rename = "none")]
    None,
}

/// What happens to the files of an empty journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnEmpty {
    /// They are removed.
    Delete,
    /// One is kept at its full size, and begun again.
    Reset,
    /// One is kept, cut to its first block.
    Truncate,
}

impl Default for Declaration {
    fn default() -> Self {
        Self {
            key: Vec::new(),
            fields: BTreeMap::new(),
            lease: Duration::from_secs(120),
            timeouts_max: 5,
            max_delay: None,
            period: Period::Day,
            on_empty: OnEmpty::Reset,
            expiry: None,
            merge: true,
            wipe: false,
        }
    }
}

impl Declaration {
    const FIELDS_MAX: usize = 256;
    /// All versions stand at the begin of every file.
    const BYTES_MAX: usize = 32 * 1024;

    /// Checks the declaration itself.
    ///
    /// # Errors
    /// `Invalid` with the field that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        if self.lease < Duration::from_millis(1) || self.lease > Duration::from_secs(366 * 86_400) {
            return Err(Error::invalid("`lease` must lie between 1 ms and a year"));
        }
        if self.timeouts_max == u8::MAX {
            return Err(Error::invalid("`timeouts_max` must be at most 254"));
        }
        if self.fields.len() > Self::FIELDS_MAX || self.key.len() > Self::FIELDS_MAX {
            return Err(Error::invalid(format!(
                "more than {} fields are declared",
                Self::FIELDS_MAX
            )));
        }
        let text = serde_json::to_vec(self).expect("a declaration is plain data");
        if text.len() > Self::BYTES_MAX {
            return Err(Error::invalid(format!(
                "the declaration has {} bytes as JSON; at most {} are allowed",
                text.len(),
                Self::BYTES_MAX
            )));
        }
        for (place, name) in self.key.iter().enumerate() {
            match self.fields.get(name) {
                None => {
                    return Err(Error::invalid(format!(
                        "the key field `{name}` is not among the declared fields"
                    )));
                }
                Some(FieldType::Json | FieldType::F64) => {
                    return Err(Error::invalid(format!(
                        "the key field `{name}` has a type that cannot be compared; use string, bytes, i64, u64, bool or time"
                    )));
                }
                Some(_) if self.key[..place].contains(name) => {
                    return Err(Error::invalid(format!(
                        "the key field `{name}` is named twice"
                    )));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks an entry and fills in what it leaves out.
    ///
    /// # Errors
    /// `Invalid` with what is wrong; see also [`crate::Op::check`], which checks dates and sizes.
    pub fn admit(&self, entry: NewEntry, now: Date) -> Result<Add, Error> {
        let data = entry.data.unwrap_or_else(Data::null);
        let values = if self.fields.is_empty() {
            None
        } else {
            Some(field::check(&self.fields, &self.key, &data)?)
        };
        let key = match (values, entry.key) {
            (Some(values), given) if !self.key.is_empty() => {
                let made = field::key_of(&self.key, &values)?;
                if given.is_some_and(|given| given != made.as_str()) {
                    return Err(Error::invalid(format!(
                        "the key is not `{made}`, which the fields of the data make; leave it out"
                    )));
                }
                made
            }
            (_, Some(given)) => Key::new(given)?,
            (_, None) => return Err(Error::invalid("the entry has no `key`")),
        };
        let insertion = entry.insertion_date.unwrap_or(now);
        let default_expiration = self.expiry.map_or(Expiration::NEVER, |expiry| {
            Expiration::at(insertion.plus(expiry).min(Date::LAST))
        });
        Ok(Add {
            key,
            insertion,
            expiration: entry
                .expiration_date
                .map_or(default_expiration, Expiration::at),
            priority: entry.priority.unwrap_or_default(),
            process: entry.process_date.unwrap_or(insertion),
            data,
        })
    }
}

#[cfg(test)]
mod tests;
