//! A feed as it is written in the configuration.

use std::collections::BTreeMap;

use cannery_formats::feed::Codec;
use cannery_runtime::{PrivateUrl, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::raw::private_url;
use crate::config::typed::PlainText;
use crate::config::units::{Bytes, Span};

/// One feed: a URL that is downloaded again and again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawFeed {
    /// Its name, and its folder in the lake: letters, digits, `_`, `.` and `-`. It must be given.
    #[schemars(with = "Option<String>")]
    pub(crate) id: Option<PlainText>,
    /// Where it is downloaded from, http or https. It must be given.
    #[serde(deserialize_with = "private_url")]
    #[schemars(with = "Option<String>")]
    pub(crate) url: Option<PrivateUrl>,
    /// Headers that are sent to the URL's own host.
    #[serde(deserialize_with = "secrets")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub(crate) headers: BTreeMap<String, Secret>,
    /// How often it is downloaded. Default: 5s
    pub(crate) periodicity: Option<Span>,
    /// What the names of its files end in. Default: nothing
    pub(crate) postfix: Option<String>,
    /// How long a download may take, redirects included. Default: 10s
    pub(crate) timeout: Option<Span>,
    /// How long a body may be, also unpacked. Default: 16MiB
    pub(crate) max_bytes: Option<Bytes>,
    /// How its hours are packed. Default: gzip
    pub(crate) compression: RawCompression,
    /// Whether it may come from an address that is not public. Default: false
    pub(crate) allow_private: Option<bool>,
    /// Whether the server is told which version is known (ETag, If-Modified-Since). Default: true
    pub(crate) conditional: Option<bool>,
    /// Which statuses are a success. Default: 200 alone
    pub(crate) accept_status: Option<Vec<u16>>,
    /// What becomes of the body of any other status. Default: drop
    pub(crate) on_error_body: Option<ErrorBody>,
}

/// How the hours of a feed are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawCompression {
    /// gzip, zstd, xz or bzip2. Default: gzip
    #[schemars(with = "CodecWord")]
    pub(crate) format: Codec,
    /// Default: that of the format
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<u32>,
}

impl Default for RawCompression {
    fn default() -> Self {
        Self {
            format: Codec::Gzip,
            level: None,
        }
    }
}

/// The words for [`Codec`], for the schema.
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code, reason = "only its schema is used")]
enum CodecWord {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

/// What becomes of the body of a status that is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ErrorBody {
    Keep,
    Drop,
}

fn secrets<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Secret>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
    let secrets = texts.into_iter();
    Ok(secrets
        .map(|(name, value)| (name, Secret::header(value)))
        .collect())
}
