//! The pages of the archive in a real browser.

use cannery_testkit::browser::{Browser, ColorScheme};

use crate::archive_page::{Archive, DATE, wait_for};
use crate::browser::picture;

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_the_archive_are_sound_in_light_and_dark_wide_and_narrow() {
    let archive = Archive::new();
    let up = archive.up();
    wait_for(&up, "archive", "sealed");
    let web = archive.one(&["--kind", "web_connectivity"]);
    let (uid, file) = (web["uid"].as_str().unwrap(), web["file"].as_str().unwrap());
    let pages = [
        ("archive".to_owned(), "buckets"),
        ("archive/history".to_owned(), "history"),
        (format!("archive/{DATE}"), "bucket"),
        (format!("archive/{file}"), "file"),
        (format!("archive/measurement/{uid}"), "measurement"),
        ("archive/bad".to_owned(), "bad"),
    ];
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            for (path, name) in &pages {
                page.open(&up.url(path)).await.unwrap();
                let wide = "document.documentElement.scrollWidth - innerWidth";
                let wide = page.eval(wide).await.unwrap().as_i64().unwrap();
                assert!(
                    wide <= 0,
                    "{name} {word} at {width} is {wide} pixels too wide"
                );
                let file = picture(&format!("archive-{name}-{word}-{width}"));
                page.screenshot(&file).await.unwrap();
            }
        }
    }
    // What a reader unfolds stays so: the page is not replaced.
    let measurement = up.url(&format!("archive/measurement/{uid}"));
    page.open(&measurement).await.unwrap();
    let unfold = "(() => { const all = [...document.querySelectorAll('.tree details:not([open])')]; \
                  all[0].querySelector('summary').click(); return all[0].open; })()";
    assert_eq!(page.eval(unfold).await.unwrap(), true);
    let shown = "document.getElementById('live').hidden";
    assert_eq!(page.eval(shown).await.unwrap(), true, "it is not live");
    let complaints: Vec<_> = page
        .console()
        .into_iter()
        .filter(|message| message.level == "error")
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
