//! The speed of the page by the browser's clock: the first picture, and the frames of pan and zoom.
//! Measured only if `MEASURE_TIMELINE` is set; run alone, optimised: `MEASURE_TIMELINE=1 cargo test
//! --release -p tidings-server --test timeline_page measure -- --nocapture`. `TIMELINE_URL` and
//! `TIMELINE_TOKEN` name another server to measure, with its own events; otherwise there are as
//! many objects and events as one answer may hold.

use serde_json::json;

use crate::driver::DESKTOP;
use crate::world::World;

/// Turns the wheel once per frame, and returns the sorted times of frames.
const FRAMES: &str = "const [frames, done] = arguments;
    const body = document.getElementById('lanes-body');
    const took = [];
    let last = performance.now();
    const step = () => {
        const now = performance.now();
        took.push(now - last);
        last = now;
        if (took.length > frames) return done(took.slice(1).sort((a, b) => a - b));
        const zooms = took.length % 60 < 30;
        body.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true,
            ctrlKey: zooms, shiftKey: !zooms, deltaY: took.length % 30 < 15 ? -30 : 30,
            clientX: 900, clientY: 400 }));
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);";

/// The times of the request, the picture's data, and the painted picture, in milliseconds.
const FIRST: &str = "(() => {
    const entries = performance.getEntriesByType('resource');
    const view = entries.find((entry) => entry.name.includes('/api/view'));
    const assets = entries.filter((entry) => entry.name.includes('/assets/'));
    return { files: assets.length,
        bytes: assets.reduce((sum, entry) => sum + entry.encodedBodySize, 0),
        files_done: Math.round(Math.max(...assets.map((entry) => entry.responseEnd))),
        view_answer: Math.round(view.duration),
        picture: Math.round(performance.getEntriesByName('first-picture')[0].startTime) }; })()";

#[test]
fn measure_the_page() {
    if std::env::var_os("MEASURE_TIMELINE").is_none() {
        return;
    }
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    let page = &world.browser;
    if let (Ok(url), Ok(token)) = (
        std::env::var("TIMELINE_URL"),
        std::env::var("TIMELINE_TOKEN"),
    ) {
        page.open(&url);
        page.until("document.getElementById('login').open");
        world.log_in(&token);
        world.loaded();
        page.open(&url);
    } else {
        world.crowd(300, 10);
        world.enter("");
        page.open(&world.url("?last=1h"));
    }
    page.until("document.querySelectorAll('.lane').length > 0");
    page.until("performance.getEntriesByName('first-picture').length > 0");
    println!("cold caches: {}", page.value(FIRST));
    let again = page.url();
    page.open(&again);
    page.until("performance.getEntriesByName('first-picture').length > 0");
    println!("warm caches: {}", page.value(FIRST));
    let drawn = page.text("document.querySelector('#lanes-foot span').textContent");
    println!("in view: {drawn}");
    let frames = page.run_until_done(FRAMES, json!([600]));
    let frames: Vec<f64> = serde_json::from_value(frames).unwrap();
    let at = |share: usize| frames[frames.len() * share / 100];
    println!(
        "frames of pan and zoom: p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        at(50),
        at(95),
        at(99),
        frames.last().unwrap()
    );
}
