use std::io::{BufReader, Cursor};

use super::*;

/// What a report gives: place, size, and text or reason.
fn all(text: &[u8], format: Format, max: usize) -> Vec<(u64, u64, String)> {
    // A buffer that ends anywhere: lines come in pieces.
    let reader = BufReader::with_capacity(7, Cursor::new(text));
    let mut measurements = Measurements::with_max(reader, format, max);
    let mut all = Vec::new();
    while let Some(found) = measurements.next().unwrap() {
        let text = match found.raw {
            Ok(raw) => String::from_utf8_lossy(raw).into_owned(),
            Err(bad) => format!("bad: {bad}"),
        };
        all.push((found.src_off, found.src_size, text));
    }
    all
}

fn texts(text: &[u8], format: Format) -> Vec<String> {
    let all = all(text, format, 10_000);
    all.into_iter().map(|(_, _, text)| text).collect()
}

#[test]
fn lines_are_measurements_and_blank_ones_are_not() {
    let text = b"{\"a\":1}\n\n  \r\n{\"b\":2}\r\nnot json\nlast";
    for format in [Format::Json, Format::Rows] {
        assert_eq!(
            all(text, format, 100),
            [
                (0, 7, "{\"a\":1}".to_owned()),
                (13, 7, "{\"b\":2}".to_owned()),
                (22, 8, "not json".to_owned()),
                (31, 4, "last".to_owned()),
            ]
        );
    }
    assert!(all(b"", Format::Json, 100).is_empty());
}

#[test]
fn a_line_that_is_too_long_is_passed_over() {
    let text = format!("a\n{}\nb\n{}", "x".repeat(1_000), "y".repeat(11));
    assert_eq!(
        all(text.as_bytes(), Format::Json, 10),
        [
            (0, 1, "a".to_owned()),
            (2, 1_000, "bad: it has more than 10 bytes".to_owned()),
            (1_003, 1, "b".to_owned()),
            (1_005, 11, "bad: it has more than 10 bytes".to_owned()),
        ]
    );
    let just = "z".repeat(10);
    assert_eq!(
        all(just.as_bytes(), Format::Json, 10),
        [(0, 10, just.clone())]
    );
}

#[test]
fn the_whole_is_one_measurement() {
    let text = b"one\ntwo\r\n\n";
    assert_eq!(
        all(text, Format::Whole, 100),
        [(0, 10, "one\ntwo\r\n\n".to_owned())]
    );
    assert_eq!(
        all(text, Format::Whole, 9),
        [(0, 10, "bad: it has more than 9 bytes".to_owned())]
    );
    assert!(all(b"", Format::Whole, 9).is_empty());
}

const REPORT: &[u8] = b"###\n# a report\n###\n---\nprobe_asn: AS1\nstart_time: 1325376000.5\ntest_name: x\n...\n---\n\
input: a\nlist: [1, two, null]\n...\n---\ninput: b\ntest_name: own\n...\n";

