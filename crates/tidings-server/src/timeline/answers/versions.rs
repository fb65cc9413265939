//! The newest versions of an event, and its repeats by all versions.
//!
//! Reads of older versions are bounded in number, bytes and time. One page of them is held at a
//! time, and two numbers are kept of each version.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tidings_history::History;
use tidings_store::Record;
use tokio::time::timeout_at;

use super::super::read::{self, brief};
use super::super::rules::repeats::{Repeats, Told, repeats};
use super::super::visible::Visible;
use crate::clock;
use crate::http::status::Status;
use crate::http::stored::Key;

/// Maximum versions in an answer.
const VERSIONS_MAX: usize = 500;
/// Maximum versions read for the repeats of an event, and their maximum bytes.
const READ_MAX: usize = 100_000;
const READ_BYTES_MAX: usize = 64 << 20;
/// Versions in a page; as a rule, a page ends earlier by its bytes.
const PAGE: usize = 10_000;
/// Maximum time for reading them: in a sealed archive each page takes requests to an object
/// storage.
const READ_TIME_MAX: Duration = Duration::from_secs(3);

/// The newest versions of an event.
pub(super) struct Newest {
    /// The versions, newest first.
    pub(super) versions: Vec<ShownVersion>,
    /// Whether there are older versions.
    pub(super) more: bool,
    /// The event's repeats by all of its versions, if there are older ones.
    pub(super) repeats: Option<Repeats>,
}

/// What the page shows of a version.
#[derive(Serialize)]
pub(super) struct ShownVersion {
    observed: Option<i64>,
    last: i64,
    count: u64,
    /// The message, if it differs from the previous version's.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(rename = "resourceVersion")]
    number: String,
}

/// Reads the versions of an event that first happened at `first`.
///
/// # Errors
/// The errors of reading the newest versions. If older ones cannot be read, the repeats end there.
pub(super) async fn versions(
    visible: &Visible,
    key: &Key,
    record: &Record,
    first: i64,
) -> Result<Newest, Status> {
    let only = || {
        let brief = brief(record);
        let only = brief.map(|brief| ShownVersion {
            observed: None,
            last: brief.last,
            count: brief.count,
            message: Some(brief.message.to_owned()),
            number: record.revision.to_string(),
        });
        Newest {
            versions: only.into_iter().collect(),
            more: false,
            repeats: None,
        }
    };
    let Some(followed) = &visible.source.server.followed else {
        return Ok(only());
    };
    let history = &*followed.history;
    let Some(observed) = history.versions(key.bytes(), None, VERSIONS_MAX).await? else {
        return Ok(only());
    };
    let mut versions = Vec::with_capacity(observed.versions.len());
    let mut message_before: Option<String> = None;
    // Starts at the oldest, to notice where the message changed.
    for version in observed.versions.into_iter().rev() {
        let record = plain(key, version.event)?;
        let Some(brief) = brief(&record) else {
            continue;
        };
        let is_same = message_before.as_deref() == Some(brief.message);
        versions.push(ShownVersion {
            observed: Some(version.observed_at.0),
            last: brief.last,
            count: brief.count,
            message: (!is_same).then(|| brief.message.to_owned()),
            number: version.number.to_string(),
        });
        if !is_same {
            message_before = Some(brief.message.to_owned());
        }
    }
    versions.reverse();
    let repeats = match observed.more {
        Some(older) => all_repeats(history, key, (&versions, older), first).await,
        None => None,
    };
    Ok(Newest {
        versions,
        more: observed.more.is_some(),
        repeats,
    })
}

/// A version in the form that can be read without a copy.
fn plain(key: &Key, value: Bytes) -> Result<Record, Status> {
    read::plain(Record {
        key: key.bytes(),
        value,
        revision: 0,
        expires_at: None,
    })
}

/// The event's repeats by its newest versions and those after them, within the bounds.
async fn all_repeats(
    history: &dyn History,
    key: &Key,
    (newest, older): (&[ShownVersion], u64),
    first: i64,
) -> Option<Repeats> {
    let end = clock::deadline(clock::timer(), READ_TIME_MAX);
    let newest = newest.iter().map(|version| Told {
        last: version.last,
        count: version.count,
    });
    let mut told: Vec<Told> = newest.collect();
    let mut bytes = 0;
    let mut next = Some(older);
    while let Some(after) = next {
        let limit = READ_MAX.saturating_sub(told.len()).min(PAGE);
        if limit == 0 || bytes >= READ_BYTES_MAX {
            break;
        }
        let page = history.versions(key.bytes(), Some(after), limit);
        let page = match timeout_at(end, page).await {
            Ok(Ok(page)) => page.unwrap_or_default(),
            Ok(Err(error)) => {
                tracing::warn!(%error, "an event's repeats are shown without its older versions");
                break;
            }
            Err(_) => break,
        };
        if page.versions.is_empty() {
            // The event expired meanwhile.
            next = page.more;
            break;
        }
        for version in page.versions {
            bytes += version.event.len();
            told.extend(tell(key, version.event));
        }
        next = page.more;
    }
    repeats(&told, first, next.is_some())
}

/// The occurrences that a version states; `None` if it cannot be read.
fn tell(key: &Key, value: Bytes) -> Option<Told> {
    let record = plain(key, value).ok()?;
    let brief = brief(&record)?;
    Some(Told {
        last: brief.last,
        count: brief.count,
    })
}
