//! What the follower does after each kind of failure.

use tidings_history::{Cause, Gap};

use super::follower::{Answer, Commit, Failure, Follower, Page, Rules, State, Step};
use crate::keep::coverage::{Position, Unswept, cluster_gap};

const NOW: i64 = 1_700_000_000_000;
const SECOND: i64 = 1000;

fn rules() -> Rules {
    Rules {
        page: 500,
        retry: (SECOND, 30 * SECOND),
        refused: 60 * SECOND,
        slack: 2 * SECOND,
        from_now: false,
        selection: String::new(),
        authorities: Vec::new(),
    }
}

fn follower(position: Option<Position>) -> Follower {
    Follower::new(
        rules(),
        String::new(),
        position,
        fastrand::Rng::with_seed(7),
    )
}

/// A position at version 100, half a minute old.
fn reached() -> Position {
    Position {
        version: Some(100),
        latest: 100,
        identity: Some("one".into()),
        since: NOW - 1000 * SECOND,
        complete_until: NOW - 30 * SECOND,
        ..Position::default()
    }
}

fn answer(version: u64) -> Answer {
    answer_at(NOW, version)
}

fn answer_at(asked: i64, version: u64) -> Answer {
    Answer {
        identity: Some("one".into()),
        asked,
        version,
    }
}

fn commit(follower: &mut Follower, commit: Option<Commit>) -> Option<Gap> {
    let commit = commit?;
    follower.committed(commit.position);
    commit.gap
}

/// Reads a list of one page, and returns the gap that it ends.
fn list(follower: &mut Follower, now: i64, version: u64) -> Option<Gap> {
    assert!(matches!(follower.step(), Step::List { token: None, .. }));
    let page = Page {
        version,
        token: None,
        oldest: None,
        has_unnamed: false,
    };
    let listed = follower.listed((now, now), page);
    commit(follower, listed)
}

type Happens = Box<dyn Fn(&mut Follower)>;

#[test]
fn an_archive_that_is_level_again_states_no_gap() {
    let mut follower = follower(Some(reached()));
    let answered = follower.answered(NOW, answer(5000));
    assert_eq!(answered, None);
    assert_eq!(follower.step(), Step::Watch { after: 100 });
    follower.alive();
    assert_eq!(follower.state(), (State::Watching, None));
}

#[test]
fn a_cluster_followed_from_now_on_is_watched_without_a_list() {
    let rules = Rules {
        from_now: true,
        ..rules()
    };
    let random = fastrand::Rng::with_seed(7);
    let mut follower = Follower::new(rules, String::new(), None, random);
    let answered = follower.answered(NOW, answer(5000));
    assert_eq!(commit(&mut follower, answered), None);
    assert_eq!(follower.step(), Step::Watch { after: 5000 });
    let position = follower.position().unwrap();
    assert_eq!((position.since, position.complete_until), (NOW, NOW));
    // What the source forgets after that is listed, with a gap.
    let expired = follower.failed(NOW + SECOND, Failure::Expired);
    assert_eq!(commit(&mut follower, expired), None);
    let gap = list(&mut follower, NOW + 2 * SECOND, 6000).unwrap();
    assert_eq!((gap.from.0, gap.to.0), (NOW, NOW + 2 * SECOND));
}

