//! Labels of lanes, and the rows by reason below one.

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::ObjectMeta;
use serde_json::json;
use tidings_testing::browser::DESKTOP;

use crate::world::World;

/// The titles of all rows, from the top.
const TITLES: &str = "[...document.querySelectorAll('.lane')]
    .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
    .map((lane) => lane.title)";

/// The number of rows by reason.
const REASONS: &str = "document.querySelectorAll('.lane.reason').length";

const ENTER: &str = "\u{e007}";
const DOWN: &str = "\u{e015}";
const RIGHT: &str = "\u{e014}";

#[test]
fn an_owner_whose_events_do_not_match_has_none_of_those_shown() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h&filter=reason:BackOff");
    let page = &world.browser;
    page.until(&format!("{TITLES}.length === 2"));
    let titles = page.value(TITLES);
    let owner = titles[0].as_str().unwrap();
    assert!(
        owner.starts_with("Deployment web, in shop, none of the events shown, with"),
        "{titles}"
    );
}

#[test]
fn an_object_without_a_kind_is_apart_from_the_pods_with_its_name() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    for (ago, object, reason) in [
        (900, "/cilium", "Checked"),
        (800, "/cilium", "Restarted"),
        (700, "Pod/cilium-sqmvj", "Pulled"),
        (600, "Pod/cilium-x7k2p", "Pulled"),
    ] {
        world.add(&(ago, ago, 1, object, "Normal", reason, "all is well"));
    }
    world.enter("?last=1h");
    let page = &world.browser;
    page.until(&format!("{TITLES}.length === 4"));
    let heads = format!("{TITLES}.map((title) => title.split(',')[0]).sort()");
    let lanes = [
        "Pod cilium-sqmvj",
        "Pod cilium-x7k2p",
        "object cilium",
        "objects named after cilium",
    ];
    assert_eq!(page.value(&heads), json!(lanes));
    page.run(
        "[...document.querySelectorAll('.lane')]
        .find((lane) => lane.title.startsWith('object cilium')).click()",
    );
    page.until(&format!("{TITLES}.length === 6"));
    let reasons = ["reason Checked", "reason Restarted"];
    assert_eq!(
        page.value(&heads),
        json!([&lanes[..], &reasons[..]].concat())
    );
    let selected = "[...document.querySelectorAll('[aria-selected=true].lane')]
        .map((lane) => lane.title.split(',')[0])";
    assert_eq!(page.value(selected), json!(["object cilium"]));
}

#[test]
fn a_mark_that_is_opened_leaves_the_rows_by_reason_and_the_focus_in_them() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.enter("?last=1h");
    let page = &world.browser;
    page.until(&format!("{TITLES}.length > 10"));
    page.run(
        "[...document.querySelectorAll('.lane')].find((lane) =>
        lane.title.startsWith('Pod web-5c9f7d8b64-tz4wd')).focus()",
    );
    page.keys(ENTER);
    page.until(&format!("{REASONS} === 6"));
    page.until("document.activeElement.id === 'panel-close'");
    page.run(
        "document.querySelector('.lane.reason[title^=\"reason BackOff\"]').focus();
        window.focused = document.activeElement",
    );
    page.keys(RIGHT);
    page.keys(ENTER);
    world.address_until("q.show.startsWith('event:')");
    page.until("document.getElementById('panel-title').innerText === 'BackOff'");
    assert_eq!(page.number(REASONS), 6.0);
    assert_eq!(
        page.value("document.activeElement === focused"),
        json!(true)
    );
    // Another picture leaves them, too.
    let loaded = page.text("document.documentElement.dataset.loaded");
    page.keys("d");
    page.until(&format!(
        "document.documentElement.dataset.loaded !== {loaded:?}"
    ));
    assert_eq!(page.number(REASONS), 6.0);
    assert_eq!(
        page.value("document.activeElement === focused"),
        json!(true)
    );
    page.keys(DOWN);
    page.until("document.activeElement.title.startsWith('reason Unhealthy')");
    // When they go, the keyboard is at their lane.
    page.run("document.getElementById('panel-close').dispatchEvent(new Event('click'))");
    page.until(&format!("{REASONS} === 0"));
    page.until("document.activeElement.title.startsWith('Pod web-5c9f7d8b64-tz4wd')");
    assert_eq!(page.number("document.activeElement.tabIndex"), 0.0);
    page.keys(ENTER);
    page.until(&format!("{REASONS} === 6"));
    page.run("document.querySelector('.lane.reason').focus()");
    page.run("history.back()");
    page.until(&format!("{REASONS} === 0"));
    page.until("document.activeElement.title.startsWith('Pod web-5c9f7d8b64-tz4wd')");
    // A lane that is folded away leaves the keyboard at its owner.
    page.keys("x");
    page.until("document.activeElement.title.startsWith('Deployment web,')");
}

#[test]
fn rows_by_reason_are_below_the_one_of_two_lanes_that_was_clicked() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    for (ago, uid, reason) in [
        (900, "aaaa", "Started"),
        (800, "aaaa", "Killing"),
        (700, "bbbb", "Started"),
        (600, "bbbb", "Pulled"),
    ] {
        let time = Time(Timestamp::now() - SignedDuration::from_secs(ago));
        world.create(Event {
            metadata: ObjectMeta {
                generate_name: Some("db-0.".into()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                kind: Some("Pod".into()),
                namespace: Some("shop".into()),
                name: Some("db-0".into()),
                uid: Some(uid.into()),
                ..ObjectReference::default()
            },
            reason: Some(reason.into()),
            type_: Some("Normal".into()),
            first_timestamp: Some(time.clone()),
            last_timestamp: Some(time),
            count: Some(1),
            ..Event::default()
        });
    }
    world.enter("?last=1h");
    let page = &world.browser;
    page.until(&format!("{TITLES}.length === 2"));
    let heads = format!("{TITLES}.map((title) => title.split(',').slice(0, 2).join())");
    let lanes = page.value(&heads);
    for number in [1, 0] {
        page.run(&format!(
            "[...document.querySelectorAll('.lane')].find((lane) =>
            lane.title.startsWith({})).click()",
            lanes[number]
        ));
        page.until(&format!("{REASONS} === 2"));
        page.until(&format!("{heads}[{number}] === {}", lanes[number]));
        page.until(&format!("{heads}[{}].startsWith('reason ')", number + 1));
        page.keys("\u{e00c}");
        page.until(&format!("{REASONS} === 0"));
    }
}
