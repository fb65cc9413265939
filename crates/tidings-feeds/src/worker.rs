//! The task that delivers one feed of one cluster.
//!
//! Invariants: a batch is committed when each of its records is delivered, or is a dead letter on
//! disk. The totals are in the same write as the cursor, so what they say is true after any crash.
//! At most one batch is in memory. After any error the cursor is opened again, so that no batch is
//! passed by. Where later versions replace earlier ones, the end of a batch is stored before the
//! batch is sent: after a crash the same versions replace the same ones.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_core::filter::Fields;
use tidings_history::{
    Batch, Cursor, CursorName, Feed, FeedError, History, Limits, Offset, Start, timestamp,
};
use tidings_store::UnixMillis;
use tidings_store::clock::Clock;

use crate::dead::{DeadLetter, DeadLetters};
use crate::delivery::{DeadCause, Delivery, Experience, Next, REFUSED, Reply, Request};
use crate::encode::{Outcome, Verdict};
use crate::options::{FeedOptions, From, cursor_name};
use crate::receiver::Receiver;
use crate::record::{Record, RecordBody, Source};
use crate::status::{Shared, State, Totals};
use crate::thin;

/// Bytes and versions that are read together if later versions replace earlier ones.
const THINNED: (usize, usize) = (2 << 20, 5000);
/// Versions that are read together if a request has one record. A skip can count so many that the
/// receiver took; fewer make more commits, each of which waits for the disk.
const SINGLES: usize = 20;
/// How long after the end of a period its versions are read: a commit may still be under way. A
/// version that comes later is delivered besides the last one of its period.
const SLACK: Duration = Duration::from_secs(2);
/// Interval at which a followed cluster is asked for its identity.
const IDENTIFIED: Duration = Duration::from_secs(60);
/// Delay before the store or a file is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Sends records to a receiver until each is delivered or dead.
pub(crate) struct Post {
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) dead: Arc<DeadLetters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) feed: String,
}

impl Post {
    fn wall(&self) -> Timestamp {
        timestamp(self.clock.now())
    }

    /// Delivers records. Adds what became of versions to `totals`, and what the receiver showed
    /// to `experience`.
    async fn deliver(
        &self,
        source: &Source,
        records: Vec<Record>,
        totals: &mut Totals,
        experience: &mut Experience,
    ) {
        let max = self.receiver.records_max();
        let mut delivery = Delivery::new(records, max, *experience);
        let mut is_retry = false;
        while let Some(request) = delivery.next() {
            let test;
            let part = match request {
                Request::Records(part) => part,
                Request::Test => {
                    let why = "of tidings, because the receiver did not take other records";
                    test = [self.test_record(why)];
                    &test
                }
            };
            let begun = self.clock.steady();
            let reply = self.receiver.send(source, part, self.wall()).await;
            let took = self.clock.steady().saturating_sub(begun);
            if matches!(reply, Reply::Judged(..)) {
                self.shared.observe(took, is_retry);
            }
            let step = delivery.handle(reply, fastrand::u64(..));
            totals.delivered += step.delivered;
            for (cause, versions) in step.dead_versions {
                *totals.dead.entry(cause).or_default() += versions;
            }
            // A failure lasts until records end. Test records do not end it.
            if step.delivered > 0 || !step.dead.is_empty() {
                self.shared.set(State::Delivering);
            }
            let mut letters = Vec::with_capacity(step.dead.len());
            for (record, cause, why) in step.dead {
                self.shared.say(&why);
                letters.push(DeadLetter::new(
                    source,
                    &record,
                    (cause, why),
                    self.clock.now(),
                ));
            }
            self.bury(letters).await;
            is_retry = step.next != Next::Now;
            let (state, wait, why) = match step.next {
                Next::Now => continue,
                Next::Retry(wait, why) => (State::Retrying, wait, why),
                Next::Refused(why) => (State::Refused, REFUSED, why),
            };
            let (feed, cluster) = (&self.feed, &source.cluster);
            if state == State::Refused {
                tracing::error!(feed, cluster, why, "the receiver refuses the feed");
            } else {
                tracing::warn!(feed, cluster, why, "not delivered yet");
            }
            self.shared.fail(state, &why, self.clock.now());
            tokio::time::sleep(wait).await;
        }
        *experience = delivery.experience();
    }

