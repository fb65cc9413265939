//! A clock that is set back and forward by days, also while the store is closed: nothing expires before its time as the clock tells it,
//! and nothing lives for ever.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_store::clock::Clock;
use tidings_store::{Change, ListRequest, NewRecord, UnixMillis, WriteError};

use crate::support::{Backend, Fixture, about};

const DAY: i64 = 86_400_000;

#[derive(Clone, Debug)]
enum Step {
    /// Writes a record that lives so many seconds.
    Write {
        key: u8,
        life: i64,
    },
    /// Moves the clock, by minutes or by days, back or forward.
    Set(i64),
    /// Moves it while the store is closed.
    Restart(i64),
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moved = || prop_oneof![-30 * DAY..30 * DAY, -600_000..600_000i64];
    let life = prop_oneof![1..120i64, 3600..7200i64, 1..40 * DAY / 1000];
    let step = prop_oneof![
        4 => (0..12u8, life).prop_map(|(key, life)| Step::Write { key, life }),
        3 => moved().prop_map(Step::Set),
        1 => moved().prop_map(Step::Restart),
        1 => Just(Step::Expire),
    ];
    proptest::collection::vec(step, 1..40)
}

/// What was written under a key, and whether its time has ever come since, by any reading of the clock.
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
                // A store in memory does not end.
                if fixture.backend != Backend::Memory {
                    fixture.store.close().await;
                }
                fixture.clock.advance(millis);
                fixture.restart().await;
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

    // Once every time has come by the clock, everything ends, and its end is told: once.
    fixture.clock.advance(400 * DAY);
    fixture.store.expire().await.unwrap();
    let stats = fixture.store.stats().await.unwrap();
    assert_eq!(stats.records, 0, "nothing lives for ever");
    // A store that was never written to is at revision 1.
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
    // And what would be over before it began is refused, not stored.
    let over = NewRecord::new("").expires_at(fixture.after(-1));
    let refused = fixture.store.create("late".into(), over).await;
    assert!(matches!(refused, Err(WriteError::AlreadyExpired { .. })));
}

fn check_on(backend: Backend, cases: u32) {
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let result = runner.run(&steps(), |steps| {
        runtime.block_on(check(Fixture::new(backend), steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn set_back_and_forward_in_memory() {
    check_on(Backend::Memory, 64);
}

#[test]
fn set_back_and_forward_embedded() {
    check_on(Backend::Embedded, 12);
}
