//! More than ninety days by a manual clock, with the rules of a file, with and without a quota.
//!
//! The test expires nothing itself. The store reads the clock with each commit, and reports what
//! has expired, as in an archive, which commits its position in any case. Between observations the
//! clock is set to the exact end of an event, and then moves by whole seconds until the store
//! reports the end: the store looks once a second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_server::RetentionRules;
use tidings_store::clock::{Clock, ManualClock};
use tidings_store::embedded::{EmbeddedOptions, EmbeddedStore};
use tidings_store::{Change, ListRequest, REVISION_OF_NEW, Stats, Store, UnixMillis, Watch};

use super::quota::{self, Quota};
use crate::keep::coverage::Position;
use crate::keep::keys;
use crate::keep::versions::{Keeper, Observation, With};

const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// Number of days, enough that events expire which are kept for ninety days.
const DAYS: i64 = 92;
/// The time between observations, and the maximum delay of one.
const EVERY: i64 = 12 * HOUR;
const IRREGULAR: i64 = HOUR;
/// Until this time an event is repeated, so that it stays, however short its retention is.
const REPEATED_FOR: i64 = 45 * DAY;
/// Maximum time from an event's end until the store reports it.
const LATE_MAX: i64 = 5 * SECOND;
/// The interval in which an archive checks its quota.
const LOOK: i64 = 30 * SECOND;
/// The store's threads need real time for work that they have hours for by this clock. So while
/// they have work, the clock moves slowly, up to this number of steps.
const LOOKS_AFTER_A_DELETION: u32 = 120;
const LOOKS_UNTIL_SETTLED: u32 = 720;

/// The length of a segment. In an archive segments are longer, and so is the quota.
const SEGMENT_BYTES: u64 = 512 << 10;
/// More bytes than a record takes beside its value, in the log and in the index.
const RECORD_BYTES: u64 = 600;
/// Space that the store reserves in segments that grow: for each of the lifetimes below, and for
/// the archive's own records.
const ROOM_BYTES: u64 = 9 * (128 << 10);

const RULES: &str = "
rules:
- {namespace: ci, type: Normal, ttl: 1h}
- {namespace: ci, ttl: 6h}
- {reason: [Pulled, Created], ttl: 1d}
- {namespace: shop, type: Normal, ttl: 7d}
- {namespace: 'test-*', ttl: 14d}
- {type: Warning, reason: BackOff, ttl: 30d}
";

/// The retention of events that no rule matches.
const EVENT_TTL: Duration = Duration::from_secs(90 * 24 * 3600);

