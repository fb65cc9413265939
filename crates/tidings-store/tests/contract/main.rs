//! The contract of every backend, case by case. Each case runs unchanged on every backend, on the
//! embedded one twice: with its history in memory, and with hardly any of it there. The modules
//! have the random histories, and faults of the embedded store: kills, torn files and hostile
//! folders.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod clocks;
mod crash;
mod damage;
mod folders;
mod formats;
mod full_disk;
mod histories;
mod identity;
mod large_values;
mod lost_checkpoint;
mod pages;
mod queries;
mod support;

use std::sync::Arc;

use crate::identity::an_identity_stays_with_the_data;
use crate::large_values::{a_watch_takes_large_changes_few_at_a_time, limited_pages_end_at_a_size};
use crate::pages::{
    a_list_of_forgotten_revisions_ends, a_page_costs_no_more_by_what_was_written_since,
    pages_of_one_list_are_of_one_revision, pages_of_one_object_are_of_one_revision,
};
use crate::queries::{
    counts_by_hour_and_reason, newest_of_a_time_and_more, pages_of_the_newest_go_on_beside_writers,
    what_is_over_is_not_counted_for_ever,
};
use crate::support::{Fixture, START, about, next_changes, next_shown, show};
use tidings_store::{
    Change, Fault, Index, ListRequest, NewRecord, NewestRequest, ObjectSelector, ReadError,
    UnixMillis, VALUE_LEN_MAX, WatchError, WriteError,
};

/// All of the suite on one backend, in a module of its name.
macro_rules! contract {
    ($backend:ident) => {
        mod $backend {
            use super::*;
            use crate::support::backends::$backend as backend;

            cases![
                writes_and_their_preconditions,
                sizes_are_limited,
                revisions_and_records_survive_a_restart,
                lists_are_in_key_order_and_paged,
                lists_at_a_revision_are_exact,
                lists_by_object,
                pages_of_one_list_are_of_one_revision,
                pages_of_one_object_are_of_one_revision,
                a_page_costs_no_more_by_what_was_written_since,
                a_list_of_forgotten_revisions_ends,
                limited_pages_end_at_a_size,
                newest_first,
                newest_of_a_time_and_more,
                pages_of_the_newest_go_on_beside_writers,
                counts_by_hour_and_reason,
                what_is_over_is_not_counted_for_ever,
                expired_records_are_not_there,
                the_end_of_a_record_is_a_change,
                writes_set_the_expiry_anew,
                a_clock_set_back_brings_nothing_back,
                short_lives_among_long_ones,
                watches_see_every_change_in_order,
                watches_filter_by_prefix_and_report_progress,
                a_slow_watch_misses_nothing,
                a_watch_takes_large_changes_few_at_a_time,
                a_watch_goes_on_after_a_restart,
                compaction_is_reported,
                the_future_is_refused,
                many_writers_at_once,
                closing_ends_everything,
                an_identity_stays_with_the_data,
                statistics_add_up,
            ];

            #[test]
            fn random_histories() {
                histories::check(backend);
            }
        }
    };
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $case() {
            if let Some(fixture) = Fixture::on(backend).await {
                super::$case(fixture).await;
            }
        })*
    };
}

contract!(memory);
contract!(embedded);
contract!(embedded_roomy);
#[cfg(feature = "etcd")]
contract!(etcd);

