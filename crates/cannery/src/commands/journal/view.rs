//! Entries as they are printed: one line for a person, one JSON object for a program.

use cannery_journal::{Data, Date, Entry, Key, Priority, Status, Token};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// How much of the data of an entry a person sees in a listing.
const PREVIEW_CHARS: usize = 60;
/// How much of a key or a reason a person sees there.
const NAME_CHARS: usize = 200;

/// An entry for a program. Dates are milliseconds since 1970.
#[derive(Debug, Serialize)]
pub(super) struct EntryView<'a> {
    key: &'a Key,
    status: Status,
    priority: Priority,
    insertion_date: Date,
    process_date: Date,
    expiration_date: Option<Date>,
    /// Attempts that did not end well, since the last merge.
    timeouts: u8,
    /// The same, since the key was last done.
    strikes: u16,
    version: u32,
    data: OneLine<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    death_date: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> EntryView<'a> {
    pub(super) fn of(entry: &'a Entry<Data>) -> Self {
        let (lease, death) = (entry.lease.as_ref(), entry.death.as_ref());
        Self {
            key: &entry.key,
            status: entry.status,
            priority: entry.meta.priority,
            insertion_date: entry.meta.insertion,
            process_date: entry.meta.process,
            expiration_date: entry.meta.expiration.date(),
            timeouts: entry.meta.timeouts,
            strikes: entry.meta.strikes,
            version: entry.meta.version,
            data: OneLine(&entry.data),
            attempt: lease.map(|_| attempt(entry)),
            token: lease.map(|lease| lease.token),
            deadline: entry.deadline,
            worker: lease.map(|lease| &*lease.worker),
            death_date: death.map(|death| death.date),
            reason: death.map(|death| &*death.reason),
        }
    }
}

/// Which attempt at an entry this is, the first being 1.
pub(super) fn attempt(entry: &Entry<Data>) -> u32 {
    u32::from(entry.meta.strikes) + 1
}

/// Data as it was given, but on one line: white space between its parts may hold line ends, its texts cannot.
#[derive(Debug)]
struct OneLine<'a>(&'a Data);

impl Serialize for OneLine<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(on_one_line(self.0))
            .map_err(serde::ser::Error::custom)?
            .serialize(to)
    }
}

fn on_one_line(data: &Data) -> String {
    String::from_utf8_lossy(data.as_bytes()).replace(['\n', '\r', '\t'], " ")
}

/// Text from anywhere as a part of a line: a line end in it must not look like the end of the line.
pub(super) fn line(text: &str) -> String {
    let visible = |c: char| match c {
        '\n' | '\r' | '\t' => c.escape_default().to_string(),
        _ => c.to_string(),
    };
    text.chars().map(visible).collect()
}

/// The same, cut where it is too long to be recognised.
fn short(text: &str) -> String {
    let mut shown = line(&text.chars().take(NAME_CHARS).collect::<String>());
    if text.chars().nth(NAME_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// An entry in a listing.
pub(super) fn listed(entry: &Entry<Data>) -> String {
    let mut text = format!(
        "{:<10} {:>3}  {}  {}",
        word(entry.status),
        entry.meta.priority.0,
        entry.meta.process,
        short(entry.key.as_str())
    );
    match (&entry.lease, &entry.death) {
        (Some(lease), _) => text += &format!("  by {}", line(&lease.worker)),
        (None, Some(death)) => text += &format!("  {}", short(&death.reason)),
        (None, None) => text += &preview(&entry.data),
    }
    text
}

/// An entry that was just claimed.
pub(super) fn claimed(entry: &Entry<Data>) -> String {
    let token = entry
        .lease
        .as_ref()
        .map_or_else(String::new, |lease| lease.token.to_string());
    let deadline = entry
        .deadline
        .map_or_else(String::new, |date| date.to_string());
    format!(
        "{token}  {deadline}  {:>3}  {}{}",
        entry.meta.priority.0,
        line(entry.key.as_str()),
        preview(&entry.data)
    )
}

/// Everything that is known of an entry.
pub(super) fn whole(entry: &Entry<Data>) -> String {
    let meta = &entry.meta;
    let mut lines = vec![format!("{:<14} {}", "key", line(entry.key.as_str()))];
    let mut say = |name: &str, value: String| lines.push(format!("  {name:<12} {value}"));
    say("status", word(entry.status).to_owned());
    say("priority", meta.priority.0.to_string());
    say("inserted", meta.insertion.to_string());
    say("process", meta.process.to_string());
    let expires = meta.expiration.date();
    say(
        "expires",
        expires.map_or_else(|| "never".to_owned(), |date| date.to_string()),
    );
    say("failed", format!("{} times", meta.strikes));
    if let Some(lease) = &entry.lease {
        say("worker", line(&lease.worker));
        say("token", lease.token.to_string());
    }
    if let Some(deadline) = entry.deadline {
        say("deadline", deadline.to_string());
    }
    if let Some(death) = &entry.death {
        say("died", death.date.to_string());
        say("reason", line(&death.reason));
    }
    say("data", on_one_line(&entry.data));
    lines.join("\n")
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Processing => "processing",
        Status::Waiting => "waiting",
        Status::Blocked => "blocked",
        Status::Dead => "dead",
    }
}

fn preview(data: &Data) -> String {
    let text = on_one_line(data);
    if text == "null" {
        return String::new();
    }
    match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("  {}…", &text[..end]),
        None => format!("  {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_keys_stay_on_one_line() {
        let data = Data::from_json("{\n\t\"a\": \"x\\ny\",\r\n \"b\": 1.0}").unwrap();
        let printed = serde_json::to_string(&OneLine(&data)).unwrap();
        assert_eq!(printed, "{  \"a\": \"x\\ny\",   \"b\": 1.0}");
        assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
    }

    #[test]
    fn a_preview_is_short() {
        let data = Data::from_json(format!("\"{}\"", "ü".repeat(500))).unwrap();
        assert!(preview(&data).chars().count() < 70);
        assert_eq!(preview(&Data::null()), "");
    }
}
