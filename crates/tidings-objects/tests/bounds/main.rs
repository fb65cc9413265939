//! Whatever is in a bucket, a reader's memory is in proportion to what it is allowed to hold, and
//! the reader reports what is damaged. The bucket has files whose headers state more than there is,
//! and real files with changed bytes.
//!
//! The allocator counts for the whole process.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::join_all;
use jiff::Timestamp;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde_json::Value;
use tidings_objects::{Filler, Forged, Place, ReadOptions, Reader, check};
use tidings_store::{CountsRequest, ListRequest, NewestRequest, ObjectSelector, ReadError};
use tidings_testing::allocations::{self, COUNTING, Counting, Peak};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

#[global_allocator]
static ALLOCATOR: Counting = COUNTING;

/// Maximum bytes that all requests to a small archive allocate in total.
const ALLOCATED_MAX: usize = 96 << 20;
/// Maximum bytes that requests at once to files with long ends hold.
const HELD_MAX: usize = 96 << 20;
/// One test measures at a time.
static MEASURING: Mutex<()> = Mutex::const_new(());
/// Number of changes to real objects.
const CHANGES: u64 = 150;
const MANIFEST: &str = "prod/manifests/00000000000000000001.json";

/// An archive with one file and its rollup.
struct Archive {
    store: Arc<InMemory>,
    manifest: Value,
}

impl Archive {
    async fn new() -> Self {
        let store = Arc::new(InMemory::new());
        let versions = (0..300).map(Filler::sample);
        let place = Place::of(Arc::clone(&store) as Arc<dyn ObjectStore>, "memory:");
        let mut filler = Filler::new(&place, "prod");
        filler.add(0, versions.collect()).await.unwrap();
        let manifest = filler.finish(Timestamp::UNIX_EPOCH).await.unwrap();
        let manifest = serde_json::to_value(manifest).unwrap();
        Self { store, manifest }
    }

    fn path(&self, of: &str) -> String {
        let path = self.manifest.pointer(&format!("/files/0{of}/path"));
        format!("prod/{}", path.unwrap().as_str().unwrap())
    }

    async fn object(&self, path: &str) -> Bytes {
        let found = self.store.get(&Path::from(path)).await.unwrap();
        found.bytes().await.unwrap()
    }

    /// The archive with other bytes for the file or its rollup, whose checksum the manifest has.
    async fn with(&self, of: &str, bytes: &[u8], rows: Option<u64>) -> Place {
        let mut manifest = self.manifest.clone();
        let file = manifest.pointer_mut(&format!("/files/0{of}")).unwrap();
        file["bytes"] = bytes.len().into();
        file["checksum"] = format!("{:016x}", xxh3_64(bytes)).into();
        if let Some(rows) = rows {
            file["rows"] = rows.into();
        }
        let store = Arc::new(self.store.fork());
        put(&store, &self.path(of), bytes).await;
        put(&store, MANIFEST, manifest.to_string().as_bytes()).await;
        Place::of(store, "memory:")
    }

    async fn with_manifest(&self, bytes: &[u8]) -> Place {
        let store = Arc::new(self.store.fork());
        put(&store, MANIFEST, bytes).await;
        Place::of(store, "memory:")
    }
}

async fn put(store: &InMemory, path: &str, bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    store.put(&Path::from(path), bytes.into()).await.unwrap();
}

/// Makes every request. Returns the errors.
async fn ask(place: &Place) -> Vec<String> {
    let mut said = Vec::new();
    match check(place, "prod").await {
        Ok(checked) => said.extend(checked.problems),
        Err(error) => said.push(error.to_string()),
    }
    let reader = Reader::new(place.clone(), ReadOptions::default());
    let cluster = match reader.open("prod").await {
        Ok(cluster) => cluster,
        Err(error) => {
            said.push(error.to_string());
            return said;
        }
    };
    let store = cluster.store();
    for request in [
        ListRequest::default().limit(1),
        ListRequest::default().limit(1000),
        ListRequest::prefix("shop-0/").limit(1000),
        ListRequest::prefix("shop-0/web.0"),
        ListRequest::default().object(ObjectSelector::Uid("uid-7".into())),
        ListRequest::default().object(ObjectSelector::Name {
            name: "web-0".into(),
            kind: Some("Pod".into()),
            namespace: None,
        }),
    ] {
        said.extend(why(store.list(request).await));
    }
    said.extend(why(store.newest(NewestRequest::default()).await));
    said.extend(why(store.counts(CountsRequest::default()).await));
    let key = Bytes::from_static(b"shop-0/web.0");
    said.extend(why(cluster.versions(&key, None, 10).await));
    cluster.coverage();
    said
}