/// Each case: a failure while the source is followed, and the cause of the gap if the source has
/// then forgotten the versions in between.
#[test]
fn what_was_forgotten_is_a_gap_that_says_why() {
    let failure = |failure: Failure| {
        move |follower: &mut Follower| {
            let failed = follower.failed(NOW, failure.clone());
            assert_eq!(failed, None);
        }
    };
    let other = Failure::Other {
        why: "connection refused".into(),
        retry_after: None,
    };
    let cases: [(Happens, Cause, State); 5] = [
        (
            Box::new(failure(other)),
            Cause::Unreachable,
            State::Unreachable,
        ),
        (
            Box::new(failure(Failure::Forbidden("no".into()))),
            Cause::Forbidden,
            State::Forbidden,
        ),
        (
            Box::new(|follower| follower.not_committed(NOW, "disk full".into())),
            Cause::Storage,
            State::StorageFailed,
        ),
        (
            Box::new(|follower| {
                follower.closed();
                let another = Answer {
                    identity: Some("another".into()),
                    ..answer(7)
                };
                assert_eq!(follower.answered(NOW, another), None);
            }),
            Cause::OtherCluster,
            State::OtherCluster,
        ),
        (
            Box::new(Follower::closed),
            Cause::Compacted,
            State::Watching,
        ),
    ];
    for (happens, cause, state) in cases {
        let mut follower = follower(Some(reached()));
        follower.answered(NOW, answer(100));
        follower.alive();
        happens(&mut follower);
        assert_eq!(follower.state().0, state, "{cause:?}");
        let later = NOW + 3600 * SECOND;
        follower.waited(later);
        assert_eq!(follower.step(), Step::Ask, "{cause:?}");
        follower.answered(later, answer(900));
        let failed = follower.failed(later, Failure::Expired);
        assert_eq!(commit(&mut follower, failed), None);
        let gap = list(&mut follower, later + SECOND, 901);
        let expected = cluster_gap(NOW - 30 * SECOND, later + SECOND, cause);
        assert_eq!(gap, Some(expected));
        assert_eq!(follower.answered(later, answer(901)), None);
        assert_eq!(follower.step(), Step::Watch { after: 901 });
    }
}

#[test]
fn an_archive_that_was_absent_for_too_long_says_so_however_often_it_is_killed() {
    let mut position = Some(reached());
    for _ in 0..3 {
        let mut follower = follower(position);
        follower.answered(NOW, answer(900));
        if let Step::Watch { .. } = follower.step() {
            let failed = follower.failed(NOW, Failure::Expired);
            commit(&mut follower, failed);
        }
        let page = Page {
            version: 900,
            token: Some("next".into()),
            oldest: None,
            has_unnamed: false,
        };
        let listed = follower.listed((NOW, NOW), page);
        assert_eq!(commit(&mut follower, listed), None);
        position = follower.position().cloned();
    }
    let mut follower = follower(position);
    follower.answered(NOW, answer(950));
    let gap = list(&mut follower, NOW, 950).unwrap();
    assert_eq!((gap.from.0, gap.cause), (NOW - 30 * SECOND, Cause::Absent));
}

#[test]
fn another_cluster_is_asked_again_now_and_then_and_nothing_of_it_is_kept() {
    let mut follower = follower(Some(reached()));
    let another = Answer {
        identity: Some("another".into()),
        ..answer(7)
    };
    for round in 0..3 {
        let now = NOW + round * 60 * SECOND;
        assert_eq!(follower.answered(now, another.clone()), None);
        assert_eq!(
            follower.step(),
            Step::Wait {
                until: now + 60 * SECOND
            }
        );
        let (state, why) = follower.state();
        assert_eq!(state, State::OtherCluster);
        assert!(
            why.is_some_and(|why| why.contains("another, not one")),
            "{why:?}"
        );
        follower.waited(now + 60 * SECOND);
    }
    assert_eq!(follower.position(), Some(&reached()));
}

/// The identities before and now, the authorities before and now, and whether everything is listed
/// again.
type Seen = (
    [Option<&'static str>; 2],
    [&'static [&'static str]; 2],
    bool,
);

