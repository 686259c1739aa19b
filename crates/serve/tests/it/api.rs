//! The interface for programs, over real connections: the objects of users.

use cannery_formats::UserName;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::api_demo::{ApiDemo, Setup, code, token};
use crate::client::{Answer, read, request, send};

#[tokio::test]
async fn an_object_is_put_got_in_part_and_deleted() {
    let api = ApiDemo::start().await;
    api.make("/ann/stor/d").await;
    let put = api
        .put(
            "/ann/stor/d/a%20b",
            "content-type: text/plain\r\nm-color: red\r\nset-cookie: x=1\r\n",
            "hello",
        )
        .await;
    assert_eq!(put.status, 204);
    let etag = put.header("etag").to_owned();
    let got = api.ask("GET", "/ann/stor/d/a%20b", "").await;
    assert_eq!((got.status, got.body.as_str()), (200, "hello"));
    assert_eq!(got.header("content-type"), "text/plain");
    assert_eq!(
        (got.header("m-color"), got.header("set-cookie")),
        ("red", "")
    );
    assert_eq!(
        (got.header("etag"), got.header("computed-md5")),
        (etag.as_str(), "XUFAKrxLKna5cZ2REBfFkg==")
    );
    assert_eq!(
        (
            got.header("content-security-policy"),
            got.header("x-content-type-options")
        ),
        ("sandbox", "nosniff")
    );
    assert_eq!(got.header("x-request-id").len(), 26);

    let part = api
        .ask("GET", "/ann/stor/d/a%20b", "range: bytes=1-99\r\n")
        .await;
    assert_eq!((part.status, part.body.as_str()), (206, "ello"));
    assert_eq!(part.header("content-range"), "bytes 1-4/5");
    let none = api
        .ask("GET", "/ann/stor/d/a%20b", "range: bytes=5-\r\n")
        .await;
    assert_eq!(
        code(&none),
        (416, "RequestedRangeNotSatisfiable".to_owned())
    );
    let head = api.ask("HEAD", "/ann/stor/d/a%20b", "").await;
    assert_eq!(
        (
            head.status,
            head.header("content-length"),
            head.body.as_str()
        ),
        (200, "5", "")
    );
    let same = api
        .ask(
            "GET",
            "/ann/stor/d/a%20b",
            &format!("if-none-match: {etag}\r\n"),
        )
        .await;
    assert_eq!((same.status, same.body.as_str()), (304, ""));

    let full = api.ask("DELETE", "/ann/stor/d", "").await;
    assert_eq!(code(&full), (400, "DirectoryNotEmpty".to_owned()));
    assert_eq!(api.ask("DELETE", "/ann/stor/d/a%20b", "").await.status, 204);
    assert_eq!(api.ask("DELETE", "/ann/stor/d", "").await.status, 204);
    let gone = api.ask("GET", "/ann/stor/d/a%20b", "").await;
    assert_eq!(code(&gone), (404, "ResourceNotFound".to_owned()));
}

