//! Makes sealed archives of invented versions, for benchmarks.
//!
//! It writes files as a sealer would leave them, and one manifest. Built only with the feature
//! `filling`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_pb::api::core::v1::{Event, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tidings_api::codec;
use tidings_history::Version;
use tidings_store::UnixMillis;

use crate::described::random_id;
use crate::file::read::FileError;
use crate::folder::Folder;
use crate::manifest::Manifest;
use crate::merge;
use crate::place::Place;
use crate::row::Row;
use crate::seal;
use crate::seal_error::SealError;

/// Fills the archive of a cluster, which may not exist yet.
pub struct Filler {
    cluster: Arc<str>,
    folder: Folder,
    manifest: Manifest,
}

impl Filler {
    /// Begins the archive of a cluster.
    pub fn new(place: &Place, cluster: &str) -> Self {
        Self {
            cluster: cluster.into(),
            folder: Folder::new(place, cluster),
            manifest: Manifest::empty(cluster, "filled", random_id()),
        }
    }

    /// Makes the first version of an event about one of seven pods in three namespaces.
    pub fn sample(number: u64) -> Version {
        let (namespace, pod) = (
            format!("shop-{}", number % 3),
            format!("web-{}", number % 7),
        );
        let mut event = Event {
            metadata: Some(ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(format!("web.{number:x}")),
                uid: Some(format!("uid-{number}")),
                labels: [("app".to_owned(), "web".to_owned())].into(),
                ..ObjectMeta::default()
            }),
            involved_object: Some(ObjectReference {
                kind: Some("Pod".into()),
                namespace: Some(namespace),
                name: Some(pod),
                ..ObjectReference::default()
            }),
            reason: Some(format!("BackOff{}", number % 5)),
            message: Some(format!("back-off restarting container {number}")),
            last_timestamp: Some(Time {
                seconds: Some(1_700_000_000),
                nanos: None,
            }),
            count: Some(3),
            ..Event::default()
        };
        Version {
            uid: format!("uid-{number}").into(),
            epoch: 0,
            number,
            observed_at: UnixMillis(1_700_000_000_000_i64.saturating_add_unsigned(number)),
            event: codec::encode_stored(&mut event),
        }
    }

    /// Writes versions as one file, or several if they are too many. The files state that they were
    /// merged `level` times.
    ///
    /// # Errors
    ///
    /// An event cannot be read, or the object storage failed.
    pub async fn add(&mut self, level: u32, versions: Vec<Version>) -> Result<(), SealError> {
        let rows = versions
            .into_iter()
            .map(|version| Row::of(&self.cluster, version).map_err(FileError::Event));
        let mut rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        rows.sort_unstable_by(Row::order);
        let is_last = merge::is_last(level, 0);
        let written = seal::write(&self.folder, (level, is_last), 0, rows.into_iter().map(Ok));
        let files = written.await?;
        let latest = files.iter().map(|file| file.to).max();
        let until = self.manifest.sealed_until;
        self.manifest.sealed_until = until.max(latest.unwrap_or_default());
        self.manifest.add(files);
        Ok(())
    }

    /// Writes the manifest.
    ///
    /// # Errors
    ///
    /// The object storage failed, or there is a manifest already.
    pub async fn finish(self, now: Timestamp) -> Result<Manifest, SealError> {
        let manifest = self.manifest.next(random_id(), now);
        self.folder.commit(&manifest).await?;
        Ok(manifest)
    }
}