async fn writes_and_their_preconditions(mut fixture: Fixture) {
    let first = fixture.create("a", "1").await;
    assert!(first > 0);
    let store = Arc::clone(&fixture.store);
    let record = || NewRecord::new("x");

    let error = store.create("a".into(), record()).await.unwrap_err();
    assert!(
        matches!(error, WriteError::AlreadyExists { revision } if revision == first),
        "{error}"
    );
    let error = store.update("b".into(), record(), first).await.unwrap_err();
    assert!(matches!(error, WriteError::NotFound), "{error}");
    let error = store
        .update("a".into(), record(), first + 7)
        .await
        .unwrap_err();
    assert!(
        matches!(error, WriteError::Conflict { expected, current } if (expected, current) == (first + 7, first))
    );
    let error = store.delete("a".into(), Some(first + 7)).await.unwrap_err();
    assert!(
        matches!(error, WriteError::Conflict { expected, current } if (expected, current) == (first + 7, first))
    );
    let error = store.delete("b".into(), None).await.unwrap_err();
    assert!(matches!(error, WriteError::NotFound), "{error}");
    assert_eq!(store.revision(), first, "what is refused changes nothing");

    let second = fixture.update("a", "2", first).await;
    assert!(second > first);
    fixture.restart().await;
    let record = fixture.get("a").await.unwrap();
    assert_eq!((record.value, record.revision), ("2".into(), second));
    let deleted = fixture
        .store
        .delete("a".into(), Some(second))
        .await
        .unwrap();
    assert_eq!(
        (show(&deleted.previous), deleted.previous.revision),
        ("a=2".to_owned(), second)
    );
    assert!(deleted.revision > second);
    assert_eq!(fixture.get("a").await, None);
    assert!(fixture.create("a", "3").await > deleted.revision);
    assert_eq!(fixture.get("").await, None);
}

async fn sizes_are_limited(fixture: Fixture) {
    let refuse = |key: String, record: NewRecord| {
        let store = Arc::clone(&fixture.store);
        async move {
            store
                .create(key.into(), record)
                .await
                .unwrap_err()
                .to_string()
        }
    };
    assert_eq!(
        refuse(String::new(), NewRecord::new("")).await,
        "the key is empty"
    );
    let message = refuse("k".repeat(1025), NewRecord::new("")).await;
    assert_eq!(
        message,
        "the key is 1025 bytes long, at most 1024 are accepted"
    );
    let message = refuse("k".into(), NewRecord::new(vec![0; VALUE_LEN_MAX + 1])).await;
    assert_eq!(
        message,
        "the value is 1572865 bytes long, at most 1572864 are accepted"
    );
    let index = Index {
        object_name: "n".repeat(4097),
        ..Index::default()
    };
    let message = refuse("k".into(), NewRecord::new("").index(index)).await;
    assert_eq!(
        message,
        "the index is 4097 bytes long, at most 4096 are accepted"
    );
    let message = refuse("k".into(), NewRecord::new("").expires_at(fixture.after(0))).await;
    assert!(
        message.starts_with("the record would expire at"),
        "{message}"
    );

    let (key, value) = ("k".repeat(1024), vec![7; VALUE_LEN_MAX]);
    fixture
        .store
        .create(key.clone().into(), NewRecord::new(value.clone()))
        .await
        .unwrap();
    assert_eq!(fixture.get(&key).await.unwrap().value, value);
}

async fn revisions_and_records_survive_a_restart(mut fixture: Fixture) {
    if !fixture.backend.is_remote() {
        assert_eq!(fixture.store.revision(), tidings_store::REVISION_OF_NEW);
    }
    let first = fixture.create("a", "1").await;
    let second = fixture.create("b", "").await;
    fixture.delete("a").await;
    let latest = fixture.store.revision();
    for _ in 0..3 {
        fixture.restart().await;
        assert_eq!(fixture.store.revision(), latest);
    }
    assert_eq!(fixture.list(ListRequest::default()).await, ["b="]);
    assert_eq!(fixture.get("b").await.unwrap().revision, second);
    assert_eq!(
        fixture.list(ListRequest::default().at(first)).await,
        ["a=1"]
    );
    assert!(fixture.create("c", "").await > latest);
}

