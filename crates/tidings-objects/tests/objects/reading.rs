//! What is sealed is read as the archive that sealed it has it, whatever was sealed and merged
//! together; and what the storage does wrong is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde_json::{Value, json};
use tidings_api::codec;
use tidings_objects::{Place, ReadOptions, Reader, SealOptions, SealedCluster, newest};
use tidings_store::clock::Clock;
use tidings_store::{
    CountsRequest, Fault, ListRequest, NewestRequest, ObjectSelector, ReadError, Record, Store,
    UnixMillis, WriteError,
};

use super::world::World;

/// A storage that counts requests, and may not answer.
#[derive(Debug, Default)]
struct Judged {
    inner: InMemory,
    is_down: AtomicBool,
    requests: AtomicUsize,
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("judged")
    }
}

impl Judged {
    fn ask(&self) -> Result<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return Err(Error::Generic {
                store: "judged",
                source: "connection refused".into(),
            });
        }
        Ok(())
    }

    /// The requests since the last call.
    fn asked(&self) -> usize {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl ObjectStore for Judged {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.ask()?;
        self.inner.put_opts(to, bytes, how).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(to, how).await
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Result<GetResult> {
        self.ask()?;
        self.inner.get_opts(from, how).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.ask() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask()?;
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }
}

fn place(store: &Arc<Judged>) -> Place {
    Place::of(Arc::clone(store) as Arc<dyn ObjectStore>, "memory:///")
}

async fn read(store: &Arc<Judged>) -> SealedCluster {
    let reader = Reader::new(place(store), ReadOptions::default());
    assert_eq!(reader.clusters().await.unwrap(), ["prod"]);
    reader.open("prod").await.unwrap()
}

/// Versions of events in several namespaces, about objects of several kinds, whose names are used
/// again now and then.
struct History {
    random: fastrand::Rng,
    /// The uid and count of the event that has a name.
    events: BTreeMap<(usize, usize, usize, usize), (String, u64)>,
    version: u64,
    time: i64,
}

const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];
const KINDS: [&str; 3] = ["Deployment", "Node", "Pod"];
const REASONS: [&str; 3] = ["BackOff", "Created", "Pulled"];

impl History {
    fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            events: BTreeMap::new(),
            version: 100,
            time: 1_700_000_000_000,
        }
    }

    fn uid(&mut self) -> String {
        format!(
            "{:08x}-0000-4000-8000-{:012x}",
            self.random.u32(..),
            self.version
        )
    }

    fn next(&mut self) -> Value {
        let slot = (
            self.random.usize(..NAMESPACES.len()),
            self.random.usize(..KINDS.len()),
            self.random.usize(..5),
            self.random.usize(..3),
        );
        self.version += self.random.u64(1..4);
        self.time += self.random.i64(1..90_000);
        let is_new = !self.events.contains_key(&slot) || self.random.u8(..100) < 15;
        if is_new {
            let uid = self.uid();
            self.events.insert(slot, (uid, 0));
        }
        let (uid, count) = self.events.get_mut(&slot).unwrap();
        *count += 1;
        let (namespace, kind, object, event) = slot;
        let object = format!("x-{object}");
        let name = format!("{}-{object}.{event}", KINDS[kind].to_lowercase());
        let time = Timestamp::from_millisecond(self.time).unwrap();
        let time = format!("{time:.6}");
        // Some events have their time in one way, and some in another.
        let series = (event > 0).then(|| json!({"count": *count, "lastObservedTime": time}));
        json!({
            "kind": "Version", "namespace": NAMESPACES[namespace], "name": name,
            "epoch": 0, "observedAt": time,
            "event": {
                "apiVersion": "v1", "kind": "Event",
                "metadata": {
                    "namespace": NAMESPACES[namespace], "name": name, "uid": uid,
                    "resourceVersion": self.version.to_string(),
                },
                "involvedObject": {
                    "kind": KINDS[kind], "namespace": NAMESPACES[namespace], "name": object,
                    "uid": format!("of-{object}"),
                },
                "reason": REASONS[self.random.usize(..REASONS.len())],
                "message": "m".repeat(self.random.usize(..200)),
                "type": if event == 0 { "Warning" } else { "Normal" },
                "eventTime": time, "series": series,
            },
        })
    }

    fn versions(&mut self, number: usize) -> Vec<Value> {
        (0..number).map(|_| self.next()).collect()
    }
}

