//! Reading a story: what changed before is pinned, lanes are sorted, grouped and folded, the list
//! is read in both directions, and the range moves by words.

use serde_json::json;
use tidings_testing::browser::{DESKTOP, Window};

use crate::world::World;

const LANES: &str = "[...document.querySelectorAll('.lane')]
    .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
    .map((lane) => lane.title.split(',')[0])";

fn choose(world: &World, select: &str, value: &str) {
    world.browser.run(&format!(
        "const select = document.getElementById('{select}');
        select.value = '{value}'; select.dispatchEvent(new Event('change'));"
    ));
}

#[test]
fn a_story_is_read_in_the_picture_the_list_and_the_panel() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length > 10");

    // What changed before, one row for an object, with the birth apart.
    page.until("document.getElementById('rows').innerText.includes('BackOff')");
    page.run(
        "[...document.querySelectorAll('#rows tr')].find((row) =>
        row.innerText.includes('BackOff')).click()",
    );
    page.until("document.querySelectorAll('#panel .pinned li').length > 2");
    let first = page.text("document.querySelector('#panel .pinned li').innerText");
    assert!(first.contains("deploy/web"), "{first}");
    assert!(first.contains("ScalingReplicaSet"), "{first}");
    let birth = page.text("document.querySelector('#panel details').textContent");
    assert!(birth.contains("Scheduled"), "{birth}");
    page.until("document.querySelector('.lane.flash').title.includes('web-5c9f7d8b64-tz4wd')");
    // The row under the pointer is lit in the picture.
    let pixels = "(() => { const canvas = document.getElementById('marks');
        return canvas.toDataURL(); })()";
    let before = page.text(pixels);
    page.run(
        "document.querySelector('#panel .pinned li')
        .dispatchEvent(new PointerEvent('pointerenter'))",
    );
    page.until(&format!("{pixels} !== {before:?}"));
    page.keys("\u{e00c}");
    page.until("document.getElementById('panel').hidden");

    // By name, by node, and by trouble again.
    choose(&world, "sort", "name");
    world.address_until("q.sort === 'name'");
    page.until(&format!("{LANES}[0] === 'CronJob backup'"));
    choose(&world, "group", "namespace");
    page.until(&format!("{LANES}.includes('Namespace shop')"));
    choose(&world, "group", "node");
    page.until(&format!(
        "((lanes) => lanes[lanes.indexOf('Node node-1') + 1].startsWith('Pod '))({LANES})"
    ));
    choose(&world, "group", "owner");
    choose(&world, "sort", "trouble");
    page.until(&format!("{LANES}[0].startsWith('Deployment web')"));

    // The next warning, and the one before it.
    page.keys("n");
    page.until("document.getElementById('said').innerText.includes('FailedGetResourceMetric')");
    page.keys("n");
    page.until("document.getElementById('said').innerText.includes('BackOff')");
    page.keys("N");
    page.until("document.getElementById('said').innerText.includes('FailedGetResourceMetric')");

    // The list in both orders.
    let seen = "[...document.querySelectorAll('#rows .reason')].map((cell) => cell.innerText)";
    page.click("#by-first");
    page.until(&format!("{seen}[0].includes('Job') || {seen}.length > 20"));
    page.click("#by-first");
    page.until(&format!("{seen}[0] === 'ScalingReplicaSet'"));
    assert_eq!(
        page.text("document.getElementById('by-first').closest('th').getAttribute('aria-sort')"),
        "ascending"
    );
    page.click("#by-last");
    page.until(&format!("{seen}[0] === 'FailedGetResourceMetric'"));

    // Times relative to now, and those of the day in view.
    let go = |from: &str, to: &str| {
        page.run(&format!(
            "document.getElementById('from').value = '{from}';
            document.getElementById('to').value = '{to}';
            document.getElementById('range-form').requestSubmit();"
        ));
    };
    go("-2h", "now");
    world.address_until("q.last === '2h'");
    go("2026-01-31 13:00", "13:30");
    world.address_until("q.to === '2026-01-31T12:30:00Z'");
    go("now-50m", "-40m");
    world.address_until("Math.abs(Date.parse(q.to) - Date.parse(q.from) - 600000) < 2000");
    // Where that is in all there is; a click moves there.
    page.until("!document.getElementById('minimap').hidden");
    let at = world.address_until("q.from");
    page.click("#minimap");
    world.address_until(&format!("q.from !== '{}'", at["from"]));

    // Lanes that do not fit are folded, until they are unfolded.
    page.resize(Window {
        height: 560,
        ..DESKTOP
    });
    world.open("?last=1h");
    page.until(&format!("{LANES}.length < 10"));
    let family = page.until("document.querySelector('.lane[aria-expanded=\"false\"]').title");
    assert!(family.as_str().unwrap().contains("below"), "{family}");
    page.until("document.getElementById('rows').innerText.includes('Unhealthy')");
    page.run(
        "[...document.querySelectorAll('#rows tr')].find((row) =>
        row.innerText.includes('Unhealthy')).click()",
    );
    page.until("document.querySelector('.lane.flash').title.includes('web-5c9f7d8b64-tz4wd')");
    assert_eq!(
        page.value("document.querySelector('.lane.flash').tabIndex"),
        json!(0)
    );
}
