//! The pipeline: from the keys of the configuration to settings that make sense.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_formats::archive::FRAME_BYTES;
use cannery_formats::can::CAN_BYTES;
use cannery_formats::frames::{FrameCodec, FrameEncoder};
use cannery_lake::Address;
use cannery_pipeline::line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::storage::Storage;
use super::units::{Bytes, Span};

mod inputs;
mod keep;
mod stores;

pub(crate) use inputs::{Input, RawInput, ReportsPlace, Selection};
use keep::{KeepConfig, RawSpans};
use stores::RawStores;
pub(crate) use stores::Stores;

const FRAME_BYTES_MIN: u64 = 4 << 10;
const FRAME_BYTES_MAX: u64 = 16 << 20;
const CAN_BYTES_MIN: u64 = 1 << 20;
const CAN_BYTES_MAX: u64 = 1 << 30;
const REPORTS_SETTLE: Span = Span(Duration::from_secs(2));
const MEMORY_BUDGET: Bytes = Bytes(1 << 30);
const MEMORY_BUDGET_MIN: u64 = 1 << 20;

/// How reports become cans, archives and rows of the catalog.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawPipeline {
    /// Where reports come from; an empty list turns the pipeline off. Default: the folder reports-raw of the workspace, and the
    /// bundles of all spools and the hours of all feeds that are in the lake
    pub(crate) inputs: Option<Vec<RawInput>>,
    /// A report file in a folder is taken once it has not been changed for so long; before, it may be half written. Default: 2s
    pub(crate) reports_settle: Option<Span>,
    /// Whether report files are removed once their bucket is sealed and the cans that hold them were read from end to end. Default: false
    pub(crate) reports_remove: Option<bool>,
    /// Which object storage has cans, and which has archives.
    pub(crate) storage: RawStores,
    /// How cans and archives are compressed.
    pub(crate) codec: RawCodec,
    /// The text of a can, about. Default: 64MiB
    pub(crate) can_bytes: Option<Bytes>,
    /// The text of a frame, at least: what is read for one measurement. Default: 256KiB
    pub(crate) frame_bytes: Option<Bytes>,
    /// How long reports are gathered before they are canned, and how long tables by date wait for the next change. Default: 2m
    pub(crate) debounce: Option<Span>,
    /// How long reports are gathered while their bucket has few cans of their kind; with every can it takes longer, up to
    /// `debounce`. Default: the same as `debounce`; 1s if that is not set and every object storage is a folder
    pub(crate) debounce_min: Option<Span>,
    /// How long a steady stream of changes may put off the same work. Default: 5m
    pub(crate) max_delay: Option<Span>,
    /// How long after its day a bucket is sealed, and how long what was replaced is kept for who reads it. Default: 24h
    pub(crate) grace: Option<Span>,
    /// How long cans and archives are kept after the day of their bucket, by kind; `*` stands for all other kinds. Default: for ever
    pub(crate) keep: BTreeMap<String, RawSpans>,
    /// The memory that stages share which run at once; one that takes more runs alone. Default: 1GiB
    pub(crate) memory_budget: Option<Bytes>,
    /// The rules of the sanitiser. Default: nothing is changed
    pub(crate) rules: Option<PathBuf>,
    /// What is taken out of measurements into tables. Default: nothing
    pub(crate) features: Option<PathBuf>,
}

/// A codec of frames.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawCodec {
    /// lz4 or zstd. Default: lz4
    pub(crate) name: Option<CodecName>,
    /// 1 to 12 for lz4, 1 to 22 for zstd. Default: 5 for lz4, 3 for zstd
    pub(crate) level: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CodecName {
    #[default]
    Lz4,
    Zstd,
}

/// The checked settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PipelineConfig {
    pub(crate) inputs: Vec<Input>,
    pub(crate) reports_settle: Span,
    pub(crate) reports_remove: bool,
    pub(crate) storage: Stores,
    pub(crate) codec: Codec,
    pub(crate) can_bytes: Bytes,
    pub(crate) frame_bytes: Bytes,
    pub(crate) debounce: Span,
    pub(crate) debounce_min: Span,
    pub(crate) max_delay: Span,
    pub(crate) grace: Span,
    pub(crate) keep: KeepConfig,
    pub(crate) memory_budget: Bytes,
    pub(crate) rules: Option<PathBuf>,
    pub(crate) features: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Codec {
    pub(crate) name: CodecName,
    pub(crate) level: u8,
}

impl Codec {
    /// The encoder; the level was checked.
    pub(crate) fn encoder(self) -> FrameEncoder {
        self.try_encoder().expect("a checked level")
    }

