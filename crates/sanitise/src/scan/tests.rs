use super::*;

fn check(text: &str) -> Result<(), Bad> {
    check_bytes(text.as_bytes())
}

fn check_bytes(bytes: &[u8]) -> Result<(), Bad> {
    let mut scan = Scan::new(bytes)?;
    scan.value()?;
    scan.end()
}

#[test]
fn eight_bytes_at_a_time_stop_where_one_at_a_time_does() {
    let stops = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
    for filler in [b' ', b'a', 0x7f, 0x80, 0xa2, 0xff] {
        for length in 0..20 {
            let plain = vec![filler; length];
            assert_eq!(plain_bytes(&plain), length);
            for (at, byte) in (0..length).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte))) {
                let mut bytes = plain.clone();
                bytes[at] = byte;
                let expected = if stops(byte) { at } else { length };
                assert_eq!(
                    plain_bytes(&bytes),
                    expected,
                    "{byte:#x} at {at} of {filler:#x}"
                );
            }
        }
    }
}

#[test]
fn what_json_is_and_what_it_is_not() {
    for text in [
        "{}",
        " [ ] ",
        "0",
        "-0.0",
        "1e999",
        "1E+2",
        "[1,2.5e-3]",
        "\"\\u00fc\\/\"",
        "null",
        "{\"a\":{\"b\":[]}}",
        "\"\\ud800\"",
        "{\"a\":1,\"b\":1,\"\":1}",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{\"a\":1,}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "nul",
        "NaN",
        "Infinity",
        "-",
        "\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "{} {}",
        "[1 2]",
        "\u{feff}{}",
        "'a'",
        "truefalse",
    ] {
        assert!(check(text).is_err(), "{text}");
        // The rest of the product reads with this one: what it refuses, so do we.
        assert!(
            serde_json::from_str::<serde_json::Value>(text).is_err(),
            "{text}"
        );
    }
}

#[test]
fn a_key_is_found_twice_however_it_is_written() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"\u0061":1,"a":2}"#,
        r#"{"x":[{"b":{},"c":1,"b":2}]}"#,
        r#"{"\ud83d\ude00":1,"😀":2}"#,
    ] {
        assert!(
            matches!(check(text), Err(Bad::DuplicateKey { .. })),
            "{text}"
        );
    }
    assert_eq!(check(r#"{"\ud800":1,"\ud801":2,"\ufffd":3}"#), Ok(()));
    let many = |twice: &str| {
        let keys: Vec<String> = (0..1_000)
            .map(|n| format!("\"k{n}\":{{\"k1\":0}}"))
            .collect();
        check(&format!("{{{},{twice}:1}}", keys.join(",")))
    };
    assert_eq!(many("\"k1000\""), Ok(()));
    for twice in ["\"k3\"", "\"k40\"", "\"k999\"", "\"\\u006b40\""] {
        assert!(
            matches!(many(twice), Err(Bad::DuplicateKey { .. })),
            "{twice}"
        );
    }
}

#[test]
fn depth_has_a_bound() {
    let deep = |levels: usize| check(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
    assert_eq!(deep(DEPTH_MAX), Ok(()));
    assert_eq!(deep(DEPTH_MAX + 1), Err(Bad::TooDeep { at: DEPTH_MAX }));
    assert_eq!(
        check(&"{\"a\":".repeat(100_000)),
        Err(Bad::TooDeep { at: 500 })
    );
}

#[test]
fn a_document_that_is_cut_off_anywhere_says_so() {
    let whole = r#"{"a":[1.5e3,"x\u00e9\n",{"b":null}],"c":true}"#;
    for end in 1..whole.len() {
        let bad = check(&whole[..end]).unwrap_err();
        let cut = matches!(bad, Bad::CutOff { .. });
        // Half a word looks like another word.
        let word = whole[..end].ends_with(char::is_alphabetic);
        assert!(cut || word, "{end}: {bad}");
    }
    assert_eq!(
        check_bytes(b"{\"a\":\"\xff\"}"),
        Err(Bad::NotUtf8 { at: 6 })
    );
}

#[test]
fn white_space_is_left_out_of_the_compact_text() {
    for (text, compact) in [
        ("{\"a b\":1}", "{\"a b\":1}"),
        (" { \"a b\" :\t[ 1 , 2 ] } ", "{\"a b\":[1,2]}"),
        ("{}\r\n", "{}"),
    ] {
        let mut scan = Scan::new(text.as_bytes()).unwrap();
        scan.value().unwrap();
        scan.end().unwrap();
        assert_eq!(scan.broke_line, text.contains('\n'));
        assert_eq!(&*scan.into_compact(), compact.as_bytes());
    }
}

#[test]
fn a_string_says_what_its_escapes_say() {
    let quoted = |text: &'static str| Quoted::of_json(text).unwrap();
    assert!(matches!(quoted("\"ü\"").text(), Cow::Borrowed("ü")));
    assert_eq!(quoted(r#""\u00fc\n\"\/\\""#).text(), "ü\n\"/\\");
    assert_eq!(quoted(r#""\ud83d\ude00""#).text(), "😀");
    assert_eq!(quoted(r#""\ud83dx\ude00""#).text(), "\u{fffd}x\u{fffd}");
    assert_eq!(quoted(r#""a\udcff\udc80ü""#).bytes(), b"a\xff\x80\xc3\xbc");
    assert_eq!(quoted(r#""\ud800""#).bytes(), b"\xed\xa0\x80");
    assert!(quoted(r#""\ud800""#).lone && !quoted(r#""\ud83d\ude00""#).lone);
    for text in ["", "plain", "\"\\\u{0}\u{1f}\n\r\t\u{7f}ü😀"] {
        let mut out = Vec::new();
        quote(text, &mut out);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        assert_eq!(
            Quoted::of_json(std::str::from_utf8(&out).unwrap())
                .unwrap()
                .text(),
            text
        );
    }
}