async fn lists_are_in_key_order_and_paged(fixture: Fixture) {
    for key in ["b/1", "a/2", "a/10", "ab/1", "a/1", "a", "b"] {
        fixture.create(key, "").await;
    }
    assert_eq!(
        fixture.list(ListRequest::default()).await,
        ["a=", "a/1=", "a/10=", "a/2=", "ab/1=", "b=", "b/1="]
    );
    assert_eq!(
        fixture.list(ListRequest::prefix("a/")).await,
        ["a/1=", "a/10=", "a/2="]
    );
    assert_eq!(fixture.list(ListRequest::prefix("c")).await, [""; 0]);

    let mut request = ListRequest::prefix("a").limit(2);
    request.count_remaining = true;
    let page = fixture.store.list(request.clone()).await.unwrap();
    assert_eq!(
        page.records.iter().map(show).collect::<Vec<_>>(),
        ["a=", "a/1="]
    );
    assert_eq!((page.more, page.remaining), (true, Some(3)));
    let page = fixture
        .store
        .list(request.clone().after("a/10").at(page.revision))
        .await
        .unwrap();
    assert_eq!(
        page.records.iter().map(show).collect::<Vec<_>>(),
        ["a/2=", "ab/1="]
    );
    assert_eq!((page.more, page.remaining), (false, Some(0)));
    // A key before the prefix does not extend the range, one after it leaves nothing.
    assert_eq!(
        fixture.list(ListRequest::prefix("b").after("a")).await,
        ["b=", "b/1="]
    );
    assert_eq!(
        fixture.list(ListRequest::prefix("a").after("b")).await,
        [""; 0]
    );
    let none = fixture
        .store
        .list(ListRequest::prefix("a").limit(0))
        .await
        .unwrap();
    assert_eq!((none.records.len(), none.more), (0, true));
}

async fn lists_at_a_revision_are_exact(mut fixture: Fixture) {
    let one = fixture.create("a", "1").await;
    let two = fixture.create("c", "1").await;
    let three = fixture.update("a", "2", one).await;
    let four = fixture.delete("c").await;
    let five = fixture.create("b", "1").await;
    let six = fixture.create("c", "2").await;
    for _ in 0..2 {
        for (at, expected) in [
            (0, vec![]),
            (one, vec!["a=1"]),
            (two, vec!["a=1", "c=1"]),
            (three, vec!["a=2", "c=1"]),
            (four, vec!["a=2"]),
            (five, vec!["a=2", "b=1"]),
            (six, vec!["a=2", "b=1", "c=2"]),
        ] {
            let page = fixture
                .store
                .list(ListRequest::default().at(at))
                .await
                .unwrap();
            assert_eq!(
                page.records.iter().map(show).collect::<Vec<_>>(),
                expected,
                "at {at}"
            );
            assert_eq!(page.revision, at);
        }
        assert_eq!(
            fixture
                .list(ListRequest::default().at(three).after("a").limit(1))
                .await,
            ["c=1"]
        );
        fixture.restart().await;
    }
}

