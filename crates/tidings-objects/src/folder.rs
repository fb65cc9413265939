//! The folder of one cluster on object storage: its manifests by number, its files, all requests.
//!
//! Invariants: a manifest is created only if none has its number; if the answer to a request was
//! lost, reading finds out whether it succeeded. Each operation ends within [`OPERATION_MAX`].

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use xxhash_rust::xxh3::xxh3_64;

use crate::foreign::{self, Foreign, NUMBER_MAX};
use crate::manifest::{BYTES_MAX, FORM, File, Manifest, PLACEHOLDER_BYTES_MAX, Placeholder};
use crate::place::Place;
use crate::private;
use crate::unfinished::{self, LocalError, Unfinished};

/// Maximum time of an operation, with all its retries.
const OPERATION_MAX: Duration = Duration::from_secs(300);
/// Bytes of unreadable manifests after which a reader does not go back any further.
const UNREAD_BYTES_MAX: u64 = 2 * BYTES_MAX;
/// Minimum bytes that an unreadable manifest counts for, because reading it takes a request.
const UNREAD_BYTES: u64 = 64 << 10;
/// The content of the object with which the storage is probed.
const PROBE: &[u8] = b"written where there was none, so that the storage is known to support that";
/// How often a vanished newest manifest is looked up again, before that is an error.
const TRIES: usize = 3;

/// Why the object storage failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The storage refused the request, or could not be reached.
    #[error(transparent)]
    Store(#[from] Error),
    /// The storage did not answer in time.
    #[error("no answer within {} s", OPERATION_MAX.as_secs())]
    Slow,
    /// An object is longer than it may be.
    #[error("{path} has more than {bytes_max} bytes")]
    Long {
        /// The object's path.
        path: String,
        /// The maximum of its bytes.
        bytes_max: u64,
    },
    /// A local file could not be inspected or deleted.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A manifest cannot be read.
    #[error("{path}: {why}")]
    Manifest {
        /// The manifest's path.
        path: String,
        /// What is wrong with the manifest.
        why: String,
    },
    /// The storage replaces an object that it was told only to create.
    #[error(
        "the storage replaces an object that may only be created where there is none: two archives could replace each other's manifests; it has to support If-None-Match"
    )]
    Replaces,
    /// A manifest was not written, as it could not be read again.
    #[error(
        "manifest {number} {why}: nothing more is sealed until there are fewer files (--objects-ttl, --objects-quota)"
    )]
    Full {
        /// The manifest's number.
        number: u64,
        /// Which bound it exceeds.
        why: String,
    },
    /// Another manifest of this number was written meanwhile.
    #[error("manifest {number} was written by another request or archive meanwhile")]
    Taken {
        /// The manifest's number.
        number: u64,
    },
}

impl FolderError {
    /// Returns whether an object exists but is not what it should be.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Self::Manifest { .. } | Self::Long { .. })
    }

    /// Returns whether there was no answer in time, even if the client gave up before the
    /// operation.
    pub(crate) fn is_slow(&self) -> bool {
        match self {
            Self::Slow => true,
            Self::Store(error) => had_no_answer(error),
            _ => false,
        }
    }
}

/// The folder of one cluster; see the module documentation.
#[derive(Debug)]
pub(crate) struct Folder {
    store: Arc<dyn ObjectStore>,
    cluster: String,
    root: Path,
    /// The folder's path on this machine, if objects are local files.
    local: Option<PathBuf>,
    /// The greatest number of a manifest seen so far.
    known: AtomicU64,
    /// Whether the storage is known to create an object only where there is none.
    is_probed: AtomicBool,
    /// Bytes of the manifest that was read or written last.
    manifest_bytes: AtomicU64,
    foreign: Arc<Foreign>,
}

/// The newest manifest that can be read, for readers.
pub(crate) struct Readable {
    pub(crate) manifest: Manifest,
    /// Why a newer manifest cannot be read, if there is one. It does not remove deleted events from
    /// files.
    pub(crate) newer: Option<FolderError>,
}

/// A manifest as the storage lists it: with its length, and when it was written. While these stay
/// the same, so does its content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    pub(crate) number: u64,
    object: ObjectMeta,
}

/// The result of [`Folder::newest_readable`].
pub(crate) enum Newest {
    Readable(Box<Readable>),
    Unreadable(Unreadable),
}

