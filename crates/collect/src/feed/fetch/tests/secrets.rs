//! Canaries in header, user, password and query: no text that comes out has one.

use super::*;

/// So short that the search for known secrets does not know them: what keeps them in is that nobody says them.
const CANARIES: [&str; 5] = ["zHdr7", "zUsr7", "zPwd7", "zQry7", "zLoc7"];

fn planted(server: &FeedServer, path: &str) -> Ask {
    let url = server.url_as("zUsr7:zPwd7@127.0.0.1", path);
    let ask = with_header(ask(format!("{url}?token=zQry7#zQry7")), "X-Key", "zHdr7");
    Ask {
        max_bytes: 100,
        keep_error_body: true,
        ..ask
    }
}

fn assert_clean(text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} in {text}");
    }
}

#[tokio::test]
async fn no_error_has_a_secret_in_it() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    let echo = "zHdr7 zUsr7 zPwd7 zQry7";
    let behaviours = [
        Behaviour::Status(503),
        Behaviour::Answer {
            status: 401,
            headers: vec![("x-echo".to_owned(), echo.to_owned())],
            body: echo.into(),
        },
        Behaviour::HangUp,
        Behaviour::Endless,
        Behaviour::GzipBomb {
            unpacked_bytes: 1024 * 1024,
        },
        Behaviour::WrongLength {
            claimed: 90,
            body: echo.into(),
        },
        Behaviour::Raw(format!("HTTP/1.1 {echo}\r\n\r\n").into()),
        Behaviour::Raw(format!("HTTP/1.1 200 x\r\n{echo}\r\n\r\n").into()),
        Behaviour::Answer {
            status: 200,
            headers: vec![("content-encoding".to_owned(), "zHdr7".to_owned())],
            body: "x".into(),
        },
        Behaviour::Redirect("/feed?token=zQry7".to_owned()),
        Behaviour::Redirect("http://zLoc7:zPwd7@zloc7.invalid/zLoc7?zQry7".to_owned()),
        Behaviour::Redirect("zLoc7:zQry7".to_owned()),
        Behaviour::Redirect("http://zLoc7:port/".to_owned()),
        Behaviour::Redirect("http://127.0.0.1:1/zLoc7?zQry7".to_owned()),
    ];
    for behaviour in behaviours {
        server.on("/feed", behaviour.clone());
        let feed = planted(&server, "/feed");
        let error = failure(&fetcher, &feed).await;
        assert_clean(&format!("{error} {error:?} {error:#?} {}", error.reason()));
        assert_clean(&format!("{feed:?} {:?}", fetcher));
        let source = std::error::Error::source(&error);
        assert!(source.is_none(), "{source:?}");
    }
    let seen = &server.requests("/feed")[0];
    assert_eq!(seen.header("x-key"), Some("zHdr7"), "it was sent");
    assert_eq!(seen.target, "/feed?token=zQry7", "it was sent");
}

#[tokio::test]
async fn no_failure_before_the_request_has_a_secret_in_it() {
    let fetcher = fetcher();
    let urls = [
        "http://zUsr7:zPwd7@127.0.0.1:1/?t=zQry7",
        "https://zUsr7:zPwd7@127.0.0.1:1/?t=zQry7",
        "http://zUsr7:zPwd7@nowhere.invalid/?t=zQry7",
        "ftp://zUsr7:zPwd7@example.com/?t=zQry7",
        "zUsr7:zPwd7@example.com/?t=zQry7",
        "http://zUsr7:zPwd7@[::1/?t=zQry7",
        "http://zUsr7:zPwd7@example.com:99999/?t=zQry7",
    ];
    for url in urls {
        for allow_private in [false, true] {
            let feed = Ask {
                allow_private,
                ..with_header(ask(url), "x-key", "zHdr7")
            };
            let error = failure(&fetcher, &feed).await;
            assert_clean(&format!("{error} {error:?} {}", error.reason()));
        }
    }
    for (name, value) in [
        ("x-key", "zHdr7\n"),
        ("te", "zHdr7"),
        ("authorization", "zHdr7"),
        ("if-none-match", "zHdr7"),
        ("two words", "zHdr7"),
    ] {
        let feed = with_header(ask("http://zUsr7:zPwd7@example.com/?zQry7"), name, value);
        assert_clean(&feed.check().unwrap_err());
    }
}

#[tokio::test]
async fn what_a_server_says_of_itself_is_short_and_printable() {
    let long = format!("{}.example", "long-name.".repeat(20));
    let names = vec![long.as_str(); 40];
    let identity = Identity::valid(&names).unwrap();
    let server = FeedServer::start_tls(identity.clone()).await.unwrap();
    let fetcher = fetcher_trusting(&[&identity]);
    let error = failure(&fetcher, &planted(&server, "/")).await.to_string();
    assert!(
        error.len() <= 300 && !error.contains(char::is_control),
        "{error}"
    );
    assert_clean(&error);
}

#[tokio::test]
async fn a_remembered_secret_is_masked_even_where_it_is_said() {
    let error = FetchError::broken("it says canary-remembered\u{1b}[2J");
    assert!(error.to_string().contains("canary-remembered"));
    drop(Secret::new("canary-remembered"));
    let error = FetchError::broken("it says canary-remembered\u{1b}[2J");
    assert_eq!(error.to_string(), "the answer is broken: it says *** [2J");
}
