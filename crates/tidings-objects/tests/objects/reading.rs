//! A reader of sealed files returns the same as the archive that sealed them, however they were
//! sealed and merged. It reports faults of the storage.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use jiff::Timestamp;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use tidings_api::codec;
use tidings_archive::ClusterHistory;
use tidings_history::History as _;
use tidings_objects::{Place, ReadOptions, Reader, SealOptions, SealedCluster, newest};
use tidings_store::clock::Clock;
use tidings_store::{
    Count, CountsRequest, Fault, ListRequest, NewestRequest, ObjectSelector, ReadError, Record,
    Store, UnixMillis, hour_of,
};
use tokio::sync::{mpsc, oneshot};

use super::history::{ABOUT_1970, FAR, History, NAMESPACES, START};
use super::storage::Storage;
use super::world::World;

/// A storage that counts requests, and can have faults.
#[derive(Debug)]
pub(crate) struct Judged {
    inner: Arc<dyn ObjectStore>,
    is_down: AtomicBool,
    /// Whether nothing can be deleted.
    pub(crate) keeps: AtomicBool,
    /// Objects that cannot be deleted.
    pub(crate) held: Mutex<Vec<Path>>,
    /// Whether requests panic.
    pub(crate) panics: AtomicBool,
    /// Whether a create replaces an existing object.
    pub(crate) replaces: AtomicBool,
    requests: AtomicUsize,
    /// The number of files of events that are being written, and the maximum at the same time.
    writing: AtomicUsize,
    pub(crate) most: AtomicUsize,
    /// If there is one, each such write is announced here, and goes on when the test answers.
    pub(crate) meanwhile: Mutex<Option<mpsc::Sender<oneshot::Sender<()>>>>,
}

impl std::fmt::Display for Judged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("judged")
    }
}