/// The newest manifest cannot be read, and no earlier one may stand in for it.
pub(crate) struct Unreadable {
    /// Why the newest manifest cannot be read.
    pub(crate) error: FolderError,
    /// The numbers of all manifests.
    numbers: HashSet<u64>,
}

impl Unreadable {
    /// Returns whether no manifest after a known one can have removed deleted events from files.
    pub(crate) fn has_all_of(&self, known: &Manifest) -> bool {
        stands_in(known, &self.numbers)
    }
}

/// Returns whether no manifest after this one can have removed deleted events from files, whatever
/// its content. A writer writes manifests one after the other. The next one does that only if this
/// one announces it; those after the next may do it.
fn stands_in(manifest: &Manifest, numbers: &HashSet<u64>) -> bool {
    let has = |behind: u64| numbers.contains(&manifest.number.saturating_add(behind));
    has(0) && (!has(1) || manifest.purging == Some(false) && !has(2))
}

impl Folder {
    pub(crate) fn new(place: &Place, cluster: &str) -> Self {
        Self {
            store: Arc::clone(&place.store),
            cluster: cluster.to_owned(),
            root: place.prefix.clone().join(cluster),
            local: place.folder.as_ref().map(|folder| folder.join(cluster)),
            known: AtomicU64::new(0),
            is_probed: AtomicBool::new(false),
            manifest_bytes: AtomicU64::new(0),
            foreign: Arc::clone(&place.foreign),
        }
    }

    /// Returns the bytes of the newest known manifest.
    pub(crate) fn manifest_bytes(&self) -> u64 {
        self.manifest_bytes.load(Ordering::Relaxed)
    }

    fn manifests(&self) -> Path {
        self.root.clone().join("manifests")
    }

    fn manifest(&self, number: u64) -> Path {
        self.manifests().join(format!("{number:020}.json"))
    }

    /// Returns the path of a file that a manifest names.
    pub(crate) fn path(&self, file: &str) -> Path {
        let steps = file.split('/');
        steps.fold(self.root.clone(), Path::join)
    }

    /// Reads the manifest with the greatest number, if there is any.
    pub(crate) async fn newest(&self) -> Result<Option<Manifest>, FolderError> {
        let mut tries = TRIES;
        loop {
            let Some(number) = self.newest_number().await? else {
                return Ok(None);
            };
            match self.read(number).await {
                // The manifest was deleted meanwhile, since there are newer ones.
                Err(FolderError::Store(Error::NotFound { .. })) if tries > 0 => tries -= 1,
                Err(error) => return Err(error),
                Ok(manifest) => {
                    self.known.fetch_max(number, Ordering::Relaxed);
                    return Ok(Some(manifest));
                }
            }
        }
    }

    /// Reads the newest manifest that can be read, for readers, who change nothing. If the newest
    /// is unreadable, the one before it stands in, unless the newest may have purged deleted
    /// events: a stand-in would show them again.
    pub(crate) async fn newest_readable(&self) -> Result<Option<Newest>, FolderError> {
        let error = match self.newest().await {
            Err(error) if error.is_unreadable() => error,
            newest => {
                return Ok(newest?.map(|manifest| {
                    let newer = None;
                    Newest::Readable(Box::new(Readable { manifest, newer }))
                }));
            }
        };
        let listed = self.list("manifests").await?;
        let listed = listed.iter();
        let mut listed: Vec<(u64, u64)> = listed
            .filter_map(|found| Some((number(found)?, found.size)))
            .collect();
        listed.sort_unstable();
        let numbers: HashSet<u64> = listed.iter().map(|(number, _)| *number).collect();
        let last = listed.last().map(|(number, _)| *number);
        let mut left = UNREAD_BYTES_MAX;
        for (number, size) in listed.into_iter().rev() {
            match self.read(number).await {
                Err(error) if error.is_unreadable() => {
                    // A manifest that is longer than allowed is not read.
                    let size = if size > BYTES_MAX { 0 } else { size };
                    left = left.saturating_sub(size.max(UNREAD_BYTES));
                    if left == 0 {
                        break;
                    }
                }
                manifest => {
                    let manifest = manifest?;
                    if !stands_in(&manifest, &numbers) {
                        break;
                    }
                    let newer = (Some(number) != last).then_some(error);
                    return Ok(Some(Newest::Readable(Box::new(Readable {
                        manifest,
                        newer,
                    }))));
                }
            }
        }
        Ok(Some(Newest::Unreadable(Unreadable { error, numbers })))
    }

