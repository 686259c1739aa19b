//! The spool page of `cannery up` in a real browser.

use cannery_testkit::browser::{Browser, ColorScheme};

use super::node::{LOCAL_LAKE, Node};
use crate::browser::picture;
use crate::program::{http_get, pause};

#[tokio::test(flavor = "multi_thread")]
async fn the_spool_page_is_sound_in_light_and_dark_wide_and_narrow() {
    let node = Node::with(LOCAL_LAKE, "  bundle_bytes_max: 20kB\n");
    for day in 10..16 {
        node.produce_some(&format!("2026/11/{day}"), "a", 120);
    }
    node.produce_bad("foo1", "2026/11/15/bad.json", "{\"n\":\"no number\"}");
    node.produce_bad("bar1", "2026/11/15/torn.json", "{\"n\":");
    node.produce_bad("bar1", "2026/11/15/<script>alert(1)<.json", "{}}");
    let up = node.place.up(&["--config-file", "cannery.yml"]);
    for _ in 0..200 {
        if http_get(&up.url("metrics")).contains("reason=\"schema\"} 1") {
            break;
        }
        pause();
    }
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            page.open(&up.url("spools")).await.unwrap();
            let text = page
                .eval("document.body.innerText")
                .await
                .unwrap()
                .to_string();
            for part in [
                "foo1",
                "bar1",
                "Open bundles",
                "Last ships",
                "schema",
                "json",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            let overflow = page
                .eval("document.documentElement.scrollWidth - innerWidth")
                .await;
            let overflow = overflow.unwrap().as_i64().unwrap();
            assert!(
                overflow <= 0,
                "{word} at {width} is {overflow} pixels too wide"
            );
            page.screenshot(&picture(&format!("spools-{word}-{width}")))
                .await
                .unwrap();
        }
    }
    let complaints: Vec<_> = page
        .console()
        .into_iter()
        .filter(|message| message.level == "error")
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let (code, _) = up.stop();
    assert_eq!(code, 0);
    assert_eq!(node.files_left(), 0);
    node.audit(&["--expect-drained"]);
}