async fn lists_by_object(mut fixture: Fixture) {
    let store = Arc::clone(&fixture.store);
    let mut revision = 0;
    for (key, pod) in [
        ("default/w.2", "w"),
        ("default/v.1", "v"),
        ("default/w.1", "w"),
        ("other/w.3", "w"),
    ] {
        revision = store
            .create(key.into(), NewRecord::new(pod).index(about(pod, 0)))
            .await
            .unwrap();
    }
    let by_uid =
        |pod: &str| ListRequest::default().object(ObjectSelector::Uid(format!("uid-of-{pod}")));
    let named = |name: &str, kind: &str, namespace: &str| ObjectSelector::Name {
        name: name.into(),
        kind: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
    };
    let by_name = |pod: &str| ListRequest::prefix("default/").object(named(pod, "Pod", "default"));
    for _ in 0..2 {
        assert_eq!(
            fixture.list(by_uid("w")).await,
            ["default/w.1=w", "default/w.2=w", "other/w.3=w"]
        );
        assert_eq!(
            fixture.list(by_name("w")).await,
            ["default/w.1=w", "default/w.2=w"]
        );
        assert_eq!(fixture.list(by_name("x")).await, [""; 0]);
        // Kind and namespace may be any, or another.
        let all = ["default/w.1=w", "default/w.2=w", "other/w.3=w"];
        for (kind, namespace, expected) in [
            ("", "", &all[..]),
            ("Pod", "", &all),
            ("", "default", &all),
            ("Node", "", &[]),
            ("", "other", &[]),
        ] {
            let request = ListRequest::default().object(named("w", kind, namespace));
            assert_eq!(fixture.list(request).await, expected, "{kind} {namespace}");
        }
        let request = ListRequest::prefix("other/").object(named("w", "", ""));
        assert_eq!(fixture.list(request).await, ["other/w.3=w"]);
        let mut request = ListRequest::default()
            .object(named("w", "Pod", ""))
            .limit(1);
        request.count_remaining = true;
        let page = fixture.store.list(request).await.unwrap();
        assert_eq!(
            (&page.records[0].key[..], page.more, page.remaining),
            (&b"default/w.1"[..], true, Some(2))
        );
        assert_eq!(
            fixture
                .list(by_uid("w").after("default/w.1").limit(1))
                .await,
            ["default/w.2=w"]
        );
        fixture.restart().await;
    }
    // An update moves a record between objects; a delete removes it; older revisions still have it.
    let found = fixture.get("default/w.1").await.unwrap().revision;
    fixture
        .store
        .update(
            "default/w.1".into(),
            NewRecord::new("now v").index(about("v", 0)),
            found,
        )
        .await
        .unwrap();
    fixture.delete("other/w.3").await;
    assert_eq!(fixture.list(by_uid("w")).await, ["default/w.2=w"]);
    assert_eq!(
        fixture.list(by_uid("v")).await,
        ["default/v.1=v", "default/w.1=now v"]
    );
    assert_eq!(
        fixture.list(by_uid("w").at(revision)).await,
        ["default/w.1=w", "default/w.2=w", "other/w.3=w"]
    );
    assert_eq!(
        fixture.list(by_uid("v").at(revision)).await,
        ["default/v.1=v"]
    );
    let empty = ListRequest::default().object(ObjectSelector::Uid(String::new()));
    assert_eq!(fixture.list(empty).await, [""; 0]);
}

async fn newest_first(mut fixture: Fixture) {
    for (key, last_seen, life) in [
        ("a/1", 5, 60),
        ("b/1", 9, 6000),
        ("a/2", -3, 600),
        ("a/3", 7, 60),
        ("a/4", 7, 90),
    ] {
        let record = NewRecord::new("")
            .index(about("p", last_seen))
            .expires_at(fixture.after(life));
        fixture.store.create(key.into(), record).await.unwrap();
    }
    let newest = async |fixture: &Fixture, prefix: &'static str, since: Option<i64>, limit| {
        let since = since.map(|seconds| UnixMillis(START + seconds * 1000));
        let request = NewestRequest {
            prefix: prefix.into(),
            since,
            limit,
            ..NewestRequest::default()
        };
        let page = fixture.store.newest(request).await.unwrap();
        (page.records.iter().map(show).collect::<Vec<_>>(), page.more)
    };
    let strings = |keys: &[&str]| keys.iter().map(|key| format!("{key}=")).collect::<Vec<_>>();
    for _ in 0..2 {
        assert_eq!(
            newest(&fixture, "", None, 3).await,
            (strings(&["b/1", "a/4", "a/3"]), true)
        );
        assert_eq!(
            newest(&fixture, "a/", None, 9).await,
            (strings(&["a/4", "a/3", "a/1", "a/2"]), false)
        );
        assert_eq!(
            newest(&fixture, "a/", Some(6), 9).await,
            (strings(&["a/4", "a/3"]), false)
        );
        fixture.restart().await;
    }
    let seen_again = fixture.get("a/2").await.unwrap().revision;
    fixture
        .store
        .update(
            "a/2".into(),
            NewRecord::new("").index(about("p", 8)),
            seen_again,
        )
        .await
        .unwrap();
    fixture.clock.advance(70_000);
    assert_eq!(
        newest(&fixture, "", None, 9).await,
        (strings(&["b/1", "a/2", "a/4"]), false)
    );
}

