//! The files of the dashboard, held in the binary and named by their content, so that a browser may keep them for ever.

use std::fmt::Write as _;

use axum::response::Response;
use http::header::CACHE_CONTROL;
use http::{HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::guard::Verbatim;
use crate::page;

const KEEP_FOR_EVER: &str = "public, max-age=31536000, immutable";
/// 64 bits: enough to tell the versions of one file apart.
const HASH_BYTES: usize = 8;

/// One embedded file.
#[derive(Clone, Debug)]
pub(crate) struct Asset {
    /// Its address, such as `/assets/app.0123456789abcdef.css`.
    pub(crate) path: String,
    media_type: &'static str,
    content: &'static [u8],
}

/// All embedded files.
#[derive(Debug)]
pub(crate) struct Assets {
    pub(crate) style: Asset,
    pub(crate) script: Asset,
    pub(crate) upload: Asset,
    pub(crate) logo: Asset,
    pub(crate) icon: Asset,
}

impl Assets {
    pub(crate) fn embedded() -> Self {
        Self {
            style: Asset::new(
                "app",
                "css",
                "text/css; charset=utf-8",
                include_bytes!("../assets/app.css"),
            ),
            script: Asset::new(
                "live",
                "js",
                "text/javascript; charset=utf-8",
                include_bytes!("../assets/live.js"),
            ),
            upload: Asset::new(
                "upload",
                "js",
                "text/javascript; charset=utf-8",
                include_bytes!("../assets/upload.js"),
            ),
            logo: Asset::new(
                "logo",
                "svg",
                "image/svg+xml",
                include_bytes!("../assets/logo.svg"),
            ),
            icon: Asset::new(
                "favicon",
                "svg",
                "image/svg+xml",
                include_bytes!("../assets/favicon.svg"),
            ),
        }
    }

    pub(crate) fn all(&self) -> [&Asset; 5] {
        [
            &self.style,
            &self.script,
            &self.upload,
            &self.logo,
            &self.icon,
        ]
    }
}

impl Asset {
    fn new(name: &str, extension: &str, media_type: &'static str, content: &'static [u8]) -> Self {
        let mut hash = String::new();
        for byte in &Sha256::digest(content)[..HASH_BYTES] {
            write!(hash, "{byte:02x}").expect("writing to a string does not fail");
        }
        Self {
            path: format!("/assets/{name}.{hash}.{extension}"),
            media_type,
            content,
        }
    }

    pub(crate) fn serve(&self) -> Response {
        let mut response = page::answer(StatusCode::OK, self.media_type, self.content);
        response
            .headers_mut()
            .insert(CACHE_CONTROL, HeaderValue::from_static(KEEP_FOR_EVER));
        response.extensions_mut().insert(Verbatim);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_follows_the_content() {
        let one = Asset::new("a", "css", "text/css", b"one");
        assert_eq!(one.path, Asset::new("a", "css", "text/css", b"one").path);
        assert_ne!(one.path, Asset::new("a", "css", "text/css", b"two").path);
        assert_eq!(one.path, "/assets/a.7692c3ad3540bb80.css");
    }
}