#[test]
fn a_source_of_other_authorities_that_shows_no_identity_is_listed_in_the_same_epoch() {
    const ONE: Option<&str> = Some("one");
    let owned = |words: &[&str]| -> Vec<String> {
        let words = words.iter();
        words.map(|&word| word.to_owned()).collect()
    };
    let cases: [Seen; 8] = [
        ([None, None], [&["a"], &["b"]], true),
        ([ONE, None], [&["a"], &["b"]], true),
        ([None, ONE], [&["a"], &["b"]], true),
        // The source is the same.
        ([ONE, ONE], [&["a"], &["b"]], false),
        // The authorities are replaced one after the other.
        ([None, None], [&["a"], &["a", "b"]], false),
        ([None, None], [&["a", "b"], &["b"]], false),
        // The authorities were not noted, or are not known now.
        ([None, None], [&[], &["b"]], false),
        ([None, None], [&["a"], &[]], false),
    ];
    for (identities, [former, now], is_anew) in cases {
        let [known, found] = identities.map(|identity| identity.map(str::to_owned));
        let position = Position {
            identity: known,
            authorities: owned(former),
            ..reached()
        };
        let rules = Rules {
            authorities: owned(now),
            ..rules()
        };
        let random = fastrand::Rng::with_seed(7);
        let mut follower = Follower::new(rules, String::new(), Some(position), random);
        let found = Answer {
            identity: found,
            ..answer(5000)
        };
        let answered = follower.answered(NOW, found);
        commit(&mut follower, answered);
        let position = follower.position().unwrap();
        let noted = if now.is_empty() { former } else { now };
        assert_eq!(position.authorities, noted, "{identities:?}");
        assert_eq!(position.epoch, 0, "{identities:?} {former:?}");
        let version = (!is_anew).then_some(100);
        assert_eq!(position.version, version, "{identities:?} {former:?}");
        if is_anew {
            let (state, why) = follower.state();
            assert!(state == State::Listing && why.is_some());
            let gap = list(&mut follower, NOW + SECOND, 5001).unwrap();
            let expected = (NOW - 30 * SECOND, Cause::OtherCluster);
            assert_eq!((gap.from.0, gap.cause), expected);
        } else {
            assert_eq!(follower.step(), Step::Watch { after: 100 });
        }
    }
}

#[test]
fn a_source_that_went_back_is_read_anew_in_another_epoch() {
    let mut follower = follower(Some(reached()));
    let answered = follower.answered(NOW, answer(60)).unwrap();
    // The commit fails, and the source has caught up by the next request.
    follower.not_committed(NOW, "disk full".into());
    follower.waited(NOW + 60 * SECOND);
    let again = follower.answered(NOW + 60 * SECOND, answer(200)).unwrap();
    for commit in [&answered, &again] {
        let Position {
            epoch,
            version,
            latest,
            ..
        } = commit.position;
        assert_eq!((epoch, version, latest), (1, None, 0));
    }
    commit(&mut follower, Some(again));
    let gap = list(&mut follower, NOW + 61 * SECOND, 201).unwrap();
    assert_eq!((gap.from.0, gap.cause), (NOW - 30 * SECOND, Cause::Rewound));
}

/// Lower numbers in the same epoch would be taken for those from before.
#[test]
fn a_source_of_other_authorities_that_went_back_is_read_anew_in_another_epoch() {
    let position = Position {
        identity: None,
        authorities: vec!["a".to_owned()],
        ..reached()
    };
    let rules = Rules {
        authorities: vec!["b".to_owned()],
        ..rules()
    };
    let random = fastrand::Rng::with_seed(7);
    let mut follower = Follower::new(rules, String::new(), Some(position), random);
    let found = Answer {
        identity: None,
        ..answer(60)
    };
    let answered = follower.answered(NOW, found);
    commit(&mut follower, answered);
    let position = follower.position().unwrap();
    let found = (position.epoch, position.version, position.latest);
    assert_eq!(found, (1, None, 0));
    let gap = list(&mut follower, NOW + SECOND, 61).unwrap();
    assert_eq!(gap.cause, Cause::OtherCluster);
}

#[test]
fn a_page_that_is_too_large_is_read_in_halves() {
    let mut follower = follower(None);
    let answered = follower.answered(NOW, answer(5));
    commit(&mut follower, answered);
    for limit in [500, 250, 125] {
        assert_eq!(follower.step(), Step::List { token: None, limit });
        follower.failed(NOW, Failure::TooLarge);
        follower.waited(i64::MAX);
        let answered = follower.answered(NOW, answer(5));
        commit(&mut follower, answered);
    }
}

