//! Retention over months by a manual clock.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_history::{Answer, Cause, Outlook, Retention};
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Fault, ListRequest, NewRecord, Store, UnixMillis, Write, WriteError};

use super::quota::Quota;
use super::rules;
use crate::keep::consumers::{JournalError, Unsealed};
use crate::keep::coverage::write_gaps;
use crate::keep::coverage::{KeepFor, Lives, RetentionPolicy};
use crate::keep::coverage::{Position, cluster_gap};
use crate::keep::feed::Journal;
use crate::keep::keys;
use crate::keep::report;
use crate::keep::versions::{KeepError, Keeper, Observation, With};

pub(in crate::keep) const START: i64 = 1_700_000_000_000;
pub(in crate::keep) const HOUR: i64 = 3_600_000;
pub(in crate::keep) const DAY: Duration = Duration::from_secs(24 * 3600);

pub(in crate::keep) struct Kept {
    pub(in crate::keep) keeper: Keeper,
    pub(in crate::keep) clock: ManualClock,
    pub(in crate::keep) position: Position,
    pub(in crate::keep) version: u64,
    /// The length of messages, which can hardly be compressed.
    pub(in crate::keep) message_len: usize,
    random: fastrand::Rng,
}

pub(in crate::keep) fn options(clock: &ManualClock) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.clock = Arc::new(clock.clone());
    options.expire_by_itself = false;
    options.free_space_min = 0;
    options
}

impl Kept {
    pub(in crate::keep) fn open(folder: &Path, keep_for: KeepFor) -> Self {
        let clock = ManualClock::at(UnixMillis(START));
        let options = options(&clock);
        Self::open_with(folder, keep_for, clock, options)
    }

    pub(in crate::keep) fn open_with(
        folder: &Path,
        keep_for: KeepFor,
        clock: ManualClock,
        options: EmbeddedOptions,
    ) -> Self {
        let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
        Self {
            keeper: Keeper::new(store, Arc::new(clock.clone()), keep_for, false),
            clock,
            position: Position::default(),
            version: 1,
            message_len: 0,
            random: fastrand::Rng::with_seed(1),
        }
    }

    pub(in crate::keep) async fn disk_bytes(&self) -> u64 {
        self.keeper.store.stats().await.unwrap().disk_bytes
    }

    /// Observes events at one time, half of them warnings.
    pub(in crate::keep) async fn observe(&mut self, number: u64) {
        let seconds = self.clock.now().0 / 1000;
        self.observe_in("shop", number, seconds).await;
    }

    /// Observes events of a namespace that state these times.
    pub(in crate::keep) async fn observe_in(&mut self, namespace: &str, number: u64, seconds: i64) {
        let observations = (0..number).map(|at| {
            self.version += 1;
            let version = self.version;
            let message = (0..self.message_len).map(|_| self.random.alphanumeric());
            let message: String = message.collect();
            let event = Event {
                metadata: Some(ObjectMeta {
                    name: Some(format!("web.{version}")),
                    namespace: Some(namespace.into()),
                    uid: Some(format!("uid-{version}")),
                    ..ObjectMeta::default()
                }),
                message: Some(message).filter(|message| !message.is_empty()),
                r#type: Some(if at % 2 == 0 { "Warning" } else { "Normal" }.into()),
                last_timestamp: Some(Time {
                    seconds: Some(seconds),
                    nanos: None,
                }),
                ..Event::default()
            };
            Observation {
                event,
                number: version,
                is_gone: false,
            }
        });
        let observations: Vec<_> = observations.collect();
        let kept = self
            .keeper
            .keep(&observations, "", &mut self.position, With::default());
        kept.await.unwrap();
    }

    pub(in crate::keep) async fn events(&self) -> Vec<Event> {
        let request = ListRequest::default().after(keys::BEFORE_EVENTS);
        let page = self.keeper.store.list(request).await.unwrap();
        let records = page.records.iter();
        let events = records.map(|record| {
            let event = crate::version::record::event(&record.value).unwrap();
            tidings_api::codec::decode_stored(&event, 0).unwrap()
        });
        events.collect()
    }
}

/// Rules that keep warnings for a number of days, and other events for a week.
pub(in crate::keep) fn days(warnings: Arc<Mutex<u32>>) -> KeepFor {
    Arc::new(move |event: &Event| match event.r#type() {
        "Warning" => DAY * *warnings.lock().unwrap(),
        _ => DAY * 7,
    })
}

