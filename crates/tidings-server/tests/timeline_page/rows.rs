//! Labels of lanes, and the rows by reason below one.

use serde_json::json;
use tidings_testing::browser::DESKTOP;

use crate::world::World;

/// The titles of all rows, from the top.
const TITLES: &str = "[...document.querySelectorAll('.lane')]
    .sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top))
    .map((lane) => lane.title)";

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