/// Namespace and name of an event, and its bytes.
type Shown = BTreeMap<(String, String), Bytes>;

fn id(record: &Record) -> (String, String) {
    let event = codec::decode_stored(&record.value, record.revision).unwrap();
    let metadata = event.metadata.unwrap();
    (metadata.namespace.unwrap(), metadata.name.unwrap())
}

/// All of a list, by pages of a size.
async fn listed(store: &dyn Store, request: &ListRequest, limit: usize) -> Vec<Record> {
    let mut request = request.clone().limit(limit);
    let mut all = Vec::new();
    loop {
        let page = store.list(request.clone()).await.unwrap();
        assert!(page.records.len() <= limit);
        request = request.at(page.revision);
        request.after = page.records.last().map(|record| record.key.clone());
        all.extend(page.records);
        if !page.more {
            return all;
        }
    }
}

fn shown(records: &[Record]) -> Shown {
    let shown: Shown = records
        .iter()
        .map(|it| (id(it), it.value.clone()))
        .collect();
    assert_eq!(shown.len(), records.len(), "an event is there twice");
    shown
}

/// All events last seen, by pages of a size.
async fn latest(store: &dyn Store, request: &NewestRequest, limit: usize) -> Vec<(String, String)> {
    let mut request = request.clone();
    request.limit = limit;
    let mut all = Vec::new();
    loop {
        let page = store.newest(request.clone()).await.unwrap();
        assert!(page.records.len() <= limit && page.behind.is_empty());
        all.extend(page.records.iter().map(id));
        if !page.more {
            return all;
        }
        assert!(
            page.place
                < request.after.or(Some(tidings_store::Place {
                    last_seen: UnixMillis(i64::MAX),
                    revision: u64::MAX,
                }))
        );
        request.after = page.place;
    }
}

/// Asks both stores the same.
async fn compare(world: &World, sealed: &SealedCluster) {
    let cluster = world.open().await;
    let (hot, past) = (cluster.store(), cluster.past());
    let (hot, cold) = (&*hot, &*sealed.store());
    let object = |name: &str, kind: Option<&str>, namespace: Option<&str>| ObjectSelector::Name {
        name: name.to_owned(),
        kind: kind.map(str::to_owned),
        namespace: namespace.map(str::to_owned),
    };
    let mut requests = vec![ListRequest::default()];
    requests.extend(NAMESPACES.map(|namespace| ListRequest::prefix(format!("{namespace}/"))));
    requests.push(ListRequest::prefix("none/"));
    for selected in [
        object("x-1", None, None),
        object("x-1", Some("Pod"), None),
        object("x-2", Some("Node"), Some("a")),
        object("x-2", None, Some("b")),
        object("x-9", None, None),
        ObjectSelector::Uid("of-x-3".into()),
        ObjectSelector::Uid("none".into()),
    ] {
        requests.push(ListRequest::default().object(selected.clone()));
        requests.push(ListRequest::prefix("a/").object(selected));
    }
    let mut all = Shown::new();
    for request in &requests {
        let expected = shown(&listed(hot, request, 500).await);
        let mut orders = Vec::new();
        for limit in [1, 3, 10, 500] {
            let found = listed(cold, request, limit).await;
            assert_eq!(shown(&found), expected, "{request:?} {limit}");
            orders.push(found.iter().map(id).collect::<Vec<_>>());
            let keys: Vec<_> = found.iter().map(|record| record.key.clone()).collect();
            assert!(keys.is_sorted_by(|one, other| cold.is_behind(other, one)));
        }
        orders.dedup();
        assert_eq!(orders.len(), 1);
        all.extend(expected);
    }
    for ((namespace, name), value) in &all {
        let key: Bytes = format!("{namespace}/{name}").into();
        let found = cold.get(key.clone()).await.unwrap();
        assert_eq!(found.as_ref().map(|it| &it.value), Some(value), "{key:?}");
        let only = ListRequest::prefix(key.clone()).limit(500);
        let only = cold.list(only).await.unwrap();
        assert_eq!(only.records, found.into_iter().collect::<Vec<_>>());
        same_versions(&past, sealed, &key).await;
    }
    for key in [
        "a/none",
        "a/none.00000000",
        "none/x",
        "a/pod-x-1.1.00000000",
        "a/",
    ] {
        assert_eq!(cold.get(key.into()).await.unwrap(), None, "{key}");
    }
    let times = [None, Some(3_600_000 * 2), Some(1_000_000)];
    for request in &requests {
        for (number, since) in times.into_iter().enumerate() {
            let now = world.clock.now().0;
            let mut asked = NewestRequest {
                prefix: request.prefix.clone(),
                object: request.object.clone(),
                since: since.map(|since| UnixMillis(now - since)),
                until: since.map(|since| UnixMillis(now - since / 3)),
                ..NewestRequest::default()
            };
            asked.reason = (number == 1).then(|| "BackOff".to_owned());
            asked.event_type = (number == 2).then(|| "Warning".to_owned());
            let expected = latest(hot, &asked, 400).await;
            for limit in [1, 7, 400] {
                assert_eq!(
                    latest(cold, &asked, limit).await,
                    expected,
                    "{asked:?} {limit}"
                );
            }
        }
    }
    let counted = CountsRequest {
        limit: 10_000,
        ..CountsRequest::default()
    };
    let versions: u64 = cold
        .counts(counted.clone())
        .await
        .unwrap()
        .counts
        .iter()
        .map(|it| it.records)
        .sum();
    assert_eq!(versions, world.observed);
    // Never fewer than the archive counts.
    let mut of_hours = BTreeMap::new();
    for count in cold.counts(counted.clone()).await.unwrap().counts {
        of_hours.insert((count.hour, count.reason), count.records);
    }
    for count in hot
        .counts(CountsRequest {
            since: Some(UnixMillis(3_600_000)),
            ..counted
        })
        .await
        .unwrap()
        .counts
    {
        assert!(of_hours[&(count.hour, count.reason)] >= count.records);
    }
    cluster.close().await;
}

