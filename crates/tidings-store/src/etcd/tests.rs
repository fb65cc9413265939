//! Tests of internal behaviour against a real etcd.

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidings_testing::etcd::Cluster;

use super::failure::{Failure, Outcome};
use super::*;
use crate::clock::{ManualClock, Reading};
use crate::{At, Index, ObjectSelector, UnixMillis};

const KEYS: [&str; 6] = ["a/1", "a/2", "a/3", "b/1", "b/2", "c/1"];

/// Describes a test value, which has the form `object@second last seen`.
fn describe(value: &[u8]) -> Description {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let Some((object, seen)) = text.split_once('@') else {
        return Description::default();
    };
    let index = Index {
        object_uid: format!("uid-{object}"),
        object_kind: "Pod".into(),
        object_namespace: "a".into(),
        object_name: object.into(),
        last_seen: UnixMillis(seen.parse::<i64>().unwrap_or_default() * 1000),
        ..Index::default()
    };
    Description {
        index,
        expires_at: None,
    }
}

fn options(cluster: &Cluster) -> EtcdOptions {
    let mut options = EtcdOptions::new(cluster.endpoints());
    options.compaction_interval = None;
    options.lease_ttl_min = Duration::from_secs(3600);
    options
}

async fn open(options: EtcdOptions, clock: &ManualClock) -> EtcdStore {
    EtcdStore::open(options, Arc::new(clock.clone()), Arc::new(describe))
        .await
        .unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: usize,
        object: u8,
        seen: u8,
        life: Option<i64>,
    },
    Delete(usize),
    Advance(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let put = (0..KEYS.len(), 0..3_u8, 0..5_u8, prop::option::of(1..40_i64));
    let step = prop_oneof![
        6 => put.prop_map(|(key, object, seen, life)| Step::Put { key, object, seen, life }),
        1 => (0..KEYS.len()).prop_map(Step::Delete),
        1 => (1..20_i64).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..25)
}

async fn take(store: &EtcdStore, clock: &ManualClock, step: &Step) {
    match step {
        Step::Put {
            key,
            object,
            seen,
            life,
        } => {
            let mut record = NewRecord::new(format!("{object}@{seen}"));
            record.expires_at = life.map(|seconds| UnixMillis(clock.now().0 + seconds * 1000));
            let current = store.get(KEYS[*key].into()).await.unwrap();
            match current {
                None => store.create(KEYS[*key].into(), record).await.unwrap(),
                Some(current) => store
                    .update(KEYS[*key].into(), record, current.revision)
                    .await
                    .unwrap(),
            };
        }
        Step::Delete(key) => match store.delete(KEYS[*key].into(), None).await {
            Ok(_) | Err(WriteError::NotFound) => {}
            Err(error) => panic!("{error}"),
        },
        Step::Advance(seconds) => clock.advance(seconds * 1000),
    }
}

