//! A storage with faults, which a test chooses or which are drawn from a seed. After each change it
//! checks that every file of the newest manifest is complete.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use parking_lot::Mutex;
use tidings_objects::{Manifest, Place};
use tidings_store::clock::{Clock, ManualClock};
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64;

use super::storage::Storage;
use super::turns::Turns;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused, and does nothing.
    Refused,
    /// It is carried out, but its answer is lost.
    Unanswered,
    /// It is carried out twice, and the second answer is returned.
    Repeated,
    /// It fails as if it were lost, but is carried out later, before the request after the next
    /// one.
    Late,
    /// Only the first half of the answer is returned. Of a write to a folder, the first half of the
    /// file stays there.
    Cut,
    /// The answer comes after an hour.
    Slow,
    /// The process ends before the request is carried out, or, if `done`, after it and before the
    /// answer.
    End { done: bool },
}

/// The faults after which the writer goes on.
pub(crate) const FAULTS: [Fault; 5] = [
    Fault::Refused,
    Fault::Unanswered,
    Fault::Repeated,
    Fault::Late,
    Fault::Cut,
];

/// Which requests have a fault.
pub(crate) enum Plan {
    None,
    /// The request of this number has this fault.
    At(usize, Fault),
    /// On average one of this number of requests has a fault.
    Any(fastrand::Rng, usize),
}

/// A storage with faults, around another one.
#[derive(Clone)]
pub(crate) struct Unsure(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    /// The folder in which half of a file stays.
    folder: Option<std::path::PathBuf>,
    plan: Mutex<Plan>,
    requests: AtomicUsize,
    late: Mutex<Vec<(usize, Late)>>,
    ended: Notify,
    /// The turns of several users, and the number of this user.
    turns: Option<(Arc<Turns>, usize)>,
    known: Arc<Known>,
}

/// What all users of a storage have in common.
#[derive(Default)]
pub(crate) struct Known {
    /// The clock of the storage, if it is not the machine's, and by it the times at which objects
    /// were written.
    clock: Option<ManualClock>,
    written: Mutex<HashMap<Path, i64>>,
    /// Files that were found complete.
    whole: Mutex<HashSet<Path>>,
}

impl Known {
    pub(crate) fn by(clock: &ManualClock) -> Arc<Self> {
        let clock = Some(clock.clone());
        Arc::new(Self {
            clock,
            ..Self::default()
        })
    }
}

enum Late {
    Put(Path, PutPayload, PutOptions),
    Delete(Path),
}

fn failed() -> Error {
    Error::Generic {
        store: "unsure",
        source: "no answer".into(),
    }
}

impl Unsure {
    pub(crate) fn new(storage: &Storage, plan: Plan) -> (Self, Place) {
        Self::among(storage, plan, Arc::default(), None)
    }

    /// The storage for one of several users.
    pub(crate) fn among(
        storage: &Storage,
        plan: Plan,
        known: Arc<Known>,
        turns: Option<(Arc<Turns>, usize)>,
    ) -> (Self, Place) {
        let folder = storage.url().starts_with("file:").then(|| storage.file(""));
        let mut unsure = None;
        let place = storage.place().through(|store| {
            let new = Self(Arc::new(Inner {
                store,
                folder,
                plan: Mutex::new(plan),
                requests: AtomicUsize::new(0),
                late: Mutex::default(),
                ended: Notify::new(),
                turns,
                known,
            }));
            unsure = Some(new.clone());
            Arc::new(new)
        });
        (unsure.unwrap(), place)
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Waits until the process is to end.
    pub(crate) async fn ended(&self) {
        self.0.ended.notified().await;
    }

    /// Carries out the delayed requests now.
    pub(crate) async fn arrive(&self) {
        self.arrive_before(usize::MAX).await;
    }

    async fn arrive_before(&self, number: usize) {
        while let Some(due) = self.due(number) {
            // Nobody reads these answers any more.
            match due {
                Late::Put(to, bytes, how) => drop(self.put(&to, bytes, how).await),
                Late::Delete(path) => drop(self.remove(&path).await),
            }
        }
    }

    fn due(&self, number: usize) -> Option<Late> {
        let mut late = self.0.late.lock();
        let due = late.iter().position(|(at, _)| *at <= number)?;
        Some(late.remove(due).1)
    }

    /// What happens to the next request.
    async fn next(&self) -> Option<Fault> {
        if let Some((turns, who)) = &self.0.turns {
            turns.wait(*who).await;
        }
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed);
        self.arrive_before(number).await;
        match &mut *self.0.plan.lock() {
            Plan::None => None,
            Plan::At(at, fault) => (number == *at).then_some(*fault),
            Plan::Any(random, of) => {
                let is_well = random.usize(..*of) > 0;
                (!is_well).then(|| FAULTS[random.usize(..FAULTS.len())])
            }
        }
    }

