//! The one place that prints: text for a person, JSON lines for a program, and never a secret or a terminal escape.

use std::io::{self, IsTerminal as _, Write as _};

use cannery_runtime::secret::redact;
use serde::Serialize;

use crate::failure::{ExitCode, Failure};

/// How to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    /// Whether a newline in a text is one, and not a part of a name that comes from anywhere.
    in_lines: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            in_lines: false,
        }
    }

    /// The same for a text of several lines: whoever makes one knows that no name in it has a newline, or escapes it.
    pub(crate) fn in_lines(self) -> Self {
        Self {
            in_lines: true,
            ..self
        }
    }

    fn shown(self, text: &str) -> String {
        match self.in_lines {
            true => printable(&redact(text)),
            false => on_one_line(&redact(text)),
        }
    }

    /// Prints a line for a person, or `value` for a program. A closed pipe ends the process quietly, as people expect of
    /// `cannery lake ls | head`.
    pub(crate) fn line(self, text: impl AsRef<str>, value: &impl Serialize) {
        if self.json {
            self.json(value);
        } else {
            write_line(self.shown(text.as_ref()));
        }
    }

    /// The same as [`Output::line`]; for a program the object says first what it is about: every line of a stream has an `event`.
    pub(crate) fn event(self, event: &str, text: impl AsRef<str>, value: &impl Serialize) {
        let fields = serde_json::to_value(value).expect("what is printed is plain data");
        let mut line = serde_json::Map::from_iter([("event".to_owned(), event.into())]);
        match fields {
            serde_json::Value::Object(fields) => line.extend(fields),
            other => drop(line.insert("value".to_owned(), other)),
        }
        self.line(text, &line);
    }

    /// Prints a value for a program, on one line. What would harm a terminal is escaped as JSON has it, so that the program
    /// reads what was there.
    pub(crate) fn json(self, value: &impl Serialize) {
        let text = serde_json::to_string(value).expect("what is printed is plain data");
        write_line(escaped(&redact(&text)));
    }

    /// The same as [`Output::line`] on standard error, for what is not the result.
    pub(crate) fn aside(self, text: impl AsRef<str>, value: &impl Serialize) {
        let text = if self.json {
            escaped(&redact(
                &serde_json::to_string(value).expect("what is printed is plain data"),
            ))
        } else {
            self.shown(text.as_ref())
        };
        // Nobody is left to tell when standard error is closed.
        io::stderr().write_all((text + "\n").as_bytes()).ok();
    }

    /// Prints text that is the result itself, such as a schema, as it is.
    pub(crate) fn verbatim(self, text: &str) {
        write_out(redact(text).as_bytes());
    }

    /// Writes the bytes of an object, which are whatever they are.
    pub(crate) fn raw(self, bytes: &[u8]) {
        write_out(bytes);
    }

    /// Makes sure that what was printed has left the process; the last bytes may have waited for a newline.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match io::stdout().flush() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(&error)),
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Says why the command failed, on standard error.
    pub(crate) fn failure(self, failure: &Failure) {
        let text = if self.json {
            let error = serde_json::json!({
                "error": { "kind": failure.kind, "message": failure.message, "next": failure.next, "code": failure.code as i32 }
            });
            error.to_string()
        } else {
            format!(
                "error: {}\n next: {}",
                on_one_line(&failure.message),
                on_one_line(&failure.next)
            )
        };
        // Nobody is left to tell when standard error is closed.
        writeln!(io::stderr(), "{}", redact(&text)).ok();
    }

    /// A line that tells how far something is whose end is not known, on a terminal only.
    pub(crate) fn counter(self) -> indicatif::ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        indicatif::ProgressBar::new_spinner()
    }

    /// A progress bar over things that are counted, on a terminal only.
    pub(crate) fn steps(self, count: u64, what: &str) -> indicatif::ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        let style = indicatif::ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}")
            .expect("the template is valid");
        indicatif::ProgressBar::new(count)
            .with_style(style)
            .with_message(printable(what))
    }

    /// A progress bar over bytes, on a terminal only.
    pub(crate) fn progress(self, bytes: u64, what: &str) -> indicatif::ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        let style = indicatif::ProgressStyle::with_template(
            "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        )
        .expect("the template is valid");
        indicatif::ProgressBar::new(bytes)
            .with_style(style)
            .with_message(printable(what))
    }
}

/// `1 file`, `1,234 files`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{} {what}{end}", indicatif::HumanCount(count))
}

/// In one piece: several tasks print at the same time.
fn write_line(mut line: String) {
    line.push('\n');
    write_out(line.as_bytes());
}

fn write_out(bytes: &[u8]) {
    if let Err(error) = io::stdout().write_all(bytes) {
        end_without_output(&error);
    }
}

/// Nothing that follows can be printed, so nothing that follows makes sense.
fn end_without_output(error: &io::Error) -> ! {
    let code = if error.kind() == io::ErrorKind::BrokenPipe {
        ExitCode::Ok
    } else {
        let failure = unwritable(error);
        Output::new(false).failure(&failure);
        failure.code
    };
    #[allow(clippy::exit, reason = "there is nobody to print for")]
    std::process::exit(code as i32)
}

fn unwritable(error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::StorageFull {
        ExitCode::Full
    } else {
        ExitCode::Error
    };
    let message = format!("cannot write the output: {error}");
    Failure::new(
        code,
        "output",
        message,
        "what was written is not complete: write it to another place",
    )
}

/// Names come from anywhere: a control character in one must not reach the terminal, nor turn the text around or hide it.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { '\u{fffd}' } else { c })
        .collect()
}

/// The same for a text that is one line: what looks like the next one may be a part of a name.
pub(crate) fn on_one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// JSON with its harmful characters escaped; all of them stand in texts, since none is white space of JSON but the carriage
/// return, which nobody here writes.
fn escaped(json: &str) -> String {
    let escape = |c: char| format!("\\u{:04x}", u32::from(c));
    json.chars()
        .fold(String::with_capacity(json.len()), |mut text, c| {
            if is_harmful(c) {
                text += &escape(c);
            } else {
                text.push(c);
            }
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_reversed_text_do_not_reach_the_terminal() {
        assert_eq!(
            printable("a\u{1b}[31mb\u{202e}c\td"),
            "a\u{fffd}[31mb\u{fffd}c\td"
        );
    }

    #[test]
    fn a_name_does_not_look_like_another_line() {
        assert_eq!(on_one_line("a\nerror: b\u{7}"), "a\\nerror: b\u{fffd}");
        let output = Output::new(false);
        assert_eq!(output.shown("a\nb"), "a\\nb");
        assert_eq!(output.in_lines().shown("a\nb\u{7}"), "a\nb\u{fffd}");
    }

    #[test]
    fn a_program_reads_what_was_there() {
        let text = "a\u{1b}[31m\u{202e}\u{9b}\u{7f}b\n";
        let json = escaped(&serde_json::to_string(text).unwrap());
        assert!(!json.chars().any(is_harmful), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