#[tokio::test]
async fn a_directory_is_listed_by_pages() {
    let api = ApiDemo::start().await;
    api.make("/ann/stor/d").await;
    api.make("/ann/stor/d/sub").await;
    for name in ["c", "a", "b"] {
        api.put(&format!("/ann/stor/d/{name}"), "", name).await;
    }
    let page = api.ask("GET", "/ann/stor/d?limit=2", "").await;
    assert_eq!(
        page.header("content-type"),
        "application/x-json-stream; type=directory"
    );
    assert_eq!(page.header("result-set-size"), "4");
    let names = |page: &Answer| -> Vec<String> {
        let lines = page
            .body
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&page), ["a", "b"]);
    let next = format!("/ann/stor/d?limit=2&marker={}", page.header("page-token"));
    let page = api.ask("GET", &next, "").await;
    assert_eq!(
        (names(&page), page.header("page-token")),
        (vec!["c".to_owned(), "sub".to_owned()], "")
    );
    // A name as the marker is part of the page, as the original's client expects.
    assert_eq!(
        names(&api.ask("GET", "/ann/stor/d?marker=b&obj=true", "").await),
        ["b", "c"]
    );
    assert_eq!(
        names(&api.ask("GET", "/ann/stor/d?dir=true", "").await),
        ["sub"]
    );
    assert_eq!(
        names(
            &api.ask("GET", "/ann/stor/d?sort_order=reverse&limit=1", "")
                .await
        ),
        ["sub"]
    );
    assert_eq!(names(&api.ask("GET", "/ann/stor", "").await), ["d"]);
    for wrong in [
        "limit=0",
        "limit=1025",
        "limit=x",
        "sort=size",
        "sort_order=up",
        "sort=mtime&marker=x",
        "a=1&a=2",
        "obj=maybe",
        "dir=1",
    ] {
        assert_eq!(
            api.ask("GET", &format!("/ann/stor/d?{wrong}"), "")
                .await
                .status,
            400,
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn others_get_what_is_public_and_nothing_else() {
    let api = ApiDemo::start().await;
    api.put("/ann/stor/secret", "", "s").await;
    api.put(
        "/ann/public/page",
        "content-type: text/html\r\n",
        "<script>alert(1)</script>",
    )
    .await;
    let anybody = request(api.demo.address, "GET", "/ann/public/page", "").await;
    assert_eq!(
        (anybody.status, anybody.header("content-security-policy")),
        (200, "sandbox")
    );
    assert_eq!(anybody.header("access-control-allow-origin"), "*");
    let read_only = token(&api.state, "ann", "read").await;
    let refused = [
        ("GET", "/ann/stor/secret", "", 401, "AuthorizationRequired"),
        (
            "GET",
            "/ann/stor/secret",
            api.bob.as_str(),
            403,
            "AuthorizationFailed",
        ),
        (
            "PUT",
            "/ann/stor/secret",
            read_only.as_str(),
            403,
            "AuthorizationFailed",
        ),
        (
            "DELETE",
            "/ann/public/page",
            api.bob.as_str(),
            403,
            "AuthorizationFailed",
        ),
        (
            "DELETE",
            "/ann/public/page",
            "",
            401,
            "AuthorizationRequired",
        ),
        (
            "GET",
            "/ann/stor/secret",
            "authorization: Bearer cannery_a_b\r\n",
            401,
            "AuthorizationRequired",
        ),
        (
            "GET",
            "/ann/public/page",
            "authorization: Bearer cannery_a_b\r\n",
            401,
            "AuthorizationRequired",
        ),
        (
            "GET",
            "/ann/stor/secret",
            "authorization: Basic YTpi\r\n",
            401,
            "AuthorizationRequired",
        ),
        (
            "PUT",
            "/ann/jobs/1/in.txt",
            api.ann.as_str(),
            403,
            "AuthorizationFailed",
        ),
        ("GET", "/nobody/public/x", "", 404, "ResourceNotFound"),
    ];
    for (method, path, credential, status, expected) in refused {
        let answer = request(api.demo.address, method, path, credential).await;
        assert_eq!(
            code(&answer),
            (status, expected.to_owned()),
            "{method} {path}"
        );
    }
    let both = format!("{}{}", api.ann, api.bob);
    assert_eq!(
        request(api.demo.address, "GET", "/ann/stor/secret", &both)
            .await
            .status,
        400
    );
    let tokens = api
        .state
        .tokens(Some(&UserName::new("ann").unwrap()))
        .await
        .unwrap();
    for token in tokens {
        api.state.revoke_token(&token.id).await.unwrap();
    }
    assert_eq!(api.ask("GET", "/ann/stor/secret", "").await.status, 401);
    // A link would be another way to read.
    let location = "location: /ann/stor/secret\r\ncontent-type: application/json; type=link\r\ncontent-length: 0\r\n";
    let stolen = request(
        api.demo.address,
        "PUT",
        "/bob/stor/stolen",
        &format!("{}{location}", api.bob),
    )
    .await;
    assert_eq!(code(&stolen), (403, "AuthorizationFailed".to_owned()));
}

#[tokio::test]
async fn a_credential_that_others_can_read_is_refused() {
    let api = ApiDemo::start().await;
    for forwarded in [
        "forwarded: for=192.0.2.1\r\n",
        "x-forwarded-for: 192.0.2.1\r\n",
        "via: 1.1 p\r\n",
    ] {
        let answer = api.ask("GET", "/ann/stor", forwarded).await;
        assert_eq!(
            code(&answer),
            (403, "AuthorizationFailed".to_owned()),
            "{forwarded}"
        );
    }
    assert_eq!(api.ask("GET", "/ann/stor", "").await.status, 200);
    let rebound = "GET /ann/public HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(send(api.demo.address, rebound.as_bytes()).await.status, 421);
    let behind = Setup {
        is_proxied: true,
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(behind.ask("GET", "/ann/stor", "").await.status, 403);
}

#[tokio::test]
async fn what_is_refused_is_refused_before_its_body_is_read() {
    let api = ApiDemo::start().await;
    let ann = &api.ann;
    let expecting = |path: &str, more: &str| {
        let address = api.demo.address;
        format!(
            "PUT {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: 5\r\nexpect: 100-continue\r\nconnection: close\r\n{ann}{more}\r\n"
        )
    };
    for (path, more, status, expected) in [
        ("/ann/stor/no/a", "", 404, "DirectoryDoesNotExist"),
        (
            "/ann/stor/a",
            "if-match: \"x\"\r\n",
            412,
            "PreconditionFailed",
        ),
        ("/bob/stor/a", "", 403, "AuthorizationFailed"),
        ("/ann/stor/..", "", 400, "InvalidArgument"),
        (
            "/ann/stor/no/d",
            "content-type: application/json; type=directory\r\n",
            404,
            "DirectoryDoesNotExist",
        ),
        (
            "/ann/stor/d",
            "content-type: application/json; type=link\r\nlocation: /ann/stor/no\r\n",
            404,
            "ResourceNotFound",
        ),
    ] {
        // Nothing of the body is ever sent: an answer shows that nobody waited for it.
        let answer = send(api.demo.address, expecting(path, more).as_bytes()).await;
        assert_eq!(code(&answer), (status, expected.to_owned()), "{path}");
    }
    let mut accepted = expecting("/ann/stor/a", "");
    accepted.push_str("hello");
    assert_eq!(
        send(api.demo.address, accepted.as_bytes()).await.status,
        100
    );
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.body, "hello");
}

#[tokio::test]
async fn what_is_not_what_it_says_stores_nothing() {
    let api = ApiDemo::start().await;
    let wrong = api
        .put(
            "/ann/stor/a",
            "content-md5: kAFQmDzST7DWlj99KOF/cg==\r\n",
            "hello",
        )
        .await;
    assert_eq!(code(&wrong), (400, "ContentMD5Mismatch".to_owned()));
    let (ann, address) = (&api.ann, api.demo.address);
    let head = format!("PUT /ann/stor/a HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{ann}");
    let odd_chunk = format!("{head}transfer-encoding: chunked\r\n\r\nzz\r\nhello");
    assert_eq!(
        code(&send(address, odd_chunk.as_bytes()).await),
        (400, "ContentLength".to_owned())
    );
    let long = format!("m-x: {}\r\n", "x".repeat(5_000));
    assert_eq!(api.put("/ann/stor/a", &long, "hello").await.status, 400);
    let deep = format!("/ann/stor/{}", "a".repeat(5_000));
    assert_eq!(
        code(&api.put(&deep, "", "hello").await),
        (400, "InvalidArgument".to_owned())
    );
    // One that ends before it should; who sent it still listens.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let short = format!("{head}content-length: 10\r\n\r\nhello");
    stream.write_all(short.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(code(&read(stream).await), (400, "ContentLength".to_owned()));
    api.state.limit_user("ann", Some(4)).await.unwrap();
    assert_eq!(
        code(&api.put("/ann/stor/a", "", "hello").await),
        (403, "QuotaExceeded".to_owned())
    );
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.status, 404);
}

/// Nobody can tell what stands behind the length that was said from the next request.
#[tokio::test]
async fn of_a_body_that_is_longer_than_said_what_was_said_is_stored() {
    let api = ApiDemo::start().await;
    let (ann, address) = (&api.ann, api.demo.address);
    let request = format!(
        "PUT /ann/stor/a HTTP/1.1\r\nhost: {address}\r\n{ann}content-length: 5\r\n\r\nhello world, and more\r\n\r\n"
    );
    let answer = send(address, request.as_bytes()).await;
    assert_eq!(answer.status, 204);
    assert!(answer.body.starts_with("HTTP/1.1 400 "), "{}", answer.body);
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.body, "hello");
    // With a sum it is found out.
    let summed = request.replace(
        "content-length",
        "content-md5: kAFQmDzST7DWlj99KOF/cg==\r\ncontent-length",
    );
    let answer = send(address, summed.as_bytes()).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn a_full_disk_is_507_and_what_is_there_can_be_deleted() {
    let setup = Setup {
        disk_reserve: 1 << 62,
        ..Setup::default()
    };
    let api = setup.start().await;
    for body in ["hello", &"x".repeat(300_000)] {
        let answer = api.put("/ann/stor/a", "", body).await;
        assert_eq!(code(&answer), (507, "NotEnoughSpace".to_owned()));
    }
    // It comes as far as looking for it.
    let answer = api.ask("DELETE", "/ann/stor/a", "").await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn what_asks_for_too_much_is_refused() {
    let api = ApiDemo::start().await;
    let many: Vec<String> = (0..65).map(|number| format!("a{number}=1")).collect();
    let answer = api
        .ask("GET", &format!("/ann/stor?{}", many.join("&")), "")
        .await;
    assert_eq!(code(&answer), (400, "InvalidArgument".to_owned()));
    let twice =
        "content-md5: kAFQmDzST7DWlj99KOF/cg==\r\ncontent-md5: kAFQmDzST7DWlj99KOF/cg==\r\n";
    assert_eq!(api.put("/ann/stor/a", twice, "abc").await.status, 400);
    let directory = "content-type: Application/JSON; charset=utf-8; type=directory\r\n";
    assert_eq!(api.put("/ann/stor/d", directory, "").await.status, 204);
    let head = api.ask("HEAD", "/ann/stor/d", "").await;
    assert_eq!(head.header("content-length"), "");
    assert_eq!(
        head.header("content-type"),
        "application/x-json-stream; type=directory"
    );
    let foreign = request(api.demo.address, "GET", "/ann/jobs/1/job.json", &api.bob).await;
    assert_eq!(code(&foreign), (404, "ResourceNotFound".to_owned()));
}

#[tokio::test]
async fn the_dashboard_is_where_it_was() {
    let api = ApiDemo::start().await;
    let home = request(api.demo.address, "GET", "/", "").await;
    assert_eq!(home.status, 200);
    assert!(
        home.header("content-security-policy")
            .contains("default-src 'none'")
    );
    assert_eq!(
        request(
            api.demo.address,
            "PUT",
            "/status.json",
            "content-length: 0\r\n"
        )
        .await
        .status,
        405
    );
    for path in ["/feeds", "/lake", "/ann/other"] {
        let page = request(api.demo.address, "GET", path, "").await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.body.contains("<title>"), "{path}");
    }
}