    fn later(&self, what: Late) {
        self.0.late.lock().push((self.requests() + 1, what));
    }

    async fn end<T>(&self) -> T {
        self.0.ended.notify_one();
        std::future::pending().await
    }

    async fn put(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        let put = self.0.store.put_opts(to, bytes, how).await?;
        if let Some(clock) = &self.0.known.clock {
            let now = clock.now().0;
            self.0.known.written.lock().insert(to.clone(), now);
        }
        if to.as_ref().contains("/manifests/") {
            self.look(to).await;
        }
        Ok(put)
    }

    async fn remove(&self, path: &Path) -> Result<()> {
        self.0.store.delete(path).await?;
        self.0.known.whole.lock().remove(path);
        self.look(path).await;
        Ok(())
    }

    /// Fails the test if the newest manifest names a file that is incomplete.
    async fn look(&self, of: &Path) {
        let store = &self.0.store;
        let cluster = of.as_ref().rsplitn(3, '/').nth(2).unwrap();
        let manifests = Path::from(format!("{cluster}/manifests"));
        let found: Vec<_> = store.list(Some(&manifests)).try_collect().await.unwrap();
        let newest = found.into_iter().map(|found| found.location).max().unwrap();
        let bytes = store.get(&newest).await.unwrap().bytes().await.unwrap();
        let manifest: Manifest = serde_json::from_slice(&bytes).unwrap();
        let files = manifest.files.iter();
        let rollups = files.clone().filter_map(|file| file.rollup.as_ref());
        let rollups = rollups.map(|rollup| (&rollup.path, &rollup.checksum));
        let files = files.map(|file| (&file.path, &file.checksum));
        for (path, checksum) in files.chain(rollups) {
            let path = Path::from(format!("{cluster}/{path}"));
            if self.0.known.whole.lock().contains(&path) {
                continue;
            }
            let bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
            assert_eq!(format!("{:016x}", xxh3_64(&bytes)), *checksum, "{path}");
            self.0.known.whole.lock().insert(path);
        }
    }

    /// The object's metadata with its time by the storage's clock.
    fn dated(&self, mut found: ObjectMeta) -> ObjectMeta {
        if self.0.known.clock.is_some() {
            let at = self.0.known.written.lock().get(&found.location).copied();
            // The clocks of tests are behind the machine's, so the time is moved back.
            let since = found.last_modified.timestamp_millis() - at.unwrap_or(0);
            found.last_modified -= Duration::from_millis(since.unsigned_abs());
        }
        found
    }

    /// Applies the fault of the next request, which reads. Returns whether its answer is to be cut
    /// in half.
    async fn is_cut(&self) -> Result<bool> {
        match self.next().await {
            Some(Fault::Refused | Fault::Unanswered | Fault::Late) => return Err(failed()),
            Some(Fault::Slow) => tokio::time::sleep(HOUR).await,
            Some(Fault::End { .. }) => self.end().await,
            Some(Fault::Cut) => return Ok(true),
            None | Some(Fault::Repeated) => {}
        }
        Ok(false)
    }

