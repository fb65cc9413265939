//! A clock that is set back and forward by days, also while the store is closed: nothing expires
//! early by the clock, and everything expires in the end.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use tidings_store::clock::Clock;
use tidings_store::{
    Change, ListRequest, NewRecord, NewestRequest, ObjectSelector, UnixMillis, WriteError,
};

use crate::support::backends::{Make, embedded, embedded_roomy, memory};
use crate::support::{Fixture, about, check_random, next_shown};

const DAY: i64 = 86_400_000;

#[derive(Clone, Debug)]
enum Step {
    /// Writes a record with a TTL of some seconds.
    Write {
        key: u8,
        life: i64,
    },
    /// Moves the clock, by minutes or by days, back or forward.
    Set(i64),
    /// Moves it while the store is closed.
    Restart(i64),
    /// Sets it ahead for a moment, in which the store may write expiries.
    Blip(i64),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = || prop_oneof![-30 * DAY..30 * DAY, -600_000..600_000i64];
    let life = prop_oneof![1..120i64, 3600..7200i64, 1..40 * DAY / 1000];
    let step = prop_oneof![
        4 => (0..12u8, life).prop_map(|(key, life)| Step::Write { key, life }),
        3 => moved().prop_map(Step::Set),
        1 => moved().prop_map(Step::Restart),
        1 => (1..400 * DAY).prop_map(Step::Blip),
        1 => Just(Step::Expire),
    ];
    proptest::collection::vec(step, 1..40)
}

/// The last write of a key, and whether it has expired since by any reading of the clock.
struct Written {
    expires_at: UnixMillis,
    was_due: bool,
}

async fn check(mut fixture: Fixture, steps: Vec<Step>) {
    let mut written: BTreeMap<String, Written> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Write { key, life } => {
                let key = format!("k{key:02}");
                let expires_at = fixture.after(life);
                let record = NewRecord::new("")
                    .index(about(&key, 0))
                    .expires_at(expires_at);
                match fixture.get(&key).await {
                    None => fixture.store.create(key.clone().into(), record).await,
                    Some(found) => {
                        let key = key.clone();
                        fixture
                            .store
                            .update(key.into(), record, found.revision)
                            .await
                    }
                }
                .unwrap();
                let new = Written {
                    expires_at,
                    was_due: false,
                };
                written.insert(key, new);
            }
            Step::Set(millis) => fixture.clock.advance(millis),
            Step::Restart(millis) => {
                // A store in memory cannot be reopened.
                if fixture.backend.is_durable() {
                    fixture.store.close().await;
                }
                fixture.clock.advance(millis);
                fixture.restart().await;
            }
            Step::Blip(millis) => {
                fixture.store.expire().await.unwrap();
                let before = fixture.store.list(ListRequest::default()).await.unwrap();
                fixture.clock.set_by(millis);
                fixture.store.expire().await.unwrap();
                fixture.clock.advance(1000);
                fixture.store.expire().await.unwrap();
                fixture.clock.set_by(-millis);
                // Except for records that expire within a second more.
                let now = fixture.clock.now();
                let mut left = before.records;
                left.retain(|record| record.expires_at.is_none_or(|at| at > now));
                let after = fixture.store.list(ListRequest::default()).await.unwrap();
                assert_eq!(after.records, left, "set ahead by {millis} ms");
            }
            Step::Expire => drop(fixture.store.expire().await.unwrap()),
        }
        let now = fixture.clock.now();
        let page = fixture.store.list(ListRequest::default()).await.unwrap();
        for (key, it) in &mut written {
            it.was_due |= it.expires_at <= now;
            let found = fixture.get(key).await;
            let listed = page.records.iter().any(|record| record.key == *key);
            assert_eq!(found.is_some(), listed, "{key}");
            if !it.was_due {
                assert!(found.is_some(), "{key} expired before {:?}", it.expires_at);
            }
            if it.expires_at <= now {
                assert!(found.is_none(), "{key} lives on after {:?}", it.expires_at);
            }
        }
    }

    // Once all TTLs have passed by the clock, everything expires, and each expiry is reported once.
    fixture.clock.advance(400 * DAY);
    fixture.store.expire().await.unwrap();
    let stats = fixture.store.stats().await.unwrap();
    assert_eq!(stats.records, 0, "nothing lives for ever");
    // A store without writes is at revision 1.
    let mut watch = fixture.watch("", 1).await;
    let mut lives: BTreeMap<bytes::Bytes, bool> = BTreeMap::new();
    while watch.revision() < stats.revision {
        for change in watch.next().await.unwrap() {
            let before = lives.insert(change.key().clone(), change.record().is_some());
            let ends = matches!(&*change, Change::Delete { expired: true, .. });
            assert!(ends == change.record().is_none(), "nobody deleted anything");
            assert!(!ends || before == Some(true), "it ended once for each life");
        }
    }
    assert!(lives.values().all(|lives| !lives));
    // A record that would be expired already is refused.
    let over = NewRecord::new("").expires_at(fixture.after(-1));
    let refused = fixture.store.create("late".into(), over).await;
    assert!(matches!(refused, Err(WriteError::AlreadyExpired { .. })));
}

