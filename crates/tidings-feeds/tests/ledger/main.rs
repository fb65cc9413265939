//! A ledger at the receiver: whatever the receiver answers, and whenever the delivery is killed,
//! every version is there, or counted.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod failures;
mod skips;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tidings_archive::{Cluster, ClusterOptions};
use tidings_feeds::encode::webhook::Webhook;
use tidings_feeds::{
    Connection, FeedOptions, FeedStatus, Feeds, FileOptions, Form, ReceiverOptions, State,
};
use tidings_store::UnixMillis;
use tidings_store::clock::{Clock, SystemClock};
use tidings_testing::serving;

/// Maximum time of a step before the test fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// The records that were received, and the seed of the answers.
#[derive(Clone)]
struct Received {
    records: Arc<Mutex<Vec<Value>>>,
    random: Arc<Mutex<fastrand::Rng>>,
}

impl Received {
    /// Receives on a port until the test ends.
    fn listen(seed: u64) -> (Self, u16) {
        let received = Self {
            records: Arc::default(),
            random: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let all = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, all) = (stream.unwrap(), all.clone());
                // The sender may have been killed meanwhile.
                std::thread::spawn(move || all.answer(stream));
            }
        });
        (received, port)
    }

    /// Reads a request's events. Returns the rest of the stream with them.
    fn read(stream: &TcpStream) -> std::io::Result<(BufReader<TcpStream>, Vec<Value>)> {
        let mut from = BufReader::new(stream.try_clone()?);
        let mut len = 0;
        loop {
            let mut line = String::new();
            if from.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                len = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        let events = match serde_json::from_slice(&body)? {
            Value::Array(events) => events,
            event => vec![event],
        };
        Ok((from, events))
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let (mut from, events) = Self::read(&stream)?;
        let is_bad = |event: &Value| {
            let name = event["data"]["metadata"]["name"].as_str();
            name.is_some_and(|name| name.starts_with("bad"))
        };
        let dice = self.random.lock().unwrap().u8(..20);
        let status = match dice {
            0 => "429 Too Many Requests\r\nRetry-After: 0",
            1 => "503 Service Unavailable",
            2 if events.len() > 2 => "413 Content Too Large",
            _ if events.iter().any(is_bad) => "400 Bad Request",
            _ => "204 No Content",
        };
        // Some are received, and the sender does not hear of it.
        if status.starts_with("204") || dice == 1 && !events.iter().any(is_bad) {
            self.records.lock().unwrap().extend(events);
        }
        if dice == 3 {
            // It hangs until the sender gives up.
            let _ = from.read(&mut [0]);
            return Ok(());
        }
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes())
    }

    /// The versions by event and id, with their occurrences. The same version is always the same.
    fn occurrences(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut found = BTreeMap::<String, BTreeMap<_, _>>::new();
        for event in &*self.records.lock().unwrap() {
            if event["type"] != "dev.tidings.event.v1" {
                continue;
            }
            let id = event["id"].as_str().unwrap().to_owned();
            let (uid, _) = id.split_once('/').unwrap();
            let occurrences = event["occurrences"].as_u64().unwrap();
            let former = found
                .entry(uid.to_owned())
                .or_default()
                .insert(id, occurrences);
            assert!(former.is_none_or(|former| former == occurrences), "{event}");
        }
        found
    }

    /// The ids of all but test records.
    fn ids(&self) -> Vec<String> {
        let records = self.records.lock().unwrap();
        records
            .iter()
            .filter(|it| it["type"] != "dev.tidings.test.v1")
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The source's versions: of each event its ids, and its last count.
#[derive(Default)]
struct Written {
    versions: BTreeMap<String, Vec<String>>,
    counts: BTreeMap<String, u64>,
}

impl Written {
    fn note(&mut self, event: &Event) {
        let uid = event.uid().unwrap();
        let id = format!("{uid}/0/{}", event.resource_version().unwrap());
        self.versions.entry(uid.clone()).or_default().push(id);
        let count = u64::try_from(event.count.unwrap_or(1)).unwrap();
        self.counts.insert(uid, count);
    }

    fn len(&self) -> u64 {
        self.versions.values().map(|it| it.len() as u64).sum()
    }
}

/// The machine's clock, shifted.
struct Shifted(AtomicI64);

impl Clock for Shifted {
    fn now(&self) -> UnixMillis {
        UnixMillis(SystemClock.now().0 + self.0.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Duration {
        SystemClock.steady()
    }
}

fn webhook(name: &str, port: u16) -> FeedOptions {
    let url = format!("http://127.0.0.1:{port}/hook").parse().unwrap();
    let mut connection = Connection::new(url);
    connection.timeout = Duration::from_millis(500);
    let form = Form::Webhook(Webhook::default());
    FeedOptions::new(name, ReceiverOptions::Http(Box::new(connection), form))
}

fn lines(path: &Path) -> FeedOptions {
    let file = FileOptions {
        path: path.to_owned(),
        rotate: 1 << 30,
        keep: 1,
    };
    FeedOptions::new("lines", ReceiverOptions::File(file))
}

async fn until<T>(mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    waited.await.unwrap()
}

struct World {
    folder: tempfile::TempDir,
    source: tidings_server::Running,
    events: Api<Event>,
    cluster: Cluster,
    clock: Arc<Shifted>,
    dead: std::path::PathBuf,
    random: fastrand::Rng,
    written: Written,
}

impl World {
    /// Begins to follow a source, once the feeds have their cursors.
    async fn start(seed: u64, feeds: impl Fn(&Path) -> Vec<FeedOptions>) -> (Self, Feeds) {
        let folder = tempfile::tempdir().unwrap();
        let source = serving::start(&folder.path().join("source"), 0).await;
        let client: Client = serving::client(source.kubeconfig()).await;
        let options = ClusterOptions::new("prod");
        let kept = folder.path().join("archive");
        let cluster = Cluster::open_kept(&kept, options.clone()).await.unwrap();
        let mut world = Self {
            source,
            events: Api::namespaced(client.clone(), "shop"),
            cluster,
            clock: Arc::new(Shifted(AtomicI64::new(0))),
            dead: folder.path().join("feeds"),
            random: fastrand::Rng::with_seed(seed),
            written: Written::default(),
            folder,
        };
        let all = feeds(world.folder.path());
        let feeds = world.deliver(all).await;
        world.cluster.follow(&client, options);
        let history = world.cluster.history();
        until(async || {
            use tidings_history::History;
            (history.following().state == "watching").then_some(())
        })
        .await;
        (world, feeds)
    }

    async fn deliver(&self, all: Vec<FeedOptions>) -> Feeds {
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let feeds = Feeds::new(self.dead.clone(), clock);
        feeds.configure(all).await;
        let (feed, history) = (self.cluster.feed(), self.cluster.history());
        feeds.start("prod", Arc::new(feed), Arc::new(history)).await;
        feeds
    }

    /// Creates an event, or counts one up.
    async fn write(&mut self, name: &str) {
        let existing = self.events.get_opt(name).await.unwrap();
        let event = match existing {
            None => {
                let event = serving::event(name);
                self.events.create(&PostParams::default(), &event).await
            }
            Some(event) => {
                let count = event.count.unwrap_or(1) + self.random.i32(1..4);
                let patch = Patch::Merge(serde_json::json!({"count": count}));
                self.events
                    .patch(name, &PatchParams::default(), &patch)
                    .await
            }
        };
        self.written.note(&event.unwrap());
    }

    async fn status(feeds: &Feeds, name: &str) -> FeedStatus {
        let all = feeds.status().await;
        all.into_iter().find(|status| status.feed == name).unwrap()
    }

    /// Waits until a feed accounts for every version, once.
    async fn settled(&self, feeds: &Feeds, name: &str) -> FeedStatus {
        let (status, all) = until(async || {
            let status = Self::status(feeds, name).await;
            let totals = &status.totals;
            let all = totals.delivered
                + totals.dead.values().sum::<u64>()
                + totals.skipped
                + totals.gone
                + totals.filtered
                + totals.replaced;
            let is_whole = status.backlog_versions == 0 && all >= self.written.len();
            is_whole.then_some((status, all))
        })
        .await;
        assert_eq!(all, self.written.len(), "{status:?}");
        status
    }

    async fn close(self, feeds: Feeds) {
        feeds.stop_all().await;
        self.cluster.close().await;
        self.source.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_version_is_at_the_receiver_or_counted() {
    let (received, port) = Received::listen(40);
    let all = move |folder: &Path| vec![webhook("hook", port), lines(&folder.join("lines.jsonl"))];
    let (mut world, mut feeds) = World::start(40, all).await;
    for round in 0..12 {
        for _ in 0..8 {
            let number = world.random.u8(..5);
            let name = if world.random.u8(..12) == 0 {
                format!("bad.{number}")
            } else {
                format!("web.{number}")
            };
            world.write(&name).await;
        }
        // The delivery is killed within a request, after it, or before the commit.
        let more = received.ids().len() + world.random.usize(..4);
        let waited = until(async || (received.ids().len() >= more).then_some(()));
        let _ = tokio::time::timeout(Duration::from_millis(100 * round), waited).await;
        feeds.stop_all().await;
        feeds = world.deliver(all(world.folder.path())).await;
    }
    let status = world.settled(&feeds, "hook").await;
    let letters = feeds.dead_letters("hook").await.unwrap();
    let dead: BTreeSet<_> = letters.into_iter().map(|letter| letter.id).collect();
    let ids = received.ids();
    let found: BTreeSet<_> = ids.iter().cloned().collect();
    let written: BTreeSet<_> = world.written.versions.values().flatten().cloned().collect();
    assert_eq!(
        &found | &dead,
        written,
        "nothing is missing, and nothing else came"
    );
    assert!(found.is_disjoint(&dead) && !dead.is_empty(), "{dead:?}");
    assert!(ids.len() > found.len(), "some came twice");
    let totals = &status.totals;
    assert_eq!(totals.delivered, found.len() as u64);
    assert_eq!(totals.dead.values().sum::<u64>(), dead.len() as u64);
    assert_eq!((totals.skipped, totals.gone), (0, 0));
    for versions in world.written.versions.values() {
        let firsts = versions.iter().map(|id| ids.iter().position(|it| it == id));
        let firsts: Vec<_> = firsts.flatten().collect();
        assert!(firsts.is_sorted(), "{versions:?}");
    }
    for (uid, versions) in received.occurrences() {
        assert_eq!(
            versions.values().sum::<u64>(),
            world.written.counts[&uid],
            "{uid}"
        );
    }
    // Each complete line of the file is a version, and none is missing.
    world.settled(&feeds, "lines").await;
    let text = std::fs::read_to_string(world.folder.path().join("lines.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines: BTreeSet<_> = lines
        .map(|line| {
            let metadata = &line["event"]["metadata"];
            let [uid, number] = [&metadata["uid"], &metadata["resourceVersion"]];
            format!(
                "{}/{}/{}",
                uid.as_str().unwrap(),
                line["epoch"],
                number.as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(lines, written);
    // Dead letters are sent again, and rejected again.
    assert!(feeds.retry("hook").await.unwrap() >= dead.len() as u64);
    until(async || {
        let letters = feeds.dead_letters("hook").await.unwrap();
        let letters: BTreeSet<_> = letters.into_iter().map(|letter| letter.id).collect();
        (letters == dead).then_some(())
    })
    .await;
    world.close(feeds).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_versions_keep_their_occurrences() {
    let (received, port) = Received::listen(41);
    let every = Duration::from_secs(10);
    let all = move |_: &Path| {
        let mut hook = webhook("hook", port);
        hook.every = Some(every);
        vec![hook]
    };
    let (mut world, mut feeds) = World::start(41, all).await;
    // No period is over for the feeds meanwhile.
    world.clock.0.store(-3_600_000, Ordering::Relaxed);
    for _ in 0..60 {
        let name = format!("web.{}", world.random.u8(..4));
        world.write(&name).await;
    }
    // Of a period that is over, everything is observed.
    until(async || {
        let status = World::status(&feeds, "hook").await;
        (status.backlog_versions == world.written.len()).then_some(())
    })
    .await;
    world.clock.0.store(60_000, Ordering::Relaxed);
    for round in 0..6 {
        let more = received.ids().len() + world.random.usize(..2);
        let waited = until(async || (received.ids().len() >= more).then_some(()));
        let _ = tokio::time::timeout(Duration::from_millis(50 * round), waited).await;
        feeds.stop_all().await;
        feeds = world.deliver(all(world.folder.path())).await;
    }
    let status = world.settled(&feeds, "hook").await;
    let found = received.occurrences();
    for (uid, count) in &world.written.counts {
        let versions = &found[uid];
        assert_eq!(versions.values().sum::<u64>(), *count, "{uid}");
        let last = world.written.versions[uid].last().unwrap();
        assert!(versions.contains_key(last), "the last version of {uid}");
    }
    let number: usize = found.values().map(BTreeMap::len).sum();
    assert!(number < 40, "{number} of 60 versions were delivered");
    let totals = &status.totals;
    assert_eq!(totals.delivered, number as u64);
    assert_eq!(totals.delivered + totals.replaced, world.written.len());
    for (uid, versions) in &world.written.versions {
        assert!(
            found[uid].contains_key(&versions[0]),
            "the first version of {uid}"
        );
    }
    world.close(feeds).await;
}

/// A version that is committed late, after the batch of its period was sent and before that batch
/// was committed, replaces nothing that the receiver has.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_version_counts_no_occurrence_twice() {
    let (received, _) = Received::listen(44);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (all, is_open) = (received.clone(), Arc::new(AtomicBool::new(false)));
    let open = Arc::clone(&is_open);
    std::thread::spawn(move || {
        // The first request is never answered. Its stream stays open.
        let mut unanswered = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Ok((_, events)) = Received::read(&stream) else {
                continue;
            };
            all.records.lock().unwrap().extend(events);
            if open.load(Ordering::Relaxed) {
                let answer = "HTTP/1.1 204 Taken\r\nConnection: close\r\n\r\n";
                let _ = stream.write_all(answer.as_bytes());
            } else {
                unanswered.push(stream);
            }
        }
    });
    let hook = move |_: &Path| {
        let mut hook = webhook("hook", port);
        hook.every = Some(Duration::from_secs(86_400));
        vec![hook]
    };
    let (mut world, no_feeds) = World::start(44, hook).await;
    no_feeds.stop_all().await;
    for _ in 0..3 {
        world.write("web.0").await;
    }
    // The first request has all of them.
    let feed = world.cluster.feed();
    until(async || {
        use tidings_history::Feed;
        let cursors = feed.cursors().await.unwrap();
        cursors.iter().any(|it| it.versions == 3).then_some(())
    })
    .await;
    world.clock.0.store(2 * 86_400_000, Ordering::Relaxed);
    let feeds = world.deliver(hook(world.folder.path())).await;
    until(async || (received.ids().len() >= 2).then_some(())).await;
    feeds.stop_all().await;
    world.write("web.0").await;
    is_open.store(true, Ordering::Relaxed);
    let feeds = world.deliver(hook(world.folder.path())).await;
    world.settled(&feeds, "hook").await;
    for (uid, versions) in received.occurrences() {
        let count = world.written.counts[&uid];
        assert_eq!(versions.values().sum::<u64>(), count, "{versions:?}");
    }
    world.close(feeds).await;
}

/// A receiver that rejects each record, test records too, refuses the feed: nothing becomes a dead
/// letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_feed_says_so_and_can_skip() {
    for status in ["401", "400"] {
        refuse_and_skip(status).await;
    }
}

async fn refuse_and_skip(refusal: &'static str) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_open = Arc::new(Mutex::new(false));
    let (received, _) = Received::listen(42);
    let (all, open) = (received.clone(), Arc::clone(&is_open));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if *open.lock().unwrap() {
                *all.random.lock().unwrap() = fastrand::Rng::with_seed(1);
                let _ = all.answer(stream);
            } else {
                let _ = stream.read(&mut [0; 16000]);
                let answer = format!(
                    "HTTP/1.1 {refusal} No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwho"
                );
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    let (mut world, feeds) = World::start(42, |_| vec![webhook("hook", port)]).await;
    for number in 0..5 {
        world.write(&format!("web.{number}")).await;
    }
    let status = until(async || {
        let status = World::status(&feeds, "hook").await;
        let is_whole = status.backlog_versions == 5;
        (status.state == State::Refused && is_whole).then_some(status)
    })
    .await;
    assert!(
        status.words.contains(refusal) && status.words.contains("who"),
        "{}",
        status.words
    );
    let checked = feeds.check(Some("hook")).await.unwrap();
    assert!(checked[0].1.as_ref().unwrap_err().contains(refusal));
    *is_open.lock().unwrap() = true;
    // The client does not wait for the answer.
    let skip = feeds.answer(&http::Method::POST, "hook/skip");
    assert!(tokio::time::timeout(Duration::ZERO, skip).await.is_err());
    let status = world.settled(&feeds, "hook").await;
    assert_eq!((status.totals.skipped, status.totals.delivered), (5, 0));
    assert!(status.totals.dead.is_empty(), "{:?}", status.totals);
    world.write("web.0").await;
    until(async || (received.ids().len() >= 2).then_some(())).await;
    let records = received.records.lock().unwrap().clone();
    assert_eq!(records[0]["type"], "dev.tidings.skip.v1");
    assert_eq!(records[0]["data"]["versions"], 5);
    assert_eq!(records[1]["type"], "dev.tidings.event.v1");
    world.close(feeds).await;
}
