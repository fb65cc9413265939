//! `tidings archive --objects`: one task for each cluster that seals observed versions.
//!
//! A task may be ended at any time, because the object storage records what is sealed.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_archive::{Cluster, cluster_identity};
use tidings_cli::times::duration_of_seconds;
use tidings_cli::values::bytes;
use tidings_history::History as _;
use tidings_objects::{ContinueError, Place, PlaceError, SealOptions, Sealer};
use tidings_store::clock::SystemClock;
use tokio::task::{AbortHandle, spawn};
use tokio::time::timeout;

use super::source::Source;
use crate::clock;

/// Minimum quota: twice the maximum size of a file, because the latest file stays.
const QUOTA_MIN: usize = 64 << 20;

/// Clocks of machines are assumed to differ by less than this.
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_mins(10);

/// Maximum time for reading a cluster's identity before its archive is continued.
const IDENTITY_MAX: Duration = Duration::from_secs(10);

/// Maximum time for the answer of the object storage, before a cluster is followed without it.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Whether and how versions are sealed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Object storage")]
pub(super) struct SealFlags {
    /// Also seal every observed version into Parquet files at this URL: s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER
    ///
    /// Credentials, region and endpoint come from variables of the environment (AWS_ACCESS_KEY_ID,
    /// AWS_REGION, AWS_ENDPOINT, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_NAME and others);
    /// without these, credentials are those of the pod or machine. AWS_PROFILE and ~/.aws are not
    /// read. docs/how-to/keep-an-archive-in-a-bucket.md has all of them, and the permissions;
    /// docs/archive-format.md has the columns. Versions that are in the data folder when this is
    /// used first are sealed, too.
    #[arg(long, value_name = "URL")]
    objects: Option<String>,
    /// Continue an archive whose data folder was lost, or was restored from a copy, and which
    /// nothing was sealed into since this time, such as 2026-11-30T08:00:00Z: give the present one
    ///
    /// A new folder begins where the archive ends, one that has events seals them behind it, and
    /// the former one seals nothing more. The option has no effect on an archive into which
    /// something was sealed later, so it may stay.
    #[arg(long, value_name = "TIME", requires = "objects", value_parser = moment)]
    objects_continue: Option<Timestamp>,
    /// Maximum time that a version waits to be sealed
    #[arg(long, value_name = "DURATION", default_value = "20m", requires = "objects", value_parser = duration_of_seconds)]
    seal_after: Duration,
    /// Retention time of a file, such as 400d, after the last of its versions was observed
    /// [default: for ever]
    #[arg(long, value_name = "DURATION", requires = "objects", value_parser = duration_of_seconds)]
    objects_ttl: Option<Duration>,
    /// Maximum bytes of each cluster's files, at least 64Mi, with an optional suffix Ki, Mi, Gi,
    /// Ti, k, M, G or T. Above it, the files are deleted whose last version was observed longest
    /// ago [default: no limit]
    ///
    /// Files that are kept for their readers, for 24 hours, are not counted, so that for a while
    /// the bucket has more.
    #[arg(long, value_name = "BYTES", requires = "objects", value_parser = quota)]
    objects_quota: Option<usize>,
}

/// Parses the time of a continuation. A later time than the present one would let every other
/// folder continue the archive, too.
fn moment(text: &str) -> Result<Timestamp, &'static str> {
    let latest = clock::now().checked_add(CLOCKS_DIFFER);
    let latest = latest.unwrap_or(Timestamp::MAX);
    let time = text.parse().ok().filter(|time| *time <= latest);
    time.ok_or("expected a time that is not to come, such as 2026-11-30T08:00:00Z")
}

/// Parses a number of bytes that is enough for some files.
fn quota(text: &str) -> Result<usize, String> {
    let enough = bytes(text).ok().filter(|bytes| *bytes >= QUOTA_MIN);
    enough.ok_or_else(|| {
        "expected at least 64Mi, such as 512Mi, 50Gi or 50000000000: one file may have 32Mi".into()
    })
}

impl SealFlags {
    pub(super) fn are_given(&self) -> bool {
        self.objects.is_some()
    }

    pub(super) fn open(&self) -> Result<Sealing, PlaceError> {
        let mut options = SealOptions::default();
        options.interval = self.seal_after;
        options.keep_for = self.objects_ttl;
        options.quota = self.objects_quota.map(|bytes| bytes as u64);
        Ok(Sealing {
            place: self.objects.as_deref().map(Place::create).transpose()?,
            options,
            continues: self.objects_continue,
            tasks: BTreeMap::new(),
        })
    }
}

