use super::*;

fn environment() -> Environment {
    Environment::all([("SECRET".to_owned(), "canary-in-env".to_owned())])
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, &environment(), None, &Origin::Here)
}

fn error_of(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_is_a_whole_configuration() {
    let config = parse("").unwrap();
    assert_eq!(config.workspace, Path::new("cannery-data"));
    assert_eq!(config.object_storage[0].place(), "file:cannery-data/lake");
    assert_eq!(config.serve.listen.to_string(), "127.0.0.1:8420");
    let embedded = Config::embedded(None).unwrap();
    assert_eq!(
        serde_json::to_value(&config).unwrap(),
        serde_json::to_value(embedded).unwrap()
    );
    assert!(parse("object_storage:\nserve:\n").is_ok());
}

#[test]
fn the_keys_of_an_s3_service_are_understood() {
    let config = parse(
        "object_storage:\n- id: main\n  bucket: b\n  prefix: /p/\n  endpoint_url: http://127.0.0.1:9000\n  region_name: x\n  \
         service_name: s3\n  aws_access_key_id: 0123\n  aws_secret_access_key: {{ .SECRET }}\n- url: gs://other/deep\n",
    )
    .unwrap();
    let [main, mirror] = &config.object_storage[..] else {
        panic!()
    };
    assert_eq!(
        (main.place(), main.id.as_str()),
        ("s3://b/p".to_owned(), "main")
    );
    assert_eq!(main.aws_access_key_id.as_ref().unwrap().expose(), "0123");
    assert_eq!(
        main.aws_secret_access_key.as_ref().unwrap().expose(),
        "canary-in-env"
    );
    assert_eq!(
        (mirror.place(), mirror.id.as_str()),
        ("gs://other/deep".to_owned(), "mirror1")
    );
}

#[test]
fn a_mistake_names_its_line_and_the_likely_key() {
    for (text, reason) in [
        (
            "worskpace: x\n",
            "line 1: unknown key `worskpace`; did you mean `workspace`?",
        ),
        (
            "serve:\n  listn: x\n",
            "line 2: `serve`: unknown key `listn`; did you mean `listen`?",
        ),
        (
            "object_storage:\n- id: a\n  buckt: x\n",
            "line 3: `object_storage`: unknown key `buckt`; did you mean `bucket`?",
        ),
        (
            "zzz: 1\n",
            "unknown key `zzz`; known here: `workspace`, `node`, `object_storage`, `spools`, `feeds`, `journals`, `catalog`, `state`, `pipeline`, `serve`, `monitoring_hours`, `flush_timeout`",
        ),
        (
            "serve: 5\n",
            "line 1: `serve`: expected a map of keys, found a number",
        ),
        (
            "serve:\n  listen: everywhere\n",
            "`serve.listen`: `everywhere` is not an address",
        ),
        (
            "object_storage:\n- service_name: s4\n  bucket: b\n",
            "`s4` is not one of `s3`, `gs`, `az`",
        ),
        (
            "object_storage:\n- {id: a, url: 's3://x', bucket: x}\n",
            "either `url` or `bucket`",
        ),
        (
            "object_storage:\n- {id: a, url: 'ftp://x'}\n",
            "object storage `a`: `ftp://x` is not the URL of a lake",
        ),
        (
            "object_storage:\n- {id: a}\n- {id: a, url: 'memory:'}\n",
            "two object storages have the id `a`",
        ),
        (
            "object_storage:\n- {id: a}\n- {id: b}\n",
            "`a` and `b` are the same place",
        ),
        (
            "object_storage:\n- {id: a, bucket: b, aws_access_key_id: x}\n",
            "come only together",
        ),
        (
            "object_storage:\n- {id: a, bucket: b, prefix: ../x}\n",
            "`prefix`: it has a `.` or `..` component",
        ),
        ("node: a b\n", "`a b` is not a host name"),
        (
            "node: '@/does/not/exist'\n",
            "cannot read `/does/not/exist`",
        ),
        (
            "flush_timeout: 5\n",
            "line 1: `flush_timeout`: `5` is not a duration; write for example `500ms`",
        ),
        ("a: [1\n", "line"),
    ] {
        let error = error_of(text);
        assert!(
            error.contains(reason),
            "{text:?}\n  got    {error}\n  wanted {reason}"
        );
    }
}

#[test]
fn no_secret_is_shown_anywhere() {
    let config = parse(
        "object_storage:\n- id: a\n  bucket: b\n  endpoint_url: https://user:canary-in-url@host/?token=canary-in-query\n  \
         aws_access_key_id: canary-key-id\n  aws_secret_access_key: {{ env.SECRET }}\n",
    )
    .unwrap();
    let shown = format!("{}{config:?}", serde_json::to_string(&config).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    for text in [
        "object_storage:\n- {id: a, url: 'ftp://user:canary-in-url@x'}\n",
        "object_storage:\n- {id: a, url: 's3://canary-user:canary-pass@x/../y'}\n",
        "object_storage:\n- {id: a, aws_secret_access_key: [canary-in-list]}\n",
        "object_storage:\n- {id: a, aws_secret_access_key: 'canary-before-error, b: ]\n",
    ] {
        let error = error_of(text);
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn a_file_that_holds_no_name_is_not_quoted() {
    let error = error_of("node: '@/etc/passwd'\n");
    assert!(!error.contains("root"), "{error}");
}

#[test]
fn a_rotated_secret_is_a_change() {
    let config = |secret: &str| {
        parse(&format!("object_storage:\n- {{bucket: b, aws_access_key_id: some-id, aws_secret_access_key: {secret}}}\n")).unwrap()
    };
    assert_eq!(
        config("one-secret").fixed_changes(&config("two-secret")),
        ["object_storage"]
    );
}

#[test]
fn a_reload_tells_what_cannot_change() {
    let one = parse("node: a\n").unwrap();
    let two = parse("node: b\nserve: {listen: '127.0.0.1:1'}\n").unwrap();
    assert_eq!(one.fixed_changes(&two), ["node", "serve"]);
    assert_eq!(one.fixed_changes(&one), Vec::<&str>::new());
}

#[test]
fn the_schema_names_every_key() {
    let schema = Config::schema();
    for key in ["workspace", "node", "object_storage", "journals", "serve"] {
        assert!(schema["properties"][key].is_object(), "{key}: {schema}");
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn two_audiences_never_share_a_port() {
    for (keys, wrong) in [
        ("admin_listen: '127.0.0.1:8420'", Some("listen")),
        ("admin_listen: '0.0.0.0:8420'", Some("listen")),
        (
            "monitoring_listen: '0.0.0.0:9', admin_listen: '127.0.0.1:9'",
            Some("monitoring_listen"),
        ),
        ("admin_listen: '127.0.0.1:8421'", None),
        ("listen: '127.0.0.1:0', admin_listen: '127.0.0.1:0'", None),
    ] {
        let found = parse(&format!("serve: {{{keys}}}\n"));
        match wrong {
            None => assert!(found.is_ok(), "{keys}"),
            Some(other) => {
                let error = found.unwrap_err().to_string();
                let expected = format!("`serve.admin_listen` and `serve.{other}` are the same");
                assert!(error.contains(&expected), "{keys}: {error}");
            }
        }
    }
}

#[test]
fn a_port_that_stops_the_process_is_warned_of_where_others_reach_it() {
    let warnings = |address: &str| {
        let text = format!("serve: {{admin_listen: '{address}'}}\n");
        parse(&text).unwrap().warnings()
    };
    assert_eq!(warnings("127.0.0.1:1"), [""; 0]);
    assert_eq!(warnings("[::1]:1"), [""; 0]);
    assert!(warnings("0.0.0.0:1")[0].contains("can stop the process"));
}

#[test]
fn what_a_process_cannot_change_stays_in_force() {
    let mut in_force = parse("node: one-a\n").unwrap();
    let new = parse("node: two-a\nflush_timeout: 5s\n").unwrap();
    assert!(in_force.take_over(&new));
    assert!(!in_force.take_over(&new));
    assert_eq!(in_force.flush_timeout, new.flush_timeout);
    // It is said at every reload until the restart, and not once it was taken back.
    assert_eq!(in_force.fixed_changes(&new), ["node"]);
    let back = parse("node: one-a\n").unwrap();
    assert!(in_force.fixed_changes(&back).is_empty());
}

#[test]
fn the_places_of_databases_are_shown_as_they_can_be_read_again() {
    let text = "catalog: sqlite:c.db\nstate: postgres://me@h/d\n";
    let config = parse(text).unwrap();
    let shown = serde_saphyr::to_string(&config).unwrap();
    assert!(shown.contains("postgres://me@h/d"), "{shown}");
    assert_eq!(parse(&shown).unwrap(), config, "{shown}");
    let secret = parse("state: postgres://me:canary-pass@h/d\n").unwrap();
    let shown = format!("{}{secret:?}", serde_json::to_string(&secret).unwrap());
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(config.fixed_changes(&secret), ["catalog", "state"]);
    let error = error_of("catalog: sqlite:x.db\nstate: sqlite:x.db\n");
    assert!(error.contains("are the same file"), "{error}");
    let error = error_of("state: mysql://canary@h\n");
    assert!(
        error.contains("`state`: it is no state") && !error.contains("canary"),
        "{error}"
    );
}
