//! What a page wrote to its console, and what the browser had to say about the page.

use serde_json::Value;

/// One line of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleMessage {
    /// `console`, `exception`, or the browser's own: `security`, `network`, `violation`…
    pub source: String,
    /// `log`, `info`, `warning`, `error`…
    pub level: String,
    /// What it says.
    pub text: String,
}

impl ConsoleMessage {
    /// The message that an event of the browser carries, if it carries one.
    pub(super) fn from_event(event: &Value) -> Option<Self> {
        let params = &event["params"];
        match event["method"].as_str()? {
            "Log.entryAdded" => {
                let entry = &params["entry"];
                let place = entry["url"].as_str().unwrap_or_default();
                let text = format!("{} {place}", text(&entry["text"]));
                Some(Self::new(
                    &text_of(entry, "source"),
                    &text_of(entry, "level"),
                    text.trim_end(),
                ))
            }
            "Runtime.consoleAPICalled" => {
                let parts: Vec<String> = params["args"].as_array()?.iter().map(argument).collect();
                Some(Self::new(
                    "console",
                    &text_of(params, "type"),
                    &parts.join(" "),
                ))
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let text = format!(
                    "{} {}",
                    text(&details["text"]),
                    text(&details["exception"]["description"])
                );
                Some(Self::new("exception", "error", text.trim_end()))
            }
            _ => None,
        }
    }

    fn new(source: &str, level: &str, text: &str) -> Self {
        Self {
            source: source.to_owned(),
            level: level.to_owned(),
            text: text.to_owned(),
        }
    }
}

fn text_of(value: &Value, field: &str) -> String {
    text(&value[field])
}

fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => String::new(),
        None => value.to_string(),
    }
}

/// Values are printed; objects are named by what the browser calls them.
fn argument(argument: &Value) -> String {
    let value = argument.get("value").or(argument.get("description"));
    text(value.unwrap_or(&argument["type"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(method: &str, params: &Value) -> Option<(String, String, String)> {
        let message = ConsoleMessage::from_event(&json!({"method": method, "params": params}))?;
        Some((message.source, message.level, message.text))
    }

    fn expected(source: &str, level: &str, text: &str) -> Option<(String, String, String)> {
        Some((source.into(), level.into(), text.into()))
    }

    #[test]
    fn every_kind_of_message_is_read() {
        let args = json!({"type": "log", "args": [
            {"type": "string", "value": "a"}, {"type": "number", "value": 1},
            {"type": "object", "description": "Object"}, {"type": "undefined"},
        ]});
        assert_eq!(
            message("Runtime.consoleAPICalled", &args),
            expected("console", "log", "a 1 Object undefined")
        );
        let entry = json!({"entry": {"source": "security", "level": "error", "text": "Refused", "url": "http://x/"}});
        assert_eq!(
            message("Log.entryAdded", &entry),
            expected("security", "error", "Refused http://x/")
        );
        let thrown = json!({"exceptionDetails": {"text": "Uncaught", "exception": {"description": "Error: no"}}});
        assert_eq!(
            message("Runtime.exceptionThrown", &thrown),
            expected("exception", "error", "Uncaught Error: no")
        );
        assert_eq!(message("Page.lifecycleEvent", &json!({})), None);
    }
}