/// The versions of an event, by pages of several sizes. Those that were observed before its name
/// was used again may have it, or not.
async fn same_versions(past: &tidings_archive::Past, sealed: &SealedCluster, key: &Bytes) {
    let nameless = |value: &Bytes| {
        let mut event = codec::decode_stored(value, 0).unwrap();
        event.metadata.as_mut().unwrap().name = None;
        event
    };
    let found = past
        .versions(key.clone(), None, 10_000)
        .await
        .unwrap()
        .unwrap();
    let expected = found
        .versions
        .iter()
        .map(|it| (it.version, it.observed_at, nameless(&it.event)));
    let expected: Vec<_> = expected.collect();
    for limit in [1, 2, 500] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = sealed.versions(key, after, limit).await.unwrap().unwrap();
            assert!(page.versions.len() <= limit);
            let versions = page.versions.iter();
            all.extend(versions.map(|it| (it.version, it.observed_at, nameless(&it.event))));
            after = page.more;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all, expected, "{key:?}");
    }
}

async fn observe(world: &mut World, history: &mut History, versions: usize) {
    let versions = history.versions(versions);
    world.clock.advance(history.time + 1 - world.clock.now().0);
    world.import(&versions).await;
}

#[tokio::test]
async fn what_is_sealed_is_read_as_the_archive_has_it() {
    for seed in [1, 2] {
        let store = Arc::new(Judged::default());
        let mut world = World::new();
        let mut history = History::new(seed);
        observe(&mut world, &mut history, 150).await;
        world
            .seal(&place(&store), SealOptions::default())
            .await
            .unwrap();
        let sealed = read(&store).await;
        compare(&world, &sealed).await;
        let mut merged = 0;
        for _ in 0..9 {
            observe(&mut world, &mut history, 40).await;
            let done = world.seal(&place(&store), SealOptions::default()).await;
            merged += done.unwrap().merged;
            sealed.look().await.unwrap();
        }
        assert!(merged > 0);
        compare(&world, &sealed).await;
        // One that begins with what others wrote.
        compare(&world, &read(&store).await).await;
    }
}