async fn expired_records_are_not_there(fixture: Fixture) {
    let first = fixture.create_for("a", "1", 10).await;
    fixture.create("b", "1").await;
    fixture.clock.advance(9_999);
    assert!(fixture.get("a").await.is_some());
    fixture.clock.advance(1);
    assert_eq!(fixture.get("a").await, None);
    assert_eq!(fixture.list(ListRequest::default()).await, ["b=1"]);
    assert_eq!(
        fixture.list(ListRequest::default().at(first)).await,
        [""; 0]
    );
    let update = fixture
        .store
        .update("a".into(), NewRecord::new("2"), first)
        .await
        .unwrap_err();
    assert!(matches!(update, WriteError::NotFound), "{update}");
    let delete = fixture
        .store
        .delete("a".into(), Some(first))
        .await
        .unwrap_err();
    assert!(matches!(delete, WriteError::NotFound), "{delete}");

    let mut watch = fixture.watch("a", first).await;
    fixture.create("a", "2").await;
    assert_eq!(next_shown(&mut *watch, 2).await, ["!a=1", "+a=2"]);
    assert_eq!(
        fixture.store.expire().await.unwrap(),
        0,
        "its end is written down already"
    );
}

async fn the_end_of_a_record_is_a_change(mut fixture: Fixture) {
    fixture.create_for("a", "1", 10).await;
    fixture.create_for("b", "1", 20).await;
    let latest = fixture.create("c", "1").await;
    let mut watch = fixture.watch("", latest).await;
    fixture.clock.advance(10_000);
    assert_eq!(fixture.store.expire().await.unwrap(), 1);
    let change = next_changes(&mut *watch, 1).await.remove(0);
    assert!(change.revision() > latest);
    assert!(
        matches!(&*change, Change::Delete { previous, expired: true, .. } if show(previous) == "a=1")
    );
    assert_eq!(fixture.store.expire().await.unwrap(), 0);
    fixture.restart().await;
    fixture.clock.advance(10_000);
    assert_eq!(fixture.store.expire().await.unwrap(), 1);
    assert_eq!(fixture.list(ListRequest::default()).await, ["c=1"]);
    let mut watch = fixture.watch("", 0).await;
    assert_eq!(
        next_shown(&mut *watch, 5).await,
        ["+a=1", "+b=1", "+c=1", "!a=1", "!b=1"]
    );
}

async fn writes_set_the_expiry_anew(mut fixture: Fixture) {
    let first = fixture.create_for("a", "1", 10).await;
    let never = fixture.create_for("b", "1", 10).await;
    fixture.clock.advance(5_000);
    let again = NewRecord::new("2").expires_at(fixture.after(10));
    fixture
        .store
        .update("a".into(), again, first)
        .await
        .unwrap();
    let never = fixture.update("b", "2", never).await;
    fixture.clock.advance(9_999);
    fixture.restart().await;
    assert_eq!(fixture.store.expire().await.unwrap(), 0);
    assert_eq!(fixture.list(ListRequest::default()).await, ["a=2", "b=2"]);
    fixture.clock.advance(1);
    assert_eq!(fixture.store.expire().await.unwrap(), 1);
    fixture.clock.advance(1 << 40);
    assert_eq!(fixture.store.expire().await.unwrap(), 0);
    assert_eq!(
        fixture.get("b").await.map(|record| record.revision),
        Some(never)
    );
}

async fn a_clock_set_back_brings_nothing_back(mut fixture: Fixture) {
    const DAY: i64 = 86_400_000;
    let record = NewRecord::new("1")
        .index(about("p", 0))
        .expires_at(fixture.after(60));
    fixture.store.create("a".into(), record).await.unwrap();
    fixture.clock.advance(3 * DAY);
    assert_eq!(fixture.store.expire().await.unwrap(), 1);
    fixture.clock.advance(-3 * DAY);
    for _ in 0..2 {
        assert_eq!(fixture.get("a").await, None);
        let newest = fixture
            .store
            .newest(NewestRequest {
                limit: 9,
                ..NewestRequest::default()
            })
            .await
            .unwrap();
        assert_eq!(newest.records, []);
        let object = ListRequest::default().object(ObjectSelector::Uid("uid-of-p".into()));
        assert_eq!(fixture.list(object).await, [""; 0]);
        fixture.restart().await;
    }
    // Records written while the clock is set back expire by that clock.
    fixture.create_for("b", "1", 60).await;
    fixture.clock.advance(59_999);
    assert!(fixture.get("b").await.is_some());
    fixture.clock.advance(1);
    assert!(fixture.get("b").await.is_none());
    fixture.clock.advance(6 * DAY);
    assert_eq!(fixture.store.expire().await.unwrap(), 1);
}

