//! Feeds: from the keys of the configuration to settings that make sense.

use std::collections::BTreeMap;
use std::time::Duration;

use cannery_collect::feed::{Ask, FeedSettings};
use cannery_formats::feed::{DownloadName, FeedId, POSTFIX_BYTES_MAX};
use cannery_formats::hour_archive::Compression;
use cannery_runtime::{PrivateUrl, Secret};
use serde::Serialize;

mod raw;

pub(crate) use raw::{ErrorBody, RawCompression, RawFeed};

use super::ConfigError;
use super::units::{Bytes, Span};

const DEFAULT_PERIODICITY: Span = Span(Duration::from_secs(5));
const PERIODICITY_MIN: Duration = Duration::from_millis(100);
const PERIODICITY_MAX: Duration = Duration::from_secs(3_600);
const DEFAULT_TIMEOUT: Span = Span(Duration::from_secs(10));
const TIMEOUT_MAX: Duration = Duration::from_secs(300);
const DEFAULT_MAX_BYTES: Bytes = Bytes(16 << 20);

/// One checked feed, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FeedConfig {
    pub(crate) id: FeedId,
    pub(crate) url: PrivateUrl,
    pub(crate) headers: BTreeMap<String, Secret>,
    pub(crate) periodicity: Span,
    pub(crate) postfix: String,
    pub(crate) timeout: Span,
    pub(crate) max_bytes: Bytes,
    pub(crate) compression: RawCompression,
    pub(crate) allow_private: bool,
    pub(crate) conditional: bool,
    pub(crate) accept_status: Vec<u16>,
    pub(crate) on_error_body: ErrorBody,
}

/// Checks all feeds.
pub(super) fn check_all(raw: Vec<RawFeed>) -> Result<Vec<FeedConfig>, ConfigError> {
    let wrong = |at: usize, reason: String| {
        ConfigError::new(0, reason)
            .below(&at.to_string())
            .below("feeds")
    };
    let mut feeds: Vec<FeedConfig> = Vec::new();
    for (at, raw) in raw.into_iter().enumerate() {
        let feed = FeedConfig::check(raw).map_err(|reason| wrong(at, reason))?;
        // A lake on a disk that knows no upper case would mix them up.
        let twin = |known: &&FeedConfig| {
            let (one, two) = (known.id.as_str(), feed.id.as_str());
            one.eq_ignore_ascii_case(two)
        };
        if let Some(twin) = feeds.iter().find(twin) {
            return Err(wrong(at, format!("two feeds have the id `{}`", twin.id)));
        }
        feeds.push(feed);
    }
    Ok(feeds)
}

impl FeedConfig {
    fn check(raw: RawFeed) -> Result<Self, String> {
        let id = raw
            .id
            .ok_or("`id` is missing: the name of the feed, such as subway")?;
        let id = FeedId::new(id.0).map_err(|error| format!("`id`: {error}"))?;
        let url = raw.url.ok_or(format!("feed `{id}` has no `url`"))?;
        let feed = Self {
            url,
            headers: raw.headers,
            periodicity: raw.periodicity.unwrap_or(DEFAULT_PERIODICITY),
            postfix: raw.postfix.unwrap_or_default(),
            timeout: raw.timeout.unwrap_or(DEFAULT_TIMEOUT),
            max_bytes: raw.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
            compression: raw.compression,
            allow_private: raw.allow_private.unwrap_or(false),
            conditional: raw.conditional.unwrap_or(true),
            accept_status: raw.accept_status.unwrap_or_else(|| vec![200]),
            on_error_body: raw.on_error_body.unwrap_or(ErrorBody::Drop),
            id,
        };
        feed.check_limits()
            .map_err(|reason| format!("feed `{}`: {reason}", feed.id))?;
        Ok(feed)
    }

    fn check_limits(&self) -> Result<(), String> {
        if !(PERIODICITY_MIN..=PERIODICITY_MAX).contains(&self.periodicity.0) {
            return Err("`periodicity` must be between 100ms and 1h".to_owned());
        }
        if self.timeout.0.is_zero() || self.timeout.0 > TIMEOUT_MAX {
            return Err("`timeout` must be between 1ms and 5m".to_owned());
        }
        if !DownloadName::allows_postfix(&self.postfix) {
            return Err(format!(
                "`postfix` may have at most {POSTFIX_BYTES_MAX} letters, digits and `._-+~=,@`"
            ));
        }
        if self.accept_status.is_empty() {
            return Err("`accept_status` is empty: no answer could be a success; leave it out for 200 alone".to_owned());
        }
        self.compression()
            .check()
            .map_err(|reason| format!("`compression`: {reason}"))?;
        self.ask().check().map(drop)
    }

    fn compression(&self) -> Compression {
        Compression {
            codec: self.compression.format,
            level: self.compression.level,
        }
    }

    fn ask(&self) -> Ask {
        let headers = self.headers.iter();
        Ask {
            url: self.url.clone(),
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            timeout: self.timeout.0,
            max_bytes: self.max_bytes.0,
            allow_private: self.allow_private,
            conditional: self.conditional,
            accept_status: self.accept_status.clone(),
            keep_error_body: self.on_error_body == ErrorBody::Keep,
        }
    }

    /// What the collector is told.
    pub(crate) fn settings(&self) -> FeedSettings {
        FeedSettings {
            id: self.id.clone(),
            ask: self.ask(),
            periodicity: self.periodicity.0,
            postfix: self.postfix.clone(),
            compression: self.compression(),
        }
    }
}

#[cfg(test)]
mod tests;
