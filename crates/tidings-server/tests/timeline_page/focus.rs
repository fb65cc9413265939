//! The tip of the mark that the keyboard is at, and where the focus goes.

use serde_json::json;
use tidings_testing::browser::{DESKTOP, Window};

use crate::world::World;

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const DOWN: &str = "\u{e015}";
const RIGHT: &str = "\u{e014}";

/// Where the tip is; `null` if it is hidden.
const TIP: &str = "((tip) => tip.hidden ? null : tip.getBoundingClientRect().left)(
    document.getElementById('tip'))";

const TIP_TEXT: &str = "document.getElementById('tip').innerText";

/// Puts the focus on the lane of the pod that fails.
fn focus_lane(world: &World) {
    world.browser.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.startsWith('Pod web-5c9f7d8b64-tz4wd')).focus()",
    );
}

#[test]
fn the_tip_of_a_mark_chosen_by_keys_follows_it() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");
    focus_lane(&world);
    page.keys(RIGHT);
    page.until(&format!(
        "{TIP} !== null && {TIP_TEXT}.includes('Scheduled')"
    ));
    let place = page.number(TIP);
    page.keys("d");
    page.until(&format!("{TIP} !== null && {TIP} < {place} - 20"));
    // It goes with its mark, and comes back with it.
    for _ in 0..4 {
        page.keys("d");
    }
    page.until(&format!("{TIP} === null"));
    for _ in 0..4 {
        page.keys("a");
    }
    page.until(&format!("{TIP} !== null"));
    // It comes back, too, if a picture without it was loaded in the meantime.
    for _ in 0..8 {
        page.keys("d");
    }
    page.until("document.querySelectorAll('.lane').length === 0");
    for _ in 0..8 {
        page.keys("a");
    }
    page.until(&format!(
        "{TIP} !== null && {TIP_TEXT}.includes('Scheduled')"
    ));
    // Another lane has no mark of the keyboard yet.
    page.keys(DOWN);
    page.until(&format!("{TIP} === null"));
    page.keys(RIGHT);
    page.until(&format!("{TIP} !== null"));
    page.keys(ENTER);
    page.until("!document.getElementById('panel').hidden");
    assert_eq!(page.value(TIP), json!(null));
    page.keys(ESCAPE);

    // A warning to which the lanes have to scroll has its tip, too.
    page.resize(Window {
        height: 420,
        ..DESKTOP
    });
    page.run("document.getElementById('lanes').scrollTop = 10000");
    let top = page.number("document.getElementById('lanes').scrollTop");
    assert!(top > 50.0, "{top}");
    for _ in 0..6 {
        page.keys("n");
        page.until(&format!("{TIP} !== null"));
        page.run_until_done("setTimeout(arguments[0], 100)", json!([]));
        assert_ne!(page.value(TIP), json!(null));
    }
    assert!(page.number("document.getElementById('lanes').scrollTop") < top);
    // A pointer has its own.
    let said = json!(page.text(TIP_TEXT));
    page.hover(900.0, 20.0);
    page.hover(1000.0, 130.0);
    page.run_until_done("setTimeout(arguments[0], 100)", json!([]));
    page.until(&format!("{TIP} === null || {TIP_TEXT} !== {said}"));
}

#[test]
fn a_panel_that_is_closed_leaves_the_focus_in_the_page() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");
    page.until("document.querySelectorAll('#rows tr').length > 5");
    // Opened by a pointer, which gives the focus to nothing.
    page.run("document.activeElement.blur(); document.querySelector('#rows tr').click()");
    page.until("document.activeElement.id === 'panel-close'");
    page.click("#panel-close");
    page.until("document.activeElement.classList.contains('lane')");
    // Opened by keys, closed by the browser's way back.
    page.run(
        "const row = document.querySelectorAll('#rows button')[2];
        window.opened = row.dataset.event;
        row.focus()",
    );
    page.keys(ENTER);
    page.until("document.activeElement.id === 'panel-close'");
    page.run(
        "window.rows = document.querySelector('#rows tr');
        history.back()",
    );
    page.until("!rows.isConnected && document.querySelector('#rows tr')");
    page.until("document.activeElement.dataset.event === opened");
    // Who has gone on elsewhere stays there.
    page.keys(ENTER);
    page.until("document.activeElement.id === 'panel-close'");
    focus_lane(&world);
    page.keys(ESCAPE);
    page.until("document.getElementById('panel').hidden");
    page.until("document.activeElement.title.startsWith('Pod web-5c9f7d8b64-tz4wd')");
}

#[test]
fn the_events_of_a_mark_are_listed_in_a_narrow_window_too() {
    let Some(world) = World::start(Window {
        width: 900,
        ..DESKTOP
    }) else {
        return;
    };
    let row = (
        1800,
        1800,
        1,
        "Pod/often-0",
        "Warning",
        "Failed",
        "at one time",
    );
    world.add_together(&[row; 3]);
    world.add(&(
        600,
        600,
        1,
        "Pod/often-0",
        "Normal",
        "Started",
        "at another",
    ));
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length === 1");
    page.run("document.querySelector('.lane').focus()");
    page.keys(RIGHT);
    page.until(&format!("{TIP_TEXT}.includes('list them')"));
    page.keys(ENTER);
    world.address_until("q.show.split('/').length === 6");
    page.until("document.querySelectorAll('#rows tr').length === 3");
    let is_seen = |id: &str| {
        page.value(&format!(
            "document.getElementById('{id}').offsetHeight > 50"
        ))
    };
    assert_eq!(
        (is_seen("list"), is_seen("panel")),
        (json!(true), json!(false))
    );
    page.until("document.activeElement.id === 'list'");
    page.run("document.querySelector('#rows button').focus()");
    page.keys(ENTER);
    page.until("document.activeElement.id === 'panel-close'");
    assert_eq!(
        (is_seen("list"), is_seen("panel")),
        (json!(false), json!(true))
    );
    // There is room for both in a wide one.
    page.run("history.back()");
    page.resize(DESKTOP);
    page.until("document.querySelectorAll('#rows tr').length === 3");
    page.until("document.getElementById('panel').offsetHeight > 50");
    assert_eq!(is_seen("list"), json!(true));
}