async fn short_lives_among_long_ones(mut fixture: Fixture) {
    for round in 0..15 {
        fixture
            .create_for(&format!("long/{round}"), "", 100_000)
            .await;
        fixture.create_for(&format!("short/{round}"), "", 10).await;
        fixture
            .create_for(&format!("odd/{round}"), "", 7 * (round + 1) * (round + 1))
            .await;
        fixture.clock.advance(30_000);
        fixture.store.expire().await.unwrap();
    }
    fixture.restart().await;
    assert_eq!(
        fixture
            .list(ListRequest::prefix("short/").after("short/13"))
            .await,
        [""; 0]
    );
    assert_eq!(fixture.list(ListRequest::prefix("long/")).await.len(), 15);
    fixture.clock.advance(200_000_000);
    fixture.store.expire().await.unwrap();
    assert_eq!(fixture.list(ListRequest::default()).await, [""; 0]);
    assert_eq!(fixture.store.stats().await.unwrap().records, 0);
}

async fn watches_see_every_change_in_order(mut fixture: Fixture) {
    let one = fixture.create("a", "1").await;
    let mut live = fixture.watch("", one).await;
    let two = fixture.update("a", "2", one).await;
    fixture.delete("a").await;
    fixture.create("a", "3").await;
    let all = ["+a=1", "~a=1>2", "-a=2", "+a=3"];
    assert_eq!(next_shown(&mut *live, 3).await, all[1..]);
    for _ in 0..2 {
        assert_eq!(next_shown(&mut *fixture.watch("", 0).await, 4).await, all);
        let changes = next_changes(&mut *fixture.watch("", two).await, 2).await;
        assert_eq!(
            changes
                .iter()
                .map(|change| change.revision())
                .collect::<Vec<_>>(),
            [two + 1, two + 2]
        );
        fixture.restart().await;
    }
}

async fn watches_filter_by_prefix_and_report_progress(fixture: Fixture) {
    let mut watch = fixture.watch("b/", 0).await;
    assert_eq!(watch.revision(), 0);
    fixture.create("a/1", "").await;
    fixture.create("b/1", "").await;
    fixture.create("b", "").await;
    let latest = fixture.create("c/1", "").await;
    assert_eq!(next_shown(&mut *watch, 1).await, ["+b/1="]);
    // A wait without a result still advances the watch past other changes. Dropping the wait loses
    // nothing.
    assert!(futures_poll_once(&fixture, watch.next()).await.is_none());
    assert_eq!(watch.revision(), latest);
    fixture.create("b/2", "").await;
    assert_eq!(next_shown(&mut *watch, 1).await, ["+b/2="]);
}

/// Polls a future until it waits in vain, then drops it.
async fn futures_poll_once<T>(fixture: &Fixture, future: impl Future<Output = T>) -> Option<T> {
    // Changes from another process arrive in real time.
    if fixture.backend.is_remote() {
        return tokio::time::timeout(std::time::Duration::from_millis(300), future)
            .await
            .ok();
    }
    // With the runtime's clock paused, the timeout ends as soon as nothing else can run.
    tokio::time::pause();
    let result = tokio::time::timeout(std::time::Duration::from_secs(5), future)
        .await
        .ok();
    tokio::time::resume();
    result
}

