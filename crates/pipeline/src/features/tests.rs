use super::filter::Filter;
use super::*;

/// Fewer than in earnest: the tests are not optimised.
const STEPS: u64 = 50_000;

const DOCUMENT: &str = r#"{
  "input": "http://example.org/", "probe_cc": "DE", "n": 3, "flag": false,
  "test_keys": {
    "blocking": "dns", "accessible": null, "empty": {}, "list": [3, 1, 2],
    "requests": [
      {"failure": null, "request": {"url": "u1"}, "response": {"code": 200, "body": "abc", "headers": {"A": "1", "B": "2"}}},
      {"failure": "timeout", "request": {"url": "u2"}, "response": {"code": 0, "body": "", "headers": {}}},
      "odd", 7
    ]
  }
}"#;

/// What a filter makes of a text, with only the parts that it looks at.
fn made(code: &str, text: &str) -> Vec<Result<Json, String>> {
    let filter = Filter::compile(code).unwrap_or_else(|why| panic!("{code}: {why}"));
    let mut interest = filter.interest.clone();
    interest.settle();
    run(&filter, &interest, text)
}

fn run(filter: &Filter, interest: &Interest, text: &str) -> Vec<Result<Json, String>> {
    let document = prune::prune(text.as_bytes(), interest, None).unwrap();
    let mut made = Vec::new();
    filter.run(document, STEPS, |value| made.push(value));
    made
}

#[test]
fn a_part_of_a_document_is_as_good_as_all_of_it() {
    let all = Interest::everything();
    for code in [
        ".",
        ".input",
        "{input, cc: .probe_cc}",
        "{(.probe_cc): .n}",
        ".test_keys | {blocking, accessible}",
        ".test_keys.requests[] | .failure?",
        ".test_keys.requests[]? | objects | {u: .request.url, c: .response.code}",
        "[.test_keys.requests[] | objects | .response.headers[]]",
        "[.test_keys.requests[] | objects | .response.headers | length]",
        ".test_keys.requests | length",
        "[.test_keys.requests[]] | length",
        ".test_keys.requests[0].response | keys",
        ".test_keys.requests[-1]",
        ".test_keys.requests[1:3] | length",
        ".test_keys as $t | $t.blocking, ($t.requests | first | .request)",
        ".test_keys as {blocking: $b, $accessible} | [$b, $accessible]",
        ". as {test_keys: {list: [$a, $b]}} | $a + $b",
        "reduce .test_keys.list[] as $x (0; . + $x)",
        "reduce .test_keys.requests[] as $r (.; .n) | .probe_cc?",
        "[foreach .test_keys.list[] as $x (0; . + $x; [$x, .])]",
        "[limit(2; .test_keys.list[])], first(.test_keys.list[])",
        ".test_keys.list | sort, (map(. * 2) | add), max, any(. > 2), all(. > 2)",
        "if .test_keys.empty then .n else .flag end",
        "if .flag then 1 elif .test_keys.requests then 2 else 3 end",
        "if .flag then 1 end | .input",
        "select(.test_keys | has(\"blocking\")) | .n",
        "select(.test_keys.accessible | not) | .n",
        ".flag // .test_keys.accessible // .test_keys.blocking",
        "[.test_keys[\"blocking\"], .[\"input\"], .test_keys[.probe_cc]]",
        "\"\\(.input) \\(.test_keys.list)\"",
        "[.. | numbers]",
        ".test_keys | to_entries | map(.key)",
        ".test_keys | map(type), map_or(.)",
        "[.test_keys.requests[] | type]",
        ".test_keys.requests | map(select(type == \"object\") | .response.code // -1)",
        "try error(\"x\") catch .",
        "try (.input | .a) catch \"no\"",
        ".test_keys.requests[] | select(type == \"object\") | select(.failure) | .request.url",
        "[.test_keys.requests[] | objects | select(.response.body | test(\"^a.c$\")) | .request.url]",
        ".input | split(\"/\") | last",
        "label $out | .test_keys.list[] | if . == 1 then ., break $out else . end",
        "-.n, (.n | tostring | tojson | fromjson)",
        ".test_keys.list == [3, 1, 2], (.test_keys.list + [1] | length)",
        ".test_keys.requests[0].response == {}",
        ".a.b.c, (.test_keys.blocking | .x?)",
        ".test_keys.blocking.x",
        "[.test_keys.list, [1]] | flatten | unique | group_by(. > 1)",
        "@base64 \"\\(.input)\", (.input | @uri)",
        "\"2016-12-31T00:00:30Z\" | fromdate | todate",
        "isempty(.test_keys.requests[] | strings), ([.test_keys.empty[]] | length)",
    ] {
        if code.contains("map_or") {
            assert!(Filter::compile(code).is_err());
            continue;
        }
        let filter = Filter::compile(code).unwrap_or_else(|why| panic!("{code}: {why}"));
        let whole = run(&filter, &all, DOCUMENT);
        let part = made(code, DOCUMENT);
        // Messages quote values, of which a part is shorter.
        let strip = |made: Vec<Result<Json, String>>| -> Vec<Result<Json, ()>> {
            made.into_iter().map(|value| value.map_err(drop)).collect()
        };
        assert!(!whole.is_empty(), "{code}");
        assert_eq!(strip(part), strip(whole), "{code}");
    }
}

