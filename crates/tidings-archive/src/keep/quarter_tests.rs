//! More than ninety days of a manual clock, with the rules of a file, without and with a quota.
//!
//! Nothing is expired by hand. The store reads the clock with each commit, and tells what is over,
//! as it does in an archive, which commits its position whatever happens. Between observations the
//! clock is set to the end of an event, to a millisecond, and then goes from one whole second to
//! the next until that is told: the store looks once a second.

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

use super::keeper::{Keeper, Observation, With};
use super::keys;
use super::position::Position;
use super::quota::{self, Quota};

const START: i64 = 1_700_000_000_000;
const SECOND: i64 = 1_000;
const HOUR: i64 = 3_600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// Long enough that events end that are kept for ninety days.
const DAYS: i64 = 92;
/// The time between observations, and the part of it by which they are not regular.
const EVERY: i64 = 12 * HOUR;
const IRREGULAR: i64 = HOUR;
/// An event that is repeated until then lives on, however short its time is.
const REPEATED_FOR: i64 = 45 * DAY;
/// The longest time from an end until it is told.
const LATE_MAX: i64 = 5 * SECOND;
/// The interval at which an archive looks at its quota.
const LOOK: i64 = 30 * SECOND;
/// The store's threads do in real time what they have hours for by this clock. So while there is
/// work for them it goes slowly, up to a maximum of looks.
const LOOKS_AFTER_A_DELETION: u32 = 120;
const LOOKS_UNTIL_SETTLED: u32 = 720;

/// The length of a segment; in an archive it is longer, and so is the quota.
const SEGMENT_BYTES: u64 = 512 << 10;
/// More than a record takes beside its value, in the log and in the index.
const RECORD_BYTES: u64 = 600;
/// Room that the store makes ahead in segments that grow: of each of the lives below, and of the
/// archive's own records.
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

/// The time of events that no rule matches.
const EVENT_TTL: Duration = Duration::from_secs(90 * 24 * 3600);

/// Namespace, type and reason of events, and how long the rules let them live.
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

/// The event that is repeated, in versions of which the older ones go to chunks.
const REPEATED: Kind = KINDS[2];

/// An archive's store, and what has to be in it.
struct Quarter {
    keeper: Keeper,
    clock: ManualClock,
    position: Position,
    watch: Box<dyn Watch>,
    quota: Option<Quota>,
    /// The events that have not ended as far as was told: when each ends by the rules, and when it
    /// was last seen.
    lives: BTreeMap<Bytes, (i64, i64)>,
    /// The same, by their ends.
    ends: BTreeSet<(i64, Bytes)>,
    /// The archive's own records.
    own: u64,
    /// Ends by the rules, and the longest time until one was told.
    over: u64,
    latest: i64,
    /// Events that the quota took, and when the last of them was last seen.
    taken: u64,
    taken_until: i64,
    version: u64,
    /// Of which messages are parts, of this length. They can hardly be compressed.
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
        // Messages are parts of one text.
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

    /// Commits observations, if any, and the position; hears what the store tells up to then.
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
        // Of what is over and not told yet, the store may tell some at any moment.
        let next = self.ends.first().map_or(i64::MAX, |(end, _)| *end);
        if next > self.now() {
            let expected = self.lives.len() as u64 + self.own;
            assert_eq!(self.stats().await.records, expected);
        }
    }

    /// Hears what the store tells next.
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

    /// Lets time pass until a moment. Each event is there until its end, and no longer, and that is
    /// told.
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

    /// Observes an event, and notes when it has to end.
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

    /// Looks at the quota, as an archive does. Whether something was deleted for it.
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

    /// Lets time pass from look to look until no more than this is on the disk.
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

    /// Exactly those events are there that are not over by the rules, and were not taken for the
    /// quota, as they were observed before some time.
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

    /// The log takes about twice the space of what lives, and about two segments more. With a quota
    /// there is at most half as much again, until space is given back.
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
        // Nothing is written any more: the store looks at the clock by itself.
        let (end, key) = quarter.ends.first().cloned().unwrap();
        quarter.set(quarter.now().max(end + 4 * SECOND));
        while quarter.lives.contains_key(&key) {
            quarter.hear().await;
        }
        quarter.keeper.store.close().await;
    }
}