fn check_on(backend: Make, cases: u32) {
    check_random(cases, &steps(), async |steps| {
        check(new(backend).await, steps).await;
    });
}

#[test]
fn set_back_and_forward_in_memory() {
    check_on(memory, 64);
}

#[test]
fn set_back_and_forward_embedded() {
    check_on(embedded, 12);
}

/// The visibility of a store's only record in every kind of read.
async fn is_shown(fixture: &Fixture) -> bool {
    let got = fixture.get("k").await.is_some();
    let page = fixture.store.list(ListRequest::default()).await.unwrap();
    assert_eq!(!page.records.is_empty(), got, "list");
    let about = ListRequest::default().object(ObjectSelector::Uid("uid-of-k".into()));
    let page = fixture.store.list(about).await.unwrap();
    assert_eq!(!page.records.is_empty(), got, "list by object");
    let newest = NewestRequest {
        limit: 10,
        ..NewestRequest::default()
    };
    let page = fixture.store.newest(newest).await.unwrap();
    assert_eq!(!page.records.is_empty(), got, "newest");
    got
}

/// A store with one record with a TTL of some seconds, and its revision.
async fn with_one(fixture: &Fixture, seconds: i64) -> u64 {
    let record = NewRecord::new("")
        .index(about("k", 0))
        .expires_at(fixture.after(seconds));
    fixture.store.create("k".into(), record).await.unwrap()
}

async fn expire(fixture: &Fixture) -> u64 {
    fixture.store.expire().await.unwrap()
}

/// Backends that keep their records in this process.
const STORES: [(&str, Make); 3] = [
    ("memory", memory),
    ("embedded", embedded),
    ("embedded_roomy", embedded_roomy),
];

async fn new(backend: Make) -> Fixture {
    Fixture::on(backend).await.unwrap()
}

/// As long as the clock is ahead, the record is hidden, but nothing is written: no expiry, no
/// revision, no change for watchers.
#[tokio::test]
async fn a_clock_ahead_for_a_second_ends_nothing() {
    for (name, backend) in STORES {
        for restarts in [false, true] {
            let mut fixture = new(backend).await;
            let revision = with_one(&fixture, 3600).await;
            fixture.clock.set_by(30 * DAY);
            for _ in 0..2 {
                assert!(!is_shown(&fixture).await);
                assert_eq!(expire(&fixture).await, 0, "{name}");
                fixture.clock.advance(1000);
                if restarts {
                    fixture.restart().await;
                }
            }
            assert!(!is_shown(&fixture).await);
            fixture.clock.set_by(-30 * DAY);
            assert!(is_shown(&fixture).await, "{name}");
            assert_eq!(expire(&fixture).await, 0);
            let stats = fixture.store.stats().await.unwrap();
            assert_eq!((stats.records, stats.revision), (1, revision));
            // And it expires in time, without delay if the process is the one that wrote it.
            fixture.clock.advance(3_600_000);
            assert_eq!(expire(&fixture).await, 1);
        }
    }
}

/// The same with a slow clock that is corrected, and with a machine that was suspended.
#[tokio::test]
async fn a_clock_that_stays_ahead_is_believed_within_a_minute() {
    for (name, backend) in STORES {
        let fixture = new(backend).await;
        with_one(&fixture, 3600).await;
        fixture.clock.set_by(2 * 3_600_000);
        let mut seconds = 0;
        while expire(&fixture).await == 0 {
            assert!(!is_shown(&fixture).await);
            fixture.clock.advance(1000);
            seconds += 1;
        }
        assert!((30..=60).contains(&seconds), "{name}: {seconds} s");
        let mut watch = fixture.watch("", 1).await;
        let told = next_shown(&mut *watch, 2).await;
        assert_eq!(told, ["+k=", "!k="]);
    }
}