/// Namespace, type and reason of events, and their retention by the rules.
type Kind = (&'static str, &'static str, &'static str, i64);

const KINDS: [Kind; 8] = [
    ("ci", "Normal", "Pulled", HOUR),
    ("ci", "Warning", "BackOff", 6 * HOUR),
    ("shop", "Normal", "Pulled", DAY),
    ("shop", "Normal", "Scheduled", 7 * DAY),
    ("test-7", "Normal", "Scheduled", 14 * DAY),
    ("shop", "Warning", "BackOff", 30 * DAY),
    ("bank", "Warning", "BackOff", 30 * DAY),
    ("bank", "Warning", "OOMKilled", 90 * DAY),
];

/// The kind of the event that is repeated. Its older versions go to chunks.
const REPEATED: Kind = KINDS[2];

/// The store of an archive, and what it must have.
struct Quarter {
    keeper: Keeper,
    clock: ManualClock,
    position: Position,
    watch: Box<dyn Watch>,
    quota: Option<Quota>,
    /// The events whose end was not reported yet: when each expires by the rules, and when it was
    /// last seen.
    lives: BTreeMap<Bytes, (i64, i64)>,
    /// The same events by their ends.
    ends: BTreeSet<(i64, Bytes)>,
    /// Number of the archive's own records.
    own: u64,
    /// Number of events that expired by the rules, and the longest time until an end was reported.
    over: u64,
    latest: i64,
    /// Number of events that were deleted for the quota, and when the last of them was last seen.
    taken: u64,
    taken_until: i64,
    version: u64,
    /// A text that can hardly be compressed. Messages are parts of it.
    text: String,
    message_len: usize,
    random: fastrand::Rng,
}

impl Quarter {
    async fn open(folder: &Path, quota: Option<u64>, message_len: usize) -> Self {
        let clock = ManualClock::at(UnixMillis(START));
        let mut options = EmbeddedOptions::default();
        options.clock = Arc::new(clock.clone());
        options.free_space_min = 0;
        options.segment_bytes = SEGMENT_BYTES;
        // All messages are parts of one text, which the store must not learn.
        options.learn_to_compress = false;
        let store = Arc::new(EmbeddedStore::open(folder, options).unwrap());
        let watch = store.watch(Bytes::new(), REVISION_OF_NEW).await.unwrap();
        let rules = RetentionRules::parse(RULES).unwrap().of_cluster("prod");
        let keep_for = move |event: &Event| rules.ttl(event).unwrap_or(EVENT_TTL);
        let mut random = fastrand::Rng::with_seed(1);
        Self {
            keeper: Keeper::new(store, Arc::new(clock.clone()), Arc::new(keep_for), false),
            clock,
            position: Position::default(),
            watch,
            quota: quota.map(Quota::new),
            lives: BTreeMap::new(),
            ends: BTreeSet::new(),
            own: 0,
            over: 0,
            latest: 0,
            taken: 0,
            taken_until: 0,
            version: 1,
            text: (0..1 << 20).map(|_| random.alphanumeric()).collect(),
            message_len,
            random,
        }
    }

    fn now(&self) -> i64 {
        self.clock.now().0
    }

    fn set(&self, moment: i64) {
        let passed = moment - self.now();
        assert!(passed >= 0, "the clock does not go back");
        self.clock.advance(passed);
    }

    async fn stats(&self) -> Stats {
        self.keeper.store.stats().await.unwrap()
    }

    async fn is_there(&self, key: &Bytes) -> bool {
        let found = self.keeper.store.get(key.clone()).await.unwrap();
        found.is_some()
    }

    /// Commits observations, if there are any, and the position. Then reads what the store reports
    /// up to then.
    async fn commit(&mut self, observations: &[Observation]) {
        self.position.complete_until = self.now();
        let with = With::default();
        let kept = self
            .keeper
            .keep(observations, "", &mut self.position, with)
            .await;
        kept.unwrap();
        let committed = self.keeper.store.get(keys::position("")).await.unwrap();
        let reached = committed.unwrap().revision;
        while self.watch.revision() < reached {
            self.hear().await;
        }
        // The store may report events that have expired at any moment.
        let next = self.ends.first().map_or(i64::MAX, |(end, _)| *end);
        if next > self.now() {
            let expected = self.lives.len() as u64 + self.own;
            assert_eq!(self.stats().await.records, expected);
        }
    }

    /// Reads the next report of the store.
    async fn hear(&mut self) {
        let changes = self.watch.next().await.unwrap();
        for change in &changes {
            let is_own = keys::is_own(change.key());
            match &**change {
                Change::Put { previous, .. } => {
                    self.own += u64::from(is_own && previous.is_none());
                }
                Change::Delete { .. } if is_own => self.own -= 1,
                Change::Delete {
                    previous, expired, ..
                } => self.hear_end(&previous.key, *expired),
            }
        }
    }

    fn hear_end(&mut self, key: &Bytes, is_over: bool) {
        let (end, seen) = self.lives.remove(key).expect("each event ends once");
        assert!(self.ends.remove(&(end, key.clone())));
        if is_over {
            let late = self.now() - end;
            assert!(
                (0..=LATE_MAX).contains(&late),
                "{key:?} ends {late} ms late"
            );
            self.over += 1;
            self.latest = self.latest.max(late);
        } else {
            self.taken += 1;
            self.taken_until = self.taken_until.max(seen);
        }
    }

    /// Lets time pass. Each event exists exactly until its end, and the store reports it.
    async fn pass_until(&mut self, moment: i64) {
        while let Some((end, key)) = self.ends.first().cloned()
            && end <= moment
        {
            if self.now() < end {
                self.set(end - 1);
                assert!(self.is_there(&key).await, "{key:?} ends too soon");
                self.set(end);
                assert!(!self.is_there(&key).await, "{key:?} lives too long");
            }
            let late = self.now() - end;
            assert!(late <= LATE_MAX, "the end of {key:?} is not told");
            self.set(self.now() - self.now() % SECOND + SECOND);
            self.commit(&[]).await;
        }
        self.set(moment.max(self.now()));
    }

    /// Makes an observation of an event, and notes when it must expire.
    fn observation(&mut self, name: String, kind: Kind) -> Observation {
        let (namespace, event_type, reason, life) = kind;
        self.version += 1;
        let now = self.now();
        let seconds = now / SECOND;
        let at = self.random.usize(..self.text.len() - self.message_len);
        let message = self.text[at..at + self.message_len].to_owned();
        let key = keys::event(namespace, &name);
        let lives = (now + life, seconds * SECOND);
        if let Some((former, _)) = self.lives.insert(key.clone(), lives) {
            self.ends.remove(&(former, key.clone()));
        }
        self.ends.insert((now + life, key));
        let event = Event {
            metadata: Some(ObjectMeta {
                uid: Some(format!("uid-{name}")),
                name: Some(name),
                namespace: Some(namespace.into()),
                ..ObjectMeta::default()
            }),
            message: Some(message),
            r#type: Some(event_type.into()),
            reason: Some(reason.into()),
            last_timestamp: Some(Time {
                seconds: Some(seconds),
                nanos: None,
            }),
            ..Event::default()
        };
        Observation {
            event,
            number: self.version,
            is_gone: false,
        }
    }

    async fn observe(&mut self) {
        let mut observations = Vec::new();
        for kind in KINDS {
            let name = format!("web.{}", self.version);
            observations.push(self.observation(name, kind));
        }
        if self.now() < START + REPEATED_FOR {
            observations.push(self.observation("repeated".into(), REPEATED));
        }
        self.commit(&observations).await;
    }

    /// Checks the quota as an archive does. Returns whether something was deleted for it.
    async fn look(&mut self) -> bool {
        let is_over = match &mut self.quota {
            Some(quota) => quota.keep(&self.keeper).await.unwrap(),
            None => false,
        };
        if is_over {
            self.commit(&[]).await;
        }
        is_over
    }

    /// Lets time pass from check to check until the disk has at most this number of bytes.
    async fn settle(&mut self, disk_bytes: u64, looks: u32) {
        for _ in 0..looks {
            if self.stats().await.disk_bytes <= disk_bytes {
                return;
            }
            self.pass_until(self.now() + LOOK).await;
            self.commit(&[]).await;
            self.look().await;
        }
    }

    async fn keep_quota(&mut self) {
        if self.look().await {
            let before = self.stats().await.disk_bytes;
            let less = before.saturating_sub(SEGMENT_BYTES);
            self.settle(less, LOOKS_AFTER_A_DELETION).await;
        }
    }

    /// Checks that exactly those events exist that have not expired by the rules, and were not
    /// deleted for the quota because they were observed before some time.
    async fn check_events(&self) {
        let now = self.now();
        let request = ListRequest::default().after(keys::BEFORE_EVENTS);
        let found = self.keeper.store.list(request).await.unwrap().records;
        let found = found.into_iter();
        let found: Vec<_> = found.map(|found| (found.key, found.expires_at)).collect();
        let lives = self.lives.iter().filter(|(_, (end, _))| *end > now);
        let lives = lives.map(|(key, (end, _))| (key.clone(), Some(UnixMillis(*end))));
        let lives: Vec<_> = lives.collect();
        assert!(found == lives, "{} of {}", found.len(), lives.len());
        let trimmed = quota::trimmed(&self.keeper).await.unwrap();
        assert_eq!(trimmed.events, self.taken);
        assert!(self.taken == 0 || self.taken_until < trimmed.before);
    }

    /// Checks the bytes on disk. The log takes about twice the space of what exists, and about two
    /// segments more. With a quota it takes at most half as much again, until space is released.
    async fn check_bytes(&mut self, quota: Option<u64>) {
        let stats = self.stats().await;
        let living = stats.value_bytes + RECORD_BYTES * stats.records;
        let by_life = 2 * living + 2 * SEGMENT_BYTES + ROOM_BYTES;
        let bound = quota.map_or(by_life, |quota| by_life.min(quota / 2 * 3));
        self.settle(bound, LOOKS_UNTIL_SETTLED).await;
        let disk_bytes = self.stats().await.disk_bytes;
        let day = (self.now() - START) / DAY;
        println!(
            "day {day}: {} events, {disk_bytes} of {bound} bytes; {} over, within {} ms; {} taken",
            self.lives.len(),
            self.over,
            self.latest,
            self.taken,
        );
        assert!(disk_bytes <= bound, "{disk_bytes} bytes on day {day}");
    }
}

#[tokio::test]
async fn in_a_quarter_each_end_comes_in_time_and_bytes_stay_within_their_bound() {
    for (quota, message_len) in [(None, 1_000), (Some(3 << 20), 8_000)] {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.unwrap();
        let mut quarter = Quarter::open(folder.path(), quota, message_len).await;
        for turn in 0..DAYS * DAY / EVERY {
            let late = quarter.random.i64(0..IRREGULAR);
            quarter.pass_until(START + turn * EVERY + late).await;
            quarter.observe().await;
            quarter.keep_quota().await;
            let turns = turn + 1;
            if turns % (10 * DAY / EVERY) == 0 {
                quarter.check_bytes(quota).await;
                quarter.check_events().await;
            }
        }
        assert!(quarter.over > 0);
        match quota {
            None => {
                assert_eq!(quarter.taken, 0);
                let oldest = quarter.lives.values().map(|(_, seen)| *seen).min();
                let age = quarter.now() - oldest.unwrap();
                assert!((age - 90 * DAY).abs() <= EVERY + IRREGULAR, "{age}");
            }
            Some(_) => assert!(quarter.taken > 0),
        }
        // Nothing more is written. The store looks at the clock by itself.
        let (end, key) = quarter.ends.first().cloned().unwrap();
        quarter.set(quarter.now().max(end + 4 * SECOND));
        while quarter.lives.contains_key(&key) {
            quarter.hear().await;
        }
        quarter.keeper.store.close().await;
    }
}
