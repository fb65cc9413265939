//! The table of what happened most, and values as terms of the filter.

use tidings_testing::browser::DESKTOP;

use crate::world::{STORY, World};

const NAMES: &str =
    "[...document.querySelectorAll('#top-rows .name .plain')].map((it) => it.innerText)";

#[test]
fn a_table_says_what_happens_and_whether_it_goes_on() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('#rows tr').length > 5");
    page.click("#tab-top");
    world.address_until("q.below === 'reason'");
    page.until(&format!("{NAMES}[0] === '◆ BackOff'"));
    let row = |name: &str| {
        format!(
            "[...document.querySelectorAll('#top-rows tr')].find((row) =>
            row.innerText.includes('{name}')).innerText"
        )
    };
    assert!(page.text(&row("BackOff")).contains("×412"));
    assert!(!page.text(&row("BackOff")).contains("still going"));
    let going = page.text(&row("FailedGetResourceMetric"));
    assert!(going.contains("still going"), "{going}");
    page.until("document.querySelectorAll('#top-rows svg path').length > 5");

    page.run(
        "[...document.querySelectorAll('#top-tools button')].find((it) =>
        it.innerText.startsWith('Against')).click()",
    );
    world.address_until("q.against === 'before'");
    page.until("document.querySelectorAll('#top-rows em.new').length > 5");
    page.until("document.getElementById('top-foot').innerText.includes('been forgotten')");

    page.run(
        "[...document.querySelectorAll('#top-tools button')].find((it) =>
        it.innerText === 'by object').click()",
    );
    world.address_until("q.below === 'object'");
    page.until(&format!("{NAMES}[0] === '◆ po/web-5c9f7d8b64-tz4wd'"));
    page.click("#top-rows .out button");
    world.address_until("q.filter === '-object:Pod/web-5c9f7d8b64-tz4wd'");
    page.until(&format!("!{NAMES}.some((name) => name.includes('tz4wd'))"));
    page.click(".chip button");
    page.until(&format!("{NAMES}[0] === '◆ po/web-5c9f7d8b64-tz4wd'"));
    page.click("#top-rows .name button");
    page.until(&format!("{NAMES}.length === 1"));
    page.until("document.querySelectorAll('.lane').length < 5");

    // A link opens the same table.
    page.open(&page.url());
    world.loaded();
    page.until(&format!("{NAMES}.length === 1"));
    page.click("#tab-events");
    page.until("document.querySelectorAll('#rows tr').length > 3");
}

#[test]
fn many_objects_begin_with_the_table() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    let last = STORY.last().unwrap();
    for number in 0..101 {
        let object = format!("Pod/web-{number}");
        world.add(&(60, 60, 1, &object, last.4, "BackOff", last.6));
    }
    world.enter("?last=1h");
    let page = &world.browser;
    page.until(&format!("{NAMES}.length === 1"));
    page.until("document.querySelectorAll('#top-rows td')[1].innerText === '101'");
    // What the reader chose stays.
    page.click("#tab-events");
    page.until("document.querySelectorAll('#rows tr').length === 100");
    page.click("#zoom-in");
    world.loaded();
    page.until("document.getElementById('tab-events').ariaSelected === 'true'");
}

#[test]
fn every_value_can_be_chosen_or_left_out() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    // Suggestions say how often a value happened.
    page.keys("/");
    page.keys("reason:Back");
    page.until("document.querySelector('#suggestions em')?.innerText === '×412'");
    page.keys("\u{e00c}\u{e00c}");

    // The legend has a way back.
    page.run(
        "[...document.querySelectorAll('#legend button')].find((key) =>
        key.innerText.includes('Warning')).click()",
    );
    world.address_until("q.filter === 'type:Warning'");
    page.until("document.querySelector('#legend .back')");
    page.click("#legend .back");
    world.address_until("q.filter === undefined");
    page.until("!document.querySelector('#legend .back')");
    page.run("document.querySelector('#legend .out').click()");
    world.address_until("q.filter === '-type:Warning'");
    page.click(".chip button");
    world.address_until("q.filter === undefined");

    // Values of the list and of the panel.
    for (place, expected) in [
        ("#rows td.namespace", "namespace:shop"),
        ("#rows td.source", "source:"),
    ] {
        page.until(&format!("document.querySelector('{place}')"));
        page.run(&format!(
            "document.querySelector('{place}').dispatchEvent(
            new PointerEvent('pointerover', {{ bubbles: true }}));
            document.querySelector('{place} .picks button:last-child').click()"
        ));
        world.address_until(&format!("q.filter?.startsWith('-{expected}')"));
        page.until("document.getElementById('panel').hidden");
        page.click(".chip button");
        world.address_until("q.filter === undefined");
    }
    page.until("document.querySelectorAll('#rows tr').length > 5");
    page.run("document.querySelector('#rows tr').click()");
    page.until("document.querySelector('#panel [data-key=reason]')");
    page.run(
        "document.querySelector('#panel [data-key=reason]').focus();
        document.querySelector('#panel .picks button').click()",
    );
    world.address_until("q.filter?.startsWith('reason:')");
}