/// Makes every request by the index and by reading everything, and compares the answers.
async fn compare(store: &EtcdStore, first: Revision) {
    let shared = &store.shared;
    let latest = store.revision();
    let objects = (0..4).map(|object| ObjectSelector::Uid(format!("uid-{object}")));
    let names = (0..4).flat_map(|object| {
        [None, Some("a".to_owned())].map(|namespace| ObjectSelector::Name {
            name: object.to_string(),
            kind: namespace.as_ref().map(|_| "Pod".to_owned()),
            namespace,
        })
    });
    for object in objects.chain(names) {
        for at in [
            At::Latest,
            At::Exact(latest),
            At::Exact(first.midpoint(latest)),
        ] {
            for (prefix, limit, after) in [("", None, None), ("a/", Some(1), Some("a/1"))] {
                let request = ListRequest {
                    prefix: prefix.into(),
                    after: after.map(Into::into),
                    object: Some(object.clone()),
                    at,
                    limit,
                    count_remaining: true,
                };
                let by_index = shared.list_by_index(&request, &object).await.unwrap();
                let by_walk = shared.list_by_walk(&request).await.unwrap();
                assert_eq!(
                    by_index.expect("the index is ready"),
                    by_walk,
                    "{request:?}"
                );
            }
        }
    }
    for (prefix, since, limit) in [("", None, 2), ("a/", Some(UnixMillis(2000)), 9)] {
        let request = NewestRequest {
            prefix: prefix.into(),
            since,
            limit,
            ..NewestRequest::default()
        };
        let by_index = shared.newest_by_index(&request).await.unwrap();
        let by_walk = shared.newest_by_walk(&request).await.unwrap();
        assert_eq!(
            by_index.expect("the index is ready"),
            by_walk,
            "{request:?}"
        );
    }
    // The number of records after a page, as counted and as read.
    for at in [latest, first.midpoint(latest)] {
        let mut request = ListRequest::default().at(at).limit(1);
        request.count_remaining = true;
        let counted = shared.list_by_walk(&request).await.unwrap();
        let walked = shared.list_by_walk(&ListRequest::default().at(at)).await;
        let walked = walked.unwrap().records.len() as u64;
        assert_eq!(counted.remaining, Some(walked.saturating_sub(1)));
    }
}

#[test]
fn the_index_and_a_read_of_everything_answer_the_same() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config {
        cases: 24,
        ..Config::default()
    });
    let case = std::sync::atomic::AtomicU64::new(0);
    let result = runner.run(&steps(), |steps| {
        runtime.block_on(async {
            let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
            let mut options = options(&cluster);
            options.prefix = format!("/case-{}/", case.fetch_add(1, Ordering::Relaxed));
            let store = open(options, &clock).await;
            let first = store.revision();
            for step in &steps {
                take(&store, &clock, step).await;
            }
            // Loading began with the store. The snapshot may be ahead of the watch, and the index
            // answers only up to the revision of both. From now on it must answer.
            let mut fed = store.shared.fed.subscribe();
            let latest = store.revision();
            fed.wait_for(|fed| *fed >= latest).await.unwrap();
            while store.shared.index.revision().is_none() {
                tokio::task::yield_now().await;
            }
            compare(&store, first).await;
        });
        Ok(())
    });
    result.unwrap();
}

#[tokio::test]
async fn large_values_are_left_behind_by_index_and_by_a_read_of_everything() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let store = open(options(&cluster), &clock).await;
    // The order of last seen differs from that of names and that of writes.
    for number in 0..9 {
        let value = format!("{}@{}", "x".repeat(350_000), number * 5 % 9);
        let created = store.create(format!("a/{number}").into(), NewRecord::new(value));
        created.await.unwrap();
    }
    let mut fed = store.shared.fed.subscribe();
    let latest = store.revision();
    fed.wait_for(|fed| *fed >= latest).await.unwrap();
    for (limit, behind) in [(3, 0), (7, 1), (9, 3)] {
        let request = NewestRequest {
            limit,
            ..NewestRequest::default()
        };
        let by_walk = store.shared.newest_by_walk(&request).await.unwrap();
        assert_eq!((by_walk.found(), by_walk.behind.len()), (limit, behind));
        let by_index = store.shared.newest_by_index(&request).await.unwrap();
        assert_eq!(by_index.expect("the index is ready"), by_walk, "{limit}");
        let request = NewestRequest {
            values_only: true,
            ..request
        };
        let ends = store.shared.newest_by_walk(&request).await.unwrap();
        assert_eq!((&ends.records, ends.behind.len()), (&by_walk.records, 0));
        assert!(ends.more, "{limit}");
        let by_index = store.shared.newest_by_index(&request).await.unwrap();
        assert_eq!(by_index.expect("the index is ready"), ends, "{limit}");
    }
}

