//! Where an archive is in a test: in a folder, in a bucket of an S3 server, or in one of an
//! emulator of another cloud. Folders and S3 have their objects as files, which a test may look at
//! and damage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tidings_objects::Place;
use tidings_testing::copy_folder;
use tidings_testing::emulators::{Cloud, Emulator};
use tidings_testing::s3::{BUCKET, S3Server};

/// See the module documentation.
pub(crate) struct Storage {
    /// Where the files are, if objects are files.
    folder: tempfile::TempDir,
    at: At,
}

enum At {
    Folder,
    S3(S3Server),
    /// In a bucket of its own; copies have others.
    Emulator(Arc<Emulator>, String),
}

/// A folder for a test, in memory where that can be.
pub(crate) fn temporary() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.unwrap()
}

/// Damages a file: puts other bytes in its place, or nothing.
pub(crate) fn put(file: &Path, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => std::fs::write(file, bytes).unwrap(),
        None => std::fs::remove_file(file).unwrap(),
    }
}

/// Waits for something, whatever time it is in the test and whatever runs there.
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

    /// One of a cloud's emulator, if that is on this machine.
    pub(crate) fn emulated(cloud: Cloud) -> Option<Self> {
        Emulator::start(cloud).map(|emulator| Self::bucket(Arc::new(emulator)))
    }

    fn bucket(emulator: Arc<Emulator>) -> Self {
        let folder = temporary();
        let bucket = emulator.bucket();
        let at = At::Emulator(emulator, bucket);
        Self { folder, at }
    }

    /// One of each kind that has files.
    pub(crate) fn each() -> [Self; 2] {
        [Self::folder(), Self::s3()]
    }

    /// One of each kind that is on this machine.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::from(Self::each());
        all.extend(Self::clouds());
        all
    }

    /// One of each emulator that is on this machine.
    pub(crate) fn clouds() -> Vec<Self> {
        let clouds = [Cloud::Azure, Cloud::Google].into_iter();
        clouds.filter_map(Self::emulated).collect()
    }

    /// Another one of the same kind, which has the same objects.
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

    /// Another place of the same storage.
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

    /// What its place asks.
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

    /// Whether there is an object.
    pub(crate) fn has(&self, path: &str) -> bool {
        if !matches!(self.at, At::Emulator(..)) {
            return self.file(path).is_file();
        }
        let path = object_store::path::Path::from(format!("archive/{path}"));
        let store = self.store();
        wait(async move { store.head(&path).await.is_ok() })
    }

    /// How many files of events and rollups there are, finished or not.
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

    /// Changes what the newest manifest says, as JSON.
    pub(crate) fn change_manifest(&self, number: u64, change: impl FnOnce(&mut serde_json::Value)) {
        let path = self.file(&format!("prod/manifests/{number:020}.json"));
        let mut manifest = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        std::fs::write(&path, manifest.to_string()).unwrap();
    }
}

/// What a place asks.
pub(crate) fn store_of(place: Place) -> Arc<dyn ObjectStore> {
    let mut asked = None;
    drop(place.through(|store| {
        asked = Some(Arc::clone(&store));
        store
    }));
    asked.unwrap()
}

/// What is below a folder.
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
