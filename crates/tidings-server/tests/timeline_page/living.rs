//! The open page: new events, a pause, a restart of the server, failing answers, a reader who is
//! not disturbed, and bounded memory.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;
use tidings_testing::browser::DESKTOP;

use crate::world::World;

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const LEFT: &str = "\u{e012}";
const RIGHT: &str = "\u{e014}";

/// A script that counts the requests of every page opened from now on in `asked`, by the last part
/// of their paths. Requests named in `failing` get 503, or the status in `refusing`, that many
/// times. If there is a `fake`, the stream of changes contains only the texts given to `push`.
const INTERCEPT: &str = r#"
    const real = window.fetch;
    window.asked = {};
    window.fetch = (address, init) => {
        const path = new URL(address, location.href).pathname.split('/').pop();
        asked[path] = (asked[path] ?? 0) + 1;
        if (failing[path] > 0) {
            failing[path] -= 1;
            const status = window.refusing ?? 503;
            const refusal = new Response('{"message":"busy"}', { status });
            return Promise.resolve(refusal);
        }
        if (path !== 'live' || !window.fake) return real(address, init);
        const body = new ReadableStream({ start(stream) {
            window.push = (text) => stream.enqueue(new TextEncoder().encode(text));
        } });
        return Promise.resolve(new Response(body));
    };"#;

/// A script that makes timers of half a minute fire at once.
const IMPATIENT: &str = "
    const later = window.setTimeout;
    window.setTimeout = (act, ms, ...given) =>
        later(act, ms > 20000 && ms < 40000 ? ms / 100 : ms, ...given)";

/// Intercepts requests, after the script `before`.
fn intercept(world: &World, before: &str) {
    let source = format!("window.failing = {{}}; {before}; {INTERCEPT}");
    world.browser.devtools(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({ "source": source }),
    );
}

/// Adds an event, and waits for the view that shows it.
fn happen_and_see(world: &World) {
    let page = &world.browser;
    let before = page.text("document.documentElement.dataset.loaded");
    happen(world);
    page.until(&format!(
        "document.documentElement.dataset.loaded !== '{before}'"
    ));
}

/// Fills the list, half of it with warnings, and scrolls down in it.
fn read_further_down(world: &World) {
    for number in 0..60 {
        let (of_type, reason) = if number % 2 == 0 {
            ("Normal", "Pulled")
        } else {
            ("Warning", "Evicted")
        };
        let seconds = 60 + number;
        let row = (seconds, seconds, 1, "Pod/web-0", of_type, reason, "of many");
        world.add(&row);
    }
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('#rows tr').length === 60");
    page.run("document.getElementById('list').scrollTop = 200");
    page.until("document.getElementById('list').scrollTop > 0");
}

/// Adds one more event of a pod, now.
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

    // While paused, the page only counts new events.
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
    // What happens now is not known, and not shown as peace.
    world.browser.until(
        "document.getElementById('live').innerText.includes('No answer')
        && document.getElementById('live').classList.contains('lags')",
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
    // Sessions are kept in the server's memory, and end with it.
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
        page.devtools("HeapProfiler.enable", json!({}));
        page.devtools("HeapProfiler.collectGarbage", json!({}));
        let used = page.devtools("Runtime.getHeapUsage", json!({}));
        used["usedSize"].as_f64().unwrap()
    };
    page.run_until_done(load, json!([40]));
    let before = heap();
    // One script has seconds only, and the machine may be busy.
    for _ in 0..5 {
        page.run_until_done(load, json!([40]));
    }
    let after = heap();
    // A page that kept 200 views would use several MB more.
    assert!(
        after - before < 1_000_000.0,
        "from {before} to {after} bytes"
    );
}

#[test]
fn all_there_is_is_what_there_is_by_now() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.enter("?last=15m");
    let page = &world.browser;
    page.until("document.getElementById('empty').innerText.includes('No events yet')");
    page.run("const now = Date.now; Date.now = () => now() + 120000");
    let long_ago = 3 * 3600;
    world.add(&(
        long_ago,
        long_ago,
        1,
        "Pod/early-0",
        "Normal",
        "Started",
        "three hours ago",
    ));
    page.keys("0");
    page.until("document.querySelectorAll('.lane').length === 1");
}

#[test]
fn a_row_that_has_the_focus_keeps_it_while_events_come() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('#rows tr').length > 5");
    page.run(
        "window.focused = document.querySelectorAll('#rows button')[2];
        focused.focus()",
    );
    happen(&world);
    page.until("document.getElementById('list-newer').innerText === '1 newer'");
    let has_it = page.value("document.activeElement === focused && focused.isConnected");
    assert_eq!(has_it, json!(true));
    page.run("document.getElementById('list-newer').click()");
    page.until("document.getElementById('rows').innerText.includes('Evicted')");
    page.until("document.getElementById('list-newer').hidden");

    // The panel returns the focus to the row that opened it, even though the row was replaced.
    page.run(
        "const row = document.querySelectorAll('#rows button')[2];
        window.opened = row.dataset.event;
        row.focus()",
    );
    page.keys(ENTER);
    page.until("document.activeElement.id === 'panel-close'");
    page.run("window.rows = document.querySelector('#rows tr')");
    happen(&world);
    page.until("!rows.isConnected && document.querySelector('#rows tr')");
    page.keys(ESCAPE);
    page.until("document.activeElement.dataset.event === opened");
}

