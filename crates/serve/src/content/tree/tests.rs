use super::*;

fn shown(bytes: &[u8]) -> String {
    Tree::of(bytes).render().into_string()
}

#[test]
fn literals_are_shown_as_they_are_written() {
    let text =
        br#"{"a":9007199254740993,"b":1e999,"c":"x\ny\u0041","d":null,"e":[true,-0.10],"a":1}"#;
    let page = shown(text);
    for expected in [
        "9007199254740993",
        "1e999",
        r#"&quot;x\ny\u0041&quot;"#,
        "null",
        "-0.10",
        "2 items",
    ] {
        assert!(page.contains(expected), "no {expected} in {page}");
    }
    assert_eq!(
        page.matches(r#"<span class="tree-key">a</span>"#).count(),
        2
    );
    for word in ["true", " \"x\" ", "0", "[]", "{}", "[[]]"] {
        assert!(Tree::of(word.as_bytes()).is_json(), "{word}");
    }
}

#[test]
fn hostile_text_is_escaped_and_commands_nothing() {
    let page = shown(
        "{\"<script>alert(1)</script>\u{202e}\":\"</ul><img src=x onerror=y>\u{200b}\"}".as_bytes(),
    );
    assert!(
        !page.contains("<script") && !page.contains("<img"),
        "{page}"
    );
    assert!(!page.contains('\u{202e}') && !page.contains('\u{200b}'));
    let page = shown(b"no <b>json</b>\x1b[31m\r\nnext\n");
    assert!(
        page.contains("no &lt;b&gt;json&lt;/b&gt;\u{fffd}[31m\nnext\n"),
        "{page}"
    );
}

#[test]
fn what_is_no_json_is_text_and_what_is_no_text_is_hexadecimal() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        "nul",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "1 2",
        "'a'",
        "NaN",
        "\u{feff}{}",
        "\"a\nb\"",
        "[1}",
        "{\"a\"}",
        "-",
    ] {
        assert!(!Tree::of(text.as_bytes()).is_json(), "{text}");
    }
    let page = shown(&[0xff, b'<', b'A', 0]);
    assert!(page.contains("000000  ff 3c 41 00"), "{page}");
    assert!(page.contains(".&lt;A."), "{page}");
    let page = shown(&vec![0xff; 1 << 20]);
    assert!(page.contains("of 1,048,576 bytes") && page.len() < 10_000);
    let page = shown("ü\n".repeat(1 << 20).as_bytes());
    assert!(page.chars().count() < 2 * TEXT_CHARS_MAX && page.contains('…'));
}

#[test]
fn a_page_is_bounded_whatever_the_document_is() {
    let wide = format!("[{}0]", "[1,2,3],".repeat(1_000_000));
    let deep = format!("{}1{}", "[".repeat(150), "]".repeat(150));
    let long = format!(
        "{{\"{}\":\"{}\"}}",
        "k".repeat(1 << 20),
        "ü".repeat(1 << 20)
    );
    let keys: Vec<String> = (0..100_000)
        .map(|n| format!("\"k{n}\":{{\"a\":[1,2]}}"))
        .collect();
    let keys = format!("{{{}}}", keys.join(","));
    for (text, told) in [
        (&wide, "and 999,801 more"),
        (&deep, "not shown"),
        (&long, "1,048,578 characters"),
        (&keys, "and 99,800 more"),
    ] {
        let tree = Tree::of(text.as_bytes());
        assert!(tree.is_json());
        let page = tree.render().into_string();
        assert!(page.contains(told), "no {told} in {} bytes", page.len());
        assert!(page.len() < 1 << 20, "{}", page.len());
    }
    // Too deep to be read at all: it must not bring the process down.
    let deepest = "[".repeat(10_000_000);
    assert!(!Tree::of(deepest.as_bytes()).is_json());
}

#[test]
fn the_first_level_is_shown_even_when_the_first_value_is_large() {
    let inner: Vec<String> = (0..200)
        .map(|_| format!("[{}]", ["1"; 150].join(",")))
        .collect();
    let text = format!("{{\"big\":[{}],\"last\":\"here\"}}", inner.join(","));
    let page = shown(text.as_bytes());
    assert!(page.contains("&quot;here&quot;"), "the last key is missing");
}