    async fn wait_for_store(&self, why: &str) {
        let why = format!("store the cursor: {why}");
        self.shared.fail(State::Retrying, &why, self.clock.now());
        tokio::time::sleep(AGAIN).await;
    }

    /// Stores dead letters, however often that takes.
    async fn bury(&self, letters: Vec<DeadLetter>) {
        if !letters.is_empty() {
            self.store_dead(|| self.dead.append(&letters)).await;
        }
    }

    /// Repeats a write of dead letters until it succeeds.
    async fn store_dead<F: Future<Output = io::Result<()>>>(&self, write: impl Fn() -> F) {
        while let Err(error) = write().await {
            let (feed, why) = (&self.feed, format!("store dead letters: {error}"));
            if self.shared.fail(State::Retrying, &why, self.clock.now()) {
                tracing::error!(feed, why, "dead letters cannot be stored yet");
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Sends the dead letters that were set apart again, until all are settled. Those that are
    /// rejected again become dead letters again.
    pub(crate) async fn retry(self) {
        while let Err(error) = self.retry_all().await {
            let feed = &self.feed;
            tracing::error!(feed, %error, "dead letters are not sent again yet");
            let why = format!("read dead letters: {error}");
            self.shared.fail(State::Retrying, &why, self.clock.now());
            tokio::time::sleep(REFUSED).await;
        }
    }

    async fn retry_all(&self) -> io::Result<()> {
        let mut letters = self.dead.to_retry().await?;
        let mut experience = Experience::default();
        loop {
            let page;
            (letters, page) = letters.page().await?;
            if page.is_empty() {
                return self.dead.end_retry().await;
            }
            self.shared.set(State::Delivering);
            let settled = page.len() as u64;
            let mut batch: Option<(Source, Vec<Record>)> = None;
            for letter in page {
                let letter = match letter {
                    Ok(letter) => letter,
                    Err(line) => {
                        let append = || self.dead.append_line(line.clone());
                        self.store_dead(append).await;
                        continue;
                    }
                };
                let Ok((source, record)) = letter.record() else {
                    self.bury(vec![letter]).await;
                    continue;
                };
                // By itself, it is either taken or rejected.
                let is_alone = letter.cause == DeadCause::PossiblyRejected;
                match &mut batch {
                    Some((of, records)) if *of == source && !is_alone => records.push(record),
                    _ => {
                        let former = batch.replace((source, vec![record]));
                        self.deliver_again(former, &mut experience).await;
                    }
                }
                if is_alone {
                    self.deliver_again(batch.take(), &mut experience).await;
                }
            }
            self.deliver_again(batch, &mut experience).await;
            // If the page were read again instead, the receiver would get it again.
            let settle = || self.dead.settle_retried(settled);
            self.store_dead(settle).await;
        }
    }

    async fn deliver_again(
        &self,
        batch: Option<(Source, Vec<Record>)>,
        experience: &mut Experience,
    ) {
        if let Some((source, records)) = batch {
            // The totals have them as dead.
            let mut totals = Totals::default();
            self.deliver(&source, records, &mut totals, experience)
                .await;
        }
    }

    fn test_record(&self, why: &str) -> Record {
        let text = format!("a test record {why}, feed {}", self.feed);
        Record::test(self.clock.now(), text)
    }

    /// Sends a test record. Returns the receiver's words if it was not taken.
    pub(crate) async fn check(&self, source: &Source) -> Result<(), String> {
        let record = self.test_record("of tidings feeds check");
        match self.receiver.send(source, &[record], self.wall()).await {
            Reply::Unencodable(why) => Err(why.into_iter().map(|(_, why)| why).collect()),
            Reply::Judged(verdict, _) => match verdict {
                Verdict::Delivered => Ok(()),
                Verdict::TooLarge => Err("a single record is too large".to_owned()),
                Verdict::Retry(why)
                | Verdict::PartlyRejected(_, why)
                | Verdict::Busy(why)
                | Verdict::Rejected(why)
                | Verdict::Refused(why) => Err(why),
                Verdict::Items(outcomes) => match outcomes.into_iter().next() {
                    Some(Outcome::Delivered) => Ok(()),
                    Some(Outcome::Retry(why) | Outcome::Busy(why) | Outcome::Rejected(why)) => {
                        Err(why)
                    }
                    None => Err("there was no outcome for the record".to_owned()),
                },
            },
        }
    }
}

/// Delivers a feed of a cluster.
pub(crate) struct Worker {
    post: Post,
    feed: Arc<dyn Feed>,
    history: Arc<dyn History>,
    source: Source,
    options: FeedOptions,
    place: Option<Place>,
    /// When a followed cluster without a known identity was last asked for it.
    asked: Option<Duration>,
    /// What the receiver showed. It outlives the batches, which may be small.
    experience: Experience,
}

/// A cursor, and what is stored with it.
struct Place {
    cursor: Box<dyn Cursor>,
    totals: Totals,
    /// The first entry after the batch that is being delivered, if versions replace others in it.
    end: Option<u64>,
    /// Whether the last batch is followed by more of the history, which a skip does not count.
    is_in_history: bool,
}

/// What is stored with a cursor.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Stored {
    #[serde(flatten)]
    totals: Totals,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
}

impl Stored {
    /// Numbers can always be written as JSON, and are far shorter than a state may be: so only the
    /// store can fail.
    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Worker {
    pub(crate) fn new(
        post: Post,
        cluster: &str,
        (feed, history): (Arc<dyn Feed>, Arc<dyn History>),
        options: FeedOptions,
    ) -> Self {
        Self {
            post,
            feed,
            history,
            source: Source {
                cluster: cluster.to_owned(),
                uid: String::new(),
            },
            options,
            place: None,
            asked: None,
            experience: Experience::default(),
        }
    }

    /// Opens the cursor. If that fails, [`run`](Self::run) tries it again.
    pub(crate) async fn open(&mut self) {
        if let Err(error) = self.place().await {
            self.fail(&error);
        }
    }

    /// Delivers for ever.
    pub(crate) async fn run(mut self) {
        loop {
            let Err(error) = self.turn().await else {
                continue;
            };
            // What was read and is not committed is read again by the next handle.
            self.place = None;
            self.fail(&error);
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn fail(&self, error: &FeedError) {
        let (feed, cluster, why) = (&self.post.feed, &self.source.cluster, error.to_string());
        let now = self.post.clock.now();
        if self.post.shared.fail(State::Retrying, &why, now) {
            tracing::error!(feed, cluster, why, "the feed is not delivered yet");
        }
    }

    /// Returns the cursor, which is opened if it is not open. A new one begins where the options
    /// say.
    async fn place(&mut self) -> Result<&mut Place, FeedError> {
        let place = if let Some(place) = self.place.take() {
            place
        } else {
            let start = match self.options.from {
                From::Now => Start::Now,
                From::Oldest => Start::Oldest,
                From::Ago(ago) => {
                    let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
                    Start::Since(UnixMillis(self.post.clock.now().0.saturating_sub(ago)))
                }
            };
            let name: CursorName = cursor_name(&self.post.feed).parse()?;
            let cursor = self.feed.cursor(name, start).await?;
            // Nothing else writes this state.
            let stored: Stored = serde_json::from_str(cursor.state()).unwrap_or_default();
            self.post.shared.set_totals(stored.totals.clone());
            Place {
                cursor,
                totals: stored.totals,
                end: stored.end,
                is_in_history: false,
            }
        };
        Ok(self.place.insert(place))
    }

    /// Delivers what there is, and waits until there is more.
    async fn turn(&mut self) -> Result<(), FeedError> {
        let Some(every) = self.options.every else {
            self.drain(Limits::default()).await?;
            self.post.shared.set(State::Idle);
            self.place().await?.cursor.changed().await;
            return Ok(());
        };
        let slack = i64::try_from(SLACK.as_millis()).unwrap_or_default();
        let now = || UnixMillis(self.post.clock.now().0.saturating_sub(slack));
        let (bytes, versions) = THINNED;
        let limits = Limits {
            versions,
            bytes,
            until: Some(thin::end(now(), every)),
            through: None,
        };
        self.drain(limits).await?;
        self.post.shared.set(State::Idle);
        let now = UnixMillis(self.post.clock.now().0.saturating_sub(slack));
        let of_period = Duration::from_millis(now.0.abs_diff(thin::end(now, every).0));
        tokio::time::sleep(every.saturating_sub(of_period).max(AGAIN)).await;
        Ok(())
    }

    /// Delivers batches until there is none.
    async fn drain(&mut self, limits: Limits) -> Result<(), FeedError> {
        loop {
            // Nothing fails between the reading of a batch and its commit.
            self.identify().await?;
            let is_single = self.options.every.is_none() && self.post.receiver.records_max() == 1;
            let place = self.place().await?;
            let mut limits = limits;
            if is_single && !place.is_in_history {
                limits.versions = limits.versions.min(SINGLES);
            }
            let begun = place.end.map(|end| Limits {
                until: None,
                through: Some(Offset::Entry(end)),
                ..limits
            });
            let Some(batch) = place.cursor.next(begun.unwrap_or(limits)).await? else {
                // The bounds of the backlog can move the cursor behind the batch.
                if place.end.take().is_some() {
                    continue;
                }
                return Ok(());
            };
            let through = batch.through;
            place.is_in_history = matches!(through, Offset::History(_));
            let mut totals = place.totals.clone();
            if let (Offset::Entry(end), Some(_), None) = (through, self.options.every, begun) {
                self.begin(end).await?;
            }
            let mut records = self.records(batch, &mut totals).await;
            if let Some(every) = self.options.every {
                let replaced;
                (records, replaced) = thin::thin(records, every);
                totals.replaced += replaced;
            }
            self.post.shared.set(State::Delivering);
            let post = &self.post;
            post.deliver(&self.source, records, &mut totals, &mut self.experience)
                .await;
            self.commit(through, totals).await?;
        }
    }

    /// Stores where the batch ends that is about to be sent.
    async fn begin(&mut self, end: u64) -> Result<(), FeedError> {
        let place = self.place().await?;
        let totals = place.totals.clone();
        let end = Some(end);
        let stored = Stored { totals, end };
        place.cursor.store(stored.text()).await?;
        place.end = end;
        Ok(())
    }

    /// Commits a batch, however often the store fails.
    async fn commit(&mut self, through: Offset, totals: Totals) -> Result<(), FeedError> {
        let end = self.place().await?.end;
        let end = end.filter(|end| through < Offset::Entry(*end));
        let stored = Stored { totals, end };
        let state = stored.text();
        loop {
            let place = self.place().await?;
            let committed = place.cursor.commit(through, Some(state.clone())).await;
            match committed {
                Ok(_) => break,
                Err(FeedError::Read(error)) => {
                    self.post.wait_for_store(&error.to_string()).await;
                }
                Err(FeedError::Write(error)) => {
                    self.post.wait_for_store(&error.to_string()).await;
                }
                Err(error) => return Err(error),
            }
        }
        self.post.shared.set_totals(stored.totals.clone());
        let place = self.place().await?;
        (place.totals, place.end) = (stored.totals, end);
        Ok(())
    }

    /// Makes the records of a batch: what is missing first, and then the versions that the feed
    /// has.
    async fn records(&mut self, batch: Batch, totals: &mut Totals) -> Vec<Record> {
        let mut records = Vec::with_capacity(batch.versions.len());
        totals.skipped += batch.skip.map_or(0, |skip| skip.versions);
        totals.gone += batch.gone;
        if batch.is_history {
            totals.history += batch.versions.len() as u64;
        }
        let feed = &self.post.feed;
        records.extend(batch.skip.map(|skip| Record::skip(feed, skip)));
        records.extend(batch.gaps.into_iter().map(Record::gap));
        let mut letters = Vec::new();
        for (version, occurrences) in batch.versions.into_iter().zip(batch.occurrences) {
            let record = match Record::version(version.clone(), occurrences) {
                Ok(record) => record,
                Err(why) => {
                    *totals.dead.entry(DeadCause::Unreadable).or_default() += 1;
                    let (found, now) = ((&version, occurrences), self.post.clock.now());
                    letters.push(DeadLetter::unreadable(&self.source, found, why, now));
                    continue;
                }
            };
            let RecordBody::Version(found) = &record.body else {
                continue;
            };
            if self.selects(&found.event) {
                records.push(record);
            } else {
                totals.filtered += 1;
            }
        }
        self.post.bury(letters).await;
        records
    }

    fn selects(&self, event: &Event) -> bool {
        if !(self.options.conditions).match_event(&self.source.cluster, event) {
            return false;
        }
        let metadata = event.metadata.as_ref();
        let object = event.involved_object.as_ref();
        let source = event.source.as_ref();
        let or = |text: Option<&'_ str>, other: &Option<String>| -> String {
            let text = text.filter(|text| !text.is_empty());
            text.or(other.as_deref()).unwrap_or_default().to_owned()
        };
        let component = or(
            source.map(EventSource::component),
            &event.reporting_component,
        );
        let host = or(source.map(EventSource::host), &event.reporting_instance);
        self.options.filter.selects(&Fields {
            cluster: &self.source.cluster,
            namespace: metadata.map_or("", ObjectMeta::namespace),
            kind: object.map_or("", ObjectReference::kind),
            object: object.map_or("", ObjectReference::name),
            reason: event.reason(),
            event_type: event.r#type(),
            source: &component,
            host: &host,
            message: event.message(),
        })
    }

    /// Finds out the cluster's identity, unless it is known.
    async fn identify(&mut self) -> Result<(), FeedError> {
        let now = self.post.clock.steady();
        let is_asked = |asked: Duration| now.saturating_sub(asked) < IDENTIFIED;
        if !self.source.uid.is_empty() || self.asked.is_some_and(is_asked) {
            return Ok(());
        }
        // A cluster that is watched has its identity, or does not show it.
        let is_watched = self.history.following().state == "watching";
        let coverage = self.history.coverage(None).await?;
        let mut followed = coverage.followed.into_iter();
        let identity = followed.find_map(|followed| followed.identity);
        self.source.uid = identity.unwrap_or_default();
        self.asked = is_watched.then_some(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::pin::pin;

    use tidings_store::clock::ManualClock;

    use super::*;
    use crate::encode::webhook::Webhook;
    use crate::file::FileOptions;
    use crate::http::Connection;
    use crate::receiver::{Form, ReceiverOptions};
    use crate::status::FeedStatus;

    fn post(folder: &Path, receiver: ReceiverOptions, clock: &ManualClock) -> Post {
        Post {
            receiver: Arc::new(Receiver::new(receiver)),
            dead: Arc::new(DeadLetters::new(folder.join("dead"))),
            clock: Arc::new(clock.clone()),
            shared: Arc::default(),
            feed: "feed".to_owned(),
        }
    }

    fn source() -> Source {
        Source {
            cluster: "prod".to_owned(),
            uid: String::new(),
        }
    }

    /// A receiver is refused after a minute, and then by a test record, which is no delivery.
    #[tokio::test(start_paused = true)]
    async fn a_feed_is_refused_since_the_first_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let mut connection = Connection::new("http://receiver.example.org/".parse().unwrap());
        connection.signature = Some(folder.path().join("absent"));
        let receiver = ReceiverOptions::Http(Box::new(connection), Form::Webhook(Webhook::Batch));
        let clock = ManualClock::at(UnixMillis(5));
        let post = post(folder.path(), receiver, &clock);
        let source = source();
        let mut totals = Totals::default();
        let records = vec![post.test_record("of a test")];
        let mut experience = Experience::default();
        let delivery = post.deliver(&source, records, &mut totals, &mut experience);
        let mut delivery = pin!(delivery);
        for _ in 0..6 {
            let ended = tokio::time::timeout(REFUSED, delivery.as_mut()).await;
            assert!(ended.is_err());
            let mut status = FeedStatus::default();
            post.shared.show(&mut status);
            assert_eq!((status.state, status.since), (State::Refused, Some(5)));
            clock.advance(60_000);
        }
    }

    /// A full disk does not make a receiver get dead letters again and again.
    #[tokio::test(start_paused = true)]
    async fn dead_letters_are_sent_once_while_their_number_cannot_be_stored() {
        let folder = tempfile::tempdir().unwrap();
        let (path, rotate, keep) = (folder.path().join("events.jsonl"), 1 << 20, 1);
        let receiver = ReceiverOptions::File(FileOptions {
            path: path.clone(),
            rotate,
            keep,
        });
        let post = post(folder.path(), receiver, &ManualClock::at(UnixMillis(5)));
        let dead = Arc::clone(&post.dead);
        let record = post.test_record("of a test");
        let cause = (DeadCause::Rejected, "400".to_owned());
        let letter = DeadLetter::new(&source(), &record, cause, UnixMillis(2));
        dead.append(&[letter]).await.unwrap();
        dead.begin_retry().await.unwrap();
        let no_file = folder.path().join("dead/retried.settled.next");
        std::fs::create_dir(&no_file).unwrap();
        let mut retry = pin!(post.retry());
        let ended = tokio::time::timeout(3 * REFUSED, retry.as_mut()).await;
        assert!(ended.is_err());
        assert_eq!(dead.count().letters, 1);
        std::fs::remove_dir(&no_file).unwrap();
        retry.await;
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 1);
        assert_eq!(dead.count().letters, 0);
    }
}