#[test]
fn every_name_of_the_legend_can_be_seen() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    for number in 0..14 {
        let reason = format!("FailedForTheReason{number}");
        world.add(&(600, 600, 2, "Pod/web-0", "Normal", &reason, "one of many"));
    }
    world.enter("?last=1h&by=reason");
    let page = &world.browser;
    let is_cut = "((at, end) => at > end)(
        [...document.querySelectorAll('#legend .key')].find((it) =>
            it.innerText.startsWith('other')).getBoundingClientRect().bottom,
        document.getElementById('legend').getBoundingClientRect().bottom)";
    let more = "document.querySelector('#legend .more').innerText";
    page.until(&format!("/^▾ [0-9]+ more$/.test({more}) && {is_cut}"));
    let place = "document.getElementById('lanes').getBoundingClientRect().top";
    let before = page.number(place);
    page.click("#legend .more");
    page.until(&format!("{more} === '▴ fewer' && !{is_cut}"));
    assert_eq!(page.number(place), before);
    let above =
        "((it) => document.elementFromPoint(it.left + 20, it.bottom - 4).closest('#legend'))(
        document.getElementById('legend').getBoundingClientRect())";
    page.until(above);
    page.until("document.activeElement.className === 'key more'");
    page.click("#legend .more");
    page.until(&format!("{more} !== '▴ fewer' && {is_cut}"));
    // Where all names have room there is no button.
    page.click("#by-type");
    page.until("document.querySelectorAll('#legend .key').length === 1");
}

#[test]
fn alike_messages_share_a_row_of_the_list() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    for (ago, pod, hash) in [
        (900, "web-5c9f7d8b64-tz4wd", "4be1a60"),
        (300, "web-5c9f7d8b64-kqxzv", "90cc2f7"),
        (600, "db-xkcdq", "1234567"),
    ] {
        let object = format!("Pod/{pod}");
        let message = format!("Failed to create sandbox \"{hash}\" of pod {pod}");
        let reason = "FailedCreatePodSandBox";
        world.add(&(ago + 60, ago, 5, &object, "Warning", reason, &message));
    }
    world.add(&(
        500,
        500,
        1,
        "Pod/db-xkcdq",
        "Warning",
        "FailedCreatePodSandBox",
        "Failed to create sandbox: no space left",
    ));
    world.enter("?last=1h");
    let page = &world.browser;
    let rows = "document.querySelectorAll('#rows tr').length";
    page.until(&format!("{rows} === 4"));
    page.click("#list-alike");
    page.until(&format!("{rows} === 2"));
    assert_eq!(
        page.text("document.getElementById('list-alike').ariaPressed"),
        "true"
    );
    let row = page.text("document.querySelector('#rows tr').innerText");
    for part in ["64-kqxzv", "▸ 2 more", "×15", "90cc2f7"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    // It is sorted by the first of all of its events.
    let first = "document.querySelector('#rows tr').innerText.includes('×15')";
    page.click("#by-first");
    page.until(&format!("!{first}"));
    page.click("#by-first");
    page.until(first);
    page.click("#by-last");
    page.until(first);
    page.run("document.querySelector('#rows .alike').focus()");
    page.keys("\u{e007}");
    page.until(&format!("{rows} === 4"));
    page.until("document.activeElement.ariaExpanded === 'true'");
    assert_eq!(
        page.number("document.querySelectorAll('#rows tr.other').length"),
        2.0
    );
    // A row opens its event.
    page.run("document.querySelector('#rows tr.other').click()");
    world.address_until("q.show.includes('db-xkcdq')");
    page.keys("\u{e00c}");
    page.run("document.querySelector('#rows .alike').click()");
    page.until(&format!("{rows} === 2"));
    page.click("#list-alike");
    page.until(&format!("{rows} === 4"));
}

#[test]
fn rates_count_occurrences_or_events() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    let legend = "document.getElementById('legend').innerText.replace(/\\s+/g, ' ')";
    page.until(&format!("{legend}.includes('Warning')"));
    let occurrences = page.text(legend);
    assert!(occurrences.contains("≈ ×"), "{occurrences}");
    page.click("#count");
    world.address_until("q.count === 'events'");
    page.until(&format!("!{legend}.includes('×')"));
    let events = page.text(legend);
    assert!(
        events.contains("Warning 5") && events.contains("Normal 24"),
        "{events}"
    );
    page.until("document.getElementById('count').ariaPressed === 'true'");
    // A link opens the same.
    world.open("?last=1h&count=events");
    page.until(&format!("{legend} === {}", serde_json::json!(events)));
    page.click("#count");
    page.until(&format!("{legend} === {}", serde_json::json!(occurrences)));
}