#[tokio::test]
async fn an_index_that_is_too_small_answers_nothing_and_lists_still_do() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let mut options = options(&cluster);
    options.index_len_max = 2;
    let store = open(options, &clock).await;
    for key in &KEYS[..4] {
        store
            .create((*key).into(), NewRecord::new("1@1"))
            .await
            .unwrap();
    }
    let mut fed = store.shared.fed.subscribe();
    let latest = store.revision();
    fed.wait_for(|fed| *fed >= latest).await.unwrap();
    assert_eq!(store.shared.index.revision(), None);
    let object = ObjectSelector::Uid("uid-1".into());
    let page = store.list(ListRequest::default().object(object)).await;
    assert_eq!(page.unwrap().records.len(), 4);
    let newest = NewestRequest {
        limit: 3,
        ..NewestRequest::default()
    };
    let page = store.newest(newest).await.unwrap();
    assert_eq!((page.records.len(), page.more), (3, true));
}

#[tokio::test]
async fn compaction_is_shared_with_others_on_the_same_etcd() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let ours = open(options(&cluster), &clock).await;
    let theirs = open(options(&cluster), &clock).await;
    let write = async |key: &'static str| {
        let created = ours.create(key.into(), NewRecord::new("")).await;
        created.unwrap()
    };
    let first = write("a/1").await;

    // The first round of each client only reads the other's state and compacts nothing.
    let (version, at) = compact::round(&ours.shared, 0, 0).await.unwrap();
    assert_eq!(version, 1);
    assert_eq!(at, ours.revision());
    let (their_version, their_at) = compact::round(&theirs.shared, 0, 0).await.unwrap();
    assert_eq!(their_version, 1, "they find our round and do nothing");
    assert_eq!(theirs.shared.oldest(), 0);
    assert!(their_at >= at);

    // The first store in the next round compacts to its previous round. The other records it.
    let second = write("a/2").await;
    let (version, _) = compact::round(&ours.shared, version, at).await.unwrap();
    assert_eq!(version, 2);
    assert_eq!(ours.shared.oldest(), at);
    let (their_version, _) = compact::round(&theirs.shared, their_version, their_at)
        .await
        .unwrap();
    assert_eq!(their_version, 2);
    assert_eq!(theirs.shared.oldest(), at, "read from the key");

    let error = theirs.list(ListRequest::default().at(first)).await;
    assert!(
        matches!(error, Err(ReadError::Compacted { requested, oldest }) if requested == first && oldest == at)
    );
    let error = theirs.watch(Bytes::new(), first).await.err();
    assert!(
        matches!(error, Some(WatchError::Compacted { after, oldest }) if after == first && oldest == at)
    );
    let mut watch = theirs.watch(Bytes::new(), at).await.unwrap();
    assert_eq!(watch.next().await.unwrap()[0].revision(), second);
    // A store that is opened later learns the compacted revision from the key, too.
    let late = open(options(&cluster), &clock).await;
    assert_eq!(late.stats().await.unwrap().oldest_revision, at);
}

#[tokio::test]
async fn a_feed_that_was_compacted_away_says_so_and_goes_on() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let store = open(options(&cluster), &clock).await;
    let mut at = 0;
    for key in &KEYS[..4] {
        at = store
            .create((*key).into(), NewRecord::new("1@1"))
            .await
            .unwrap();
    }
    let client = &store.shared.client;
    let request = wire::CompactionRequest {
        revision: client::signed(at),
    };
    let done: Result<wire::Empty, _> = client
        .ask(client::COMPACT, request, client.deadline())
        .await;
    done.unwrap();
    // The stream starts far behind, like a feed after a long network partition.
    let mut stream = stream::Stream::open(client, &store.shared.keys, 1)
        .await
        .unwrap_or_else(|ended| panic!("{ended:?}"));
    let ended = stream.next().await.err();
    assert!(
        matches!(ended, Some(stream::Ended::Compacted(oldest)) if oldest == at),
        "{ended:?}"
    );
}