/// While the source is not asked, it forgets within minutes what is written.
#[test]
fn a_wait_is_at_least_what_is_asked_for_but_never_longer_than_a_minute() {
    for (asked, granted) in [(47, 47), (60, 60), (3600, 60), (i64::MAX / SECOND, 60)] {
        let mut follower = follower(Some(reached()));
        let busy = Failure::Other {
            why: "busy".into(),
            retry_after: Some(asked * SECOND),
        };
        follower.failed(NOW, busy);
        let until = NOW + granted * SECOND;
        assert_eq!(follower.step(), Step::Wait { until }, "{asked} s");
    }
}

/// A version that is written and replaced between a list's request and its answer is in no list and
/// no watch.
#[test]
fn what_is_replaced_while_a_list_is_on_its_way_is_before_the_beginning_or_in_the_gap() {
    let list_slowly = |follower: &mut Follower, at: i64| {
        for (seconds, token) in [(20, Some("more")), (40, None)] {
            let page = Page {
                version: 500,
                token: token.map(str::to_owned),
                oldest: None,
                has_unnamed: false,
            };
            let asked = at + (seconds - 20) * SECOND;
            let listed = follower.listed((asked, at + seconds * SECOND), page);
            let gap = commit(follower, listed);
            if token.is_none() {
                return gap;
            }
        }
        None
    };
    let mut first = follower(None);
    let answered = first.answered(NOW, answer(400));
    commit(&mut first, answered);
    assert_eq!(list_slowly(&mut first, NOW), None);
    let position = first.position().unwrap();
    assert_eq!(position.since, NOW + 20 * SECOND);
    assert_eq!(position.complete_until, NOW - rules().slack);

    let mut again = follower(Some(reached()));
    assert_eq!(again.answered(NOW, answer(500)), None);
    let expired = again.failed(NOW, Failure::Expired);
    commit(&mut again, expired);
    let gap = list_slowly(&mut again, NOW).unwrap();
    assert_eq!(gap.from.0, reached().complete_until);
    assert_eq!(gap.to.0, NOW + 20 * SECOND);
    let position = again.position().unwrap();
    assert_eq!(position.complete_until, NOW - rules().slack);
}

/// kube-apiserver opens a watch at any version, and only then reports that etcd has forgotten it.
#[test]
fn a_watch_that_is_open_does_not_hide_what_went_wrong_before() {
    let mut follower = follower(Some(reached()));
    assert_eq!(follower.answered(NOW, answer(5000)), None);
    follower.opened();
    assert_eq!(follower.state(), (State::Watching, None));
    let expired = follower.failed(NOW, Failure::Expired);
    commit(&mut follower, expired);
    let gap = list(&mut follower, NOW, 5001).unwrap();
    assert_eq!(gap.cause, Cause::Absent);
}

#[test]
fn a_watch_that_opens_and_fails_at_once_is_asked_for_less_and_less() {
    let mut follower = follower(Some(reached()));
    let mut now = NOW;
    for _ in 0..20 {
        assert_eq!(follower.answered(now, answer(5000)), None);
        follower.opened();
        let failure = Failure::Other {
            why: "an error".into(),
            retry_after: None,
        };
        assert_eq!(follower.failed(now, failure), None);
        let Step::Wait { until } = follower.step() else {
            panic!("{:?}", follower.step());
        };
        now = until;
        follower.waited(now);
    }
    assert!(now - NOW > 120 * SECOND, "{} ms", now - NOW);
}

#[test]
fn what_cannot_be_written_stays_wrong_until_something_is() {
    let mut follower = follower(Some(reached()));
    assert_eq!(follower.answered(NOW, answer(5000)), None);
    follower.opened();
    let watched = follower.watched(NOW, Some(NOW), 101);
    assert!(watched.is_some());
    let mut now = NOW;
    for _ in 0..3 {
        follower.not_committed(now, "no space".into());
        let failed = (State::StorageFailed, Some("no space"));
        assert_eq!(follower.state(), failed);
        now += 60 * SECOND;
        follower.waited(now);
        // After a failed commit, another is tried before anything more is read.
        let tried = follower.answered(now, answer(5000)).unwrap();
        assert_eq!(tried.position.version, Some(100));
        assert_eq!(follower.state(), failed);
        follower.opened();
        follower.alive();
        assert_eq!(follower.state(), failed);
    }
    let tried = follower.answered(now, answer(5000)).unwrap();
    follower.committed(tried.position);
    assert_eq!(follower.state(), (State::Watching, None));
    assert_eq!(follower.answered(now, answer(5000)), None);
}

