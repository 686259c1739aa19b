use super::*;
use crate::table_schema::parse_datatype;
use proptest::prelude::*;

fn check(schema: &str) -> RowCheck {
    RowCheck::new(&parse_datatype(schema.as_bytes()).unwrap())
}

fn of_type(kind: &str) -> RowCheck {
    check(&format!(r#"[{{"name":"v","type":"{kind}"}}]"#))
}

fn literals(kind: &str, good: &[&str], bad: &[&str]) {
    let check = of_type(kind);
    for value in good {
        let row = format!("{{\"v\":{value}}}");
        assert_eq!(check.fits(row.as_bytes()), Ok(()), "{kind} {value}");
    }
    for value in bad {
        let row = format!("{{\"v\":{value}}}");
        let misfit = check.fits(row.as_bytes()).unwrap_err();
        assert_eq!(misfit.path, "raw.v", "{kind} {value}: {misfit}");
    }
}

#[test]
fn strings_bytes_and_booleans() {
    literals(
        "STRING",
        &["\"\"", "\"\\u00e9\\n\"", "\"\\ud83d\\ude00\"", "null"],
        &["1", "true", "[]", "{}", "\"\\ud800\"", "\"a\\u0000\""],
    );
    literals(
        "BYTES",
        &["\"\"", "\"AA==\"", "\"+/+/\"", "\"\\/\\/\\/\\/\""],
        &["\"AA\"", "\"A\"", "\"-_-_\"", "\"AB==\"", "\"AA== \"", "1"],
    );
    literals("BOOL", &["true", "false"], &["\"true\"", "1", "0", "\"\""]);
}

#[test]
fn numbers() {
    literals(
        "INT64",
        &[
            "0",
            "-0",
            "9223372036854775807",
            "-9223372036854775808",
            "\"9007199254740993\"",
            "\"-1\"",
        ],
        &[
            "9223372036854775808",
            "1.0",
            "1e3",
            "\"\"",
            "\"+1\"",
            "\" 1\"",
            "\"01\"",
            "\"1.0\"",
            "true",
        ],
    );
    literals(
        "FLOAT64",
        &[
            "0",
            "-0.0",
            "0e999",
            "1e308",
            "1.5",
            "12345678901234567890",
            "5e-324",
        ],
        &[
            "1e999",
            "1e-999",
            "\"1.5\"",
            "\"NaN\"",
            "\"Infinity\"",
            "true",
        ],
    );
    let [long, longer] = [29, 30].map(|count| "9".repeat(count));
    literals(
        "DECIMAL",
        &[
            "1",
            "-1.000000001",
            "\"1.5\"",
            "1e28",
            "1e-9",
            "0.0000000010",
            &long,
            "0e99999999999999999999",
        ],
        &[
            "1.0000000001",
            "1e29",
            "1e-10",
            &longer,
            "\"1,5\"",
            "\"\"",
            "1e99999999999999999999",
        ],
    );
    let [long, longer] = [38, 39].map(|count| format!("{0}.{0}", "9".repeat(count)));
    literals(
        "BIGDECIMAL",
        &[&long, "1e-38", "1e37"],
        &[&longer, "1e-39", "1e38"],
    );
}

#[test]
fn dates_and_times() {
    literals(
        "DATE",
        &["\"2026-11-15\"", "\"2024-02-29\"", "\"0001-01-01\""],
        &[
            "\"2026/11/15\"",
            "\"2026-1-15\"",
            "\"2026-02-29\"",
            "\"0000-01-01\"",
            "\"2026-11-15 \"",
            "20261115",
            "\"20é-11-15\"",
        ],
    );
    literals(
        "TIME",
        &["\"00:00:00\"", "\"23:59:59.999999\"", "\"18:24:03.8\""],
        &[
            "\"24:00:00\"",
            "\"23:59:60\"",
            "\"18:24\"",
            "\"8:24:03\"",
            "\"18:24:03.\"",
            "\"18:24:03.1234567\"",
            "\"18:24:03Z\"",
        ],
    );
    literals(
        "DATETIME",
        &["\"2026-11-15T18:24:03\"", "\"2026-11-15 18:24:03.850914\""],
        &[
            "\"2026-11-15\"",
            "\"2026-11-15t18:24:03\"",
            "\"2026-11-15T18:24:03Z\"",
            "\"2026-11-15T18:24:03.8509149\"",
            "\"2026-11-1é5T18:24:03\"",
        ],
    );
    literals(
        "TIMESTAMP",
        &[
            "\"2026-11-15T18:24:03Z\"",
            "\"2026-11-15T18:24:03.850914123Z\"",
            "\"2026-11-15 18:24:03 UTC\"",
            "\"2026-11-15 18:24:03\"",
            "\"2026-11-15T18:24:03+14:00\"",
            "\"2026-11-15T18:24:03.5-05:30\"",
            "\"9999-12-31T23:59:59Z\"",
        ],
        &[
            "1700000000",
            "\"2026-11-15\"",
            "\"2026/11/15 18:24:03\"",
            "\"2026-11-15T18:24:03z\"",
            "\"2026-11-15T18:24:03+14:01\"",
            "\"2026-11-15T18:24:03+1\"",
            "\"2026-11-15T18:24:03 Europe/Berlin\"",
            "\"2026-11-15T18:24:03.0123456789Z\"",
            "\"9999-12-31T23:59:59-01:00\"",
            "\"0001-01-01T00:00:00+01:00\"",
        ],
    );
}

#[test]
fn intervals_places_and_ranges() {
    literals(
        "INTERVAL",
        &["\"0-0 0 0:0:0\"", "\"-1-11 3 -4:5:6.789\""],
        &[
            "\"1-12 0 0:0:0\"",
            "\"P1Y\"",
            "\"1 0 0:0:0\"",
            "\"0-0 0 0:60:0\"",
            "\"0-0 0 0:0:0.1234567\"",
            "\"0-0 0 0:0:0.0000001\"",
            "\"0-0  0:0:0\"",
            "\"10000-0 0 0:0:0\"",
            "5",
        ],
    );
    literals(
        "GEOGRAPHY",
        &[
            "\"POINT(7.4 51.5)\"",
            "\"point (-180 -90)\"",
            "\"MULTIPOINT(1 2, 3 4)\"",
        ],
        &[
            "\"POINT(7.4)\"",
            "\"POINT(1 2 3)\"",
            "\"POINT(181 0)\"",
            "\"POINT(0 91)\"",
            "\"POINT(0 x)\"",
            "\"POINT EMPTY\"",
            "\"MULTIPOINT()\"",
            "\"MULTIPOINT(1 2, 3)\"",
            "\"POLYGON((0 0, 1 0, 1 1, 0 0))\"",
            "{\"type\":\"Point\"}",
        ],
    );
    let range = check(r#"[{"name":"v","type":"RANGE","rangeElementType":{"type":"DATE"}}]"#);
    assert_eq!(range.fits(b"{\"v\":null}"), Ok(()));
    for value in ["\"[2026-01-01, 2027-01-01)\"", "{\"start\":\"2026-01-01\"}"] {
        assert!(range.fits(format!("{{\"v\":{value}}}").as_bytes()).is_err());
    }
}

#[test]
fn a_json_column_takes_anything_it_can_keep() {
    literals(
        "JSON",
        &[
            "{\"a\":[1,null,{\"b\":\"x\"}],\"a\":2}",
            "[]",
            "\"x\"",
            "18446744073709551615",
            "-9223372036854775808",
            "0.1",
            "1.10",
            "2.5e-3",
            "1e300",
            "100000000000000000000",
            "null",
        ],
        &[
            "18446744073709551617",
            "3.14159265358979323846",
            "1e999",
            "1e-999",
            "[\"\\ud800\"]",
            "{\"\\ud800\":1}",
            "{\"a\":[1,[9007199254740993.0]]}",
            "\"\\u0000\"",
        ],
    );
}

const NESTED: &str = r#"[
    {"name":"UUID","type":"STRING","mode":"REQUIRED"},
    {"name":"n","type":"INTEGER"},
    {"name":"tags","type":"STRING","mode":"REPEATED"},
    {"name":"hops","type":"RECORD","mode":"REPEATED","fields":[
        {"name":"ip","type":"STRING","mode":"REQUIRED"},
        {"name":"rtt","type":"FLOAT","mode":"REPEATED"}]},
    {"name":"geo","type":"RECORD","fields":[{"name":"city","type":"STRING","mode":"REQUIRED"}]}
]"#;

#[test]
fn records_arrays_and_names() {
    let check = check(NESTED);
    for row in [
        r#"{"UUID":"1"}"#,
        r#" {"uuid" : "1", "N":5, "geo":null, "tags":[], "hops":null} "#,
        r#"{"geo":{"city":"x"},"hops":[{"ip":"a"},{"rtt":[1,2.5],"ip":"b"}],"tags":["a"],"\u0055UID":"1"}"#,
    ] {
        assert_eq!(check.fits(row.as_bytes()), Ok(()), "{row}");
    }
    for (row, path, reason) in [
        (r#"{}"#, "raw.UUID", "REQUIRED and missing"),
        (r#"{"UUID":null}"#, "raw.UUID", "REQUIRED and null"),
        (r#"{"UUID":"1","x":1}"#, "raw.x", "unknown"),
        (r#"{"UUID":"1","uuid":"2"}"#, "raw.UUID", "twice"),
        (r#"{"UUID":"1","\ud800":1}"#, "raw", "half a surrogate pair"),
        (r#"{"UUID":"1","tags":"a"}"#, "raw.tags", "not an array"),
        (
            r#"{"UUID":"1","tags":["a",null]}"#,
            "raw.tags[1]",
            "must not be null",
        ),
        (
            r#"{"UUID":"1","tags":[["a"]]}"#,
            "raw.tags[0]",
            "not REPEATED",
        ),
        (r#"{"UUID":["1"]}"#, "raw.UUID", "not REPEATED"),
        (r#"{"UUID":{}}"#, "raw.UUID", "no RECORD"),
        (r#"{"UUID":"1","geo":"x"}"#, "raw.geo", "not an object"),
        (
            r#"{"UUID":"1","geo":{}}"#,
            "raw.geo.city",
            "REQUIRED and missing",
        ),
        (
            r#"{"UUID":"1","hops":[{"ip":"a"},{"ip":"a","rtt":["x"]}]}"#,
            "raw.hops[1].rtt[0]",
            "FLOAT",
        ),
        (
            r#"{"UUID":"1","hops":{"ip":"a"}}"#,
            "raw.hops",
            "not an array",
        ),
        ("[]", "raw", "not an object"),
        ("null", "raw", "not an object"),
        ("", "raw", "expected a value"),
        (r#"{"UUID":"1"} x"#, "raw", "follows"),
        (r#"{"UUID":"1","#, "raw", "not JSON at byte 12"),
        (r#"{"UUID":tru}"#, "raw.UUID", "not a STRING"),
    ] {
        let misfit = check.fits(row.as_bytes()).unwrap_err();
        assert_eq!(misfit.path, path, "{row}: {misfit}");
        assert!(misfit.reason.contains(reason), "{row}: {misfit}");
    }
}

#[test]
fn many_columns_are_told_apart() {
    let columns: Vec<Field> = (0..200)
        .map(|number| Field::new(&format!("c{number}"), Kind::Integer, Mode::Required))
        .collect();
    let check = RowCheck::new(&columns);
    let members = |count| {
        (0..count)
            .map(|number| format!("\"c{number}\":{number}"))
            .collect::<Vec<_>>()
    };
    let row = |members: Vec<String>| format!("{{{}}}", members.join(","));
    assert_eq!(check.fits(row(members(200)).as_bytes()), Ok(()));
    let mut backwards = members(200);
    backwards.reverse();
    assert_eq!(check.fits(row(backwards).as_bytes()), Ok(()));
    assert_eq!(
        check.fits(row(members(199)).as_bytes()).unwrap_err().path,
        "raw.c199"
    );
    let mut twice = members(200);
    twice.push("\"c150\":0".to_owned());
    assert_eq!(
        check.fits(row(twice).as_bytes()).unwrap_err().path,
        "raw.c150"
    );
}

/// Printers differ in which of two decimals they write that are as short and as near as can be. What no printer writes, a
/// loader would change.
#[test]
fn a_decimal_that_some_printer_writes_is_kept() {
    for kept in [
        "-720080836345286.2",
        "-720080836345286.3",
        "0.1",
        "1e300",
        "-0.0",
        "5e-324",
        "0.30000000000000004",
    ] {
        assert!(number::is_kept(kept), "{kept}");
    }
    for changed in [
        "-720080836345286.25",
        "9007199254740993.0",
        "0.10000000000000001",
        "0.1000000000000000055511151231257827",
        "18446744073709551617",
        "1e-400",
        "1e400",
    ] {
        assert!(!number::is_kept(changed), "{changed}");
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_what_fits_is_json(bytes in prop::collection::vec(prop::sample::select(
        vec!["{", "}", "[", "]", ",", ":", "\"UUID\"", "\"n\"", "\"tags\"", "\"geo\"", "\"city\"", "1", "null", "\"\\ud800\"", "\"é\"", " "]
    ), 0..14)) {
        let text = bytes.concat();
        if check(NESTED).fits(text.as_bytes()).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }

    #[test]
    fn any_float_that_is_printed_is_kept(float: f64) {
        prop_assume!(float.is_finite());
        for text in [format!("{float}"), format!("{float:e}"), serde_json::to_string(&float).unwrap()] {
            prop_assert!(number::is_kept(&text) && (float == 0.0 || number::is_float(&text)), "{}", text);
        }
    }

    #[test]
    fn any_instant_is_a_timestamp(micros in 0_i64..253_402_200_000_000_000) {
        let text = jiff::Timestamp::from_microsecond(micros).unwrap().to_string();
        prop_assert!(civil::is_timestamp(&text), "{}", text);
    }
}
