//! Where an archive is in a test: in a folder, and in a bucket of an S3 server. Both have their
//! objects as files, which a test may look at and damage.

use std::path::{Path, PathBuf};

use tidings_objects::Place;
use tidings_testing::copy_folder;
use tidings_testing::s3::{BUCKET, S3Server};

/// See the module documentation.
pub(crate) struct Storage {
    folder: tempfile::TempDir,
    server: Option<S3Server>,
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

impl Storage {
    pub(crate) fn folder() -> Self {
        let (folder, server) = (temporary(), None);
        Self { folder, server }
    }

    pub(crate) fn s3() -> Self {
        let folder = temporary();
        let server = Some(S3Server::start(folder.path()));
        Self { folder, server }
    }

    /// One of each kind.
    pub(crate) fn each() -> [Self; 2] {
        [Self::folder(), Self::s3()]
    }

    /// Another one of the same kind, which has the same objects.
    pub(crate) fn copy(&self) -> Self {
        let copy = match self.server {
            None => Self::folder(),
            Some(_) => Self::s3(),
        };
        copy_folder(self.folder.path(), copy.folder.path());
        copy
    }

    pub(crate) fn url(&self) -> String {
        match self.server {
            None => format!("file://{}", self.folder.path().display()),
            Some(_) => format!("s3://{BUCKET}/archive"),
        }
    }

    pub(crate) fn place(&self) -> Place {
        let url = self.url();
        let opened = match &self.server {
            None => Place::open(&url),
            Some(server) => Place::open_with(&url, &server.environment()),
        };
        opened.unwrap()
    }

    /// The file of an object, by its path below the URL.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        let root = self.folder.path();
        match self.server {
            None => root.join(path),
            Some(_) => root.join(BUCKET).join("archive").join(path),
        }
    }

    /// How many files of events and rollups there are, finished or not.
    pub(crate) fn files(&self) -> usize {
        let read = |folder: &Path| std::fs::read_dir(folder).map_or(0, Iterator::count);
        read(&self.file("prod/events")) + read(&self.file("prod/rollups"))
    }

    /// Changes what the newest manifest says, as JSON.
    pub(crate) fn change_manifest(&self, number: u64, change: impl FnOnce(&mut serde_json::Value)) {
        let path = self.file(&format!("prod/manifests/{number:020}.json"));
        let mut manifest = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        std::fs::write(&path, manifest.to_string()).unwrap();
    }
}
