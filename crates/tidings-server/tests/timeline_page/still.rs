//! What is opened or said moves nothing in the picture; and the picture as a file.

use serde_json::json;
use tidings_testing::browser::DESKTOP;

use crate::world::World;

/// Where the marks are: the place and the width of their canvas.
const PLACE: &str = "(({ left, top, width }) => [left, top, width])(
    document.getElementById('marks').getBoundingClientRect())";

#[test]
fn what_is_opened_or_said_moves_no_mark() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");
    page.until("document.querySelectorAll('#rows tr').length > 5");
    let place = page.value(PLACE);
    page.run(
        "[...document.querySelectorAll('#rows tr')].find((row) =>
        row.innerText.includes('BackOff')).click()",
    );
    page.until("document.querySelector('#panel .pinned')");
    assert_eq!(page.value(PLACE), place);
    page.keys("\u{e00c}");
    page.until("document.getElementById('panel').hidden");

    // A notice lies over the picture. It can be closed, and comes again with its cause.
    let notices = "document.querySelectorAll('#notices .notice').length";
    for _ in 0..2 {
        page.run(
            "document.getElementById('from').value = 'yesterday';
            document.getElementById('range-form').requestSubmit();",
        );
        page.until(&format!("{notices} === 1"));
        assert_eq!(page.value(PLACE), place);
        page.click("#notices .plain");
        page.until(&format!("{notices} === 0"));
    }
}

#[test]
fn a_selected_lane_has_a_row_for_each_reason() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");
    let lanes = "document.querySelectorAll('.lane').length";
    let before = page.number(lanes);
    let click = "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.startsWith('Pod web-5c9f7d8b64-tz4wd')).click()";
    page.run(click);
    let rows = "[...document.querySelectorAll('.lane.reason')]
        .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
        .map((row) => row.title.split(',')[0])";
    page.until(&format!("{rows}.length === 6"));
    assert_eq!(page.number(lanes), before + 6.);
    let found = page.value(rows);
    assert_eq!(found[0], "reason BackOff");
    assert_eq!(found[1], "reason Unhealthy");
    // They are below their lane, and are left with it.
    let top = |of: &str| page.value(&format!("parseFloat({of}.style.top)"));
    let lane = top("[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.startsWith('Pod web-5c9f7d8b64-tz4wd'))");
    let row = top("document.querySelector('.lane.reason[title^=\"reason BackOff\"]')");
    assert_eq!(row.as_f64().unwrap(), lane.as_f64().unwrap() + 22.);
    page.keys("\u{e00c}");
    page.until(&format!("{rows}.length === 0"));
}

#[test]
fn the_picture_is_saved_with_its_scale_legend_and_filters() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h&filter=-reason:Pulled");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");
    page.run(
        "window.saved = []; const make = URL.createObjectURL;
        URL.createObjectURL = (content) => {
            content.arrayBuffer().then((bytes) => saved.push([content.type, bytes]));
            return make.call(URL, content);
        };",
    );
    page.run("document.getElementById('export-png').click()");
    page.until("saved.length === 1");
    let png = page.value(
        "((bytes) => [saved[0][0], bytes.getUint32(0), bytes.getUint32(16),
        bytes.byteLength > 10000])(new DataView(saved[0][1]))",
    );
    assert_eq!(png, json!(["image/png", 0x8950_4e47_u32, 2800, true]));
    page.run("document.getElementById('export-svg').click()");
    page.until("saved.length === 2");
    let svg = page.text("new TextDecoder().decode(saved[1][1])");
    let warnings = svg.find(">Warning ").unwrap_or_default();
    assert!(warnings > 0 && svg.contains(">Filter: -reason:Pulled<"));
    // The scale of the rates begins at nothing.
    assert!(svg.contains(">0</text>"));

    // The rows of a lane that is selected have their reasons, further in than the lane.
    page.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.startsWith('Pod web-5c9f7d8b64-tz4wd')).click()",
    );
    page.until("document.querySelectorAll('.lane.reason').length > 3");
    page.run("document.getElementById('export-svg').click()");
    page.until("saved.length === 3");
    let place = |text: &str| {
        page.number(&format!(
            "((svg) => [...svg.querySelectorAll('text')].filter((it) =>
            it.textContent === '{text}').map((it) => Number(it.getAttribute('x')))[0] ?? -1)(
            new DOMParser().parseFromString(new TextDecoder().decode(saved[2][1]),
            'image/svg+xml'))"
        ))
    };
    let lane = place("po/web-5c9f7d8b64-tz4wd");
    assert!(lane > 0.0, "{lane}");
    assert_eq!(place("BackOff"), lane + 14.0);
    assert_eq!(place("Unhealthy"), lane + 14.0);

    // Of a picture that is not complete, no number is exact, and no words promise all events.
    let texts = page.run_until_done(
        "const done = arguments[1];
        const main = document.querySelector('script[src$=\"/main.js\"]').src;
        import(new URL('picture.js', main).href).then(async ({ pictureAsSvg }) => {
            const sums = { objects: 1, events: 7, warnings: 4, occurrences: 9, first: 1, last: 2 };
            const lane = { ...sums, cluster: '', kind: 'Pod', namespace: 'shop', name: 'web-0',
                depth: 0, gone: false, family: sums };
            const picture = { complete: false, read: 7, total: null, gaps: [], marks: [],
                lanes: [lane], reasons: [], changes: [], events: [],
                rates: { start: 0, step: 1000, estimated: true, series: [] } };
            const svg = pictureAsSvg({ picture, now: 0, range: [0, 60000],
                rows: [{ lane, drawn: [], folded: false }],
                view: { filters: [], utc: true, by: 'type', shown: null } });
            const root = new DOMParser().parseFromString(await svg.text(), 'image/svg+xml');
            done([...root.querySelectorAll('text')].map((it) => it.textContent));
        })",
        json!([null]),
    );
    for text in ["No filter", "po/web-0", "≈ ◆ 4", "≈ ×9"] {
        let texts = texts.as_array().unwrap();
        assert!(texts.contains(&json!(text)), "{text}: {texts:?}");
    }

    // A browser that cannot make so large a picture is not silent about it, each time.
    page.run("HTMLCanvasElement.prototype.toBlob = (done) => done(null)");
    for _ in 0..2 {
        page.run("document.getElementById('export-png').click()");
        page.until("document.getElementById('notices').innerText.includes('save an SVG')");
        page.click("#notices .notice .plain");
        page.until("document.querySelectorAll('#notices .notice').length === 0");
    }
}