#[test]
fn ends_are_looked_for_behind_a_gap_among_the_same_events() {
    for (selection, looks) in [("", true), ("labels app=web", false)] {
        let position = Position {
            selection: selection.into(),
            ..reached()
        };
        let mut follower = follower(Some(position));
        let answered = follower.answered(NOW, answer(5000));
        assert_eq!(answered.is_none(), looks);
        commit(&mut follower, answered);
        if looks {
            let expired = follower.failed(NOW, Failure::Expired);
            commit(&mut follower, expired);
        }
        let page = |token: Option<&str>| Page {
            version: 4000,
            token: token.map(str::to_owned),
            oldest: Some(NOW - 50 * 3600 * SECOND),
            has_unnamed: false,
        };
        let first = follower.listed((NOW, NOW + 1), page(Some("more")));
        let first = first.unwrap();
        assert_eq!(first.listed_at, looks.then_some(NOW));
        assert_eq!(first.unswept, None);
        follower.committed(first.position);
        let last = follower.listed((NOW + 5, NOW + 6), page(None)).unwrap();
        assert_eq!(last.listed_at, looks.then_some(NOW));
        let unswept = Unswept {
            listed_at: NOW,
            version: 4000,
            not_before: NOW - 30 * SECOND,
            // The limit is twice the age of the oldest event.
            since: NOW - 30 * SECOND - 100 * 3600 * SECOND,
        };
        assert_eq!(last.unswept, looks.then_some(unswept));
        assert_eq!(last.position.selection, "");
    }
}

/// An event that is not in the list may be the one whose name cannot be read.
#[test]
fn no_ends_are_looked_for_behind_a_list_with_an_event_whose_name_cannot_be_read() {
    for at in 0..3 {
        let mut follower = follower(Some(reached()));
        follower.answered(NOW, answer(5000));
        let expired = follower.failed(NOW, Failure::Expired);
        commit(&mut follower, expired);
        for number in 0..3 {
            let page = Page {
                version: 5000,
                token: (number < 2).then(|| "more".to_owned()),
                oldest: None,
                has_unnamed: number == at,
            };
            let listed = follower.listed((NOW, NOW), page).unwrap();
            assert_eq!(listed.unswept, None, "page {at} has it");
            assert_eq!(listed.gap.is_some(), number == 2);
            follower.committed(listed.position);
        }
    }
}

#[test]
fn what_other_selectors_select_is_listed_and_covered_from_then_on() {
    let before = Position {
        selection: "fields type=Warning labels ".into(),
        ..reached()
    };
    let mut position = Some(before);
    // The archive is killed twice in the middle of the list.
    for at in [NOW, NOW + 60 * SECOND, NOW + 120 * SECOND] {
        let mut follower = follower(position.take());
        let begun = follower.answered(at, answer_at(at, 5000));
        assert_eq!(commit(&mut follower, begun), None);
        let begun = follower.position().unwrap();
        assert_eq!((begun.since, begun.complete_until), (at, at));
        let first = Step::List {
            token: None,
            limit: 500,
        };
        assert_eq!(follower.step(), first);
        let page = |token: Option<&str>| Page {
            version: 5000,
            token: token.map(str::to_owned),
            oldest: None,
            has_unnamed: false,
        };
        let listed = follower.listed((at, at + SECOND), page(Some("more")));
        let listed = listed.unwrap();
        assert_eq!((listed.listed_at, &listed.unswept), (None, &None));
        follower.committed(listed.position);
        position = follower.position().cloned();
        if at == NOW + 120 * SECOND {
            let listed = follower.listed((at + SECOND, at + 2 * SECOND), page(None));
            let listed = listed.unwrap();
            assert_eq!(
                (listed.gap, listed.listed_at, listed.unswept),
                (None, None, None)
            );
            assert_eq!(listed.position.since, at + SECOND);
            assert_eq!(listed.position.selection, "");
            follower.committed(listed.position);
            assert_eq!(follower.answered(at + 2 * SECOND, answer(5000)), None);
            assert_eq!(follower.step(), Step::Watch { after: 5000 });
        }
    }
}

