//! The parts of a page, and the admin page, in a real browser.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_serve::{Audience, Notices};
use cannery_testkit::browser::{Browser, ColorScheme, Page};
use tokio_util::sync::CancellationToken;

use crate::demo::start;
use crate::feeds_page::{Feeds, LONGEST};

/// Pictures stay beside the build, so that a person can look at them.
fn picture(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .join("screenshots");
    std::fs::create_dir_all(&target).unwrap();
    target.join(format!("{name}.png"))
}

async fn number(page: &Page, script: &str) -> i64 {
    page.eval(script).await.unwrap().as_i64().unwrap()
}

/// Waits until a script says true; the page loads another one in between.
async fn until(page: &Page, script: &str) {
    let clock = Clock::real();
    for _ in 0..300 {
        if page.eval(script).await.is_ok_and(|seen| seen == true) {
            return;
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
    let text = page.eval("document.body.innerText").await.unwrap();
    panic!("`{script}` never came true: {text}");
}

fn complaints(page: &Page) -> Vec<String> {
    let errors = page.console().into_iter();
    let errors = errors.filter(|message| message.level == "error");
    errors.map(|message| format!("{message:?}")).collect()
}

async fn look(page: &Page, url: &str, name: &str) {
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            page.open(url).await.unwrap();
            let overflow = number(page, "document.documentElement.scrollWidth - innerWidth").await;
            assert!(
                overflow <= 0,
                "{name} {word} at {width} is {overflow} pixels too wide"
            );
            page.screenshot(&picture(&format!("serve-{name}-{word}-{width}")))
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_feed_is_sound_in_light_and_dark_wide_and_narrow() {
    let notices = Notices::new();
    let demo = start(Clock::real(), "edge-1", vec![], |builder| {
        builder.section(Arc::new(Feeds)).notices(&notices)
    })
    .await;
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    let root = format!("http://{}/", demo.address);
    look(&page, &format!("{root}feeds/vbb-gtfs-rt"), "feed").await;

    // Narrow: words of the graph are not shrunk with it, nothing lies on the next word, the map scrolls within itself.
    let size = number(&page, "Math.round(parseFloat(getComputedStyle(document.querySelector('.plot-times text')).fontSize))").await;
    assert_eq!(size, 12);
    let overlapping = "(() => { const boxes = [...document.querySelectorAll('.plot-times')].flatMap((axis) => { \
        const seen = [...axis.querySelectorAll('text')].map((text) => text.getBoundingClientRect()).filter((box) => box.width > 0); \
        return seen.slice(1).map((box, at) => box.left - seen[at].right); }); return boxes.filter((gap) => gap < 2).length; })()";
    assert_eq!(number(&page, overlapping).await, 0);
    let scrolls = "(() => { const part = document.querySelector('.scroll'); return part.scrollWidth - part.clientWidth; })()";
    assert!(number(&page, scrolls).await > 100);
    let wide_cells = "[...document.querySelectorAll('.rows td')].filter((cell) => cell.scrollWidth > cell.clientWidth).length";
    assert_eq!(number(&page, wide_cells).await, 0);
    let title = page.eval("document.title").await.unwrap();
    assert_eq!(title, "vbb-gtfs-rt · Feeds · edge-1 · Cannery");

    // What changes while the page is open appears in it, and leaves the reader where he was.
    page.eval("document.querySelector('.scroll').scrollLeft = 77; window.isTheSame = true")
        .await
        .unwrap();
    notices.set(
        "configuration",
        "the new configuration is not used: `feeds[3].periodicity` is no time span (line 41); mend `cannery.yml`",
    );
    until(
        &page,
        "document.querySelector('main .notices')?.innerText.includes('is not used') === true",
    )
    .await;
    let place = "document.querySelector('.scroll').scrollLeft";
    assert_eq!(number(&page, place).await, 77);
    assert_eq!(page.eval("window.isTheSame").await.unwrap(), true);
    look(&page, &format!("{root}feeds"), "feeds").await;
    look(&page, &format!("{root}feeds/{LONGEST}"), "feed-longest").await;
    look(&page, &root, "home-notice").await;
    assert_eq!(complaints(&page), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_button_of_the_admin_page_stops_the_process() {
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let demo = start(Clock::real(), "edge-1", vec![], |builder| {
        builder.on_shutdown(move || asked.cancel())
    })
    .await;
    let admin = demo
        .shell
        .listen("127.0.0.1:0".parse().unwrap(), Audience::Admin)
        .await
        .unwrap();
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    look(&page, &format!("http://{admin}/"), "admin").await;
    assert!(!stop.is_cancelled());
    page.eval("document.querySelector('form button').click()")
        .await
        .unwrap();
    until(&page, "document.body.innerText.includes('Stopping')").await;
    assert!(stop.is_cancelled());
    assert_eq!(complaints(&page), [""; 0]);
}
