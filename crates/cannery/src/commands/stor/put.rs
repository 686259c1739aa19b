//! `cannery stor put`

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use data_encoding::BASE64;
use futures::stream::{self, Stream};
use md5::{Digest as _, Md5};
use reqwest::header::{CONTENT_LENGTH, HeaderName, HeaderValue, IF_NONE_MATCH};
use reqwest::{Body, Method};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{Context, make_parents};
use crate::api_client::{ApiClient, RemotePath};
use crate::failure::{ExitCode, Failure};

const PIECE_BYTES: usize = 256 * 1024;

pub(super) struct PutOptions<'a> {
    pub(super) parents: bool,
    pub(super) headers: &'a [(String, String)],
    pub(super) if_absent: bool,
}

/// Stores a file. The MD5 of what was sent must be that of what arrived.
pub(super) async fn put(
    client: &ApiClient,
    path: &RemotePath,
    file: &Path,
    options: &PutOptions<'_>,
    context: &Context,
) -> Result<(), Failure> {
    let unreadable = |error: io::Error| {
        let message = format!("cannot read `{}`: {error}", file.display());
        Failure::new(ExitCode::Usage, "unreadable", message, "name another file")
    };
    let sum = Arc::new(Mutex::new(Md5::new()));
    let (body, bytes) = match file == Path::new("-") {
        true => (summed(tokio::io::stdin(), &sum), None),
        false => {
            let file = tokio::fs::File::open(file).await.map_err(unreadable)?;
            let known = file.metadata().await.map_err(unreadable)?;
            if known.is_dir() {
                return Err(unreadable(io::ErrorKind::IsADirectory.into()));
            }
            // A pipe has no length before its end.
            let bytes = known.is_file().then_some(known.len());
            // One that grows meanwhile is sent as long as it was.
            (summed(file.take(bytes.unwrap_or(u64::MAX)), &sum), bytes)
        }
    };
    if options.parents {
        make_parents(client, path).await?;
    }
    let mut request = client.request(Method::PUT, path).body(body);
    for (name, value) in options.headers {
        let (name, value) = checked_header(name, value)?;
        request = request.header(name, value);
    }
    if let Some(bytes) = bytes {
        request = request.header(CONTENT_LENGTH, bytes);
    }
    if options.if_absent {
        request = request.header(IF_NONE_MATCH, "*");
    }
    let response = client.send(request).await?;
    let header = |name: &str| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.trim_matches('"').to_owned())
    };
    let sent = sum.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let sent = BASE64.encode(&sent.finalize());
    if header("computed-md5").as_deref() != Some(&*sent) {
        let message = format!(
            "what the server has stored as `{path}` is not what was sent: something on the way changed it, or this is no server of ours"
        );
        let next = "store it again, and look at what stands between here and the server";
        return Err(Failure::new(ExitCode::Error, "corrupt", message, next));
    }
    let value = json!({ "path": path.to_string(), "etag": header("etag"), "md5": sent });
    context
        .output
        .event("stored", format!("stored {path}"), &value);
    Ok(())
}

fn checked_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let lower = name.to_ascii_lowercase();
    let is_kept = matches!(
        lower.as_str(),
        "content-type" | "content-encoding" | "cache-control"
    );
    let is_special = lower == "content-type" && is_special_type(value);
    if !(is_kept || lower.starts_with("m-")) || is_special {
        let message = format!("the header `{name}: {value}` cannot be stored with an object");
        let next = "choose from Content-Type, Content-Encoding, Cache-Control and m-…; a directory is made by `cannery stor mkdir`, a link by `cannery stor ln`";
        return Err(Failure::new(
            ExitCode::Usage,
            "invalid_header",
            message,
            next,
        ));
    }
    let checked = HeaderName::try_from(name).ok();
    let checked = checked.zip(HeaderValue::try_from(value).ok());
    checked.ok_or_else(|| {
        let message = format!("`{name}: {value}` cannot be a header");
        let next = "write for example --header 'm-source: hand'";
        Failure::new(ExitCode::Usage, "invalid_header", message, next)
    })
}

/// What would not be the content of an object.
fn is_special_type(value: &str) -> bool {
    let mut parameters = value.split(';').skip(1).map(str::trim);
    parameters.any(|parameter| {
        let parameter = parameter.to_ascii_lowercase();
        matches!(parameter.as_str(), "type=directory" | "type=link")
    })
}

/// The bytes of a reader, added up as they leave.
fn summed(reader: impl AsyncRead + Unpin + Send + 'static, sum: &Arc<Mutex<Md5>>) -> Body {
    let sum = Arc::clone(sum);
    Body::wrap_stream(pieces(reader, move |piece| {
        sum.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .update(piece);
    }))
}

fn pieces<R: AsyncRead + Unpin + Send>(
    reader: R,
    seen: impl Fn(&[u8]) + Send,
) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((reader, seen), |(mut reader, seen)| async move {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        if reader.read_buf(&mut piece).await? == 0 {
            return Ok(None);
        }
        seen(&piece);
        Ok(Some((Bytes::from(piece), (reader, seen))))
    })
}
