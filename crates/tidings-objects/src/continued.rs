//! Lets a data folder continue the sealed archive of a lost one.
//!
//! It can also be the same folder, restored from a copy that is older than the archive, or the
//! archive can have lost its newest manifests.
//!
//! Invariants:
//!
//! - A folder that followed nothing yet begins at the position that the manifest names. So what the
//!   source still has since then is kept, and a gap is noted for what it no longer has.
//! - A folder that already followed the cluster gets a gap up to where it began.
//! - A sealed version is not sealed again. A version counts as sealed as far as the files show it.
//! - From then on the former folder seals nothing more.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use tidings_archive::{
    Cluster, ClusterError, Continued, Continues, JournalError, Position, SEALED_BEYOND_MAX,
};
use tidings_store::clock::Clock;
use tokio::task::spawn_blocking;

use crate::described::random_id;
use crate::file::read::{FileError, Reader};
use crate::folder::{Folder, FolderError};
use crate::manifest::{File, Manifest};
use crate::place::Place;
use crate::seal::{ended, note};

/// Clocks are assumed to differ by less than this, in milliseconds. A file that ends this long
/// before the position has no versions beyond it.
const CLOCKS_DIFFER_MILLIS: i64 = 10 * 60_000;

/// Maximum files that are read only to find the last sealed version of each followed namespace.
const FILES_SOUGHT: usize = 64;

/// Why an archive was not continued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContinueError {
    /// The object storage failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The cluster's store could not be read or written.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The feed of pending versions could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Reading a file panicked; the log says how.
    #[error("reading a file panicked")]
    Panicked,
    /// The data folder has sealed versions into another archive.
    #[error(
        "the archive of {cluster:?} there was begun by another data folder, and this one has sealed elsewhere: only one that never sealed, or sealed there, can continue it"
    )]
    HasSealed {
        /// The cluster's name.
        cluster: String,
    },
    /// The data folder follows another cluster than the one whose archive this is.
    #[error(
        "the archive of {cluster:?} there is of another cluster than this one: the uid of its namespace kube-system is another"
    )]
    OtherCluster {
        /// The cluster's name.
        cluster: String,
    },
}

/// Lets a cluster's data folder continue an archive that another folder began.
///
/// The other folder is lost, or it is this one before it was restored from an older copy. Its store
/// gets a new identity. Versions that it has and that are not sealed yet are sealed on top of what
/// is there. If there is no archive, and the folder has sealed into one, everything that it still
/// has is sealed again. Returns `false` if it never did, if the archive is its own already, or if
/// the newest manifest was not written before `before`: another folder writes it since, so that
/// this one is refused, whoever repeats the request. A time that is still to come is no proof of
/// either.
///
/// `identity` is the uid of the source's namespace `kube-system`, if it is known. An archive of a
/// source with another identity is not continued: the cluster was built anew under its name.
///
/// To be called before the cluster is followed. It may be called again if the process ended
/// half-way.
///
/// # Errors
///
/// The archive stays as it was.
pub async fn take_over(
    place: &Place,
    cluster: &mut Cluster,
    identity: Option<&str>,
    before: Timestamp,
    clock: &dyn Clock,
) -> Result<bool, ContinueError> {
    let folder = Folder::new(place, cluster.name());
    folder.probe().await?;
    let unsealed = cluster.unsealed();
    let Some(manifest) = folder.newest().await? else {
        let is_gone = unsealed.has_sealed().await?;
        if is_gone {
            cluster.seal_anew().await?;
        }
        return Ok(is_gone);
    };
    if manifest.writer == cluster.store_identity() {
        let archive = manifest.archive.as_deref();
        if unsealed.has_committed(archive, &manifest.commit()).await? {
            return Ok(false);
        }
    }
    if identity.is_some_and(|identity| is_of_another(&manifest, identity)) {
        let cluster = cluster.name();
        tracing::warn!(
            cluster,
            "the archive is not continued: it is of another cluster, whose kube-system had another uid"
        );
        return Ok(false);
    }
    let now = Timestamp::from_millisecond(clock.now().0).unwrap_or_default();
    let latest = Timestamp::from_millisecond(clock.now().0.saturating_add(CLOCKS_DIFFER_MILLIS));
    let latest = latest.unwrap_or(Timestamp::MAX);
    // A later time was written by a clock that was ahead, and says nothing.
    if (before..=latest).contains(&manifest.written_at) {
        let (cluster, written_at) = (cluster.name(), manifest.written_at);
        tracing::warn!(
            cluster,
            %written_at,
            %before,
            "the archive is not continued: it was written since"
        );
        return Ok(false);
    }
    let known = Known::read(&folder, &manifest).await?;
    let continued = Continued {
        writer: manifest.writer.clone(),
        archive: manifest.archive.clone(),
        newest: manifest.commit(),
        positions: manifest.positions.clone(),
        ends: known.ends.into_iter().collect(),
        observed_until: known.observed_until.into_iter().collect(),
        gaps: manifest.gaps.clone(),
        sealed_beyond: known.beyond,
    };
    let name = cluster.name().to_owned();
    let writer = match cluster.continue_from(&continued).await? {
        Continues::As(identity) => identity,
        Continues::HasSealed => return Err(ContinueError::HasSealed { cluster: name }),
        Continues::OtherCluster => return Err(ContinueError::OtherCluster { cluster: name }),
    };
    // Every other folder that is given the same time is refused from then on, even if its clock is
    // ahead of this one.
    let mut next = manifest.next(random_id(), now.max(before.min(latest)));
    next.writer = writer;
    // Readers ask for pending versions from there on.
    next.sealed_through = unsealed.first();
    note(&unsealed, &manifest, &next).await?;
    folder.commit(&next).await?;
    ended(&unsealed, &next).await?;
    Ok(true)
}

