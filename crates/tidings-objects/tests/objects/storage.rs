//! The storage of an archive in a test: a folder, a bucket of an S3 server, or a bucket of another
//! cloud's emulator. In folders and on S3 the objects are files, which a test may read and damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tidings_objects::Place;
use tidings_testing::copy_folder;
use tidings_testing::emulators::{Cloud, Emulator};
use tidings_testing::s3::{BUCKET, S3Server};

/// The storage of one archive.
pub(crate) struct Storage {
    /// The folder of the objects, if they are files.
    folder: tempfile::TempDir,
    at: At,
}

enum At {
    Folder,
    S3(S3Server),
    /// A bucket of its own in the emulator. Copies have other buckets.
    Emulator(Arc<Emulator>, String),
}

/// A folder for a test, in memory if possible.
pub(crate) fn temporary() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.unwrap()
}

/// Replaces the bytes of a file, or deletes it.
pub(crate) fn put(file: &Path, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => std::fs::write(file, bytes).unwrap(),
        None => std::fs::remove_file(file).unwrap(),
    }
}

/// Waits for a future on another thread, so that the test's runtime and clock do not matter.
fn wait<T: Send>(something: impl Future<Output = T> + Send) -> T {
    let run = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(something)
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

impl Storage {
    pub(crate) fn folder() -> Self {
        let (folder, at) = (temporary(), At::Folder);
        Self { folder, at }
    }

    pub(crate) fn s3() -> Self {
        let folder = temporary();
        let at = At::S3(S3Server::start(folder.path()));
        Self { folder, at }
    }

    /// A storage in a cloud's emulator; `None` if that is not on this machine.
    pub(crate) fn emulated(cloud: Cloud) -> Option<Self> {
        Emulator::start(cloud).map(|emulator| Self::bucket(Arc::new(emulator)))
    }

    fn bucket(emulator: Arc<Emulator>) -> Self {
        let folder = temporary();
        let bucket = emulator.bucket();
        let at = At::Emulator(emulator, bucket);
        Self { folder, at }
    }

    /// A storage of each kind whose objects are files.
    pub(crate) fn each() -> [Self; 2] {
        [Self::folder(), Self::s3()]
    }

    /// A storage of each kind that is on this machine.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::from(Self::each());
        all.extend(Self::clouds());
        all
    }

    /// A storage in each emulator that is on this machine.
    pub(crate) fn clouds() -> Vec<Self> {
        let clouds = [Cloud::Azure, Cloud::Google].into_iter();
        clouds.filter_map(Self::emulated).collect()
    }

    /// A new storage of the same kind with the same objects.
    pub(crate) fn copy(&self) -> Self {
        let copy = match &self.at {
            At::Folder => Self::folder(),
            At::S3(_) => Self::s3(),
            At::Emulator(emulator, _) => Self::bucket(Arc::clone(emulator)),
        };
        if matches!(self.at, At::Emulator(..)) {
            wait(copy_objects(self.store(), copy.store()));
        } else {
            copy_folder(self.folder.path(), copy.folder.path());
        }
        copy
    }

    pub(crate) fn url(&self) -> String {
        match &self.at {
            At::Folder => format!("file://{}", self.folder.path().display()),
            At::S3(_) => format!("s3://{BUCKET}/archive"),
            At::Emulator(emulator, bucket) => format!("{}://{bucket}/archive", emulator.scheme()),
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.open(&self.url())
    }

    /// Opens another URL in the same storage.
    pub(crate) fn open(&self, url: &str) -> Place {
        let opened = match &self.at {
            At::Folder => Place::open(url),
            At::S3(server) => Place::open_with(url, &server.environment()),
            At::Emulator(emulator, _) => {
                let settings = emulator.environment();
                let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
                Place::open_with(url, &settings.collect::<Vec<_>>())
            }
        };
        opened.unwrap()
    }

    /// The object store that the archive's place uses.
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        store_of(self.place())
    }

    /// The file of an object, by its path below the URL.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        let root = self.folder.path();
        match self.at {
            At::Folder => root.join(path),
            At::S3(_) => root.join(BUCKET).join("archive").join(path),
            At::Emulator(..) => panic!("its objects are no files"),
        }
    }

    /// Whether an object exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        if !matches!(self.at, At::Emulator(..)) {
            return self.file(path).is_file();
        }
        let path = object_store::path::Path::from(format!("archive/{path}"));
        let store = self.store();
        wait(async move { store.head(&path).await.is_ok() })
    }

    /// The number of files of events and of rollups, finished or not.
    pub(crate) fn files(&self) -> usize {
        if !matches!(self.at, At::Emulator(..)) {
            let read = |folder: &Path| std::fs::read_dir(folder).map_or(0, Iterator::count);
            return read(&self.file("prod/events")) + read(&self.file("prod/rollups"));
        }
        let store = self.store();
        wait(async move {
            let mut files = 0;
            for folder in ["archive/prod/events", "archive/prod/rollups"] {
                files += listed(&*store, folder).await.len();
            }
            files
        })
    }

    /// Changes the JSON of the manifest with this number.
    pub(crate) fn change_manifest(&self, number: u64, change: impl FnOnce(&mut serde_json::Value)) {
        let path = self.file(&format!("prod/manifests/{number:020}.json"));
        let mut manifest = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        std::fs::write(&path, manifest.to_string()).unwrap();
    }
}

/// The object store that a place uses.
pub(crate) fn store_of(place: Place) -> Arc<dyn ObjectStore> {
    let mut asked = None;
    drop(place.through(|store| {
        asked = Some(Arc::clone(&store));
        store
    }));
    asked.unwrap()
}

/// The objects below a folder.
async fn listed(store: &dyn ObjectStore, folder: &str) -> Vec<ObjectMeta> {
    let folder = object_store::path::Path::from(folder);
    let found = store.list(Some(&folder)).try_collect();
    found.await.unwrap()
}

async fn copy_objects(from: Arc<dyn ObjectStore>, to: Arc<dyn ObjectStore>) {
    for found in listed(&*from, "archive").await {
        let path = found.location;
        let bytes = from.get(&path).await.unwrap().bytes().await.unwrap();
        to.put(&path, bytes.into()).await.unwrap();
    }
}
