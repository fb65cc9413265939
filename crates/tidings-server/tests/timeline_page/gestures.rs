//! Gestures: wheel, drag, brush, pinch, keys, chips, links, and exports.

use serde_json::json;
use tidings_testing::browser::DESKTOP;

use crate::world::World;

const CONTROL: char = '\u{e009}';
const SHIFT: char = '\u{e008}';
const ESCAPE: &str = "\u{e00c}";
const ENTER: &str = "\u{e007}";
const DOWN: &str = "\u{e015}";
const RIGHT: &str = "\u{e014}";

const RANGE: &str = "(() => { const q = new URLSearchParams(location.search);
    return [Date.parse(q.get('from')), Date.parse(q.get('to'))]; })()";

fn range(world: &World) -> (f64, f64) {
    let range = world.browser.value(RANGE);
    (range[0].as_f64().unwrap(), range[1].as_f64().unwrap())
}

/// Waits until the address has another range than `from`, and returns it.
#[track_caller]
fn moved(world: &World, from: (f64, f64)) -> (f64, f64) {
    world.browser.until(&format!(
        "(([a, b]) => a > 0 && (Math.abs(a - {}) > 1 || Math.abs(b - {}) > 1))({RANGE})",
        from.0, from.1
    ));
    // A gesture of several steps may write the address several times; the last one counts.
    world
        .browser
        .run_until_done("setTimeout(arguments[0], 300)", json!([]));
    range(world)
}

fn length(range: (f64, f64)) -> f64 {
    range.1 - range.0
}

/// The position of the story's back-off in a range of the last hour, where no other mark ends.
fn back_off(world: &World) -> (f64, f64) {
    spot(world, "web-5c9f7d8b64-tz4wd", 1250.0)
}

/// The position in a lane of this many seconds ago, in a range of the last hour.
fn spot(world: &World, lane: &str, ago: f64) -> (f64, f64) {
    let spot = world.browser.until(&format!(
        "(() => {{
        const canvas = document.getElementById('marks').getBoundingClientRect();
        const lane = [...document.querySelectorAll('.lane')].find((one) =>
            one.title.includes('{lane}')).getBoundingClientRect();
        return [canvas.left, canvas.width, (lane.top + lane.bottom) / 2]; }})()"
    ));
    let (left, width) = (spot[0].as_f64().unwrap(), spot[1].as_f64().unwrap());
    // The range is a little longer than an hour.
    let x = left + width * (1.0 - (ago + 72.0) / 3672.0);
    (x, spot[2].as_f64().unwrap())
}

#[test]
fn wheel_drag_brush_and_keys_move_the_picture() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("");
    let page = &world.browser;
    world.address_until("q.last === '1h'");
    assert_eq!(
        page.text("document.getElementById('live').getAttribute('aria-pressed')"),
        "true"
    );

    page.wheel(900.0, 350.0, -300, CONTROL);
    let zoomed = moved(&world, (0.0, 0.0));
    assert!(length(zoomed) < 3_000_000.0, "{zoomed:?}");
    assert_eq!(
        page.text("document.getElementById('live').getAttribute('aria-pressed')"),
        "false"
    );

    page.wheel(900.0, 350.0, 200, SHIFT);
    let panned = moved(&world, zoomed);
    assert!(panned.0 > zoomed.0);
    assert!((length(panned) - length(zoomed)).abs() < 100.0);

    page.drag(&[(700.0, 350.0), (800.0, 352.0), (900.0, 354.0)], false);
    let dragged = moved(&world, panned);
    assert!(dragged.0 < panned.0, "the picture follows the hand");

    page.drag(&[(600.0, 130.0), (700.0, 130.0), (800.0, 130.0)], false);
    let brushed = moved(&world, dragged);
    assert!(
        length(brushed) < length(dragged) / 2.0,
        "a brush over the rates zooms"
    );

    page.drag(&[(600.0, 350.0), (700.0, 350.0), (1000.0, 350.0)], true);
    let marked = moved(&world, brushed);
    assert!(length(marked) < length(brushed), "a drag with Shift zooms");

    page.run("history.back()");
    let back = moved(&world, marked);
    assert!((back.0 - brushed.0).abs() < 2.0, "a zoom can be taken back");

    for (key, is_so) in [
        (
            "s",
            (|a, b| length(b) > length(a)) as fn((f64, f64), (f64, f64)) -> bool,
        ),
        ("w", |a, b| length(b) < length(a)),
        ("a", |a, b| b.0 < a.0),
        ("d", |a, b| b.0 > a.0),
    ] {
        let before = range(&world);
        page.keys(key);
        let after = moved(&world, before);
        assert!(is_so(before, after), "{key}: {before:?} {after:?}");
    }
    for (selector, is_so) in [
        (
            "#zoom-out",
            (|a, b| length(b) > length(a)) as fn((f64, f64), (f64, f64)) -> bool,
        ),
        ("#zoom-in", |a, b| length(b) < length(a)),
        ("#pan-left", |a, b| b.0 < a.0),
        ("#pan-right", |a, b| b.0 > a.0),
    ] {
        let before = range(&world);
        page.click(selector);
        let after = moved(&world, before);
        assert!(is_so(before, after), "{selector}: {before:?} {after:?}");
    }
    page.keys("2");
    world.address_until("q.last === '1h'");
    page.keys("0");
    world.address_until("q.last && q.last !== '1h'");
    page.keys("l");
    world.address_until("q.from && q.to && !q.last");
    page.keys("u");
    world.address_until("q.zone === 'utc'");
    assert_eq!(
        page.text("document.getElementById('axis-zone').textContent"),
        "UTC"
    );
    page.keys("u");
    page.until("document.getElementById('axis-zone').textContent === 'Europe/Berlin'");

    page.run(
        "document.getElementById('from').value = '2026-01-31 13:00';
        document.getElementById('to').value = '2026-01-31 14:00';
        document.getElementById('range-form').requestSubmit();",
    );
    let typed = world.address_until("q.from === '2026-01-31T12:00:00Z'");
    assert_eq!(typed["to"], "2026-01-31T13:00:00Z");
    let empty = page.until(
        "!document.getElementById('empty').hidden
        && document.getElementById('empty').innerText",
    );
    assert!(
        empty
            .as_str()
            .unwrap()
            .contains("No events between 2026-01-31 13:00:00"),
        "{empty}"
    );
    page.click("#empty button");
    page.until("document.querySelectorAll('.lane').length > 5");
}