async fn a_slow_watch_misses_nothing(mut fixture: Fixture) {
    let mut slow = fixture.watch("", 0).await;
    let mut expected = Vec::new();
    for number in 0..1000 {
        let revision = fixture
            .create_for(&format!("k{number:03}"), "v", 60 + number % 7)
            .await;
        expected.push(format!("+k{number:03}=v"));
        if number % 3 == 0 {
            fixture
                .update(&format!("k{number:03}"), "w", revision)
                .await;
            expected.push(format!("~k{number:03}=v>w"));
        }
        if number % 5 == 0 {
            fixture.delete(&format!("k{number:03}")).await;
            let last = if number % 3 == 0 { "w" } else { "v" };
            expected.push(format!("-k{number:03}={last}"));
        }
        if number == 500 {
            assert_eq!(next_shown(&mut *slow, expected.len()).await, expected);
            expected.clear();
        }
    }
    assert_eq!(next_shown(&mut *slow, expected.len()).await, expected);
    fixture.restart().await;
    let changes = next_changes(&mut *fixture.watch("", 0).await, 1000 + 334 + 200).await;
    let gap = changes
        .windows(2)
        .find(|pair| pair[1].revision() != pair[0].revision() + 1);
    assert!(gap.is_none(), "{gap:?}");
}

async fn a_watch_goes_on_after_a_restart(mut fixture: Fixture) {
    fixture.create_for("a", "1", 10).await;
    let seen = fixture.create("b", "1").await;
    fixture.clock.advance(60_000);
    fixture.delete("b").await;
    fixture.store.expire().await.unwrap();
    fixture.restart().await;
    let mut watch = fixture.watch("", seen).await;
    fixture.create("c", "1").await;
    let mut seen = next_shown(&mut *watch, 3).await;
    seen.sort();
    assert_eq!(seen, ["!a=1", "+c=1", "-b=1"]);
}

async fn compaction_is_reported(mut fixture: Fixture) {
    let one = fixture.create_for("a", "1", 10).await;
    let two = fixture.create("b", "1").await;
    fixture.clock.advance(100_000);
    fixture.store.expire().await.unwrap();
    let three = fixture.update("b", "2", two).await;
    let four = fixture.update("b", "3", three).await;
    let mut behind = fixture.watch("", one).await;
    fixture.store.compact(three).await.unwrap();
    for _ in 0..2 {
        let error = behind.next().await.unwrap_err();
        assert!(
            matches!(error, WatchError::Compacted { after, oldest } if (after, oldest) == (one, three)),
            "{error}"
        );
        let error = behind.next().await.unwrap_err();
        assert!(
            matches!(error, WatchError::Compacted { .. }),
            "an ended watch stays ended"
        );
        let error = fixture.store.watch("".into(), two).await.err().unwrap();
        assert!(
            matches!(error, WatchError::Compacted { after, oldest } if (after, oldest) == (two, three)),
            "{error}"
        );
        let error = fixture
            .store
            .list(ListRequest::default().at(two))
            .await
            .unwrap_err();
        assert!(
            matches!(error, ReadError::Compacted { requested, oldest } if (requested, oldest) == (two, three))
        );
        assert_eq!(
            fixture.list(ListRequest::default().at(three)).await,
            ["b=2"]
        );
        let changes = next_changes(&mut *fixture.watch("", three).await, 1).await;
        assert_eq!(changes[0].revision(), four);
        assert_eq!(fixture.store.stats().await.unwrap().oldest_revision, three);
        // Going back changes nothing.
        fixture.store.compact(one).await.unwrap();
        fixture.restart().await;
        if fixture.backend.is_durable() {
            return;
        }
    }
}

async fn the_future_is_refused(fixture: Fixture) {
    let current = fixture.create("a", "1").await;
    let next = current + 1;
    let error = fixture
        .store
        .list(ListRequest::default().at(next))
        .await
        .unwrap_err();
    assert!(
        matches!(error, ReadError::Future { requested, current: at } if (requested, at) == (next, current))
    );
    let error = fixture.store.watch("".into(), next).await.err().unwrap();
    assert!(
        matches!(error, WatchError::Future { requested, current: at } if (requested, at) == (next, current))
    );
    let error = fixture.store.compact(next).await.unwrap_err();
    assert!(
        matches!(error, WriteError::FutureRevision { requested, current: at } if (requested, at) == (next, current))
    );
    assert_eq!(
        fixture.list(ListRequest::default().at(current)).await,
        ["a=1"]
    );
}

