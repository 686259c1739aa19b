//! Commands for a person to copy into a shell. A key comes from anybody and must not become a command of its own.

use std::fmt::Write as _;

use cannery_journal::{Declaration, FieldType};
use serde_json::{Map, Value, json};

/// A longer key makes a command that nobody wants to see.
const KEY_CHARS_MAX: usize = 300;

/// The command that puts the dead entries of a key back, or the one that shows whole keys where the key is very long.
pub(super) fn requeue(journal: &str, key: &str, same_place: &str) -> String {
    if key.chars().count() > KEY_CHARS_MAX {
        return format!("cannery journal dead ls {journal}{same_place} --json");
    }
    // What begins with a dash would be taken for an option.
    let end_of_options = if key.starts_with('-') { "-- " } else { "" };
    format!(
        "cannery journal requeue{same_place} {journal} {end_of_options}{}",
        word(key)
    )
}

/// A command that adds a first entry which the journal takes.
pub(super) fn first_add(journal: &str, declaration: &Declaration, same_place: &str) -> String {
    let data = if declaration.fields.is_empty() {
        json!({ "width": 200 })
    } else {
        let fields = declaration.fields.iter();
        let example: Map<String, Value> = fields
            .map(|(name, kind)| (name.clone(), example(*kind)))
            .collect();
        Value::Object(example)
    };
    let key = if declaration.key.is_empty() {
        " --key a.png"
    } else {
        ""
    };
    format!(
        "cannery journal add{same_place} {journal}{key} --data {}",
        word(&data.to_string())
    )
}

fn example(kind: FieldType) -> Value {
    match kind {
        FieldType::Bool => json!(true),
        FieldType::I64 | FieldType::U64 => json!(1),
        FieldType::F64 => json!(1.5),
        FieldType::String => json!("a"),
        FieldType::Bytes => json!("YQ=="),
        FieldType::Time => json!("2026-11-15T18:24:03Z"),
        FieldType::Json => json!({}),
    }
}

/// A text as one word of a POSIX shell; with characters that cannot be seen, as one of bash, zsh and ksh.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/:@%+=,-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let seen = |c: char| cannery_serve::clean(c.encode_utf8(&mut [0; 4])).starts_with(c);
    if text.chars().all(seen) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = String::from("$'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => {
                word.push('\\');
                word.push(c);
            }
            '\n' => word.push_str("\\n"),
            _ if seen(c) => word.push(c),
            // Byte by byte: that means the same in every locale.
            _ => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    write!(word, "\\{byte:03o}").expect("writing to a string does not fail");
                }
            }
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: [&str; 9] = [
        "plain/a-b.png",
        "",
        "two words",
        "it's; rm -rf ~ && $(reboot) `id` \"x\" \\ !",
        "--help",
        "line\nend\ttab",
        "\u{1b}]0;x\u{7}\u{202e}'\\",
        "ü漢字🙂",
        "*?[a]~{b,c}",
    ];

    /// The shell itself says what it makes of the words.
    #[test]
    fn every_key_is_one_word_of_the_shell() {
        for key in HOSTILE {
            let script = format!("printf '%s' {}", word(key));
            let output = std::process::Command::new("bash")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), key, "{script}");
            assert!(!script.contains(char::is_control), "{script:?}");
        }
    }

    #[test]
    fn commands_lead_to_the_same_place() {
        assert_eq!(
            requeue("work", "a b", " --workspace /srv"),
            "cannery journal requeue --workspace /srv work 'a b'"
        );
        assert_eq!(
            requeue("work", "-n", ""),
            "cannery journal requeue work -- -n"
        );
        assert_eq!(
            requeue("work", &"x".repeat(4_096), ""),
            "cannery journal dead ls work --json"
        );
    }

    #[test]
    fn the_first_entry_is_one_that_the_journal_takes() {
        let none = Declaration::default();
        assert_eq!(
            first_add("default", &none, ""),
            r#"cannery journal add default --key a.png --data '{"width":200}'"#
        );
        let declared = Declaration {
            key: vec!["path".to_owned()],
            fields: [
                ("path".to_owned(), FieldType::String),
                ("at".to_owned(), FieldType::Time),
            ]
            .into(),
            ..Declaration::default()
        };
        assert_eq!(
            first_add("files", &declared, ""),
            r#"cannery journal add files --data '{"at":"2026-11-15T18:24:03Z","path":"a"}'"#
        );
    }
}