/// Records that expired before a store was closed have their expiry written at opening; those that
/// expired meanwhile, half a minute later.
#[tokio::test]
async fn time_that_passed_while_a_store_was_closed_is_believed_in_half_a_minute() {
    for killed in [false, true] {
        let mut fixture = new(embedded_roomy).await;
        fixture.create_for("before", "", 10).await;
        fixture.create_for("meanwhile", "", 20).await;
        fixture.create_for("after", "", 3610).await;
        fixture.clock.advance(10_000);
        if killed {
            // The time is stored with a commit, before the next one.
            fixture.create("later", "").await;
            fixture.create("latest", "").await;
        }
        fixture.restart_after(3_595_000, killed).await;
        assert_eq!(expire(&fixture).await, 1);
        assert!(fixture.get("meanwhile").await.is_none());
        // Its remaining ten seconds have passed.
        fixture.clock.advance(29_000);
        assert_eq!(expire(&fixture).await, 1);
        assert_eq!(expire(&fixture).await, 0);
        assert!(fixture.get("after").await.is_none());
        fixture.clock.advance(1000);
        assert_eq!(expire(&fixture).await, 1);
    }
}

/// Processes that each run for less than a period believe the clock together: expiries are written
/// after two periods of half a minute of running time.
#[tokio::test]
async fn processes_that_live_for_seconds_write_ends_down() {
    for (up, down) in [(20, 1), (20, 300), (7, 3600)] {
        for killed in [false, true] {
            for lost in [false, true] {
                let mut fixture = new(embedded_roomy).await;
                fixture.create_for("k", "", 10).await;
                fixture.clock.advance(9000);
                fixture.restart_after(1000, killed).await;
                if lost {
                    // The state after an earlier version, or a power cut.
                    fixture.store.close().await;
                    fs::write(fixture.folder().join("CLOCK"), "").unwrap();
                    fixture.restart_after(0, false).await;
                }
                let mut seconds = 0;
                while expire(&fixture).await == 0 {
                    fixture.clock.advance(1000);
                    seconds += 1;
                    assert!(
                        seconds <= 60,
                        "up {up} s, down {down} s, killed {killed}, lost {lost}"
                    );
                    if seconds % up == 0 {
                        expire(&fixture).await;
                        fixture.restart_after(down * 1000, killed).await;
                    }
                }
                assert!(seconds > 0 || !lost);
            }
        }
    }
}

/// A process whose clock is ahead does not make expiries earlier.
#[tokio::test]
async fn a_clock_ahead_in_one_short_process_ends_nothing() {
    for killed in [false, true] {
        for before in [1, 15, 29, 31] {
            let mut fixture = new(embedded_roomy).await;
            let revision = with_one(&fixture, 3600).await;
            fixture.restart_after(0, killed).await;
            for (seconds, ahead) in [(before, 0), (29, 30 * DAY), (5, 0), (29, DAY), (5, 0)] {
                fixture.clock.set_by(ahead);
                fixture.restart_after(1000, killed).await;
                for _ in 0..seconds {
                    assert_eq!(expire(&fixture).await, 0);
                    fixture.clock.advance(1000);
                }
                fixture.clock.set_by(-ahead);
            }
            assert!(is_shown(&fixture).await);
            let stats = fixture.store.stats().await.unwrap();
            assert_eq!((stats.records, stats.revision), (1, revision));
        }
    }
}

/// A hidden name is free, whatever the reason. The former record then ends permanently.
#[tokio::test]
async fn a_name_that_the_clock_hides_is_free() {
    for (_, backend) in STORES {
        let fixture = new(backend).await;
        let first = with_one(&fixture, 3600).await;
        fixture.clock.set_by(DAY);
        assert!(matches!(
            fixture.store.delete("k".into(), None).await,
            Err(WriteError::NotFound)
        ));
        let updated = fixture.store.update("k".into(), NewRecord::new(""), first);
        assert!(matches!(updated.await, Err(WriteError::NotFound)));
        let second = fixture.create("k", "new").await;
        assert_eq!(second, first + 2, "the end of the first has a revision");
        fixture.clock.set_by(-DAY);
        assert_eq!(fixture.get("k").await.unwrap().value, "new");
        let mut watch = fixture.watch("", 1).await;
        let told = next_shown(&mut *watch, 3).await;
        assert_eq!(told, ["+k=", "!k=", "+k=new"]);
        assert_eq!(fixture.store.stats().await.unwrap().records, 1);
    }
}