async fn many_writers_at_once(mut fixture: Fixture) {
    const WRITERS: usize = 32;
    const EACH: u64 = 10;
    let counter = fixture.create("counter", "0").await;
    let tasks = (0..WRITERS).map(|writer| {
        let store = Arc::clone(&fixture.store);
        tokio::spawn(async move {
            for number in 0..EACH {
                let own = format!("own/{writer}/{number}");
                store.create(own.into(), NewRecord::new("")).await.unwrap();
                // All of them increment one record: each must see the others' writes, and none may
                // be lost.
                loop {
                    let found = store.get("counter".into()).await.unwrap().unwrap();
                    let count: u64 = str::from_utf8(&found.value).unwrap().parse().unwrap();
                    let next = NewRecord::new((count + 1).to_string());
                    match store.update("counter".into(), next, found.revision).await {
                        Ok(_) => break,
                        Err(WriteError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let total = WRITERS as u64 * EACH;
    fixture.restart().await;
    assert_eq!(
        fixture.get("counter").await.unwrap().value,
        total.to_string()
    );
    assert_eq!(
        fixture.list(ListRequest::prefix("own/")).await.len() as u64,
        total
    );
    let changes = next_changes(
        &mut *fixture.watch("counter", counter).await,
        total as usize,
    )
    .await;
    let values: Vec<u64> = changes
        .iter()
        .map(|change| {
            str::from_utf8(&change.record().unwrap().value)
                .unwrap()
                .parse()
                .unwrap()
        })
        .collect();
    assert_eq!(values, (1..=total).collect::<Vec<_>>());
}

async fn closing_ends_everything(fixture: Fixture) {
    let one = fixture.create("a", "1").await;
    let mut watch = fixture.watch("", one).await;
    let two = fixture.create("b", "1").await;
    fixture.store.close().await;
    fixture.store.close().await;
    assert_eq!(
        next_changes(&mut *watch, 1).await[0].revision(),
        two,
        "what was committed is still told"
    );
    let error = watch.next().await.unwrap_err();
    assert!(matches!(error, WatchError::Fault(Fault::Closed)), "{error}");
    let error = fixture
        .store
        .create("c".into(), NewRecord::new(""))
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Fault(Fault::Closed)), "{error}");
    let error = fixture.store.get("a".into()).await.unwrap_err();
    assert!(matches!(error, ReadError::Fault(Fault::Closed)), "{error}");
    let error = fixture.store.watch("".into(), one).await.err().unwrap();
    assert!(matches!(error, WatchError::Fault(Fault::Closed)), "{error}");
}

async fn statistics_add_up(mut fixture: Fixture) {
    let one = fixture.create_for("a", "12345", 10).await;
    fixture.create("b", "123").await;
    fixture.create_for("c", "1", 20).await;
    let again = NewRecord::new("1234567").expires_at(fixture.after(10));
    fixture.store.update("a".into(), again, one).await.unwrap();
    let latest = fixture.delete("c").await;
    fixture.restart().await;
    // On etcd the bytes are known once the local index is loaded.
    let known = async {
        loop {
            let stats = fixture.store.stats().await.unwrap();
            if stats.value_bytes > 0 {
                break stats;
            }
            tokio::task::yield_now().await;
        }
    };
    let stats = tokio::time::timeout(std::time::Duration::from_secs(30), known)
        .await
        .expect("the bytes are counted");
    let records = (stats.records, stats.value_bytes, stats.revision);
    assert_eq!(records, (2, 10, latest));
    let others = (stats.expired, stats.expiry_lag_ms, stats.watches);
    assert_eq!(others, (0, 0, 0));
    fixture.clock.advance(12_500);
    assert_eq!(fixture.store.stats().await.unwrap().expiry_lag_ms, 2_500);
    fixture.store.expire().await.unwrap();
    let watch = fixture.watch("", latest).await;
    let stats = fixture.store.stats().await.unwrap();
    assert_eq!((stats.records, stats.value_bytes, stats.expired), (1, 3, 1));
    assert_eq!((stats.expiry_lag_ms, stats.watches), (0, 1));
    drop(watch);
}