#[test]
fn what_is_gone_gives_the_focus_to_the_lanes() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 5");
    page.run(
        "window.opener_ = document.querySelector('#firsts button');
        opener_.focus()",
    );
    page.keys(ENTER);
    page.until("document.activeElement.id === 'panel-close'");
    happen_and_see(&world);
    page.until("!opener_.isConnected");
    page.keys(ESCAPE);
    page.until("document.activeElement.classList.contains('lane')");
}

#[test]
fn keys_go_on_from_their_mark_when_another_picture_came() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 5");
    page.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.includes('web-5c9f7d8b64-tz4wd')).focus()",
    );
    let said = "document.getElementById('said').textContent";
    let mut marks = vec![String::new()];
    for _ in 0..3 {
        page.keys(RIGHT);
        page.until(&format!("{said} !== {}", json!(marks.last())));
        marks.push(page.text(said));
    }
    happen_and_see(&world);
    page.keys(LEFT);
    page.until(&format!("{said} === {}", json!(marks[2])));
    // The same is true when the other key is pressed after one more event.
    happen_and_see(&world);
    page.keys(RIGHT);
    page.until(&format!("{said} === {}", json!(marks[3])));
}

#[test]
fn the_list_is_of_the_view_though_its_first_answer_was_lost() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    intercept(&world, "");
    read_further_down(&world);
    let page = &world.browser;
    page.run("failing.view = 1");
    page.keys("/");
    page.keys("type:Warning");
    page.keys(ENTER);
    world.address_until("q.filter === 'type:Warning'");
    page.until("document.querySelectorAll('#rows tr').length === 30");
}

#[test]
fn the_list_is_of_the_view_though_something_came_at_once() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    intercept(&world, "window.fake = true");
    let earlier = 75 * 60;
    world.add(&(
        earlier,
        earlier,
        1,
        "Pod/web-0",
        "Normal",
        "Started",
        "before the hour",
    ));
    read_further_down(&world);
    let page = &world.browser;
    page.until("typeof window.push === 'function'");
    page.run(
        r"document.dispatchEvent(new KeyboardEvent('keydown', { key: 's' }));
        const change = { position: '', items: [], more: 1, gone: 0 };
        push('event: change\ndata: ' + JSON.stringify(change) + '\n\n')",
    );
    page.until("document.querySelectorAll('#rows tr').length === 61");
}

#[test]
fn a_stream_that_fails_is_tried_ever_more_slowly_and_alone() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    intercept(&world, "window.failing.live = Infinity");
    world.tell_story();
    world.enter("?last=15m");
    let page = &world.browser;
    page.until("asked.live >= 3");
    page.until(
        "document.getElementById('notices').innerText.includes('The server has a problem: busy')",
    );
    let pictures = page.number("asked.view");
    assert!(pictures <= 2.0, "{pictures}");
    page.run("failing.live = 0");
    page.until("document.getElementById('notices').innerText === ''");
    happen(&world);
    page.until(
        "[...document.querySelectorAll('.lane')].some((lane) =>
        lane.title.includes('late-0'))",
    );
}

#[test]
fn what_was_refused_once_is_asked_for_again() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    let refused = "window.refusing = 403; window.failing = { live: 1, events: 1 }";
    intercept(&world, &format!("{refused}; {IMPATIENT}"));
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("asked.live >= 2 && asked.events >= 2");
    page.until("document.getElementById('notices').innerText === ''");
    page.until("document.querySelectorAll('#rows tr').length > 5");
    happen(&world);
    page.until(
        "[...document.querySelectorAll('.lane')].some((lane) =>
        lane.title.includes('late-0'))",
    );
    page.until("document.getElementById('rows').innerText.includes('Evicted')");
}

#[test]
fn an_event_that_is_gone_is_asked_for_once() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    intercept(&world, "");
    world.tell_story();
    world.enter("?last=15m&show=event:/shop/gone");
    let page = &world.browser;
    page.until("document.querySelector('#panel .problem').innerText.includes('no longer kept')");
    page.run("window.problem = document.querySelector('#panel .problem')");
    happen_and_see(&world);
    happen_and_see(&world);
    assert_eq!(page.number("asked.event"), 1.0);
    assert_eq!(page.value("problem.isConnected"), json!(true));
}

/// An automatic retry ends with the event, and no notice about it remains.
#[test]
fn an_event_that_is_gone_when_the_server_is_back_leaves_no_notice() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    intercept(&world, "window.failing.event = 2");
    world.tell_story();
    world.enter("?last=15m&show=event:/shop/gone");
    let page = &world.browser;
    page.until("document.querySelector('#panel .problem')?.innerText.includes('no longer kept')");
    page.until("document.querySelectorAll('#notices > *').length === 0");
    assert_eq!(page.number("asked.event"), 3.0);
}