#[test]
fn filters_selection_and_address_belong_together() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("");
    let page = &world.browser;
    let lanes = "document.querySelectorAll('.lane').length";
    let all = page.number(lanes);
    assert!(all >= 12.0, "{all}");

    // By typing: Enter takes the first suggestion.
    page.keys("/");
    page.keys("reason:Back");
    page.until(
        "document.querySelector('#suggestions [aria-selected=true]').innerText
        .includes('BackOff')",
    );
    page.keys(ENTER);
    world.address_until("q.filter === 'reason:BackOff'");
    page.until(&format!("{lanes} < {all}"));
    page.until(
        "[...document.querySelectorAll('#rows tr .reason')]
        .every((cell) => cell.innerText === 'BackOff')",
    );
    page.keys("img"); // the field has the focus still
    page.keys(ESCAPE);
    page.keys(ESCAPE);

    // Texts; their chips are removed one by one.
    page.keys("/");
    page.keys("\"restarting failed\" -Unhealthy");
    page.keys(ENTER);
    world.address_until("q.filter === '-Unhealthy'");
    page.until("document.querySelectorAll('.chip.without').length === 1");
    page.click(".chip button");
    world.address_until("!location.search.includes('BackOff') && q.filter !== undefined");
    page.click(".chip button");
    page.click(".chip button");
    page.until(&format!("{lanes} === {all}"));

    // What is no filter says why, and stays to be mended.
    page.keys("/");
    page.keys("raeson:BackOff");
    page.keys(ENTER);
    page.until(
        "document.getElementById('filter-problem').innerText.includes('the keys are reason')",
    );
    page.keys(ESCAPE);
    page.until("document.getElementById('filter-problem').hidden");

    // Rates by reason; a click in the legend is a filter.
    page.click("#by-reason");
    world.address_until("q.by === 'reason'");
    page.until(
        "[...document.querySelectorAll('#legend button')].some((key) =>
        key.innerText.includes('BackOff'))",
    );
    page.run(
        "[...document.querySelectorAll('#legend button')].find((key) =>
        key.innerText.includes('BackOff')).click()",
    );
    world.address_until("q.filter === 'reason:BackOff'");
    page.run("history.back()");
    page.until(&format!("{lanes} === {all}"));

    an_object_is_shown_and_linked(&world);

    // An event: versions, earlier changes, the raw form, and commands.
    page.run(
        "[...document.querySelectorAll('#panel .items button')].find((button) =>
        button.innerText.includes('BackOff')).click()",
    );
    world.address_until("q.show.startsWith('event:')");
    page.until("document.getElementById('panel-title').innerText === 'BackOff'");
    page.until("document.querySelectorAll('#panel ol.items li').length > 0");
    let before = page.text("document.querySelector('#panel ol.items').innerText");
    assert!(before.contains("before"), "{before}");
    page.until("document.querySelector('#panel pre').textContent.includes('reason: BackOff')");
    page.run(
        "[...document.querySelectorAll('#panel button')].find((button) =>
        button.innerText === 'JSON').click()",
    );
    page.until(
        "JSON.parse(document.querySelector('#panel pre').textContent).reason
        === 'BackOff'",
    );
    let commands = page.text(
        "[...document.querySelectorAll('#panel code')]
        .map((code) => code.innerText).join('\\n')",
    );
    assert!(commands.contains("tidings events"), "{commands}");
    assert!(commands.contains("kubectl"), "{commands}");
    page.keys(ESCAPE);
    page.until("document.getElementById('panel').hidden");

    // A mark under the pointer has a tip, and opens on a click.
    let (x, y) = back_off(&world);
    page.hover(x, y);
    page.until(
        "!document.getElementById('tip').hidden
        && document.getElementById('tip').innerText.includes('Warning')",
    );
    page.drag(&[(x, y)], false);
    world.address_until("q.show !== undefined");
    page.until("!document.getElementById('panel').hidden");
}