#[test]
fn the_header_is_merged_into_every_entry() {
    let header = r#""probe_asn":"AS1","start_time":1325376000.5"#;
    let found = all(REPORT, Format::Yaml, 10_000);
    let texts: Vec<&str> = found.iter().map(|(_, _, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            format!(r#"{{{header},"test_name":"x","input":"a","list":[1,"two",null]}}"#),
            format!(r#"{{{header},"input":"b","test_name":"own"}}"#),
        ]
    );
    let (start, size, _) = &found[0];
    let span = usize::try_from(*start).unwrap()..usize::try_from(start + size).unwrap();
    assert_eq!(&REPORT[span], b"---\ninput: a\nlist: [1, two, null]");
}

#[test]
fn a_bad_document_does_not_stop_the_others() {
    let text = b"h: 1\n---\na: [\n---\nb: 2\n---\n- 3\n---\nc: {x: 1}: 2\n---\nd: 4\n---\n";
    let found = all(text, Format::Yaml, 10_000);
    let texts: Vec<&str> = found.iter().map(|(_, _, text)| text.as_str()).collect();
    assert!(
        texts[0].starts_with("bad: it is not YAML at line "),
        "{texts:?}"
    );
    assert_eq!(texts[1], r#"{"h":1,"b":2}"#);
    assert_eq!(texts[2], "bad: it is a YAML document, but not a map");
    assert!(texts[3].starts_with("bad: it is not YAML"), "{texts:?}");
    assert_eq!(texts[4], r#"{"h":1,"d":4}"#);
    assert_eq!((found[0].0, found[0].1, texts.len()), (5, 8, 5));
}

#[test]
fn without_a_header_there_are_no_measurements() {
    let found = texts(b"h: [\n---\na: 1\n", Format::Yaml);
    assert!(found[0].starts_with("bad: it is not YAML"), "{found:?}");
    assert_eq!(found[1], "bad: the header of its report is bad");
    assert!(texts(b"h: 1\n", Format::Yaml).is_empty());
    assert!(texts(b"", Format::Yaml).is_empty());
    assert!(texts(b"# nothing\n---\n...\n---\n", Format::Yaml).is_empty());
}

#[test]
fn bytes_survive_as_half_pairs() {
    let text = b"h: 1\n---\nlatin: caf\xe9\nbin: !!binary |\n  /wBh\ntext: !!binary Y2Fmw6k=\nquoted: \"\xff\"\nk\xfc: 1\n";
    assert_eq!(
        texts(text, Format::Yaml),
        [
            r#"{"h":1,"latin":"caf\udce9","bin":"\udcff\u0000a","text":"café","quoted":"\udcff","k\udcfc":1}"#
        ]
    );
    assert_eq!(
        texts(b"h: 1\n---\na: !!binary '***'\n", Format::Yaml),
        ["bad: it is not YAML at line 2 of the document: binary that is not base64"]
    );
}

#[test]
fn python_tags_are_read_as_plain_data() {
    let text = b"h: 1\n---\na: !!python/unicode 'x'\nb: !!python/tuple [1, 2]\nc: !!python/object/apply:os.system ['ls']\n\
d: !!str 12\ne: '12'\nf: !!float 12\n3: x\n~: y\n";
    assert_eq!(
        texts(text, Format::Yaml),
        [r#"{"h":1,"a":"x","b":[1,2],"c":["ls"],"d":"12","e":"12","f":12,"3":"x","~":"y"}"#]
    );
}

#[test]
fn aliases_are_expanded_within_a_budget() {
    let text = b"h: 1\n---\na: &a {x: [1]}\nb: *a\nk: &k name\n*k : 2\nn: &n 5\n*n : 3\n";
    assert_eq!(
        texts(text, Format::Yaml),
        [r#"{"h":1,"a":{"x":[1]},"b":{"x":[1]},"k":"name","name":2,"n":5,"5":3}"#]
    );
    let mut bomb = "h: 1\n---\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..12 {
        let before = n - 1;
        bomb += &format!(
            "a{n}: &a{n} [{}]\n",
            vec![format!("*a{before}"); 10].join(",")
        );
    }
    bomb += "---\nok: 1\n";
    assert_eq!(
        texts(bomb.as_bytes(), Format::Yaml),
        [
            "bad: its aliases expand to more than 10000 bytes",
            r#"{"h":1,"ok":1}"#
        ]
    );
    let inside = texts(b"h: 1\n---\na: &a [*a]\n", Format::Yaml);
    assert_eq!(
        inside,
        ["bad: it is not YAML at line 2 of the document: an alias inside of what it stands for"]
    );
}

#[test]
fn documents_have_bounds() {
    let deep = format!("h: 1\n---\na: {}\n---\nb: 2\n", "[".repeat(5_000));
    let found = texts(deep.as_bytes(), Format::Yaml);
    assert!(found[0].starts_with("bad: "), "{found:?}");
    assert_eq!(found[1], r#"{"h":1,"b":2}"#);
    let long = format!(
        "h: 1\n---\na: {0}\n---\na: |\n{1}---\nb: 2\n",
        "x".repeat(2_000),
        "  yy\n".repeat(1_000)
    );
    let found = all(long.as_bytes(), Format::Yaml, 1_000);
    let texts: Vec<&str> = found.iter().map(|(_, _, text)| text.as_str()).collect();
    let bad = "bad: it has more than 1000 bytes";
    assert_eq!(texts, [bad, bad, r#"{"h":1,"b":2}"#]);
    assert_eq!((found[0].0, found[0].1, found[1].0), (5, 2_007, 2_013));
}