#[test]
fn no_ends_are_looked_for_behind_the_first_list() {
    let mut follower = follower(None);
    let begun = follower.answered(NOW, answer(5000));
    commit(&mut follower, begun);
    let page = Page {
        version: 5000,
        token: None,
        oldest: None,
        has_unnamed: false,
    };
    let listed = follower.listed((NOW, NOW), page).unwrap();
    assert_eq!((listed.listed_at, listed.unswept), (None, None));
}

/// Takes the steps before a watch: asks, and lists if that is the next step.
fn watch(follower: &mut Follower, now: i64, version: u64) {
    while !matches!(follower.step(), Step::Watch { .. }) {
        match follower.step() {
            Step::List { .. } => drop(list(follower, now, version)),
            step => {
                assert_eq!(step, Step::Ask);
                let answered = follower.answered(now, answer(version));
                commit(follower, answered);
            }
        }
    }
}

#[test]
fn a_source_that_forgets_what_it_has_just_listed_is_asked_less_and_less() {
    let mut follower = follower(Some(reached()));
    let forget = |follower: &mut Follower, now| {
        let failed = follower.failed(now, Failure::Expired);
        assert!(failed.is_some());
        commit(follower, failed);
        follower.step()
    };
    let first = Step::List {
        token: None,
        limit: 500,
    };
    watch(&mut follower, NOW, 200);
    assert_eq!(forget(&mut follower, NOW), first);
    let (mut now, mut waits) = (NOW, Vec::new());
    for turn in 0..6 {
        watch(&mut follower, now, 200 + 2 * turn);
        // A bookmark, or an event, before each of them changes nothing.
        if turn % 2 == 1 {
            let watched = follower.watched(now, Some(now), 201 + 2 * turn);
            commit(&mut follower, watched);
        }
        let Step::Wait { until } = forget(&mut follower, now) else {
            panic!("it is listed at once after {waits:?}");
        };
        waits.push(until - now);
        now = until;
        follower.waited(now);
    }
    assert!(waits[0] <= SECOND && waits[5] >= 8 * SECOND, "{waits:?}");
    // After a list that lasted for a while, the delays begin again.
    watch(&mut follower, now, 300);
    assert_eq!(forget(&mut follower, now + 60 * SECOND), first);
}

/// Opens a watch, and returns the version after which it begins.
fn open(follower: &mut Follower, asked: i64, version: u64) -> u64 {
    let answered = follower.answered(asked + 10, answer_at(asked, version));
    assert_eq!(answered, None);
    follower.opened();
    let Step::Watch { after } = follower.step() else {
        panic!("{:?}", follower.step());
    };
    after
}

/// The source's version grows with all objects of the cluster, and the source forgets after ten
/// minutes.
#[test]
fn a_quiet_cluster_is_followed_for_days_without_a_gap() {
    let mut follower = follower(Some(reached()));
    let version_at = |at: i64| (100 + (at - NOW).max(0) / 100).cast_unsigned();
    let mut now = NOW;
    while now < NOW + 48 * 3600 * SECOND {
        let after = open(&mut follower, now, version_at(now));
        let compacted = version_at(now - 300 * SECOND);
        assert!(
            after >= compacted,
            "{after} is forgotten after {} ms",
            now - NOW
        );
        let asked = now;
        for silence in 1..=4 {
            now += 30 * SECOND;
            let silent = follower.silent(now, (now, version_at(now)));
            assert_eq!(silent.is_some(), silence == 1);
            assert_eq!(commit(&mut follower, silent), None);
            let position = follower.position().unwrap();
            assert_eq!(position.version, Some(version_at(asked)));
            assert_eq!(position.complete_until, asked - rules().slack);
        }
        follower.closed();
    }
}