/// The list and the panel show a selected object, and a link opens the same view.
fn an_object_is_shown_and_linked(world: &World) {
    let page = &world.browser;
    page.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.includes('web-5c9f7d8b64-tz4wd')).click()",
    );
    let at = world.address_until("q.show !== undefined");
    assert_eq!(at["show"], "object:/Pod/shop/web-5c9f7d8b64-tz4wd");
    page.until(
        "document.getElementById('list-title').innerText
        === 'Events of Pod web-5c9f7d8b64-tz4wd'",
    );
    page.until("document.querySelector('#panel .sentence').innerText.includes('412')");
    page.until("document.querySelectorAll('#panel .family li').length > 0");
    let link = page.url();
    let shown = page.text("document.getElementById('panel').innerText");
    page.open(&link);
    world.loaded();
    page.until("document.querySelector('#panel .sentence')");
    page.until(
        "document.getElementById('list-title').innerText
        === 'Events of Pod web-5c9f7d8b64-tz4wd'",
    );
    assert_eq!(
        page.text("document.getElementById('panel-title').innerText"),
        "web-5c9f7d8b64-tz4wd"
    );
    assert!(shown.contains("BackOff"));
}

#[test]
fn a_folded_family_has_its_marks_and_a_bar_of_the_rates_is_zoomed_to() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");
    // What began first is said, and is not what is drawn first.
    let firsts = page.text("document.getElementById('firsts').textContent");
    assert!(
        firsts.contains("FailedGetResourceMetric of hpa/web"),
        "{firsts}"
    );
    page.keys("x");
    page.until("document.querySelectorAll('.lane').length < 9");
    let family = page.text(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.startsWith('Deployment web,')).title",
    );
    assert!(family.contains("6 objects below"), "{family}");
    assert!(
        family.ends_with("20 events, 4 warnings, 490 occurrences"),
        "{family}"
    );
    let (x, y) = spot(&world, "Deployment web,", 1250.0);
    page.hover(x, y);
    page.until("document.getElementById('tip').innerText.includes('HorizontalPodAutoscaler web')");
    page.drag(&[(x, y)], false);
    page.until("!document.getElementById('panel').hidden");
    page.keys(ESCAPE);
    page.until("document.getElementById('panel').hidden");

    let (x, _) = spot(&world, "Deployment web,", 1250.0);
    let y = page.number("document.getElementById('rates').getBoundingClientRect().bottom - 12");
    page.drag(&[(x, y)], false);
    let bar = moved(&world, (0.0, 0.0));
    assert!((length(bar) - 30_000.0).abs() < 1.0, "{bar:?}");
}

#[test]
fn a_double_click_zooms_to_the_mark_that_was_pressed() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    let (x, y) = back_off(&world);
    page.double_click(x, y);
    let (from, to) = moved(&world, (0.0, 0.0));
    let now = page.number("Date.now()");
    let ago = |at: f64| (now - at) / 1000.0;
    // The range contains all of the back-off, or of the failed probes beside it, and little more.
    assert!(
        (1950.0..2300.0).contains(&ago(from)),
        "{} to {}",
        ago(from),
        ago(to)
    );
    assert!((700.0..1000.0).contains(&ago(to)), "{}", ago(to));
    let is_closed = page.value("document.getElementById('panel').hidden");
    assert_eq!(is_closed, json!(true));
}