/// Where archives are continued that were not written since a time.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Continuation {
    place: Place,
    before: Timestamp,
}

/// Makes a cluster's data folder continue the archive that another folder sealed, or this one
/// before it was restored.
///
/// If the object storage does not answer, a cluster that was followed before is followed on,
/// because its events expire meanwhile; only sealing waits. A new folder is refused: it would begin
/// anew.
pub(super) async fn take_over(
    Continuation { place, before }: &Continuation,
    cluster: &mut Cluster,
    source: Option<&Source>,
) -> Result<(), ContinueError> {
    let identity = match source {
        Some(source) => timeout(IDENTITY_MAX, cluster_identity(&source.client)).await,
        None => Ok(Ok(None)),
    };
    // What follows the cluster reports it if it does not answer.
    let identity = identity.ok().and_then(Result::ok).flatten();
    let identity = identity.as_deref();
    let was_followed = was_followed(cluster).await;
    let name = cluster.name().to_owned();
    if was_followed
        && timeout(ANSWER_MAX, tidings_objects::newest(place, &name))
            .await
            .is_err()
    {
        tell_not_continued(&name, &"the object storage does not answer");
        return Ok(());
    }
    // This reads as many files as it takes.
    let taken = tidings_objects::take_over(place, cluster, identity, *before, &SystemClock).await;
    match taken {
        Ok(is_taken) => {
            if is_taken {
                tracing::info!(
                    cluster = name,
                    "continues the archive of a former data folder"
                );
            }
            Ok(())
        }
        Err(error @ ContinueError::Folder(_)) if was_followed => {
            tell_not_continued(&name, &error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn tell_not_continued(cluster: &str, error: &dyn Display) {
    tracing::error!(
        cluster,
        %error,
        "the archive is not continued before the next start; the cluster is followed"
    );
}

/// Whether the data folder has followed the cluster before.
async fn was_followed(cluster: &Cluster) -> bool {
    let coverage = cluster.history().coverage(None).await;
    coverage.is_ok_and(|coverage| !coverage.followed.is_empty())
}

/// The sealing tasks, by cluster name.
pub(super) struct Sealing {
    place: Option<Place>,
    options: SealOptions,
    continues: Option<Timestamp>,
    tasks: BTreeMap<String, AbortHandle>,
}

impl Sealing {
    /// The place of the sealed archives to continue, if the option is set.
    pub(super) fn to_continue(&self) -> Option<Continuation> {
        let (place, before) = (self.place.clone()?, self.continues?);
        Some(Continuation { place, before })
    }

    pub(super) fn start(&mut self, cluster: &Cluster) {
        let Some(place) = &self.place else {
            return;
        };
        let sealer = Sealer::new(place, cluster, Arc::new(SystemClock), self.options);
        let task = spawn(sealer.run());
        self.tasks
            .insert(cluster.name().to_owned(), task.abort_handle());
    }

    pub(super) fn stop(&mut self, cluster: &str) {
        if let Some(task) = self.tasks.remove(cluster) {
            task.abort();
        }
    }
}

impl Drop for Sealing {
    fn drop(&mut self) {
        for task in self.tasks.values() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_continued_as_of_a_time_that_is_not_to_come() {
        for (text, is_good) in [
            ("2026-01-01T00:00:00Z", true),
            ("2026-01-01T01:00:00+01:00", true),
            ("2326-01-01T00:00:00Z", false),
            ("now", false),
            ("", false),
        ] {
            assert_eq!(moment(text).is_ok(), is_good, "{text}");
        }
    }

    #[test]
    fn a_quota_has_room_for_some_files() {
        for (text, expected) in [
            ("64Mi", Some(64 << 20)),
            ("50Gi", Some(50 << 30)),
            ("2Ti", Some(2 << 40)),
            ("67108863", None),
            ("0", None),
            ("50GiB", None),
            ("", None),
        ] {
            let found = quota(text);
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{text}");
            let says = found.err().unwrap_or_default();
            assert_eq!(says.is_empty(), expected.is_some(), "{text}: {says}");
            assert!(says.is_empty() || says.contains("at least 64Mi"), "{says}");
        }
    }
}
