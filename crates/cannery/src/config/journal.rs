//! Journals: from the keys of the configuration to declarations that make sense.

use std::collections::BTreeMap;

use cannery_journal::{Declaration, FieldType, OnEmpty, Period};
use serde::Serialize;

mod engine;
mod raw;

pub(crate) use engine::{DatabaseUrl, EngineAddress};
pub(crate) use raw::{OrNone, RawJournal, Switch};

use super::ConfigError;
use super::units::Span;

/// The journal that is always there, whose settings are the defaults of all others.
pub(crate) const DEFAULT_JOURNAL: &str = "default";

/// The journal of the pipeline, which is always there, too.
pub(crate) const PIPELINE_JOURNAL: &str = "pipeline";

const NAME_BYTES_MAX: usize = 64;

/// One checked journal, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct JournalSettings {
    pub(crate) engine: EngineAddress,
    pub(crate) lease: Span,
    pub(crate) timeouts_max: u8,
    pub(crate) max_delay: OrNone,
    pub(crate) period: Period,
    pub(crate) on_empty: OnEmpty,
    pub(crate) expiry: OrNone,
    pub(crate) merge: bool,
    pub(crate) wipe: bool,
    pub(crate) key: Vec<String>,
    pub(crate) fields: BTreeMap<String, FieldType>,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self::of(EngineAddress::default(), &Declaration::default())
    }
}

impl JournalSettings {
    /// A declaration in the words of the configuration.
    pub(crate) fn of(engine: EngineAddress, declaration: &Declaration) -> Self {
        Self {
            engine,
            lease: Span(declaration.lease),
            timeouts_max: declaration.timeouts_max,
            max_delay: OrNone(declaration.max_delay.map(Span)),
            period: declaration.period,
            on_empty: declaration.on_empty,
            expiry: OrNone(declaration.expiry.map(Span)),
            merge: declaration.merge,
            wipe: declaration.wipe,
            key: declaration.key.clone(),
            fields: declaration.fields.clone(),
        }
    }

    /// As the pipeline needs them: its keys are the stages' own, and work must not expire.
    fn of_pipeline(&self, max_delay: Span) -> Self {
        Self {
            max_delay: OrNone(Some(max_delay)),
            expiry: OrNone(None),
            merge: true,
            key: Vec::new(),
            fields: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// What the journal is told of it.
    pub(crate) fn declaration(&self) -> Declaration {
        Declaration {
            key: self.key.clone(),
            fields: self.fields.clone(),
            lease: self.lease.0,
            timeouts_max: self.timeouts_max,
            max_delay: self.max_delay.0.map(|span| span.0),
            period: self.period,
            on_empty: self.on_empty,
            expiry: self.expiry.0.map(|span| span.0),
            merge: self.merge,
            wipe: self.wipe,
        }
    }

    /// These settings with those of `raw` in their place. Own fields come without the key of other fields.
    pub(crate) fn with(&self, raw: RawJournal) -> Result<Self, String> {
        let key = match (raw.key, &raw.fields) {
            (Some(key), _) => key,
            (None, Some(_)) => Vec::new(),
            (None, None) => self.key.clone(),
        };
        let timeouts_max = match raw.timeouts_max {
            None => self.timeouts_max,
            Some(count) => {
                u8::try_from(count).map_err(|_| "`timeouts_max` must be at most 254".to_owned())?
            }
        };
        let settings = Self {
            engine: raw.engine.unwrap_or_else(|| self.engine.clone()),
            lease: raw.lease.unwrap_or(self.lease),
            timeouts_max,
            max_delay: raw.max_delay.unwrap_or(self.max_delay),
            period: raw.period.unwrap_or(self.period),
            on_empty: raw.on_empty.unwrap_or(self.on_empty),
            expiry: raw.expiry.unwrap_or(self.expiry),
            merge: raw.merge.map_or(self.merge, |merge| merge.0),
            wipe: raw.wipe.map_or(self.wipe, |wipe| wipe.0),
            key,
            fields: raw.fields.unwrap_or_else(|| self.fields.clone()),
        };
        match settings.declaration().check() {
            Ok(()) => Ok(settings),
            Err(error) => Err(error.message),
        }
    }
}

/// Checks all journals; `default` comes first, since the others build on it.
pub(super) fn check(
    mut raw: BTreeMap<String, RawJournal>,
    pipeline_delay: Span,
) -> Result<BTreeMap<String, JournalSettings>, ConfigError> {
    let wrong = |name: &str, reason: String| {
        ConfigError::new(0, reason)
            .below(&name.escape_debug().to_string())
            .below("journals")
    };
    let default = JournalSettings::default()
        .with(raw.remove(DEFAULT_JOURNAL).unwrap_or_default())
        .map_err(|reason| wrong(DEFAULT_JOURNAL, reason))?;
    let mut journals = BTreeMap::new();
    let base = default.of_pipeline(pipeline_delay);
    let of_pipeline = base
        .with(raw.remove(PIPELINE_JOURNAL).unwrap_or_default())
        .and_then(|settings| match settings.of_pipeline(pipeline_delay) == settings {
            true => Ok(settings),
            false => Err("the pipeline needs this journal as it is: only `engine`, `lease`, `timeouts_max`, `period`, `on_empty` and `wipe` may be set, and `pipeline.max_delay` is its `max_delay`".to_owned()),
        })
        .map_err(|reason| wrong(PIPELINE_JOURNAL, reason))?;
    journals.insert(PIPELINE_JOURNAL.to_owned(), of_pipeline);
    for (name, journal) in raw {
        check_name(&name).map_err(|reason| wrong(&name, reason))?;
        let settings = default
            .with(journal)
            .map_err(|reason| wrong(&name, reason))?;
        journals.insert(name, settings);
    }
    journals.insert(DEFAULT_JOURNAL.to_owned(), default);
    Ok(journals)
}

/// A journal's name becomes the name of a folder and part of metrics.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let sound = name.len() <= NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte)
        });
    if sound {
        return Ok(());
    }
    Err(format!(
        "`{}` is not the name of a journal: 1 to {NAME_BYTES_MAX} of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or a digit",
        name.escape_debug()
    ))
}

#[cfg(test)]
mod tests;