#[test]
fn a_click_opens_what_was_pressed_though_another_picture_came() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.add(&(
        1800,
        1800,
        1,
        "Pod/pressed-0",
        "Normal",
        "Started",
        "alone in its lane",
    ));
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length === 1");
    let (x, y) = spot(&world, "pressed-0", 1800.0);
    // The effect of a click is delayed until the button is released.
    page.run(
        "window.held = [];
        const later = window.setTimeout;
        window.setTimeout = (act, ms, ...given) =>
            (ms === 250 ? held.push(act) : later(act, ms, ...given))",
    );
    page.drag(&[(x, y)], false);
    page.until("held.length === 1");
    world.add(&(
        1,
        0,
        1,
        "Pod/worse-0",
        "Warning",
        "Evicted",
        "in a lane above",
    ));
    page.until("document.querySelectorAll('.lane').length === 2");
    // What is under the pointer stays there, and is sorted when the pointer has left.
    let first = "[...document.querySelectorAll('.lane')]
        .find((lane) => lane.style.top === '0px').title";
    assert!(page.text(first).contains("pressed-0"));
    page.run("held.forEach((act) => act())");
    let at = world.address_until("q.show !== undefined");
    assert!(at["show"].starts_with("event:/shop/pressed-0."), "{at:?}");
    page.hover(700.0, 20.0);
    page.until(&format!("{first}.includes('worse-0')"));
}

#[test]
fn a_panel_that_is_filled_anew_leaves_the_focus_on_the_same_button() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 5");
    page.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.includes('web-5c9f7d8b64-tz4wd')).click()",
    );
    let buttons = "document.querySelectorAll('#panel .command button')";
    page.until(&format!("{buttons}.length === 2"));
    page.run(&format!("window.second = {buttons}[1]; second.focus()"));
    page.keys("4");
    page.until("!second.isConnected");
    page.until(&format!("document.activeElement === {buttons}[1]"));
}

#[test]
fn an_open_object_follows_the_range() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    let pod = "Pod/web-5c9f7d8b64-tz4wd";
    world.add(&(18_000, 18_000, 1, pod, "Normal", "Preempted", "long ago"));
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 5");
    page.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.includes('web-5c9f7d8b64-tz4wd')).click()",
    );
    let items = "document.querySelectorAll('#panel ul.items li').length";
    page.until(&format!("{items} > 3"));
    let of_hour = page.number(items);
    let since = "(Date.now() - Date.parse(/--since=(\\S+)/.exec(
        document.querySelector('#panel code').textContent)[1])) / 3600000";
    assert!(page.number(since) < 2.0);

    page.run("document.querySelector('#panel .items button').focus()");
    page.keys("4");
    page.until(&format!("{items} === {of_hour} + 1"));
    assert!(page.number(since) > 23.0);
    // The focus of a reader in the panel stays there.
    page.until("document.activeElement.matches('#panel .items button')");
    page.keys("2");
    page.until(&format!("{items} === {of_hour}"));
    page.keys("l");
    world.address_until("q.from && q.to");
    page.keys("sss");
    page.until(&format!("{since} > 1.5"));
}

#[test]
fn more_objects_than_a_picture_has_come_in_pages() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    for number in 0..305 {
        let pod = format!("Pod/web-{number}");
        let kind = if number < 3 { "Normal" } else { "Warning" };
        world.add(&(60, 60, 1, &pod, kind, "Evicted", "one of many"));
    }
    world.enter("");
    let page = &world.browser;
    let says = |text: &str| {
        page.until(&format!(
            "document.getElementById('lanes-foot').innerText.includes('{text}')"
        ));
    };
    says("Objects 1–300 of 305");
    page.run(
        "[...document.querySelectorAll('#lanes-foot button')].find((button) =>
        button.textContent === 'Next 5 objects').click()",
    );
    says("Objects 301–305 of 305");
    world.address_until("q.skip === '300'");
    let titles = page.value("[...document.querySelectorAll('.lane')].map((lane) => lane.title)");
    let titles = titles.as_array().unwrap();
    // Lanes without a warning come last.
    let without = titles
        .iter()
        .filter(|it| !it.as_str().unwrap().contains("warning"));
    // Five pods, and the beginning of their names.
    assert_eq!((titles.len(), without.count()), (6, 3));
    page.run(
        "[...document.querySelectorAll('#lanes-foot button')].find((button) =>
        button.textContent === 'Previous objects').click()",
    );
    says("Objects 1–300 of 305");
}