#[tokio::test]
async fn each_event_is_kept_as_long_as_the_rules_say_and_changed_rules_act_on_what_is_there() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let warnings = Arc::new(Mutex::new(30));
    let mut kept = Kept::open(folder.path(), days(Arc::clone(&warnings)));
    rules::apply_rules(&kept.keeper, "30d").await.unwrap();
    for hour in 0..90 * 24_u64 {
        kept.observe(4).await;
        kept.clock.advance(HOUR);
        kept.keeper.store.expire().await.unwrap();
        if hour % 240 == 239 {
            let events = kept.events().await;
            let of = |kind: &str| events.iter().filter(|event| event.r#type() == kind).count();
            let passed = usize::try_from(hour).unwrap() + 1;
            // An event that was observed exactly its TTL ago has expired.
            let expected = |hours: usize| 2 * passed.min(hours - 1);
            let found = (of("Warning"), of("Normal"));
            assert_eq!(found, (expected(30 * 24), expected(7 * 24)), "{hour}");
        }
    }
    *warnings.lock().unwrap() = 3;
    // The rules have the same name, so nothing is examined.
    rules::apply_rules(&kept.keeper, "30d").await.unwrap();
    let before = kept.events().await.len();
    let outcome = rules::apply_rules(&kept.keeper, "3d").await.unwrap();
    kept.keeper.store.expire().await.unwrap();
    let after = kept.events().await.len();
    assert_eq!(before - after, 2 * (30 - 3) * 24);
    let coverage = report::read(&kept.keeper, "prod").await.unwrap();
    let ended = (before - after) as u64;
    assert_eq!((outcome.ended, outcome.events), (ended, before as u64));
    let totals = coverage.totals.unwrap();
    assert_eq!(totals.ended_by_rules, ended);
    // Seven days of events are left, though the space of some older events is not released yet.
    let hours = (kept.clock.now().0 - totals.kept_since.unwrap().0) / HOUR;
    assert!((7 * 24 - 1..=7 * 24 + 1).contains(&hours), "{hours}");
    let counted = report::counted(&kept.keeper, "prod").await.unwrap();
    assert!(counted.totals.unwrap().kept_since < totals.kept_since);
    assert_eq!(coverage.followed[0].progress.unwrap().versions, 4 * 90 * 24);
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn the_hour_since_which_events_are_kept_does_not_depend_on_when_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(2).await;
    let hour = START - START % HOUR;
    for minutes in [0, 1, 45, 16, 1, 60, 7 * 60, 24 * 60] {
        kept.clock.advance(minutes * 60_000);
        let coverage = report::read(&kept.keeper, "prod").await.unwrap();
        let kept_since = coverage.totals.unwrap().kept_since;
        assert_eq!(kept_since, Some(UnixMillis(hour)), "{minutes}");
    }
    kept.keeper.store.close().await;
}

/// An event may state that it was seen in 1970.
#[tokio::test]
async fn events_are_not_kept_since_before_the_cluster_was_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.position.since = START;
    kept.observe_in("shop", 1, 3_600).await;
    kept.clock.advance(24 * HOUR);
    kept.observe(1).await;
    for coverage in [
        report::read(&kept.keeper, "prod").await.unwrap(),
        report::counted(&kept.keeper, "prod").await.unwrap(),
    ] {
        assert_eq!(coverage.totals.unwrap().kept_since, Some(UnixMillis(START)));
    }
    kept.keeper.store.close().await;
}

