//! Labels of lanes, and the rows by reason below one.

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