    async fn listed(
        self,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> Result<BoxStream<'static, Result<ObjectMeta>>> {
        let is_cut = self.is_cut().await?;
        let found: Vec<_> = listed.try_collect().await?;
        let mut found: Vec<_> = found.into_iter().map(|it| Ok(self.dated(it))).collect();
        if is_cut {
            found.truncate(found.len() / 2);
            found.push(Err(failed()));
        }
        Ok(stream::iter(found).boxed())
    }

    async fn delete_one(self, path: Path) -> Result<Path> {
        match self.next().await {
            None => self.remove(&path).await?,
            Some(Fault::Refused | Fault::Cut) => return Err(failed()),
            Some(Fault::Unanswered) => {
                self.remove(&path).await?;
                return Err(failed());
            }
            Some(Fault::Repeated) => {
                self.remove(&path).await?;
                self.remove(&path).await?;
            }
            Some(Fault::Late) => {
                self.later(Late::Delete(path));
                return Err(failed());
            }
            Some(Fault::Slow) => {
                tokio::time::sleep(HOUR).await;
                self.remove(&path).await?;
            }
            Some(Fault::End { done }) => {
                if done {
                    self.remove(&path).await?;
                }
                self.end::<()>().await;
            }
        }
        Ok(path)
    }

    /// Leaves what a killed process leaves in a folder: half of the file.
    fn leave_half(&self, to: &Path, bytes: PutPayload) {
        if let Some(folder) = &self.0.folder {
            let bytes = Bytes::from(bytes);
            let file = folder.join(format!("{to}#1"));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }
    }
}

const HOUR: Duration = Duration::from_secs(3600);

impl std::fmt::Debug for Unsure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unsure")
    }
}

impl std::fmt::Display for Unsure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("unsure")
    }
}

#[async_trait]
impl ObjectStore for Unsure {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        match self.next().await {
            None => self.put(to, bytes, how).await,
            Some(Fault::Refused) => Err(failed()),
            Some(Fault::Cut) => {
                self.leave_half(to, bytes);
                Err(failed())
            }
            Some(Fault::Unanswered) => {
                // The object may exist after the first write, so this one may fail.
                drop(self.put(to, bytes, how).await);
                Err(failed())
            }
            Some(Fault::Repeated) => {
                self.put(to, bytes.clone(), how.clone()).await?;
                self.put(to, bytes, how).await
            }
            Some(Fault::Late) => {
                self.later(Late::Put(to.clone(), bytes, how));
                Err(failed())
            }
            Some(Fault::Slow) => {
                tokio::time::sleep(HOUR).await;
                self.put(to, bytes, how).await
            }
            Some(Fault::End { done }) => {
                if done {
                    // The object may exist after the first write, so this one may fail.
                    drop(self.put(to, bytes, how).await);
                } else {
                    self.leave_half(to, bytes);
                }
                self.end().await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        panic!("nothing is written in parts")
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Result<GetResult> {
        let is_cut = self.is_cut().await?;
        let got = self.0.store.get_opts(from, how).await?;
        if !is_cut {
            return Ok(got);
        }
        let (meta, range) = (got.meta.clone(), got.range.clone());
        let (attributes, extensions) = (got.attributes.clone(), got.extensions.clone());
        let bytes = got.bytes().await?;
        let half = bytes.slice(..bytes.len() / 2);
        let half = stream::once(async { Ok(half) }).boxed();
        Ok(GetResult {
            payload: GetResultPayload::Stream(half),
            meta,
            range,
            attributes,
            extensions,
        })
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        paths
            .and_then(move |path| this.clone().delete_one(path))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.clone().listed(self.0.store.list(prefix));
        listed.try_flatten_stream().boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let found = self.0.store.list_with_offset(prefix, offset);
        self.clone().listed(found).try_flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        panic!("nothing is copied")
    }
}