    /// Finds the greatest number of a manifest.
    async fn newest_number(&self) -> Result<Option<u64>, FolderError> {
        let newest = self.newest_listed().await?;
        Ok(newest.map(|newest| newest.number))
    }

    /// Finds the manifest with the greatest number, without reading it. It lists only from the last
    /// known manifest on, which is not deleted while it is among the newest ones, and lists all if
    /// that finds none.
    pub(crate) async fn newest_listed(&self) -> Result<Option<Listed>, FolderError> {
        let known = self.known.load(Ordering::Relaxed);
        let before = self.manifest(known.saturating_sub(1));
        let newest = |found: Vec<ObjectMeta>| {
            let found = found.into_iter().filter_map(|object| {
                let number = number(&object)?;
                Some(Listed { number, object })
            });
            found.max_by_key(|found| found.number)
        };
        if known > 0 {
            let later = self
                .store
                .list_with_offset(Some(&self.manifests()), &before);
            let later = within(later.try_collect::<Vec<_>>()).await?;
            let found = newest(self.own("manifests", later));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(newest(self.list("manifests").await?))
    }

    /// Reads a manifest by its number.
    pub(crate) async fn read(&self, number: u64) -> Result<Manifest, FolderError> {
        let path = self.manifest(number);
        let wrong = |why: String| FolderError::Manifest {
            path: path.to_string(),
            why,
        };
        let bytes = self.get(&path, BYTES_MAX).await?;
        if is_emptied(&bytes) {
            let source = "it was emptied, as it named deleted events".into();
            let path = path.to_string();
            return Err(Error::NotFound { path, source }.into());
        }
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if manifest.form != FORM || manifest.number != number {
            return Err(wrong(format!(
                "it says form {} and number {}, expected form {FORM} and number {number}",
                manifest.form, manifest.number
            )));
        }
        if manifest.cluster != self.cluster {
            return Err(wrong(format!(
                "it is of cluster {:?}, expected {:?}",
                manifest.cluster, self.cluster
            )));
        }
        if let Some(why) = manifest.fault() {
            return Err(wrong(why));
        }
        let len = bytes.len() as u64;
        self.manifest_bytes.store(len, Ordering::Relaxed);
        Ok(manifest.read_from(&bytes))
    }

    /// Writes a manifest, unless there is one of its number or it could not be read again.
    pub(crate) async fn commit(&self, manifest: &Manifest) -> Result<(), FolderError> {
        let number = manifest.number;
        let full = |why| Err(FolderError::Full { number, why });
        if number > NUMBER_MAX {
            return full("has no successor".to_owned());
        }
        let bytes = manifest.encode();
        let len = bytes.len() as u64;
        if len > BYTES_MAX {
            return full(format!(
                "would have {len} bytes, of {BYTES_MAX} that are read"
            ));
        }
        if let Some(why) = manifest.fault() {
            return full(format!("could not be read again: {why}"));
        }
        match self.create(&self.manifest(number), bytes.into()).await {
            Ok(()) => {
                self.manifest_bytes.store(len, Ordering::Relaxed);
                Ok(())
            }
            // The answer may have been lost, or it may be the answer to a retry of a request that
            // succeeded.
            Err(error) => match self.read(number).await {
                Ok(found) if found.id == manifest.id => Ok(()),
                Ok(_) => Err(FolderError::Taken { number }),
                Err(_) => Err(error),
            },
        }
    }

    /// Replaces an old manifest by a placeholder that names nothing.
    pub(crate) async fn empty(&self, number: u64) -> Result<(), FolderError> {
        let emptied = Placeholder {
            form: FORM,
            number,
            emptied: true,
        };
        // This cannot fail: numbers can always be written.
        let bytes = serde_json::to_vec(&emptied).unwrap_or_default();
        self.put(&self.manifest(number), bytes.into(), PutMode::Overwrite)
            .await
    }

    /// Finds out, once, whether the storage creates an object only where there is none. Without
    /// that, two writers could replace each other's manifests. The probe's object stays for the
    /// next process.
    pub(crate) async fn probe(&self) -> Result<(), FolderError> {
        let path = self.root.clone().join("probe");
        for _ in 0..2 {
            if self.is_probed.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.create(&path, Bytes::from_static(PROBE)).await {
                Err(FolderError::Store(
                    Error::AlreadyExists { .. } | Error::Precondition { .. },
                )) => {
                    self.is_probed.store(true, Ordering::Relaxed);
                }
                done => done?,
            }
        }
        if self.is_probed.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(FolderError::Replaces)
    }

    /// Writes an object where there is none.
    pub(crate) async fn create(&self, path: &Path, bytes: Bytes) -> Result<(), FolderError> {
        self.put(path, bytes, PutMode::Create).await
    }

    async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<(), FolderError> {
        let file = self.local_file(path);
        let folder = file.as_deref().and_then(std::path::Path::parent);
        if let Some(folder) = folder {
            private::create_folder(folder).map_err(|error| LocalError::at(folder, error))?;
        }
        let payload = PutPayload::from(bytes);
        let put = self.store.put_opts(path, payload, mode.into());
        within(put).await?;
        if let Some((folder, file)) = folder.zip(file.as_deref()) {
            private::close_file(folder, file);
        }
        Ok(())
    }

    /// Returns the object's path on this machine, if objects are local files.
    fn local_file(&self, path: &Path) -> Option<PathBuf> {
        let steps = path.prefix_match(&self.root)?;
        let local = self.local.clone()?;
        Some(steps.fold(local, |folder, step| folder.join(step.as_ref())))
    }

    /// Reads an object of at most `bytes_max` bytes.
    pub(crate) async fn get(&self, path: &Path, bytes_max: u64) -> Result<Bytes, FolderError> {
        let get = async {
            let found = self.store.get(path).await?;
            if found.meta.size > bytes_max {
                return Ok(None);
            }
            found.bytes().await.map(Some)
        };
        let bytes = within(get).await?;
        bytes.ok_or_else(|| FolderError::Long {
            path: path.to_string(),
            bytes_max,
        })
    }

    /// Reads a range of a file's bytes; fewer if the answer ends too early.
    pub(crate) async fn range(&self, path: &str, range: Range<u64>) -> Result<Bytes, FolderError> {
        within(self.store.get_range(&self.path(path), range)).await
    }

    /// Reads a whole file and compares its checksum; the inner error says what is wrong with it.
    pub(crate) async fn whole(
        &self,
        path: &str,
        bytes: u64,
        checksum: &str,
    ) -> Result<Result<Bytes, String>, FolderError> {
        let bytes = match self.get(&self.path(path), bytes).await {
            Err(FolderError::Store(Error::NotFound { .. })) => {
                return Ok(Err("it is not there".into()));
            }
            Err(error @ FolderError::Long { .. }) => return Ok(Err(error.to_string())),
            bytes => bytes?,
        };
        if format!("{:016x}", xxh3_64(&bytes)) != checksum {
            return Ok(Err("its bytes are not those that were written".into()));
        }
        Ok(Ok(bytes))
    }

    /// Returns the paths of all files that a manifest names, also of those to be deleted.
    pub(crate) fn named(&self, manifest: &Manifest) -> HashSet<Path> {
        let named = manifest.files.iter().flat_map(File::paths);
        let removed = manifest.removed.iter();
        let named = named.chain(removed.map(|removed| removed.path.as_str()));
        named.map(|path| self.path(path)).collect()
    }

    /// Returns the files that a process was writing when it ended.
    pub(crate) async fn unfinished(&self) -> Result<Vec<Unfinished>, FolderError> {
        let Some(local) = &self.local else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for folder in ["", "events", "rollups", "manifests"] {
            found.extend(unfinished::find(local.join(folder)).await?);
        }
        Ok(found)
    }

    /// Deletes an object, if it exists.
    pub(crate) async fn delete(&self, path: &Path) -> Result<(), FolderError> {
        match within(self.store.delete(path)).await {
            Err(FolderError::Store(Error::NotFound { .. })) => Ok(()),
            done => done,
        }
    }

    /// Lists all files and all rollups.
    pub(crate) async fn files(&self) -> Result<Vec<ObjectMeta>, FolderError> {
        let mut files = self.list("events").await?;
        files.extend(self.list("rollups").await?);
        Ok(files)
    }

    /// Lists the objects of one of its folders, without those whose names no archive gives.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, FolderError> {
        let path = self.root.clone().join(folder);
        let found = within(self.store.list(Some(&path)).try_collect()).await?;
        Ok(self.own(folder, found))
    }