/// A busy etcd starts a watch before it notes that previous values are wanted.
#[tokio::test]
async fn previous_values_that_etcd_left_out_are_read() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let store = open(options(&cluster), &clock).await;
    let key = || Bytes::from_static(b"a/1");
    let first = store.create(key(), NewRecord::new("1@1")).await.unwrap();
    let second = store.update(key(), NewRecord::new("1@2"), first).await;
    store.delete(key(), None).await.unwrap();

    let shared = &store.shared;
    let open = stream::Stream::open(&shared.client, &shared.keys, first - 1);
    let mut stream = open.await.unwrap_or_else(|ended| panic!("{ended:?}"));
    let mut events = Vec::new();
    while events.len() < 3 {
        let delivery = stream.next().await;
        events.extend(delivery.unwrap_or_else(|ended| panic!("{ended:?}")).events);
    }
    let whole = shared.changes_of(&events).await.unwrap();
    let previous: Vec<_> = whole
        .iter()
        .map(|(change, _)| change.previous().map(|record| record.revision))
        .collect();
    assert_eq!(previous, [None, Some(first), Some(second.unwrap())]);

    for event in &mut events {
        event.prev_kv = None;
    }
    assert_eq!(shared.changes_of(&events).await.unwrap(), whole);
    store.compact(store.revision()).await.unwrap();
    let ended = shared.changes_of(&events).await.err();
    assert!(
        matches!(ended, Some(stream::Ended::Compacted(at)) if at == first + 1),
        "{ended:?}"
    );
}

#[tokio::test]
async fn records_that_outlive_their_lease_are_deleted() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let store = open(options(&cluster), &clock).await;
    let end = UnixMillis(clock.now().0 + 10_000);
    let record = NewRecord::new("1@1").expires_at(end);
    let created = store.create("a/1".into(), record).await.unwrap();
    store
        .create("a/2".into(), NewRecord::new("1@1"))
        .await
        .unwrap();
    let latest = store.revision();
    while store.shared.index.revision().is_none_or(|at| at < latest) {
        tokio::task::yield_now().await;
    }
    // A clock that is days ahead for a moment deletes nothing, even when the store opens.
    clock.set_by(10 * 86_400_000);
    assert!(store.get("a/1".into()).await.unwrap().is_none());
    for _ in 0..2 {
        assert_eq!(feed::sweep_once(&store.shared).await.unwrap(), 0);
        assert_eq!(store.expire().await.unwrap(), 0);
        let other = open(options(&cluster), &clock).await;
        assert_eq!(other.expire().await.unwrap(), 0);
        clock.advance(1000);
    }
    clock.set_by(-10 * 86_400_000);
    assert!(store.get("a/1".into()).await.unwrap().is_some());
    // The record has expired, but its lease, here at least an hour, may still delete it.
    clock.advance(8_000 + 3_600_000);
    assert_eq!(feed::sweep_once(&store.shared).await.unwrap(), 0);
    clock.advance(120_000);
    assert_eq!(feed::sweep_once(&store.shared).await.unwrap(), 1);
    let mut watch = store.watch(Bytes::new(), created + 1).await.unwrap();
    let change = watch.next().await.unwrap().remove(0);
    assert_eq!(change.key(), "a/1");
    assert!(matches!(
        &*change,
        crate::Change::Delete { expired: true, .. }
    ));
}

/// An earlier attempt was done after all, or another process has drawn the same number.
#[tokio::test]
async fn a_lease_gets_another_number_if_its_number_is_taken() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let store = open(options(&cluster), &clock).await;
    let client = &store.shared.client;
    let mut drawn = [1, 1, 2].into_iter();
    let mut granted = Vec::new();
    for _ in 0..2 {
        let draw = || drawn.next().unwrap();
        let lease = lease::grant(client, 1_700_003_600, 60, client.deadline(), draw);
        granted.push(lease.await.unwrap());
    }
    assert_eq!(granted[1] - granted[0], 1);
}

