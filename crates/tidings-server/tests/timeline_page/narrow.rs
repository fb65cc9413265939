//! On a phone nothing overflows, pinching zooms, and the panel is a sheet.

use serde_json::json;
use tidings_testing::browser::PHONE;

use crate::world::World;

#[test]
fn a_narrow_window_has_all_of_it() {
    let Some(world) = World::start(PHONE) else {
        return;
    };
    world.tell_story();
    world.browser.devtools(
        "Emulation.setTouchEmulationEnabled",
        json!({ "enabled": true, "maxTouchPoints": 2 }),
    );
    world.enter("");
    let page = &world.browser;
    page.until("document.body.classList.contains('narrow')");
    page.until("document.querySelectorAll('.lane').length > 3");
    // The controls above the lanes have two rows.
    let controls = page.number("document.getElementById('filter-form').offsetHeight");
    assert!(controls < 100.0, "{controls}");
    let wide = page.number("document.scrollingElement.scrollWidth");
    assert!(wide <= 400.0, "{wide} pixels");
    // Labels are above their marks, across the whole width.
    let label = page.number("document.querySelector('.lane').getBoundingClientRect().width");
    assert!(label > 300.0, "{label}");

    page.pinch([
        ((150.0, 330.0), (60.0, 330.0)),
        ((250.0, 330.0), (340.0, 330.0)),
    ]);
    world.address_until("Date.parse(q.to) - Date.parse(q.from) < 3000000");

    page.run("document.querySelector('#rows tr').click()");
    page.until("document.querySelector('#panel .sentence')");
    let sheet = page.value(
        "(() => { const box = document.getElementById('panel')
        .getBoundingClientRect(); return [box.left, box.right, box.bottom]; })()",
    );
    assert_eq!(sheet, json!([0, 400, 860]));
    let over = page.value(
        "[...document.querySelectorAll('#panel *')].filter((node) =>
        node.getBoundingClientRect().right > 401).map((node) => node.outerHTML.slice(0, 80))",
    );
    assert_eq!(over, json!([]));
}