/// Answers on other connections do not show that the watch still works.
#[test]
fn what_a_dead_watch_does_not_send_lies_in_the_gap() {
    // The watch dies after it was silent, in the middle of its messages, or after all of them.
    let cases: [(Happens, i64); 3] = [
        (
            Box::new(|follower| {
                let silent = follower.silent(NOW + 30 * SECOND, (NOW + 30 * SECOND, 350));
                commit(follower, silent);
            }),
            NOW,
        ),
        (
            Box::new(|follower| {
                let written = Some(NOW - 20 * SECOND);
                let watched = follower.watched(NOW + SECOND, written, 200);
                commit(follower, watched);
            }),
            NOW - 20 * SECOND,
        ),
        (
            Box::new(|follower| {
                let watched = follower.watched(NOW + SECOND, Some(NOW - SECOND), 300);
                commit(follower, watched);
            }),
            NOW,
        ),
    ];
    for (happens, complete) in cases {
        let mut follower = follower(Some(reached()));
        assert_eq!(open(&mut follower, NOW, 300), 100);
        happens(&mut follower);
        let mut now = NOW + 30 * SECOND;
        for version in [400, 500, 600] {
            now += 30 * SECOND;
            let silent = follower.silent(now, (now, version));
            assert_eq!(silent, None);
        }
        follower.closed();
        open(&mut follower, now, 600);
        let expired = follower.failed(now, Failure::Expired);
        commit(&mut follower, expired);
        let gap = list(&mut follower, now, 601).unwrap();
        assert_eq!(gap.from.0, complete - rules().slack);
    }
}

/// Versions come in order, so a bookmark shows that everything before it has been sent.
#[test]
fn what_comes_after_a_silence_shows_that_nothing_is_missing_up_to_then() {
    let mut follower = follower(Some(reached()));
    open(&mut follower, NOW, 300);
    for (seconds, version) in [(30, 400), (90, 500)] {
        let asked = NOW + seconds * SECOND;
        let silent = follower.silent(asked, (asked, version));
        commit(&mut follower, silent);
        assert!(!follower.is_level(version - 1) && follower.is_level(version));
        let bookmark = follower.watched(asked + 30 * SECOND, None, version);
        commit(&mut follower, bookmark);
        let position = follower.position().unwrap();
        assert_eq!(position.complete_until, asked - rules().slack);
        assert_eq!(position.version, Some(version));
    }
}

#[test]
fn a_clock_that_was_ahead_does_not_shorten_later_gaps() {
    let ahead = Position {
        complete_until: NOW + 3600 * SECOND,
        ..reached()
    };
    let written = NOW - 5 * SECOND;
    for (known, from) in [(Some(written), written - rules().slack), (None, NOW)] {
        let mut follower = follower(Some(ahead.clone()));
        open(&mut follower, NOW - 10, 300);
        let watched = follower.watched(NOW, known, 200);
        commit(&mut follower, watched);
        assert_eq!(follower.position().unwrap().complete_until, from);
        let later = NOW + 7200 * SECOND;
        follower.closed();
        open(&mut follower, later, 900);
        let expired = follower.failed(later, Failure::Expired);
        commit(&mut follower, expired);
        let gap = list(&mut follower, later, 901).unwrap();
        assert_eq!((gap.from.0, gap.to.0), (from, later));
    }
    // No noted time is later than the present.
    let mut follower = follower(Some(reached()));
    open(&mut follower, NOW, 300);
    let watched = follower.watched(NOW, Some(NOW + 3600 * SECOND), 301);
    commit(&mut follower, watched);
    let position = follower.position().unwrap();
    assert_eq!(position.complete_until, NOW - rules().slack);
}
