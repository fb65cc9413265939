//! The open page: new events, a pause, a restart of the server, and bounded memory.

use std::sync::atomic::{AtomicI64, Ordering};
use tidings_testing::browser::DESKTOP;

use crate::world::World;

/// One more event of a pod, now.
fn happen(world: &World) {
    static NEXT: AtomicI64 = AtomicI64::new(0);
    let first = NEXT.fetch_add(1, Ordering::Relaxed) % 3;
    world.add(&(
        first,
        0,
        1,
        "Pod/late-0",
        "Warning",
        "Evicted",
        "The node was low on memory",
    ));
}

#[test]
fn what_happens_now_comes_by_itself_and_can_wait() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=15m");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 3");
    page.run("scrollTo(0, 0); window.same = document.getElementById('lanes')");
    happen(&world);
    page.until(
        "[...document.querySelectorAll('.lane')].some((lane) =>
        lane.title.includes('late-0'))",
    );
    page.until("document.querySelector('#rows').innerText.includes('Evicted')");
    assert!(
        page.value("same === document.getElementById('lanes')")
            .as_bool()
            .unwrap()
    );

    // Paused: it only counts.
    page.click("#live");
    world.address_until("q.from && !q.last");
    let rows = page.text("document.getElementById('rows').innerText");
    happen(&world);
    happen(&world);
    page.until("/Live · [23] new/.test(document.getElementById('live-text').innerText)");
    assert_eq!(page.text("document.getElementById('rows').innerText"), rows);
    page.click("#live");
    world.address_until("q.last");
    page.until("document.getElementById('live-text').innerText === 'Live'");
    page.until(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.includes('late-0')).title.includes('3 warnings')",
    );
}

#[test]
fn a_server_that_goes_is_told_of_and_one_that_comes_back_is_used() {
    let Some(mut world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("");
    let lanes = world
        .browser
        .number("document.querySelectorAll('.lane').length");
    world.stop_server();
    world.browser.until(
        "document.getElementById('notices').innerText
        .includes('The server does not answer')",
    );
    // Existing marks stay, and move.
    assert!(
        (world
            .browser
            .number("document.querySelectorAll('.lane').length")
            - lanes)
            .abs()
            < 0.5
    );
    world.browser.keys("w");
    world.start_server();
    world.browser.until(
        "document.getElementById('login').open
        || document.getElementById('notices').innerText === ''",
    );
    // Sessions are the server's own, and end with it.
    if world
        .browser
        .value("document.getElementById('login').open")
        .as_bool()
        .unwrap()
    {
        world.log_in(world.token());
    }
    world.browser.until(
        "document.getElementById('notices').innerText === ''
        && !document.getElementById('login').open",
    );
    world
        .browser
        .until("document.querySelectorAll('.lane').length > 3");
    happen(&world);
    world.browser.keys("2");
    world.browser.until(
        "[...document.querySelectorAll('.lane')].some((lane) =>
        lane.title.includes('late-0'))",
    );
}

#[test]
fn the_page_does_not_grow_while_it_follows() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=15m");
    let page = &world.browser;
    let load = "const [times, done] = arguments;
        let left = times;
        const root = document.documentElement;
        const step = () => {
            if (left-- === 0) return done(true);
            const before = root.dataset.loaded;
            document.dispatchEvent(new Event('visibilitychange'));
            const look = () => (root.dataset.loaded === before ? setTimeout(look, 5) : step());
            look();
        };
        step();";
    let heap = || {
        page.devtools("HeapProfiler.enable", serde_json::json!({}));
        page.devtools("HeapProfiler.collectGarbage", serde_json::json!({}));
        let used = page.devtools("Runtime.getHeapUsage", serde_json::json!({}));
        used["usedSize"].as_f64().unwrap()
    };
    page.run_until_done(load, serde_json::json!([40]));
    let before = heap();
    page.run_until_done(load, serde_json::json!([200]));
    let after = heap();
    // A page that kept 200 pictures would have several MB more.
    assert!(
        after - before < 1_000_000.0,
        "from {before} to {after} bytes"
    );
}
