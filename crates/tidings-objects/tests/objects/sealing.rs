//! What was observed is sealed once, whatever the storage does and whenever the process ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tidings_objects::{
    ContinueError, FolderError, Place, SealError, SealOptions, check, newest, take_over,
};

use super::world::World;

/// What a storage does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It refuses.
    Refused,
    /// It does it, and the answer is lost.
    Unanswered,
    /// It does it twice, and the second answer is what comes.
    Repeated,
}

/// A storage that does this with one of the requests, by their number.
#[derive(Debug)]
struct Faulty {
    inner: Arc<InMemory>,
    fault: Fault,
    at: usize,
    requests: AtomicUsize,
    faster: Faster,
}

/// What another writer does before the first manifest is written.
#[derive(Default)]
struct Faster(Mutex<Option<BoxFuture<'static, ()>>>);

impl std::fmt::Debug for Faster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faster")
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("faulty")
    }
}

fn failed() -> Error {
    Error::Generic {
        store: "faulty",
        source: "no answer".into(),
    }
}

impl Faulty {
    fn fault(&self) -> Option<Fault> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        (number == self.at).then_some(self.fault)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        if to.as_ref().contains("/manifests/") {
            let faster = self.faster.0.lock().unwrap().take();
            if let Some(faster) = faster {
                faster.await;
            }
        }
        match self.fault() {
            None => self.inner.put_opts(to, bytes, how).await,
            Some(Fault::Refused) => Err(failed()),
            Some(Fault::Unanswered) => {
                self.inner.put_opts(to, bytes, how).await?;
                Err(failed())
            }
            Some(Fault::Repeated) => {
                self.inner.put_opts(to, bytes.clone(), how.clone()).await?;
                self.inner.put_opts(to, bytes, how).await
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(to, how).await
    }

    async fn get_opts(&self, from: &Path, how: GetOptions) -> Result<GetResult> {
        match self.fault() {
            None | Some(Fault::Repeated) => self.inner.get_opts(from, how).await,
            Some(_) => Err(failed()),
        }
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let fault = self.fault();
        if fault == Some(Fault::Refused) {
            return futures::stream::once(async { Err(failed()) }).boxed();
        }
        let deleted = self.inner.delete_stream(paths);
        if fault == Some(Fault::Unanswered) {
            return deleted.map(|_| Err(failed())).boxed();
        }
        deleted
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fault() {
            None | Some(Fault::Repeated) => self.inner.list(prefix),
            Some(_) => futures::stream::once(async { Err(failed()) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, how).await
    }
}

fn place(store: &Arc<InMemory>) -> Place {
    Place::of(Arc::clone(store) as Arc<dyn ObjectStore>, "memory:///")
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_whichever_request_fails_or_is_the_last() {
    let mut options = SealOptions::default();
    // Everything that is over is deleted at once, so that deleting fails, too.
    options.grace = Duration::ZERO;
    // With the next seal, eight files are merged.
    let before = Arc::new(InMemory::new());
    let mut begun = World::new();
    for _ in 0..7 {
        begun.observe(10).await;
        begun.seal(&place(&before), options).await.unwrap();
    }
    begun.observe(10).await;
    for fault in [Fault::Refused, Fault::Unanswered, Fault::Repeated] {
        for at in 0.. {
            let store = Arc::new(before.fork());
            let mut world = begun.copy();
            let faulty = Arc::new(Faulty {
                inner: Arc::clone(&store),
                fault,
                at,
                requests: AtomicUsize::new(0),
                faster: Faster::default(),
            });
            let unsure = Place::of(Arc::clone(&faulty) as Arc<dyn ObjectStore>, "memory:///");
            // The process ends with the request that fails.
            let sealed = world.seal(&unsure, options).await;
            if faulty.requests.load(Ordering::Relaxed) <= at {
                assert_eq!(sealed.unwrap().merged, 8);
                assert!(at > 20, "there were only {at} requests");
                break;
            }
            world.seal(&place(&store), options).await.unwrap();
            world.check(&place(&store)).await;
            world.observe(10).await;
            world.seal(&place(&store), options).await.unwrap();
            world.check(&place(&store)).await;
        }
    }
}

#[tokio::test]
async fn files_are_merged_and_have_what_those_before_had() {
    let store = Arc::new(InMemory::new());
    let mut world = World::new();
    let mut options = SealOptions::default();
    options.grace = Duration::from_secs(100 * 365 * 24 * 3600);
    let mut merged = 0;
    for _ in 0..20 {
        world.observe(50).await;
        merged += world.seal(&place(&store), options).await.unwrap().merged;
        world.check(&place(&store)).await;
    }
    assert_eq!(merged, 16);
    let manifest = newest(&place(&store), "prod").await.unwrap();
    let levels: Vec<_> = manifest.files.iter().map(|file| file.level).collect();
    assert_eq!(levels, [1, 1, 0, 0, 0, 0]);
    // Those before are left for their readers.
    assert_eq!(manifest.removed.len(), 16);
    for removed in &manifest.removed {
        let path = Path::from(format!("prod/{}", removed.path));
        store.head(&path).await.unwrap();
    }
}

#[tokio::test]
async fn files_are_deleted_when_their_time_is_over_and_after_a_grace() {
    let store = Arc::new(InMemory::new());
    let mut world = World::new();
    let mut options = SealOptions::default();
    options.keep_for = Some(Duration::from_secs(3600));
    options.grace = Duration::from_secs(600);
    world.observe(30).await;
    world.seal(&place(&store), options).await.unwrap();
    let objects = || async {
        let found: Vec<_> = store.list(None).try_collect().await.unwrap();
        found
            .iter()
            .filter(|found| found.location.as_ref().contains("events"))
            .count()
    };
    assert_eq!(objects().await, 1);
    world.clock.advance(3_700_000);
    world.seal(&place(&store), options).await.unwrap();
    let manifest = newest(&place(&store), "prod").await.unwrap();
    assert_eq!((manifest.files.len(), manifest.removed.len()), (0, 1));
    assert_eq!(objects().await, 1);
    world.clock.advance(700_000);
    world.seal(&place(&store), options).await.unwrap();
    let manifest = newest(&place(&store), "prod").await.unwrap();
    assert_eq!((manifest.files.len(), manifest.removed.len()), (0, 0));
    assert_eq!(objects().await, 0);
}

#[tokio::test]
async fn another_store_does_not_go_on_with_an_archive() {
    let store = Arc::new(InMemory::new());
    let mut world = World::new();
    world.observe(10).await;
    let options = SealOptions::default();
    world.seal(&place(&store), options).await.unwrap();
    let other = tempfile::tempdir().unwrap();
    let foreign = world
        .seal_as("prod", other.path(), &place(&store), options)
        .await;
    assert!(
        matches!(foreign, Err(SealError::Foreign { .. })),
        "{foreign:?}"
    );
    // Under another name it has an archive of its own.
    world
        .seal_as("other", other.path(), &place(&store), options)
        .await
        .unwrap();
    world.check(&place(&store)).await;
}

/// Two processes with the same data folder, one of them a copy, write at the same moment: one of
/// them does not, and says so.
#[tokio::test]
async fn of_two_writers_at_once_one_fails_and_nothing_is_lost() {
    let store = Arc::new(InMemory::new());
    let options = SealOptions::default();
    let mut slower = World::new();
    slower.observe(10).await;
    slower.seal(&place(&store), options).await.unwrap();
    let mut faster = slower.copy();
    slower.observe(10).await;
    faster.observe(25).await;
    let at_once = {
        let (faster, store) = (faster.copy(), Arc::clone(&store));
        async move {
            faster.seal(&place(&store), options).await.unwrap();
        }
    };
    let contested = Arc::new(Faulty {
        inner: Arc::clone(&store),
        fault: Fault::Refused,
        at: usize::MAX,
        requests: AtomicUsize::new(0),
        faster: Faster(Mutex::new(Some(Box::pin(at_once)))),
    });
    let contested = Place::of(contested as Arc<dyn ObjectStore>, "memory:///");
    let sealed = slower.seal(&contested, options).await;
    assert!(
        matches!(
            sealed,
            Err(SealError::Folder(FolderError::Taken { number: 2 }))
        ),
        "{sealed:?}"
    );
    faster.check(&place(&store)).await;
}

/// What is wrong with an archive is found, and said.
#[tokio::test]
async fn damage_is_found() {
    let store = Arc::new(InMemory::new());
    let mut world = World::new();
    world.observe(10).await;
    world
        .seal(&place(&store), SealOptions::default())
        .await
        .unwrap();
    let manifest = newest(&place(&store), "prod").await.unwrap();
    let path = Path::from(format!("prod/{}", manifest.files[0].path));
    let whole = store.get(&path).await.unwrap().bytes().await.unwrap();
    let mut flipped = whole.to_vec();
    flipped[whole.len() / 2] ^= 1;
    let cut = whole.slice(..whole.len() - 1);
    for (bytes, why) in [(Bytes::from(flipped), "its bytes"), (cut, "its bytes")] {
        store.put(&path, bytes.into()).await.unwrap();
        let checked = check(&place(&store), "prod").await.unwrap();
        assert_eq!(checked.problems.len(), 1);
        assert!(checked.problems[0].contains(why), "{:?}", checked.problems);
    }
    store.delete(&path).await.unwrap();
    let checked = check(&place(&store), "prod").await.unwrap();
    assert!(
        checked.problems[0].contains("not there"),
        "{:?}",
        checked.problems
    );
    store.put(&path, whole.into()).await.unwrap();
    world.check(&place(&store)).await;
    let stray = Path::from("prod/events/stray.parquet");
    store.put(&stray, "x".into()).await.unwrap();
    assert_eq!(check(&place(&store), "prod").await.unwrap().leavings, 1);
    assert_eq!(place(&store).clusters().await.unwrap(), ["prod"]);
}

#[tokio::test]
async fn a_new_store_takes_the_place_of_one_that_is_lost() {
    let store = Arc::new(InMemory::new());
    let place = place(&store);
    let options = SealOptions::default();
    let (mut former, mut new) = (World::new(), World::new());
    former.observe(40).await;
    former.seal(&place, options).await.unwrap();
    let before = newest(&place, "prod").await.unwrap();

    let cluster = new.open().await;
    assert!(take_over(&place, &cluster, &new.clock).await.unwrap());
    let after = newest(&place, "prod").await.unwrap();
    assert_eq!((&after.files, after.sealed_through), (&before.files, 0));
    assert_eq!(after.writer, cluster.store_identity());
    // It is its own from then on.
    assert!(!take_over(&place, &cluster, &new.clock).await.unwrap());
    cluster.close().await;

    // The former one, should it turn up again, seals nothing more.
    former.observe(10).await;
    let fenced = former.seal(&place, options).await;
    assert!(
        matches!(fenced, Err(SealError::Foreign { .. })),
        "{fenced:?}"
    );
    let cluster = former.open().await;
    let refused = take_over(&place, &cluster, &former.clock).await;
    assert!(
        matches!(refused, Err(ContinueError::NotNew { .. })),
        "{refused:?}"
    );
    cluster.close().await;

    new.observed = 40;
    new.clock.advance(3_600_000);
    new.observe(25).await;
    new.seal(&place, options).await.unwrap();
    new.check(&place).await;
}