/// Users who may list the events of a namespace learn nothing about others.
#[tokio::test]
async fn the_coverage_of_a_namespace_has_nothing_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    let gap = |namespace: &str, from: i64| {
        cluster_gap(START + from, START + from + 1, Cause::TooLarge).of(namespace)
    };
    let gaps = [gap("", 10), gap("shop", 20), gap("bank", 30)];
    let writes = write_gaps(&*kept.keeper.store, &gaps).await.unwrap();
    kept.keeper.store.write_all(writes).await.unwrap();
    kept.observe(2).await;
    let of_shop = report::read_of(&kept.keeper, "prod", "shop").await.unwrap();
    let told = serde_json::to_value(Answer::Coverage(of_shop)).unwrap();
    let namespaces = told["gaps"].as_array().unwrap().iter();
    let namespaces: Vec<_> = namespaces.map(|gap| gap["namespace"].as_str()).collect();
    assert_eq!(namespaces, [Some(""), Some("shop")]);
    let names = |value: &serde_json::Value| {
        let names = value.as_object().unwrap().keys();
        let mut names: Vec<_> = names.cloned().collect();
        names.sort();
        names
    };
    let expected = [
        "cluster",
        "followed",
        "gaps",
        "kind",
        "namespace",
        "overQuota",
        "retention",
    ];
    assert_eq!(names(&told), expected);
    let expected = [
        "completeUntil",
        "epoch",
        "identity",
        "listing",
        "namespace",
        "selection",
        "since",
    ];
    assert_eq!(names(&told["followed"][0]), expected);
    assert!(!told.to_string().contains("bank"), "{told}");
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn coverage_says_how_long_the_rules_let_events_live_and_since_when() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(2).await;
    rules::apply_rules(&kept.keeper, "former").await.unwrap();
    // Nothing is followed: no rules are in force.
    let coverage = report::read(&kept.keeper, "prod").await.unwrap();
    assert_eq!(coverage.retention, None);
    assert!(kept.keeper.clocks.set(Arc::default()).is_ok());
    let mut policy = RetentionPolicy::new(days(Arc::new(Mutex::new(30))));
    policy.text = "30d".into();
    policy.lives = Some(Lives::new(&[DAY * 7], false, DAY * 30));
    kept.keeper.set_policy(Arc::new(policy));
    let expected = |since: Option<i64>| Retention {
        shortest: DAY * 7,
        longest: DAY * 30,
        event_ttl: DAY * 30,
        rules: 1,
        applied: since.is_some(),
        since: since.map(UnixMillis),
        mirrors_deletions: false,
        held: None,
    };
    kept.clock.advance(HOUR);
    let coverage = report::read(&kept.keeper, "prod").await.unwrap();
    assert_eq!(coverage.retention, Some(expected(None)));
    rules::apply_rules(&kept.keeper, "30d").await.unwrap();
    let applied_at = kept.clock.now().0;
    // The same rules are applied at each start, and hold since the first.
    kept.clock.advance(HOUR);
    rules::apply_rules(&kept.keeper, "30d").await.unwrap();
    for coverage in [
        report::read(&kept.keeper, "prod").await.unwrap(),
        report::counted(&kept.keeper, "prod").await.unwrap(),
    ] {
        assert_eq!(coverage.retention, Some(expected(Some(applied_at))));
    }
    kept.keeper.store.close().await;
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_kept_and_whatever_makes_room_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = Arc::new(Mutex::new(30));
    let mut kept = Kept::open(folder.path(), days(Arc::clone(&warnings)));
    kept.keeper.journal = Journal::open(&kept.keeper, true).await.unwrap();
    rules::apply_rules(&kept.keeper, "30d").await.unwrap();
    for _ in 0..20 {
        kept.observe(50).await;
        kept.clock.advance(HOUR);
    }
    kept.keeper.store.close().await;
    let mut options = options(&kept.clock);
    options.free_space_min = u64::MAX;
    let rules = days(Arc::clone(&warnings));
    let mut full = Kept::open_with(folder.path(), rules, kept.clock.clone(), options);
    full.keeper.journal = Journal::open(&full.keeper, false).await.unwrap();
    let mut position = kept.position.clone();
    let refused = |error: KeepError| {
        let is_full = matches!(error, KeepError::Write(WriteError::Fault(Fault::NoSpace)));
        assert!(is_full, "{error}");
    };
    let none = full.keeper.keep(&[], "", &mut position, With::default());
    refused(none.await.unwrap_err());
    // One event is deleted, and then those that were last seen longest ago.
    let events = ListRequest::default().after(keys::BEFORE_EVENTS);
    let newest = full.keeper.store.list(events).await.unwrap().records;
    let key = newest.last().unwrap().key.clone();
    full.keeper.forget(key, None).await.unwrap();
    assert_eq!(full.events().await.len(), 999);
    let mut quota = Quota::new(full.disk_bytes().await / 2);
    assert!(quota.keep(&full.keeper).await.unwrap());
    let left = full.events().await.len();
    // The journal uses space too.
    assert!((100..=600).contains(&left), "{left}");
    // Applying the rules deletes what has expired by them, and reports that they are not applied to
    // everything.
    *warnings.lock().unwrap() = 0;
    refused(rules::apply_rules(&full.keeper, "0d").await.unwrap_err());
    let events = full.events().await;
    assert!(events.iter().all(|event| event.r#type() == "Normal"));
    assert!(events.len() < left && !events.is_empty());
    let rules = Bytes::from_static(keys::RETENTION);
    assert_eq!(full.keeper.store.get(rules).await.unwrap(), None);
    // What is sealed is removed from the journal.
    let unsealed = Unsealed {
        keeper: Arc::new(full.keeper),
    };
    assert_eq!(unsealed.waiting(), Some(1000));
    // There were never that many entries.
    let error = unsealed.sealed(u64::MAX).await.unwrap_err();
    assert!(matches!(error, JournalError::NotGiven { .. }), "{error}");
    assert_eq!(unsealed.waiting(), Some(1000));
    let next = unsealed.keeper.journal.next.load(Ordering::Relaxed);
    // The cursor moves in memory. Each attempt to store it fails.
    let no_space = JournalError::Write(WriteError::Fault(Fault::NoSpace)).to_string();
    for _ in 0..2 {
        let error = unsealed.sealed(next).await.unwrap_err();
        assert_eq!(error.to_string(), no_space);
    }
    assert_eq!(unsealed.waiting(), Some(0));
    let entries = ListRequest::prefix(keys::UNSEALED);
    let entries = unsealed.keeper.store.list(entries).await.unwrap();
    assert_eq!(entries.records, []);
    unsealed.keeper.store.close().await;
}

/// A clock that is ahead by less than an hour is not believed at once, either.
#[tokio::test]
async fn changed_rules_end_nothing_by_a_clock_that_is_not_believed_yet() {
    let folder = tempfile::tempdir().unwrap();
    let minutes = Arc::new(Mutex::new(180));
    let of_rules = Arc::clone(&minutes);
    let keep_for: KeepFor =
        Arc::new(move |_: &Event| Duration::from_secs(60 * *of_rules.lock().unwrap()));
    let mut kept = Kept::open(folder.path(), keep_for);
    kept.observe(10).await;
    rules::apply_rules(&kept.keeper, "3h").await.unwrap();
    kept.clock.set_by(HOUR / 6 * 5);
    *minutes.lock().unwrap() = 30;
    let outcome = rules::apply_rules(&kept.keeper, "30m").await.unwrap();
    assert!(outcome.waits && outcome.ended == 0, "{outcome:?}");
    assert_eq!(kept.events().await.len(), 10);
    kept.keeper.store.close().await;
}

/// For example, an end at the source does not change when an event expires.
#[tokio::test(flavor = "multi_thread")]
async fn rules_are_applied_to_what_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let days = Arc::new(Mutex::new(30));
    let meanwhile = Arc::new(Mutex::new(None::<(Arc<EmbeddedStore>, Write)>));
    let (by_days, written) = (Arc::clone(&days), Arc::clone(&meanwhile));
    let keep_for = move |_: &Event| {
        if let Some((store, write)) = written.lock().unwrap().take() {
            let write = store.write_all(vec![write]);
            let handle = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| handle.block_on(write)).unwrap();
        }
        DAY * *by_days.lock().unwrap()
    };
    let mut kept = Kept::open(folder.path(), Arc::new(keep_for));
    kept.observe(3).await;
    let store = Arc::clone(&kept.keeper.store);
    let events = || store.list(ListRequest::default().after(keys::BEFORE_EVENTS));
    let found = events().await.unwrap().records;
    let record = NewRecord {
        expires_at: found[1].expires_at,
        ..NewRecord::new(found[1].value.clone())
    };
    let write = Write::put(found[1].key.clone(), record);
    *meanwhile.lock().unwrap() = Some((Arc::clone(&store), write));
    *days.lock().unwrap() = 3;
    rules::apply_rules(&kept.keeper, "3d").await.unwrap();
    assert!(meanwhile.lock().unwrap().is_none());
    let ends = events().await.unwrap().records;
    let ends: Vec<_> = ends.iter().map(|record| record.expires_at).collect();
    assert_eq!(ends, [Some(UnixMillis(START + 3 * 24 * HOUR)); 3]);
    store.close().await;
}

/// What changed rules of retention would end is counted over several requests, since a cluster may
/// have millions of events: each examines a bounded number, and says where the next one goes on.
#[tokio::test]
async fn what_rules_would_end_is_counted_in_bounded_parts() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Kept::open(folder.path(), days(Arc::new(Mutex::new(30))));
    kept.observe(1_200).await;
    kept.clock.advance(48 * HOUR);
    let day = |_: &Bytes, event: &Event| (Duration::from_secs(86_400), event.r#type().into());
    let mut found = Outlook::default();
    let (mut place, mut sizes) = (None, Vec::new());
    loop {
        let page = rules::outlook(&kept.keeper, (place, 500), day);
        let page = page.await.unwrap();
        sizes.push(page.outlook.events());
        found.add_all(page.outlook);
        place = page.more;
        if place.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [500, 500, 200]);
    assert_eq!(
        (found.by_rule["Warning"].ended, found.ended()),
        (600, 1_200)
    );
    // A place before all events is not one of the archive's own records.
    let begin = (Some("\0".to_owned()), usize::MAX);
    let all = rules::outlook(&kept.keeper, begin, day).await.unwrap();
    assert_eq!(all.outlook, found);
    kept.keeper.store.close().await;
}