#[test]
fn only_what_is_looked_at_is_built() {
    for (code, left) in [
        (".input", r#"{"input":"http://example.org/"}"#),
        (
            "[.test_keys.requests[] | objects | .response.code]",
            r#"{"test_keys":{"requests":[{"response":{"code":200}},{"response":{"code":0}},"odd",7]}}"#,
        ),
        (
            ".test_keys | {blocking}",
            r#"{"test_keys":{"blocking":"dns"}}"#,
        ),
        (
            "if .test_keys.empty then .n else 1 end",
            r#"{"n":3,"test_keys":{"empty":{}}}"#,
        ),
    ] {
        let mut interest = Filter::compile(code).unwrap().interest;
        interest.settle();
        let document = prune::prune(DOCUMENT.as_bytes(), &interest, None).unwrap();
        assert_eq!(document.to_string(), left, "{code}");
    }
}

#[test]
fn nothing_hangs_or_takes_the_stack() {
    let many = format!(
        "{{\"a\":[{}1],\"s\":\"{}\"}}",
        "1,".repeat(3_000),
        "a".repeat(100_000)
    );
    for code in [
        "[range(1e12)]",
        "last(range(1e12))",
        "reduce range(1e12) as $i (0; . + 1)",
        "reduce range(100) as $i (\"a\"; . + .)",
        "reduce range(100) as $i ([1]; . + .)",
        "reduce range(100) as $i (0; [., .])",
        "reduce range(100) as $i (0; {a: ., b: .}) | tojson",
        "reduce range(1000000) as $i (0; [.])",
        "reduce range(1000000) as $i (0; {a: .})",
        "\"x\" * 1e9",
        "1e9 * \"x\"",
        ".a[] as $x | .a[] as $y | .a[] as $z | select($x > $y and $y > $z)",
        "[.a[] as $x | .a | length]",
        "[limit(1e9; range(1e12))] | length",
        "[range(1e12)?] | length",
        "any(range(1e12); . < 0)",
        "first(range(1e12) | select(. < 0))",
        ".s | gsub(\"a\"; \"b\")",
        "[.s | scan(\"a\")] | length",
        "[range(1e9)] | tojson",
        "[.a[] as $x | .a | tojson] | length",
        "[.a[] as $x | .a == .a] | length",
        "[.a[] as $x | .s + \"x\"] | length",
        "[foreach range(1e12) as $x (0; . + 1; empty)]",
        "[range(1e12) | {a: {b: {}}} | .a[].b[]?] | length",
    ] {
        let made = made(code, &many);
        assert!(
            matches!(made.last(), Some(Err(_))),
            "{code}: {:?}",
            made.len()
        );
    }
    assert_eq!(
        made("range(20000)", "{}").len(),
        10_001,
        "so many rows and an error"
    );
    for code in [
        "[.a[] | try (range(1e12) | error) catch empty]",
        ".a | join(\",\") | length",
        ".a | add",
        ".a | sort | unique | length",
        ".a | map(tostring) | add | length",
        ".a | to_entries | length",
        ".a | group_by(.) | length",
    ] {
        // It ends, with or without an answer.
        made(code, &many);
    }
}

#[test]
fn a_string_that_is_deep_json_is_an_error() {
    let deep = format!("{{\"s\":\"{}\"}}", "[".repeat(1_000_000));
    for code in [".s | fromjson", ".s | tonumber", ".s | toboolean"] {
        assert!(matches!(made(code, &deep)[..], [Err(_)]), "{code}");
    }
    assert_eq!(made(".s | tonumber", r#"{"s":"12"}"#), [Ok(Json::from(12))]);
}

#[test]
fn filters_that_could_do_more_are_refused() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let long = "1,".repeat(50_000) + "1";
    for code in [
        "def f: f; f",
        "repeat(1)",
        "recurse(.)",
        "until(false; .)",
        "while(true; .)",
        "input",
        "inputs",
        "now",
        "env",
        "$ENV",
        "debug",
        "halt",
        "walk(1)",
        ".a = 1",
        ".a |= 1",
        ".a += 1",
        "path(..)",
        "paths",
        "del(.a)",
        "combinations",
        "test(.a)",
        "contains(.a)",
        "sub(.a; \"\")",
        "nothing",
        "$x",
        ".a |",
        "[1",
        "limit(1)",
        "import \"a\" as a; 1",
        "input_filename",
        "splits(.a)",
        "transpose",
        "{(.a)}",
        &deep,
        &long,
        "",
    ] {
        if code.is_empty() {
            continue;
        }
        let refused = Filter::compile(code);
        assert!(refused.is_err(), "{}", &code[..code.len().min(30)]);
    }
    assert_eq!(
        Filter::compile(".a | nothing").unwrap_err(),
        "it calls `nothing/0`, which filters may not"
    );
    let wrong = Filter::compile("{a: 1").unwrap_err();
    assert!(wrong.starts_with("it is no filter: expected"), "{wrong}");
}

const FILE: &str = r#"
time:
  - {at: measurement_start_time, format: "%Y-%m-%d %H:%M:%S"}
  - {at: test_keys.at, format: epoch}
features:
  - table: verdict
    version: 2
    min_compatible: 1
    kinds: [web_connectivity]
    filter: '{input, blocking: .test_keys.blocking}'
    columns: [{name: input, type: text}, {name: blocking, type: text}]
  - table: request
    version: 1
    filter: '.test_keys.requests[] | {code: .response.code}'
    columns: [{name: code, type: int}]
aggregates:
  - table: per_day
    version: 1
    query: select count(*) from measurement where date = $1
    columns: [{name: count, type: int}]
"#;

fn kind(text: &str) -> Kind {
    text.parse().unwrap()
}

#[test]
fn a_file_declares_what_is_made_of_which_kind() {
    let features = Features::parse(FILE).unwrap();
    assert_eq!(features.features().count(), 2);
    assert_eq!(features.aggregates()[0].name, "per_day");
    let versions = features.versions(&kind("web_connectivity"));
    let versions: Vec<_> = versions
        .iter()
        .map(|v| (v.name.as_str(), v.version, v.min_compatible))
        .collect();
    assert_eq!(versions, [("verdict", 2, 1), ("request", 1, 1)]);
    assert_eq!(features.versions(&kind("ndt")).len(), 1);

    let mut residual = Residual::default();
    let web = features.extractor(&kind("web_connectivity"), |_| true);
    let extracted = web.extract(DOCUMENT.as_bytes(), &mut residual);
    let rows: Vec<_> = extracted
        .rows
        .iter()
        .map(|row| {
            (
                row.feature.as_str(),
                Json::Array(row.values.clone()).to_string(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("verdict", r#"["http://example.org/","dns"]"#.to_owned()),
            ("request", "[200]".to_owned()),
            ("request", "[0]".to_owned()),
        ]
    );
    let bad = &extracted.bad_rows[..];
    assert!(
        matches!(bad, [bad] if bad.feature == "request" && bad.reason.contains("odd")),
        "{bad:?}"
    );
    let only = features.extractor(&kind("web_connectivity"), |name| name == "verdict");
    assert_eq!(
        only.extract(DOCUMENT.as_bytes(), &mut residual).rows.len(),
        1
    );
    assert_eq!(
        web.extract(b"\x00 no JSON", &mut residual),
        Extracted::default()
    );
}

#[test]
fn what_nobody_reads_is_summed_up_by_document() {
    let features = Features::parse(FILE).unwrap();
    let web = features.extractor(&kind("web_connectivity"), |_| false);
    let mut residual = Residual::default();
    for _ in 0..3 {
        web.extract(DOCUMENT.as_bytes(), &mut residual);
    }
    web.extract(br#"{"n":"x"}"#, &mut residual);
    let counts: Vec<String> = residual
        .counts()
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    assert_eq!(
        counts,
        [
            "flag: boolean 3",
            "n: number 3",
            "n: string 1",
            "probe_cc: string 3",
            "test_keys.accessible: null 3",
            "test_keys.empty: {} 3",
            "test_keys.list[]: number 3",
            "test_keys.requests[].failure: null 3",
            "test_keys.requests[].failure: string 3",
            "test_keys.requests[].request.url: string 3",
            "test_keys.requests[].response.body: string 3",
            "test_keys.requests[].response.headers.A: string 3",
            "test_keys.requests[].response.headers.B: string 3",
            "test_keys.requests[].response.headers: {} 3",
        ]
    );
    let keys: String = (0..30_000).map(|n| format!("\"k{n}\":1,")).collect();
    web.extract(format!("{{{keys}\"z\":1}}").as_bytes(), &mut residual);
    let counts = residual.counts();
    assert!(counts.len() < 20_001);
    assert_eq!(counts["(more places than are counted)"], 1);
}

#[test]
fn the_time_is_the_first_that_can_be_read() {
    let features = Features::parse(FILE).unwrap();
    let web = features.extractor(&kind("ndt"), |_| true);
    let time = |text: &str| {
        web.extract(text.as_bytes(), &mut Residual::default())
            .time_ms
    };
    assert_eq!(
        time(r#"{"measurement_start_time":"1970-01-01 00:00:02","test_keys":{"at":5}}"#),
        Some(2000)
    );
    assert_eq!(
        time(r#"{"measurement_start_time":"soon","test_keys":{"at":1.5}}"#),
        Some(1500)
    );
    assert_eq!(time(r#"{"test_keys":{"at":"x"}}"#), None);
}

#[test]
fn the_example_makes_rows_of_what_is_like_ooni() {
    let features = Features::parse(include_str!("../../../../examples/ooni/features.yml")).unwrap();
    let web = features.extractor(&kind("web_connectivity"), |_| true);
    let mut residual = Residual::default();
    for line in cannery_testkit::reports::web_connectivity_json(1 << 20) {
        let extracted = web.extract(&line, &mut residual);
        assert_eq!(extracted.bad_rows, []);
        assert!(extracted.time_ms.is_some());
        let rows = |table: &str| {
            extracted
                .rows
                .iter()
                .filter(|row| row.feature == table)
                .count()
        };
        assert_eq!((rows("probe"), rows("web_verdict")), (1, 1));
        assert!(rows("web_request") > 0);
    }
}

#[test]
fn a_wrong_file_says_where() {
    let wrong = |from: &str, to: &str| {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE);
        Features::parse(&text).unwrap_err().to_string()
    };
    assert!(
        wrong("{input, blocking", "{input, (")
            .starts_with("feature `verdict`: its filter: it is no filter")
    );
    assert!(wrong("table: request", "table: verdict").contains("twice"));
    assert!(wrong("table: request", "table: Request").contains("`Request`"));
    assert!(wrong("min_compatible: 1", "min_compatible: 3").contains("min_compatible"));
    assert!(wrong("format: epoch", "format: soon").contains("`soon`"));
    assert!(wrong("[web_connectivity]", "[a-b]").contains("a-b"));
    assert!(wrong("aggregates:", "agregates:").contains("agregates"));
}