impl Judged {
    fn ask(&self) -> Result<()> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        assert!(!self.panics.load(Ordering::Relaxed), "on purpose");
        if self.is_down.load(Ordering::Relaxed) {
            return Err(Error::Generic {
                store: "judged",
                source: "connection refused".into(),
            });
        }
        Ok(())
    }

    /// The number of requests since the last call.
    pub(crate) fn asked(&self) -> usize {
        self.requests.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl ObjectStore for Judged {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.ask()?;
        let mut how = how;
        if self.replaces.load(Ordering::Relaxed) {
            how = PutOptions::default();
        }
        if !to.as_ref().contains("/events/") {
            return self.inner.put_opts(to, bytes, how).await;
        }
        let writing = self.writing.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(writing, Ordering::Relaxed);
        let meanwhile = self.meanwhile.lock().clone();
        if let Some(meanwhile) = meanwhile {
            let (done, told) = oneshot::channel();
            meanwhile.send(done).await.unwrap();
            told.await.unwrap();
        }
        // The write takes some time, in which others could begin.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let put = self.inner.put_opts(to, bytes, how).await;
        self.writing.fetch_sub(1, Ordering::Relaxed);
        put
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
        let (keeps, held) = (self.keeps.load(Ordering::Relaxed), self.held.lock().clone());
        let paths = paths.map(move |path| match path? {
            path if keeps || held.contains(&path) => Err(Error::PermissionDenied {
                path: path.to_string(),
                source: "it is not deleted".into(),
            }),
            path => Ok(path),
        });
        self.inner.delete_stream(paths.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.ask() {
            Ok(()) => self.inner.list(prefix),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.ask() {
            Ok(()) => self.inner.list_with_offset(prefix, offset),
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

/// An archive's place, and the storage that counts its requests.
pub(crate) fn judged(storage: &Storage) -> (Place, Arc<Judged>) {
    let mut judged = None;
    let place = storage.place().through(|inner| {
        let new = Arc::new(Judged {
            inner,
            is_down: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
            held: Mutex::default(),
            panics: AtomicBool::new(false),
            replaces: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            meanwhile: Mutex::default(),
        });
        judged = Some(Arc::clone(&new));
        new
    });
    (place, judged.unwrap())
}

pub(crate) async fn read(place: &Place) -> SealedCluster {
    let reader = Reader::new(place.clone(), ReadOptions::default());
    assert_eq!(reader.clusters().await.unwrap(), ["prod"]);
    reader.open("prod").await.unwrap()
}

/// The bytes of events, by namespace and name.
pub(crate) type Shown = BTreeMap<(String, String), Bytes>;

pub(crate) fn id(record: &Record) -> (String, String) {
    let event = codec::decode_stored(&record.value, record.revision).unwrap();
    let metadata = event.metadata.unwrap();
    (metadata.namespace.unwrap(), metadata.name.unwrap())
}

/// All records of a list, in pages of this size.
pub(crate) async fn listed(store: &dyn Store, request: &ListRequest, limit: usize) -> Vec<Record> {
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

pub(crate) fn shown(records: &[Record]) -> Shown {
    let shown: Shown = records
        .iter()
        .map(|it| (id(it), it.value.clone()))
        .collect();
    assert_eq!(shown.len(), records.len(), "an event is there twice");
    shown
}

/// The names of all events by the time they were last seen, in pages of this size.
async fn latest(store: &dyn Store, request: &NewestRequest, limit: usize) -> Vec<(String, String)> {
    let records = latest_records(store, request, limit).await.0;
    records.iter().map(id).collect()
}

/// All records by the time they were last seen, in pages of this size, and the number of pages.
pub(crate) async fn latest_records(
    store: &dyn Store,
    request: &NewestRequest,
    limit: usize,
) -> (Vec<Record>, usize) {
    let mut request = request.clone();
    request.limit = limit;
    let mut all = Vec::new();
    for pages in 1.. {
        let page = store.newest(request.clone()).await.unwrap();
        assert!(page.records.len() <= limit && page.behind.is_empty());
        all.extend(page.records);
        if !page.more {
            return (all, pages);
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
    unreachable!("pages without end")
}

/// Makes the same requests to the archive and to the reader, and compares the answers.
pub(crate) async fn compare(world: &World, sealed: &SealedCluster) {
    let cluster = world.open().await;
    let (hot, past) = (cluster.store(), cluster.history());
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
    // Finds the namespaces as the server does.
    let mut namespaces: Vec<String> = Vec::new();
    let mut next = ListRequest::default().limit(1);
    while let [record] = &cold.list(next.clone()).await.unwrap().records[..] {
        namespaces.push(id(record).0);
        next.after = Some(
            [namespaces.last().unwrap().as_bytes(), b"/\xff"]
                .concat()
                .into(),
        );
    }
    assert_eq!(namespaces, NAMESPACES);
    let mut all = Shown::new();
    for request in &requests {
        let expected = shown(&listed(hot, request, 500).await);
        let mut orders = Vec::new();
        for limit in [2, 11, 500] {
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
    let now = world.clock.now().0;
    let ago = |millis| Some((now - millis, now - millis / 3));
    // An unknown time is the end of the first hour.
    let first_hours = [(0, 3_600_000), (3_600_000, 3_600_001), (-1, 7_200_000)].map(Some);
    let times = [None, ago(3_600_000 * 2), ago(1_000_000)];
    for request in &requests {
        for (number, times) in times.into_iter().chain(first_hours).enumerate() {
            let mut asked = NewestRequest {
                prefix: request.prefix.clone(),
                object: request.object.clone(),
                since: times.map(|(since, _)| UnixMillis(since)),
                until: times.map(|(_, until)| UnixMillis(until)),
                ..NewestRequest::default()
            };
            asked.reason = (number == 1).then(|| "BackOff".to_owned());
            asked.event_type = (number == 2).then(|| "Warning".to_owned());
            let expected = latest(hot, &asked, 400).await;
            // Pages of a few events only where there are few events.
            let sizes: &[usize] = if number == 0 { &[40, 400] } else { &[3, 400] };
            for limit in sizes.iter().copied() {
                assert_eq!(
                    latest(cold, &asked, limit).await,
                    expected,
                    "{asked:?} {limit}"
                );
            }
        }
    }
    compare_counts(hot, cold, world).await;
    cluster.close().await;
}

/// Compares the counts of the archive and of the reader.
async fn compare_counts(hot: &dyn Store, cold: &dyn Store, world: &World) {
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
    // The reader's counts are never less than the archive's.
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
}

/// Compares the versions of an event, in pages of several sizes. Versions observed before its name
/// was used again may have either name.
async fn same_versions(past: &ClusterHistory, sealed: &SealedCluster, key: &Bytes) {
    let nameless = |value: &Bytes| {
        let mut event = codec::decode_stored(value, 0).unwrap();
        event.metadata.as_mut().unwrap().name = None;
        event
    };
    let found = past.versions(key.clone(), None, 10_000).await;
    let found = found.unwrap().unwrap().versions;
    let expected = found.iter();
    let expected = expected.map(|it| (it.order(), it.observed_at, nameless(&it.event)));
    let expected: Vec<_> = expected.collect();
    for limit in [2, 500] {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = sealed.versions(key, after, limit).await.unwrap().unwrap();
            assert!(page.versions.len() <= limit);
            let versions = page.versions.iter();
            all.extend(versions.map(|it| (it.order(), it.observed_at, nameless(&it.event))));
            after = page.more;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all, expected, "{key:?}");
    }
}

pub(crate) async fn observe(world: &mut World, history: &mut History, versions: usize) {
    let versions = history.versions(versions);
    world.clock.advance(history.time + 1 - world.clock.now().0);
    world.import(&versions).await;
}

#[tokio::test]
async fn what_is_sealed_is_read_as_the_archive_has_it() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        let mut history = History::new(1);
        observe(&mut world, &mut history, 100).await;
        seal(&world, &place).await;
        let sealed = read(&place).await;
        let mut merged = 0;
        for round in 0..9 {
            observe(&mut world, &mut history, 40).await;
            merged += seal(&world, &place).await;
            sealed.look().await.unwrap();
            // There are several files, or one that was merged from eight and others.
            if [2, 8].contains(&round) {
                compare(&world, &sealed).await;
            }
        }
        assert_eq!(merged, 8);
    }
}

/// The author of an event chooses its times. An event with a time of 1970, or with none, is neither
/// hidden from lists nor in lists of other times.
#[tokio::test]
async fn events_of_1970_are_found_at_the_time_that_they_state() {
    let storage = Storage::folder();
    let place = storage.place();
    let mut world = World::new();
    let mut history = History::new(3);
    history.strange = &ABOUT_1970;
    for _ in 0..3 {
        observe(&mut world, &mut history, 60).await;
        seal(&world, &place).await;
    }
    compare(&world, &read(&place).await).await;
}

/// Each file has events that come last by the time that their authors state.
#[tokio::test]
async fn no_file_is_read_for_the_far_years_that_its_events_state() {
    let mut asked = Vec::new();
    for strange in [&[][..], &FAR] {
        let storage = Storage::folder();
        let (place, store) = judged(&storage);
        let mut world = World::new();
        let mut history = History::new(4);
        history.strange = strange;
        for _ in 0..6 {
            observe(&mut world, &mut history, 60).await;
            seal(&world, &place).await;
            history.time += 24 * 3_600_000;
        }
        let sealed = read(&place).await;
        store.asked();
        let cold = sealed.store();
        let page = cold.newest(NewestRequest {
            limit: 5,
            ..NewestRequest::default()
        });
        assert_eq!(page.await.unwrap().records.len(), 5);
        asked.push(store.asked());
    }
    assert_eq!(
        asked[0], asked[1],
        "requests with right times, and with far years"
    );
}

/// Seals, and returns how many files were merged. Removed files are kept for a day.
pub(crate) async fn seal(world: &World, place: &Place) -> u64 {
    let sealed = world.seal(place, SealOptions::default()).await;
    sealed.unwrap().merged
}

#[tokio::test]
async fn a_list_continues_as_it_was_while_files_are_merged() {
    for storage in Storage::all() {
        let place = storage.place();
        let mut world = World::new();
        let mut history = History::new(2);
        for _ in 0..7 {
            observe(&mut world, &mut history, 20).await;
            seal(&world, &place).await;
        }
        let sealed = read(&place).await;
        let cold = sealed.store();
        let all = listed(&*cold, &ListRequest::default(), 500).await;
        let first = cold.list(ListRequest::default().limit(5)).await.unwrap();
        assert_eq!(first.records, all[..5]);
        let rest = ListRequest::default()
            .at(first.revision)
            .after(first.records[4].key.clone())
            .limit(500);

        observe(&mut world, &mut history, 20).await;
        assert_eq!(seal(&world, &place).await, 8);
        sealed.look().await.unwrap();
        assert!(cold.revision() > first.revision);
        assert_eq!(cold.list(rest.clone()).await.unwrap().records, all[5..]);
        // A new reader reads the manifest to which the place in the list belongs.
        let other = read(&place).await;
        assert_eq!(other.identity(), sealed.identity());
        let of_other = other.store().list(rest.clone()).await.unwrap();
        assert_eq!(of_other.records, all[5..]);

        // Now the files from before the merge are deleted.
        let mut options = SealOptions::default();
        options.grace = std::time::Duration::ZERO;
        world.seal(&place, options).await.unwrap();
        let error = read(&place).await.store().list(rest.clone()).await;
        let error = error.unwrap_err();
        assert!(matches!(error, ReadError::Compacted { .. }), "{error}");
        let later = ListRequest::default()
            .at(cold.revision() + (1 << 30))
            .limit(1);
        let error = cold.list(later).await.unwrap_err();
        assert!(matches!(error, ReadError::Future { .. }), "{error}");
        compare(&world, &sealed).await;
    }
}

#[tokio::test]
async fn a_storage_that_is_down_is_said_and_waited_for() {
    for storage in Storage::each() {
        let (place, store) = judged(&storage);
        let mut world = World::new();
        observe(&mut world, &mut History::new(3), 20).await;
        seal(&world, &place).await;
        let sealed = read(&place).await;
        let cold = sealed.store();
        store.is_down.store(true, Ordering::Relaxed);
        let error = cold.list(ListRequest::default().limit(5)).await;
        let error = error.unwrap_err();
        assert!(
            matches!(error, ReadError::Fault(Fault::Storage(_))),
            "{error}"
        );
        assert!(error.to_string().contains("connection refused"), "{error}");
        let key = Bytes::from("a/x");
        assert!(sealed.versions(&key, None, 5).await.is_err());
        assert!(cold.stats().await.is_ok(), "it is not known yet");
        assert!(sealed.look().await.is_err());
        assert!(cold.stats().await.is_err());
        store.is_down.store(false, Ordering::Relaxed);
        let all = listed(&*cold, &ListRequest::default(), 5).await;
        assert!(!all.is_empty());
        sealed.look().await.unwrap();
        assert!(cold.stats().await.is_ok());
        // What was read is in the cache, so that no request is needed.
        store.asked();
        store.is_down.store(true, Ordering::Relaxed);
        assert_eq!(listed(&*cold, &ListRequest::default(), 5).await, all);
        assert_eq!(store.asked(), 0);
    }
}

#[tokio::test]
async fn a_file_that_is_damaged_is_said_and_gives_no_other_events() {
    for storage in Storage::each() {
        let place = storage.place();
        let mut world = World::new();
        observe(&mut world, &mut History::new(4), 60).await;
        seal(&world, &place).await;
        let mut long = History::new(5);
        long.noise = 400;
        long.time += 10_000_000;
        observe(&mut world, &mut long, 1200).await;
        seal(&world, &place).await;
        let manifest = newest(&place, "prod").await.unwrap();
        let whole = listed(&*read(&place).await.store(), &ListRequest::default(), 500).await;
        let whole = shown(&whole);
        let mut random = fastrand::Rng::with_seed(6);
        let mut lens = Vec::new();
        for file in &manifest.files {
            let path = storage.file(&format!("prod/{}", file.path));
            let bytes = std::fs::read(&path).unwrap();
            lens.push(file.bytes);
            let is_long = file.bytes > 256 << 10;
            for round in 0..24 {
                let mut torn = bytes.clone();
                match round % 3 {
                    // The file has another length.
                    0 => torn.truncate(random.usize(..bytes.len())),
                    // The end of the file is damaged, which states where everything else is.
                    1 => {
                        let at = bytes.len() - 1 - random.usize(..20_000.min(bytes.len()));
                        torn[at] ^= 1 << random.u8(..8);
                    }
                    _ => torn[random.usize(..bytes.len())] ^= 1 << random.u8(..8),
                }
                std::fs::write(&path, torn).unwrap();
                let sealed = read(&place).await;
                let page = sealed.store().list(ListRequest::default().limit(500)).await;
                match page {
                    // A long file is not read as a whole, so its damage may not matter.
                    Ok(page) if is_long => {
                        assert!(page.records.iter().all(|it| whole.contains_key(&id(it))));
                    }
                    Ok(_) => panic!("{round}: a file of {} bytes was read", file.bytes),
                    Err(error) => {
                        // The storage refuses a range beyond the end of a file.
                        assert!(matches!(error, ReadError::Fault(_)), "{error}");
                        assert!(error.to_string().contains(&file.path), "{error}");
                    }
                }
            }
            std::fs::write(&path, bytes).unwrap();
        }
        assert!(
            lens[0] < 256 << 10 && lens[1] > 256 << 10,
            "a short one and a long one: {lens:?}"
        );
    }
}

/// All counts of a time range, page by page.
async fn counts(store: &dyn Store, since: Option<i64>, until: Option<i64>) -> Vec<Count> {
    let mut request = CountsRequest {
        since: since.map(UnixMillis),
        until: until.map(UnixMillis),
        limit: 7,
        ..CountsRequest::default()
    };
    let mut all: Vec<Count> = Vec::new();
    loop {
        let page = store.counts(request.clone()).await.unwrap();
        all.extend(page.counts);
        if !page.more {
            return all;
        }
        request.after = all.last().map(|last| (last.hour, last.reason.clone()));
    }
}

/// Rollups count the same as rows. Without a valid rollup, a file's rows are counted.
#[tokio::test]
async fn counts_are_those_of_rows_by_one_request_a_file() {
    for storage in Storage::each() {
        let (place, store) = judged(&storage);
        let mut world = World::new();
        let mut history = History::new(9);
        let mut tally = BTreeMap::new();
        for round in 0..11 {
            let versions = history.versions(60 + round);
            for version in &versions {
                let at: Timestamp = version["observedAt"].as_str().unwrap().parse().unwrap();
                let hour = hour_of(UnixMillis(at.as_millisecond()));
                let reason = version["event"]["reason"].as_str().unwrap().to_owned();
                *tally.entry((Reverse(hour), reason)).or_insert(0) += 1;
            }
            world.clock.advance(history.time + 1 - world.clock.now().0);
            world.import(&versions).await;
            seal(&world, &place).await;
        }
        let manifest = newest(&place, "prod").await.unwrap();
        let files = manifest.files.len();
        assert_eq!(files, 4);
        let (first, last) = (START, history.time);
        let ranges = [
            (None, None),
            (Some(first + (last - first) / 3), None),
            (None, Some(last - (last - first) / 3)),
            (Some(last - 7_200_000), Some(last - 3_600_000)),
            (Some(last + 3_600_000), None),
        ];
        let same = async |what: &str| {
            let sealed = read(&place).await;
            let mut requests = Vec::new();
            for (since, until) in ranges {
                let request = CountsRequest {
                    since: since.map(UnixMillis),
                    until: until.map(UnixMillis),
                    ..CountsRequest::default()
                };
                let expected = tally
                    .iter()
                    .filter(|((hour, _), _)| request.in_range(hour.0));
                let expected = expected.map(|((hour, reason), records)| Count {
                    hour: hour.0,
                    reason: reason.clone(),
                    records: *records,
                });
                let expected: Vec<_> = expected.collect();
                store.asked();
                let found = counts(&*sealed.store(), since, until).await;
                assert_eq!(found, expected, "{what}: {since:?} {until:?}");
                requests.push(store.asked());
            }
            requests
        };
        assert_eq!(same("rollups").await, [files, 0, 0, 0, 0]);

        // If the storage is down, that does not count as a damaged rollup.
        let sealed = read(&place).await;
        store.is_down.store(true, Ordering::Relaxed);
        let all = CountsRequest {
            limit: 10,
            ..CountsRequest::default()
        };
        let error = sealed.store().counts(all).await.unwrap_err();
        assert!(error.to_string().contains("/rollups/"), "{error}");
        store.is_down.store(false, Ordering::Relaxed);

        let path = |file: usize| {
            let rollup = manifest.files[file].rollup.as_ref().unwrap();
            storage.file(&format!("prod/{}", rollup.path))
        };
        let (missing, damaged) = (path(0), path(2));
        let mut bytes = std::fs::read(&damaged).unwrap();
        std::fs::remove_file(missing).unwrap();
        bytes[10] ^= 1;
        std::fs::write(damaged, bytes).unwrap();
        assert_eq!(same("some").await, [files + 2, 0, 0, 0, 0]);
        storage.change_manifest(manifest.number, |manifest| {
            // The file is as the manifest says, but is the rollup of another file.
            manifest["files"][1]["rollup"] = manifest["files"][3]["rollup"].clone();
            manifest["files"][0]
                .as_object_mut()
                .unwrap()
                .remove("rollup");
        });
        assert_eq!(same("another file's").await, [files + 2, 0, 0, 0, 0]);
    }
}

/// The numbers of requests that the how-to about reading an archive states.
#[tokio::test]
async fn requests_are_few() {
    for storage in Storage::each() {
        let (place, store) = judged(&storage);
        let mut world = World::new();
        let mut history = History::new(7);
        history.noise = 400;
        for _ in 0..3 {
            observe(&mut world, &mut history, 1200).await;
            seal(&world, &place).await;
        }
        let manifest = newest(&place, "prod").await.unwrap();
        assert!(manifest.files.iter().all(|file| file.bytes > 256 << 10));
        let object = ObjectSelector::Name {
            name: "x-1".into(),
            kind: Some("Pod".into()),
            namespace: Some("a".into()),
        };
        let about = NewestRequest {
            prefix: "a/".into(),
            object: Some(object.clone()),
            limit: 50,
            ..NewestRequest::default()
        };
        let latest = NewestRequest {
            limit: 50,
            ..NewestRequest::default()
        };
        let list = ListRequest::default().limit(50);
        let of_object = ListRequest::prefix("a/").object(object).limit(50);
        let all = listed(&*read(&place).await.store(), &list, 500).await;
        let (namespace, name) = id(&all[7]);
        let key: Bytes = format!("{namespace}/{name}").into();
        let since = UnixMillis(history.time - 48 * 3_600_000);
        let two_days = CountsRequest {
            since: Some(since),
            limit: 10_000,
            ..CountsRequest::default()
        };
        let of_text = NewestRequest {
            texts: vec!["nowhere".to_owned()],
            limit: 50,
            ..NewestRequest::default()
        };
        let mut asked = Vec::new();
        for question in 0..7 {
            let sealed = read(&place).await;
            let cold = sealed.store();
            store.asked();
            for _ in 0..2 {
                match question {
                    0 => drop(cold.newest(about.clone()).await.unwrap()),
                    1 => drop(cold.newest(latest.clone()).await.unwrap()),
                    2 => drop(cold.list(list.clone()).await.unwrap()),
                    3 => drop(cold.list(of_object.clone()).await.unwrap()),
                    4 => drop(cold.get(key.clone()).await.unwrap().unwrap()),
                    5 => drop(cold.counts(two_days.clone()).await.unwrap()),
                    _ => drop(cold.newest(of_text.clone()).await.unwrap()),
                }
                asked.push(store.asked());
            }
        }
        // Each pair: the requests of the first time, and of the second.
        assert_eq!(asked, [18, 0, 13, 0, 12, 0, 15, 0, 16, 0, 3, 0, 6, 0]);
    }
}

/// A continue token names a manifest by its number. The numbers go on when another data folder
/// takes the place of a lost one.
#[tokio::test]
async fn a_list_continues_as_it_was_when_another_folder_writes() {
    for storage in Storage::each() {
        let place = storage.place();
        let (mut former, mut new) = (World::new(), World::new());
        let mut history = History::new(8);
        observe(&mut former, &mut history, 40).await;
        seal(&former, &place).await;
        let sealed = read(&place).await;
        let all = listed(&*sealed.store(), &ListRequest::default(), 500).await;
        let first = sealed.store().list(ListRequest::default().limit(5)).await;
        let first = first.unwrap();
        let rest = ListRequest::default()
            .at(first.revision)
            .after(first.records[4].key.clone())
            .limit(500);

        assert!(new.take_over(&place).await.unwrap());
        observe(&mut new, &mut history, 40).await;
        seal(&new, &place).await;
        // One reader was open before, and one is new.
        sealed.look().await.unwrap();
        let other = read(&place).await;
        assert_eq!(other.identity(), sealed.identity());
        for reader in [&sealed, &other] {
            assert!(reader.store().revision() > first.revision);
            let rest = reader.store().list(rest.clone()).await.unwrap();
            assert_eq!(rest.records, all[5..]);
        }
    }
}