    fn own(&self, folder: &str, mut found: Vec<ObjectMeta>) -> Vec<ObjectMeta> {
        let path = self.root.clone().join(folder);
        found.retain(|found| {
            let parts = found.location.prefix_match(&path);
            let mut parts = parts.into_iter().flatten();
            let name = parts.next().filter(|_| parts.next().is_none());
            let is_own = name.is_some_and(|name| match folder {
                "manifests" => foreign::number(name.as_ref()).is_some(),
                _ => foreign::is_file(name.as_ref()),
            });
            if !is_own {
                self.foreign.say(&found.location);
            }
            is_own
        });
        found
    }
}

/// Returns whether these bytes are a placeholder of a manifest.
fn is_emptied(bytes: &[u8]) -> bool {
    let emptied = || serde_json::from_slice::<Placeholder>(bytes);
    bytes.len() as u64 <= PLACEHOLDER_BYTES_MAX && emptied().is_ok_and(|it| it.emptied)
}

/// Returns the number of a manifest, by its path.
pub(crate) fn number(found: &ObjectMeta) -> Option<u64> {
    foreign::number(found.location.filename()?)
}

/// Returns whether the client waited for an answer in vain.
fn had_no_answer(error: &Error) -> bool {
    let mut error: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return error.kind() == HttpErrorKind::Timeout;
        }
        match error.source() {
            Some(source) => error = source,
            None => return false,
        }
    }
}

