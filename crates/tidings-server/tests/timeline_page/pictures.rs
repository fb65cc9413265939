//! The screenshots of the docs: `UPDATE_PICTURES=1 cargo test -p tidings-server --test
//! timeline_page pictures` takes them. Without it the page is only opened.

use std::path::Path;
use tidings_testing::browser::{DESKTOP, PHONE, Window};

use crate::world::World;

/// Maximum size of a screenshot in bytes.
const MOST: usize = 300 * 1024;

const PICTURES: [(&str, Window, bool); 2] = [
    ("timeline.png", DESKTOP, true),
    ("timeline-narrow.png", PHONE, false),
];

#[test]
fn pictures_of_the_page() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("");
    let page = &world.browser;
    for (name, window, with_panel) in PICTURES {
        page.resize(window);
        world.open("?last=1h");
        page.until("document.querySelectorAll('.lane').length > 4");
        page.until("document.getElementById('rows').innerText.includes('BackOff')");
        if with_panel {
            page.run(
                "[...document.querySelectorAll('#rows tr')].find((row) =>
                row.innerText.includes('BackOff')).click()",
            );
            page.until("document.querySelector('#panel pre')");
        }
        page.run("document.activeElement.blur()");
        let picture = page.screenshot();
        assert!(picture.len() < MOST, "{name}: {} bytes", picture.len());
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
            std::fs::write(folder.join(name), picture).unwrap();
        }
    }
}