#[tokio::test]
async fn what_became_of_a_write_whose_answer_was_lost() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let store = open(options(&cluster), &clock).await;
    let other = open(options(&cluster), &clock).await;
    let end = UnixMillis(clock.now().0 + 60_000);
    let record = |value: &'static str| NewRecord::new(value).expires_at(end);
    let first = store.create("a/1".into(), record("1@1")).await.unwrap();
    let shared = &store.shared;
    let (key, value) = (Bytes::from("a/1"), Bytes::from("1@2"));
    let deadline = shared.client.deadline();
    let attached = shared
        .leases
        .attach(&shared.client, clock.now(), end, deadline);
    let lease = attached.await.unwrap();
    let failure =
        || Failure::new("", &tonic::Status::unavailable("reset")).knowing(Outcome::Unknown);
    let settle = async |expected: Option<Revision>| {
        let lost = settle::Lost {
            key: &key,
            value: &value,
            lease,
            expected,
            before: first,
        };
        // The write is in flight, as while the call is still in its loop.
        let _in_flight = shared.expiries.begin(&key, &value, lease, end);
        shared.settle(lost, failure()).await
    };
    let unknown = |answer: &Result<Revision, WriteError>| {
        matches!(answer, Err(WriteError::Fault(Fault::Unknown(_))))
    };
    // The key is still at its revision, so the write may still be done.
    assert!(unknown(&settle(Some(first)).await));
    assert!(unknown(&settle(None).await));

    // Other writes came first, so the write never will be done.
    let second = other
        .update("a/1".into(), record("1@3"), first)
        .await
        .unwrap();
    let third = other
        .update("a/1".into(), record("1@4"), second)
        .await
        .unwrap();
    let refused = settle(Some(first)).await;
    assert!(
        matches!(refused, Err(WriteError::Conflict { expected, current }) if (expected, current) == (first, third)),
        "{refused:?}"
    );
    // A create of the same value may still be done if the key is deleted.
    assert!(unknown(&settle(None).await));

    // The write was done, and other changes followed.
    let fourth = store
        .update("a/1".into(), record("1@2"), third)
        .await
        .unwrap();
    assert_eq!(settle(Some(third)).await.unwrap(), fourth);
    let fifth = other
        .update("a/1".into(), record("1@5"), fourth)
        .await
        .unwrap();
    assert_eq!(settle(Some(third)).await.unwrap(), fourth);

    // The key was deleted since, so it tells nothing any more.
    other.delete("a/1".into(), Some(fifth)).await.unwrap();
    assert!(unknown(&settle(Some(third)).await));
    // The key was created again, so its history does not reach back to the revision.
    other.create("a/1".into(), record("1@6")).await.unwrap();
    assert!(unknown(&settle(Some(third)).await));
}

/// A clock that shows a different time in a given number of readings.
#[derive(Clone, Default)]
struct Flickering {
    clock: ManualClock,
    readings: Arc<AtomicU64>,
    by: Arc<std::sync::atomic::AtomicI64>,
}

impl Flickering {
    fn set_by(&self, millis: i64, readings: u64) {
        self.by.store(millis, Ordering::SeqCst);
        self.readings.store(readings, Ordering::SeqCst);
    }
}

impl Clock for Flickering {
    fn now(&self) -> UnixMillis {
        let left = |left: u64| left.checked_sub(1);
        let update = self
            .readings
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        let by = update.map_or(0, |_| self.by.load(Ordering::SeqCst));
        UnixMillis(self.clock.now().0 + by)
    }

    fn steady(&self) -> Duration {
        self.clock.steady()
    }
}

const DAY: i64 = 86_400_000;

