//! One page of the browser.

use std::path::Path;
use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::cdp::Cdp;
use super::console::ConsoleMessage;
use crate::{Error, Result};

/// What the page's `prefers-color-scheme` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScheme {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

/// A page with a console of its own. Every call waits for the browser, but not for ever.
#[derive(Debug)]
pub struct Page {
    cdp: Arc<Cdp>,
    session: String,
}

impl Page {
    pub(super) async fn create(cdp: Arc<Cdp>) -> Result<Self> {
        let target = cdp
            .call(None, "Target.createTarget", json!({"url": "about:blank"}))
            .await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = cdp.call(None, "Target.attachToTarget", attach).await?;
        let session = attached["sessionId"].as_str();
        let session = session
            .ok_or_else(|| Error::failed("attach to a page", &attached))?
            .to_owned();
        let page = Self { cdp, session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            page.call(domain, json!({})).await?;
        }
        page.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}))
            .await?;
        Ok(page)
    }

    /// Goes to an address and waits until everything it names is loaded.
    ///
    /// # Errors
    /// When the address cannot be reached or does not finish.
    pub async fn open(&self, url: &str) -> Result<()> {
        let answer = self.call("Page.navigate", json!({"url": url})).await?;
        if let Some(why) = answer["errorText"].as_str() {
            return Err(Error::failed(format!("open `{url}` in the browser"), &why));
        }
        // A move within the page loads nothing.
        let Some(loader) = answer["loaderId"].as_str() else {
            return Ok(());
        };
        let loaded = |event: &Value| {
            let params = &event["params"];
            event["method"] == "Page.lifecycleEvent"
                && params["name"] == "load"
                && params["loaderId"] == loader
        };
        self.cdp.wait_for(&self.session, loaded).await
    }

    /// Sets the size of the window, in CSS pixels.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub async fn set_viewport(&self, width: u32, height: u32) -> Result<()> {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics)
            .await
            .map(drop)
    }

    /// Lets the page believe that the user prefers this scheme.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub async fn set_color_scheme(&self, scheme: ColorScheme) -> Result<()> {
        let value = match scheme {
            ColorScheme::Dark => "dark",
            ColorScheme::Light => "light",
        };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", media)
            .await
            .map(drop)
    }

    /// Writes a PNG of the whole page, also of what lies below the window's edge.
    ///
    /// # Errors
    /// When the browser does not answer or the file cannot be written.
    #[allow(
        clippy::disallowed_methods,
        reason = "a picture for a person to look at need not survive a power cut"
    )]
    pub async fn screenshot(&self, path: &Path) -> Result<()> {
        let metrics = self.call("Page.getLayoutMetrics", json!({})).await?;
        let size = &metrics["cssContentSize"];
        let clip =
            json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let how = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let answer = self.call("Page.captureScreenshot", how).await?;
        let picture = BASE64.decode(answer["data"].as_str().unwrap_or_default().as_bytes());
        let picture = picture.map_err(|error| Error::failed("decode a screenshot", &error))?;
        std::fs::write(path, picture).map_err(Error::io(format!(
            "write the screenshot `{}`",
            path.display()
        )))
    }

    /// The value of a JavaScript expression; a promise is waited for.
    ///
    /// # Errors
    /// When it throws.
    pub async fn eval(&self, script: &str) -> Result<Value> {
        let how = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", how).await?;
        match answer.get("exceptionDetails") {
            Some(details) => {
                let what = details["exception"]["description"]
                    .as_str()
                    .or(details["text"].as_str());
                Err(Error::failed(
                    format!("evaluate `{script}`"),
                    &what.unwrap_or_default(),
                ))
            }
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// All that came to the console since the page was made: `console.*`, exceptions, and the browser's own complaints,
    /// such as breaches of the content security policy.
    #[must_use]
    pub fn console(&self) -> Vec<ConsoleMessage> {
        self.cdp
            .events(&self.session)
            .iter()
            .filter_map(ConsoleMessage::from_event)
            .collect()
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.cdp.call(Some(&self.session), method, params).await
    }
}