#[test]
fn keys_alone_are_enough() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("");
    let page = &world.browser;
    let focus = "document.activeElement";
    page.run("document.activeElement.blur()");

    page.keys(DOWN);
    page.keys(DOWN);
    page.until(&format!("{focus}.className.includes('lane')"));
    let lane = page.text(&format!("{focus}.title"));
    page.keys(RIGHT);
    page.until("document.getElementById('said').textContent.length > 10");
    page.keys(ENTER);
    page.until("!document.getElementById('panel').hidden");
    page.until(&format!("{focus}.id === 'panel-close'"));
    page.keys(ESCAPE);
    page.until(&format!("{focus}.title === {}", json!(lane)));

    // Lanes can be folded.
    let lanes = "document.querySelectorAll('.lane').length";
    let all = page.number(lanes);
    page.keys("x");
    page.until(&format!("{lanes} < {all}"));
    page.keys("x");
    page.until(&format!("{lanes} === {all}"));
    let deployment = "document.querySelector('.lane[aria-expanded]')";
    page.run(&format!("{deployment}.focus()"));
    page.keys(" ");
    page.until(&format!(
        "{lanes} < {all} && {deployment}.ariaExpanded === 'false'"
    ));
    page.keys(" ");

    page.keys("?");
    page.until("document.getElementById('help').open");
    page.keys(ESCAPE);
    page.until("!document.getElementById('help').open");

    // The tab key reaches everything, and never gets stuck.
    page.run("document.body.tabIndex = -1; document.body.focus(); window.seen = new Set()");
    for _ in 0..60 {
        page.keys("\u{e004}");
        page.run(
            "seen.add(document.activeElement.id || document.activeElement.className
            || document.activeElement.tagName)",
        );
    }
    let seen = page.value("[...seen]");
    for id in [
        "from",
        "to",
        "live",
        "zone",
        "export",
        "theme",
        "help-button",
        "filter",
        "splitter",
        "logout",
        "by-reason",
    ] {
        assert!(
            seen.as_array().unwrap().contains(&json!(id)),
            "{id} not in {seen}"
        );
    }
    let lane_is_reached = seen.to_string().contains("lane");
    assert!(lane_is_reached, "{seen}");

    // The arrow keys move in the list, and move the splitter.
    page.run("document.querySelector('#rows button').focus()");
    page.keys(DOWN);
    page.until("document.activeElement === document.querySelectorAll('#rows button')[1]");
    page.keys(ENTER);
    page.until("!document.getElementById('panel').hidden");
    page.keys(ESCAPE);
    page.run("document.getElementById('splitter').focus()");
    page.keys("\u{e013}");
    page.until("document.getElementById('splitter').getAttribute('aria-valuenow') === '40'");
}

#[test]
fn what_is_in_view_can_be_taken_along() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h&kind=Pod");
    let page = &world.browser;
    page.run(
        "URL.createObjectURL = (blob) => {
        blob.text().then((text) => { window.saved = text; }); return '#'; }",
    );
    page.click("#export");
    page.click("#export-svg");
    page.until("window.saved");
    let svg = page.value(
        "(() => {
        const root = new DOMParser().parseFromString(saved, 'image/svg+xml').documentElement;
        return { root: root.tagName, diamonds: root.querySelectorAll('polygon').length,
            text: root.textContent }; })()",
    );
    assert_eq!(svg["root"], "svg");
    assert!(svg["diamonds"].as_f64().unwrap() > 3.0, "{svg}");
    assert!(
        svg["text"]
            .as_str()
            .unwrap()
            .contains("web-5c9f7d8b64-tz4wd"),
        "{svg}"
    );

    page.click("#export");
    let fetched = "const [id, done] = arguments;
        fetch(document.getElementById(id).href).then(async (answer) =>
            done([answer.status, await answer.text()]));";
    let lines = page.run_until_done(fetched, json!(["export-jsonl"]));
    assert_eq!(lines[0], 200);
    for line in lines[1].as_str().unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["involvedObject"]["kind"], "Pod", "{line}");
    }
    assert!(lines[1].as_str().unwrap().lines().count() > 5);
    let trace = page.run_until_done(fetched, json!(["export-perfetto"]));
    let trace: serde_json::Value = serde_json::from_str(trace[1].as_str().unwrap()).unwrap();
    assert!(
        trace["traceEvents"].as_array().unwrap().len() > 5,
        "{trace}"
    );
}