/// Whether a manifest says that its versions are from a source with another identity.
fn is_of_another(manifest: &Manifest, identity: &str) -> bool {
    let mut identities = manifest.positions.iter();
    identities.any(|(_, position)| {
        let former = position.identity.as_deref();
        former.is_some_and(|former| former != identity)
    })
}

/// The versions in the files, compared with the manifest's positions.
#[derive(Default)]
struct Known {
    /// Sealed versions that lie beyond the positions. Such versions come from a seal that ended
    /// half-way, or from a list that was still being read.
    beyond: Vec<(String, u64, u64)>,
    /// The last epoch and version up to each position, by the positions' namespaces.
    ends: HashMap<String, (u64, u64)>,
    /// When the last version up to each position was observed at the latest, in milliseconds since
    /// 1970.
    observed_until: HashMap<String, i64>,
}

impl Known {
    /// Reads the latest files first: files that may have versions beyond the positions, and others
    /// while the last version of a namespace is not found.
    async fn read(folder: &Folder, manifest: &Manifest) -> Result<Self, ContinueError> {
        let complete = manifest.positions.iter();
        let complete = complete.map(|(_, position)| position.complete_until).min();
        let since = complete.unwrap_or(0).saturating_sub(CLOCKS_DIFFER_MILLIS);
        let cluster: Arc<str> = manifest.cluster.as_str().into();
        let positions: HashMap<_, _> = manifest.positions.iter().cloned().collect();
        let positions = Arc::new(positions);
        let mut known = Self::default();
        let mut files: Vec<&File> = manifest.files.iter().collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.to));
        let mut others = 0;
        for file in files {
            let is_beyond = file.to.as_millisecond() >= since;
            let is_beyond = is_beyond && known.beyond.len() < SEALED_BEYOND_MAX;
            let is_sought = others < FILES_SOUGHT && known.misses(&positions, file);
            if !is_beyond && !is_sought {
                known.note_unread(&positions, file);
                continue;
            }
            others += usize::from(!is_beyond);
            let whole = folder.whole(&file.path, file.bytes, &file.checksum).await?;
            let read = match whole {
                Err(why) => Err(why),
                Ok(bytes) => {
                    let (of, positions) = (Arc::clone(&cluster), Arc::clone(&positions));
                    let read =
                        spawn_blocking(move || Self::of(&Reader::new(&of, bytes)?, &positions));
                    let read = read.await.map_err(|_| ContinueError::Panicked)?;
                    read.map_err(|error| error.to_string())
                }
            };
            let found = match read {
                Ok(found) => found,
                // The versions of an unreadable file may be sealed again.
                Err(why) => {
                    known.note_unread(&positions, file);
                    let (cluster, file) = (&*cluster, &file.path);
                    let what = "passed over: its versions are not known, and may be sealed again";
                    tracing::error!(cluster, file, why, "{what}");
                    continue;
                }
            };
            known.beyond.extend(found.beyond);
            for (namespace, end) in found.ends {
                known.note(namespace, end);
            }
            for (namespace, until) in found.observed_until {
                known.note_observed(namespace, until);
            }
        }
        known.beyond.truncate(SEALED_BEYOND_MAX);
        Ok(known)
    }

    /// Returns whether a file may have the last version of a namespace of which none is known.
    fn misses(&self, positions: &HashMap<String, Position>, file: &File) -> bool {
        let between = file.first[0].as_str()..=file.last[0].as_str();
        let mut positions = positions.iter();
        positions.any(|(namespace, position)| {
            let may_have = namespace.is_empty() || between.contains(&namespace.as_str());
            may_have && position.version.is_some() && !self.ends.contains_key(namespace)
        })
    }

    fn note(&mut self, namespace: String, end: (u64, u64)) {
        let known = self.ends.entry(namespace).or_default();
        *known = (*known).max(end);
    }

    fn note_observed(&mut self, namespace: String, until: i64) {
        let known = self.observed_until.entry(namespace).or_insert(until);
        *known = (*known).max(until);
    }

    /// Notes a file that is not read: the last version up to any position may be in it.
    fn note_unread(&mut self, positions: &HashMap<String, Position>, file: &File) {
        for namespace in positions.keys() {
            self.note_observed(namespace.clone(), file.to.as_millisecond());
        }
    }

    fn of(file: &Reader, positions: &HashMap<String, Position>) -> Result<Self, FileError> {
        let mut known = Self::default();
        for group in 0..file.groups() {
            for row in file.group(group)? {
                let of = Some(&*row.namespace).filter(|of| positions.contains_key(*of));
                let of = of.unwrap_or_default();
                let position = positions.get(of);
                let through = position.and_then(|it| Some((it.epoch, it.version?)));
                if through.is_some_and(|through| (row.epoch, row.version) <= through) {
                    known.note(of.to_owned(), (row.epoch, row.version));
                    known.note_observed(of.to_owned(), row.observed / 1000);
                } else if known.beyond.len() < SEALED_BEYOND_MAX {
                    known.beyond.push((row.uid, row.epoch, row.version));
                }
            }
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use tidings_api::codec;
    use tidings_store::UnixMillis;

    use super::*;
    use crate::file::write::Writer;
    use crate::row::Row;

    fn file(versions: &[(&str, u64, u64)]) -> Reader {
        let cluster: Arc<str> = "prod".into();
        let rows = versions.iter().map(|(namespace, epoch, number)| {
            let mut event = Event {
                metadata: Some(ObjectMeta {
                    namespace: Some((*namespace).into()),
                    uid: Some(format!("uid-{number}")),
                    ..ObjectMeta::default()
                }),
                ..Event::default()
            };
            Row::new(
                &cluster,
                *epoch,
                *number,
                UnixMillis(1),
                codec::encode_stored(&mut event),
            )
            .unwrap()
        });
        let mut rows: Vec<Row> = rows.collect();
        rows.sort_unstable_by(Row::order);
        let mut writer = Writer::new(false).unwrap();
        for row in rows {
            writer.push(row).unwrap();
        }
        Reader::new(&cluster, writer.finish().unwrap().into()).unwrap()
    }

    #[test]
    fn versions_behind_the_position_are_named() {
        let position = |version| Position {
            version,
            epoch: 1,
            ..Position::default()
        };
        let versions = [
            ("a", 0, 90),
            ("a", 1, 7),
            ("b", 1, 8),
            ("b", 1, 9),
            ("b", 2, 1),
        ];
        for (positions, expected, ends) in [
            (vec![("", Some(8))], vec![1, 9], Some((1, 8))),
            // Whatever the position says, the files show up to where versions are sealed.
            (vec![("", Some(u64::MAX))], vec![1], Some((1, 9))),
            // Namespace `b` has its own position; the others have that of the cluster.
            (
                vec![("b", Some(9)), ("", Some(6))],
                vec![1, 7],
                Some((0, 90)),
            ),
            // A list was being read, so there is no position yet.
            (vec![("", None)], vec![1, 7, 8, 9, 90], None),
            (vec![], vec![1, 7, 8, 9, 90], None),
        ] {
            let positions = positions.into_iter();
            let positions = positions.map(|(namespace, at)| (namespace.to_owned(), position(at)));
            let positions = positions.collect();
            let found = Known::of(&file(&versions), &positions).unwrap();
            let mut beyond: Vec<u64> = found.beyond.iter().map(|(_, _, number)| *number).collect();
            beyond.sort_unstable();
            assert_eq!(beyond, expected, "{positions:?}");
            let end = found.ends.get("").copied();
            assert_eq!(end, ends, "{positions:?}");
        }
    }
}