fn why<T>(result: Result<T, ReadError>) -> Option<String> {
    result.err().map(|error| error.to_string())
}

/// The bytes that all requests allocated in total, and the errors.
async fn cost(place: &Place) -> (usize, Vec<String>) {
    let region = allocations::region();
    let said = ask(place).await;
    (region.change().bytes_allocated, said)
}

/// Changed bytes: some are set, removed, inserted, or cut off at the end.
fn changed(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.usize(1..4) {
        // The end of a file states where everything else is, so half of the changes are in its
        // second half.
        let from = if random.bool() { bytes.len() / 2 } else { 0 };
        let at = random.usize(from..bytes.len());
        match random.u8(0..8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.u8(..)),
            2 => drop(bytes.remove(at)),
            // The bit that continues a variable-length number, which becomes far greater.
            3 => bytes[at] |= 0x80,
            4 => bytes[at] = 0xff,
            5 => bytes[at] = 0,
            _ => bytes[at] ^= 1 << random.u8(0..8),
        }
        if bytes.len() < 2 {
            break;
        }
    }
    bytes
}

#[tokio::test]
async fn what_lies_in_a_bucket_takes_no_more_memory_than_it_may() {
    let _turn = MEASURING.lock().await;
    let archive = Archive::new().await;
    let well = archive
        .with("", &archive.object(&archive.path("")).await, None)
        .await;
    // The first run also makes tables that are made only once.
    cost(&well).await;
    let (bytes, said) = cost(&well).await;
    assert_eq!(said, Vec::<String>::new());
    assert!(bytes < ALLOCATED_MAX / 2, "{bytes} bytes of what is well");

    for forged in Forged::ALL {
        let file = forged.file().unwrap();
        for rows in [forged.rows(), 2] {
            let place = archive.with("", &file, Some(rows)).await;
            let (bytes, said) = cost(&place).await;
            println!(
                "{forged:?}: {} bytes, {bytes} allocated: {said:?}",
                file.len()
            );
            assert!(bytes < ALLOCATED_MAX, "{forged:?}: {bytes} bytes");
            let path = archive.path("");
            let path = path.trim_start_matches("prod/");
            assert!(said.iter().any(|why| why.contains(path)), "{said:?}");
        }
        // The file has other columns than a rollup.
        let place = archive.with("/rollup", &file, None).await;
        let (bytes, _) = cost(&place).await;
        assert!(
            bytes < ALLOCATED_MAX,
            "{forged:?} as a rollup: {bytes} bytes"
        );
    }

    let mut refused = 0;
    for of in ["", "/rollup"] {
        let real = archive.object(&archive.path(of)).await;
        for seed in 0..CHANGES {
            let mut random = fastrand::Rng::with_seed(seed);
            let place = archive.with(of, &changed(&real, &mut random), None).await;
            let (bytes, said) = cost(&place).await;
            refused += usize::from(!said.is_empty());
            assert!(
                bytes < ALLOCATED_MAX,
                "{of} {seed}: {bytes} bytes: {said:?}"
            );
        }
    }
    let real = archive.manifest.to_string();
    for seed in 0..CHANGES {
        let mut random = fastrand::Rng::with_seed(seed);
        let place = archive
            .with_manifest(&changed(real.as_bytes(), &mut random))
            .await;
        let (bytes, said) = cost(&place).await;
        refused += usize::from(!said.is_empty());
        assert!(
            bytes < ALLOCATED_MAX,
            "manifest {seed}: {bytes} bytes: {said:?}"
        );
    }
    assert!(refused > 250, "{refused}");
}

/// The end of each file has almost eight mebibytes, and many files are opened at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_ends_of_many_files_are_not_in_memory_at_once() {
    let _turn = MEASURING.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let place = Place::create(&format!("file://{}", folder.path().display())).unwrap();
    Forged::Kind.put(&place, "prod", 40).await.unwrap();
    let reader = Reader::new(place, ReadOptions::default());
    let store = reader.open("prod").await.unwrap().store();
    let peak = Peak::default();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                peak.look();
                std::thread::yield_now();
            }
        });
        let asked = (0..6).map(|_| store.list(ListRequest::default().limit(500)));
        let answers = tokio::task::block_in_place(|| Handle::current().block_on(join_all(asked)));
        is_over.store(true, Ordering::Relaxed);
        assert!(answers.into_iter().all(|answer| why(answer).is_some()));
    });
    assert!(peak.bytes() < HELD_MAX, "{} bytes", peak.bytes());
}
