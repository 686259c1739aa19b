use super::*;
use proptest::prelude::*;

const LINE: &str = "{\"Key\":\"autoload/v1/ndt/foo1/2026/11/15/a-data.jsonl.gz\",\"Size\":3,\
    \"SHA256\":\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\
    \"Confirmed\":\"2026-11-15T18:24:03.851236Z\",\
    \"Prev\":\"0000000000000000000000000000000000000000000000000000000000000000\"}";

fn line() -> InventoryLine {
    InventoryLine {
        key: Key::new("autoload/v1/ndt/foo1/2026/11/15/a-data.jsonl.gz").unwrap(),
        size: 3,
        sha256: Digest::of(b"abc"),
        confirmed: "2026-11-15T18:24:03.851236Z".parse().unwrap(),
        prev: beginning(),
    }
}

#[test]
fn a_line_is_spelled_exactly_so_and_read_for_ever() {
    assert_eq!(String::from_utf8(line().to_bytes()).unwrap(), LINE);
    assert_eq!(InventoryLine::parse(LINE.as_bytes()), Ok(line()));
    let later = LINE.replace("\"Size\"", "\"Color\":[{}],\"Size\"");
    assert_eq!(InventoryLine::parse(later.as_bytes()), Ok(line()));
    let whole_second = InventoryLine {
        confirmed: "2026-11-15T18:24:03Z".parse().unwrap(),
        ..line()
    };
    let text = String::from_utf8(whole_second.to_bytes()).unwrap();
    assert!(text.contains("18:24:03.000000Z"), "{text}");
}

#[test]
fn damage_is_named() {
    let long = format!("{}{LINE}", " ".repeat(INVENTORY_LINE_BYTES_MAX));
    let deep = LINE.replace("\"Size\"", &format!("\"x\":{},\"Size\"", "[".repeat(4_000)));
    for (text, reason) in [
        ("", "EOF"),
        ("{}", "missing field `Key`"),
        ("null", "invalid type"),
        (&LINE.replace("autoload/v1", "../v1"), "invalid object key"),
        (&LINE.replace("ba7816", "BA7816"), "not a SHA-256"),
        (&LINE.replace(":3,", ":-3,"), "invalid value"),
        (&LINE.replace("2026-11-15T", "2026-13-15T"), "month"),
        (
            &LINE.replace("\"Size\":3", "\"Size\":3,\"Size\":4"),
            "duplicate",
        ),
        (&LINE[..40], "EOF"),
        (&format!("{LINE}{LINE}"), "trailing"),
        (&long, "longer than"),
        (&deep, "expected value"),
    ] {
        let error = InventoryLine::parse(text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(InventoryLine::parse(b"\xff\xfe").is_err());
}

#[test]
fn the_longest_key_fits() {
    let key = Key::new(vec!["\"".repeat(255); 4].join("/")).unwrap();
    let line = InventoryLine {
        key,
        size: u64::MAX,
        ..line()
    };
    let text = line.to_bytes();
    assert!(text.len() <= INVENTORY_LINE_BYTES_MAX);
    assert_eq!(InventoryLine::parse(&text), Ok(line));
}

/// A chain of lines about these sizes.
fn chained(sizes: &[u64]) -> Vec<Vec<u8>> {
    let mut prev = beginning();
    let lines = sizes.iter().map(|size| {
        let text = InventoryLine {
            size: *size,
            prev,
            ..line()
        }
        .to_bytes();
        prev = Digest::of(&text);
        text
    });
    lines.collect()
}

fn breaks(lines: &[Vec<u8>]) -> Vec<u64> {
    let mut chain = Chain::default();
    let mut breaks = Vec::new();
    for line in lines {
        match chain.follow(line) {
            Ok(_) => {}
            Err((Break::Link { line, .. } | Break::Damaged { line, .. }, _)) => breaks.push(line),
        }
    }
    breaks
}

#[test]
fn a_chain_goes_on_where_another_ended() {
    let lines = chained(&[1, 2, 3]);
    let mut first = Chain::default();
    first.follow(&lines[0]).unwrap();
    let mut second = Chain::after(first.last());
    assert_eq!(second.follow(&lines[1]).unwrap().size, 2);
    assert_eq!(second.follow(&lines[2]).unwrap().size, 3);
    assert_eq!(second.lines(), 2);
    let (broken, parsed) = Chain::default().follow(&lines[1]).unwrap_err();
    assert_eq!(
        broken,
        Break::Link {
            line: 1,
            expected: beginning(),
            found: Digest::of(&lines[0]),
        }
    );
    assert_eq!(parsed.unwrap().size, 2);
}

proptest! {
    #[test]
    fn every_line_is_read_back(key in "\\PC{1,200}", size: u64, micros in 0_i64..253_402_200_000_000_000) {
        let Ok(key) = Key::new(key) else { return Ok(()); };
        let confirmed = Timestamp::from_microsecond(micros).unwrap();
        let line = InventoryLine { key, size, confirmed, ..line() };
        let text = line.to_bytes();
        prop_assert!(!text.contains(&b'\n'));
        prop_assert_eq!(InventoryLine::parse(&text), Ok(line));
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..LINE.len()) {
        let mut text = LINE.as_bytes().to_vec();
        text.splice(at..at, bytes.clone());
        for text in [bytes, text] {
            InventoryLine::parse(&text).ok();
            Chain::default().follow(&text).ok();
        }
    }

    #[test]
    fn what_is_changed_removed_added_or_moved_is_found(sizes in proptest::collection::vec(0_u64..9, 2..12), at: prop::sample::Index, what in 0..5) {
        let mut lines = chained(&sizes);
        prop_assert_eq!(breaks(&lines), Vec::<u64>::new());
        // The last line has none after it that names it: its end can only be seen from outside.
        let at = at.index(lines.len() - 1);
        let number = at as u64 + 1;
        let expected = match what {
            0 => {
                let parsed = InventoryLine::parse(&lines[at]).unwrap();
                lines[at] = InventoryLine { size: parsed.size + 1, ..parsed }.to_bytes();
                number + 1
            }
            1 => {
                lines.remove(at);
                number
            }
            2 => {
                lines.insert(at, InventoryLine { size: 77, ..line() }.to_bytes());
                if at == 0 { number + 1 } else { number }
            }
            3 => {
                lines.swap(at, at + 1);
                number
            }
            _ => {
                lines[at].push(b' ');
                number + 1
            }
        };
        prop_assert_eq!(breaks(&lines).first().copied(), Some(expected));
    }
}