/// Writes a record like another program does. Its lease lasts ten minutes and has a number chosen
/// by etcd.
async fn write_as_another(shared: &Shared, key: &'static str) {
    let (client, deadline) = (&shared.client, shared.client.deadline());
    let request = wire::LeaseGrantRequest { ttl: 600, id: 0 };
    let granted: Result<wire::LeaseGrantResponse, _> =
        client.ask(client::LEASE_GRANT, request, deadline).await;
    let put = wire::PutRequest {
        key: shared.keys.full(key.as_bytes()),
        value: "1@1".into(),
        lease: granted.unwrap().id,
    };
    let transaction = wire::TxnRequest {
        success: vec![wire::Request::Put(put).into()],
        ..wire::TxnRequest::default()
    };
    let done: Result<wire::TxnResponse, _> = client.order(client::TXN, transaction, deadline).await;
    done.unwrap();
}

async fn until_indexed(shared: &Shared) {
    let latest = shared.latest(shared.client.deadline()).await.unwrap();
    while shared.index.revision().is_none_or(|at| at < latest) {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass until the clock is believed. Checks that another program's record stays live for
/// about as long as its lease.
async fn expect_left_alone(shared: &Arc<Shared>, clock: &ManualClock, lead: &mut i64) {
    for _ in 0..20 {
        shared.look_at_clock(lead);
        clock.advance(5000);
    }
    assert_eq!(shared.confirmed(), clock.now());
    let deadline = shared.client.deadline();
    let found = shared.get_any(b"theirs", deadline).await.unwrap().unwrap();
    let left = found.expires_at.unwrap().0 - clock.now().0;
    assert!((400_000..=600_000).contains(&left), "{left} ms");
    let listed = shared.index.newest(b"", None, 9, Reading::of(clock));
    assert_eq!(listed.unwrap().keys[0].0, "theirs");
    assert_eq!(feed::sweep_once(shared).await.unwrap(), 0);
    assert_eq!(shared.expire().await.unwrap(), 0);
}

/// Correcting a slow clock does not end the leases of other programs. Their ends were computed with
/// the wrong clock. The index is kept, however often the clock is set.
#[tokio::test]
async fn a_clock_that_is_put_right_does_not_end_what_others_wrote() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    let clock = ManualClock::at(UnixMillis(1_700_000_000_000));
    let mut options = options(&cluster);
    options.lease_ttl_min = Duration::from_secs(1);
    let store = open(options, &clock).await;
    let shared = &store.shared;
    write_as_another(shared, "theirs").await;
    assert!(store.get("theirs".into()).await.unwrap().is_some());
    until_indexed(shared).await;

    let mut lead = Reading::of(&clock).lead();
    for by in [DAY, -DAY, DAY, -DAY, DAY] {
        clock.set_by(by);
        shared.look_at_clock(&mut lead);
        assert!(shared.index.revision().is_some());
    }
    expect_left_alone(shared, &clock, &mut lead).await;
}

/// The clock is wrong between two readings, during a request for a lease.
#[tokio::test]
async fn a_lease_that_was_learned_by_a_wrong_clock_ends_when_it_does() {
    let Some(cluster) = Cluster::start(1, &[]) else {
        return;
    };
    for by in [-DAY, DAY] {
        for readings in 1..6 {
            let clock = Flickering::default();
            clock.clock.set_by(1_700_000_000_000);
            let mut options = options(&cluster);
            options.lease_ttl_min = Duration::from_secs(1);
            options.prefix = format!("/wrong-{by}-{readings}/");
            let describe = Arc::new(describe);
            let store = EtcdStore::open(options, Arc::new(clock.clone()), describe);
            let store = store.await.unwrap();
            let shared = &store.shared;
            let mut lead = Reading::of(&clock).lead();
            until_indexed(shared).await;
            clock.set_by(by, readings);
            write_as_another(shared, "theirs").await;
            until_indexed(shared).await;
            clock.set_by(0, 0);
            expect_left_alone(shared, &clock.clock, &mut lead).await;
        }
    }
}