async fn within<T>(operation: impl Future<Output = Result<T, Error>>) -> Result<T, FolderError> {
    match tokio::time::timeout(OPERATION_MAX, operation).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(FolderError::Slow),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use object_store::local::LocalFileSystem;
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn what_the_client_waited_for_in_vain_is_slow() {
        let failed = |kind| {
            let source = Box::new(HttpError::new(kind, std::io::Error::other("on purpose")));
            let store = "S3";
            FolderError::from(Error::Generic { store, source })
        };
        assert!(FolderError::Slow.is_slow());
        assert!(failed(HttpErrorKind::Timeout).is_slow());
        assert!(!failed(HttpErrorKind::Connect).is_slow());
    }

    #[tokio::test]
    async fn a_manifest_that_could_not_be_read_again_is_not_written() {
        let store = Arc::new(InMemory::new());
        let place = Place::of(Arc::clone(&store) as Arc<dyn ObjectStore>, "memory:");
        let folder = Folder::new(&place, "prod");
        let empty = || {
            Manifest::empty("prod", "one", "archive".to_owned())
                .next("a".into(), Timestamp::UNIX_EPOCH)
        };
        let long = "w".repeat(BYTES_MAX as usize);
        let foreign = File::at("events/notes.txt");
        for manifest in [
            Manifest {
                writer: long,
                ..empty()
            },
            Manifest {
                files: vec![foreign],
                ..empty()
            },
            Manifest {
                number: NUMBER_MAX + 1,
                ..empty()
            },
        ] {
            let number = manifest.number;
            let written = folder.commit(&manifest).await;
            assert!(
                matches!(written, Err(FolderError::Full { .. })),
                "{written:?}"
            );
            assert!(store.head(&folder.manifest(number)).await.is_err());
        }
        let last = Manifest {
            number: NUMBER_MAX,
            ..empty()
        };
        folder.commit(&last).await.unwrap();
        assert_eq!(folder.newest().await.unwrap(), Some(last));
        let bytes = store.head(&folder.manifest(NUMBER_MAX)).await.unwrap().size;
        assert_eq!(folder.manifest_bytes(), bytes);
    }

    #[test]
    fn files_are_below_the_prefix_as_it_is() {
        for prefix in ["a", "a~b", "my%20archive/x"] {
            let folder = Folder {
                store: Arc::new(LocalFileSystem::new()),
                cluster: "prod".to_owned(),
                root: Path::parse(prefix).unwrap().join("prod"),
                local: None,
                known: AtomicU64::new(0),
                is_probed: AtomicBool::new(false),
                manifest_bytes: AtomicU64::new(0),
                foreign: Arc::default(),
            };
            let path = folder.path("events/1.parquet");
            assert_eq!(path.as_ref(), format!("{prefix}/prod/events/1.parquet"));
            assert!(path.prefix_matches(&folder.root));
        }
    }
}