    fn try_encoder(self) -> Result<FrameEncoder, String> {
        let codec = match self.name {
            CodecName::Lz4 => FrameCodec::Lz4,
            CodecName::Zstd => FrameCodec::Zstd,
        };
        FrameEncoder::new(codec, i32::from(self.level)).map_err(|error| error.to_string())
    }
}

pub(super) fn check(
    raw: RawPipeline,
    workspace: &Path,
    storages: &[Storage],
) -> Result<PipelineConfig, ConfigError> {
    let ids: Vec<&str> = storages.iter().map(|one| one.id.as_str()).collect();
    let is_folder = |one: &Storage| matches!(one.url, Address::File(_) | Address::Memory);
    let lists_for_free = storages.iter().all(is_folder);
    check_all(raw, workspace, &ids, lists_for_free)
        .map_err(|reason| ConfigError::new(0, reason).below("pipeline"))
}

/// `storages` are the ids of the object storages. Where a listing costs nothing, it is looked for reports more often.
fn check_all(
    raw: RawPipeline,
    workspace: &Path,
    storages: &[&str],
    lists_for_free: bool,
) -> Result<PipelineConfig, String> {
    let name = raw.codec.name.unwrap_or_default();
    let level = raw.codec.level.unwrap_or(match name {
        CodecName::Lz4 => 5,
        CodecName::Zstd => 3,
    });
    let codec = Codec { name, level };
    codec
        .try_encoder()
        .map_err(|reason| format!("`codec`: {reason}"))?;
    let can_bytes = raw.can_bytes.unwrap_or(Bytes(CAN_BYTES));
    if !(CAN_BYTES_MIN..=CAN_BYTES_MAX).contains(&can_bytes.0) {
        return Err("`can_bytes` must be between 1MiB and 1GiB".to_owned());
    }
    let frame_bytes = raw.frame_bytes.unwrap_or(Bytes(FRAME_BYTES as u64));
    if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&frame_bytes.0) {
        return Err("`frame_bytes` must be between 4KiB and 16MiB".to_owned());
    }
    let debounce_min = match (raw.debounce_min, raw.debounce) {
        (None, None) if lists_for_free => Some(Span(line::DEBOUNCE_MIN)),
        (min, _) => min,
    };
    let debounce = raw.debounce.unwrap_or(Span(line::DEBOUNCE));
    let debounce_min = debounce_min.unwrap_or(debounce);
    if debounce_min.0 > debounce.0 {
        return Err(format!(
            "`debounce_min` ({debounce_min}) must not be longer than `debounce` ({debounce})"
        ));
    }
    let max_delay = raw.max_delay.unwrap_or(Span(line::MAX_DELAY));
    if max_delay.0 < debounce.0 {
        return Err(format!(
            "`max_delay` ({max_delay}) must not be shorter than `debounce` ({debounce})"
        ));
    }
    let memory_budget = raw.memory_budget.unwrap_or(MEMORY_BUDGET);
    if memory_budget.0 < MEMORY_BUDGET_MIN {
        return Err("`memory_budget` must be at least 1MiB".to_owned());
    }
    let inputs = inputs::check(raw.inputs, workspace)?;
    let reports_remove = raw.reports_remove.unwrap_or(false);
    let has_reports = inputs
        .iter()
        .any(|input| matches!(input, Input::Reports(_)));
    if reports_remove && !has_reports {
        return Err(
            "`reports_remove` has no effect without `reports` in `inputs`; remove it".to_owned(),
        );
    }
    Ok(PipelineConfig {
        inputs,
        reports_settle: raw.reports_settle.unwrap_or(REPORTS_SETTLE),
        reports_remove,
        storage: stores::check(raw.storage, storages)?,
        codec,
        can_bytes,
        frame_bytes,
        debounce,
        debounce_min,
        max_delay,
        grace: raw.grace.unwrap_or(Span(line::GRACE)),
        keep: KeepConfig::check(raw.keep)?,
        memory_budget,
        rules: raw.rules,
        features: raw.features,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<PipelineConfig, String> {
        let raw: RawPipeline = serde_json::from_str(text).unwrap();
        check_all(raw, Path::new("w"), &["main", "open"], false)
    }

    #[test]
    fn where_a_listing_costs_nothing_reports_are_gathered_for_a_moment_unless_a_time_is_set() {
        for (text, is_free, gathered) in [
            ("{}", true, "1s to 2m"),
            ("{}", false, "2m to 2m"),
            (r#"{"debounce": "2m"}"#, true, "2m to 2m"),
            (r#"{"debounce": "0s"}"#, true, "0s to 0s"),
            (r#"{"debounce_min": "5s"}"#, true, "5s to 2m"),
            (r#"{"debounce_min": "5s"}"#, false, "5s to 2m"),
            (
                r#"{"debounce_min": "0s", "debounce": "1m"}"#,
                false,
                "0s to 1m",
            ),
        ] {
            let raw: RawPipeline = serde_json::from_str(text).unwrap();
            let config = check_all(raw, Path::new("w"), &["main"], is_free).unwrap();
            let found = format!("{} to {}", config.debounce_min, config.debounce);
            assert_eq!(found, gathered, "{text} {is_free}");
        }
    }

    #[test]
    fn nothing_said_is_a_folder_all_spools_all_feeds_and_lz4() {
        let config = checked("{}").unwrap();
        assert_eq!(
            serde_json::to_value(&config.inputs).unwrap(),
            serde_json::json!([{"reports": "w/reports-raw"}, {"spools": "all"}, {"feeds": "all"}])
        );
        let codec = Codec {
            name: CodecName::Lz4,
            level: 5,
        };
        assert_eq!(config.codec, codec);
        assert_eq!(config.can_bytes, Bytes(64 << 20));
        assert_eq!(config.frame_bytes, Bytes(256 << 10));
        assert_eq!(config.debounce.to_string(), "2m");
        assert_eq!(config.reports_settle.to_string(), "2s");
        assert_eq!(config.max_delay.to_string(), "5m");
        assert_eq!(config.grace.to_string(), "1d");
        assert_eq!(config.memory_budget, Bytes(1 << 30));
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for text in [
            "{}",
            r#"{"inputs": []}"#,
            r#"{"reports_remove": true}"#,
            r#"{"keep": {"*": {"canned": "1d"}, "ndt": {"autoclaved": "400d"}, "feed-subway": {"canned": "0s", "autoclaved": "30d"}}}"#,
            r#"{"storage": {"canned": "main", "autoclaved": "open"}}"#,
            r#"{"inputs": [{"reports": "lake:reports-raw"}, {"spools": ["ndt", "wehe/replay1"]}, {"feeds": ["subway"]}],
                "debounce": "1m", "debounce_min": "0s", "reports_settle": "1m30s", "max_delay": "90s", "grace": "1h30m", "memory_budget": "300MiB"}"#,
        ] {
            let config = checked(text).unwrap();
            let shown = serde_json::to_string(&config).unwrap();
            assert_eq!(checked(&shown).unwrap(), config, "{shown}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_reason() {
        for (text, reason) in [
            (r#"{"codec": {"name": "lz4", "level": 13}}"#, "`codec`"),
            (r#"{"can_bytes": "1KiB"}"#, "`can_bytes`"),
            (r#"{"frame_bytes": "1GiB"}"#, "`frame_bytes`"),
            (r#"{"debounce": "6m"}"#, "`max_delay` (5m)"),
            (r#"{"debounce_min": "3m"}"#, "`debounce_min` (3m)"),
            (
                r#"{"debounce_min": "2s", "debounce": "1s"}"#,
                "`debounce` (1s)",
            ),
            (r#"{"memory_budget": "1KiB"}"#, "`memory_budget`"),
            (r#"{"keep": {"a/b": {"canned": "1d"}}}"#, "`keep.a/b`"),
            (r#"{"keep": {"ndt": {}}}"#, "`keep.ndt` says nothing"),
            (
                r#"{"keep": {"ndt": {"canned": "1d"}, "NDT": {"canned": "2d"}}}"#,
                "twice",
            ),
            (
                r#"{"keep": {"*": {"autoclaved": "1d"}}}"#,
                "`keep.*`: `autoclaved` (1d) needs a `canned` that is not longer",
            ),
            (
                r#"{"keep": {"*": {"canned": "2d"}, "ndt": {"autoclaved": "1d"}}}"#,
                "`keep.ndt`: `autoclaved` (1d) needs",
            ),
            (
                r#"{"keep": {"*": {"canned": "2d", "autoclaved": "3d"}, "ndt": {"canned": "4d"}}}"#,
                "`keep.ndt`: `autoclaved` (3d) needs",
            ),
            (r#"{"inputs": [{"reports": ""}]}"#, "`inputs.0.reports`"),
            (
                r#"{"storage": {"autoclaved": "oben"}}"#,
                "did you mean `open`?",
            ),
            (r#"{"inputs": [{}]}"#, "`inputs.0`"),
            (
                r#"{"inputs": [{"feeds": "all"}], "reports_remove": true}"#,
                "`reports_remove` has no effect",
            ),
            (
                r#"{"inputs": [{"feeds": "all"}, {"feeds": "all"}]}"#,
                "`inputs.1.feeds`",
            ),
            (
                r#"{"inputs": [{"feeds": ["no/feed"]}]}"#,
                "`inputs.0.feeds`",
            ),
            (
                r#"{"inputs": [{"spools": ["a/b/c"]}]}"#,
                "`inputs.0.spools`",
            ),
        ] {
            let error = checked(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
