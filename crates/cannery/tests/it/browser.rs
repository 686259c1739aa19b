//! The dashboard in a real browser.

use std::path::PathBuf;

use cannery_testkit::browser::{Browser, ColorScheme, Page};

use crate::program::Place;

/// Pictures stay beside the build, so that a person can look at them.
fn picture(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .join("screenshots");
    std::fs::create_dir_all(&target).unwrap();
    target.join(format!("{name}.png"))
}

async fn background(page: &Page) -> String {
    page.eval("getComputedStyle(document.body).backgroundColor")
        .await
        .unwrap()
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_home_page_is_sound_in_light_and_dark_wide_and_narrow() {
    let place = Place::new();
    let up = place.up(&[]);
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    let mut backgrounds = Vec::new();
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            page.open(&up.url("")).await.unwrap();
            assert_eq!(
                page.eval("document.querySelectorAll('main').length")
                    .await
                    .unwrap(),
                1
            );
            let text = page
                .eval("document.body.innerText")
                .await
                .unwrap()
                .to_string();
            assert!(
                text.contains("Everything is running") && text.contains("lake main"),
                "{text}"
            );
            let overflow = page
                .eval("document.documentElement.scrollWidth - innerWidth")
                .await
                .unwrap();
            assert!(
                overflow.as_i64().unwrap() <= 0,
                "{word} at {width} is {overflow} pixels too wide"
            );
            page.screenshot(&picture(&format!("home-{word}-{width}")))
                .await
                .unwrap();
        }
        backgrounds.push(background(&page).await);
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
    let complaints: Vec<_> = page
        .console()
        .into_iter()
        .filter(|message| message.level == "error")
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
