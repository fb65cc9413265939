//! The named cursors of the feed, as they are stored.
//!
//! Invariants: a cursor is stored before it moves in memory, and entries are deleted only before
//! all of them.

use serde::{Deserialize, Serialize};
use tidings_history::{CursorName, Skip};
use tidings_store::{Fault, ListRequest, NewRecord, ReadError, Store, UnixMillis, Write};

use crate::keep::json::{json, parse};
use crate::keep::keys;

/// The form of a stored cursor.
const FORM: u32 = 1;
/// A cursor as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::keep) struct Stored {
    form: u32,
    /// All entries before this one are delivered or skipped.
    pub(in crate::keep) through: u64,
    /// What is left of the history before the feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::keep) history: Option<Past>,
    /// The consumer's own state.
    #[serde(default)]
    pub(in crate::keep) state: String,
    /// What was skipped, until the consumer was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::keep) skip: Option<StoredSkip>,
    /// The number of all versions that were skipped.
    #[serde(default)]
    pub(in crate::keep) skipped: u64,
    /// When the last delivered version was observed, in milliseconds since 1970.
    pub(in crate::keep) at: i64,
}

/// The place in the history up to which a cursor was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keep) struct Past {
    /// The place, as in an export; `None` at the beginning.
    pub(in crate::keep) place: Option<String>,
    /// Versions that were observed before are left out, in milliseconds since 1970.
    pub(in crate::keep) since: i64,
    /// The number of batches that were read.
    pub(in crate::keep) read: u64,
}

/// A skip in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keep) struct StoredSkip {
    from: i64,
    to: i64,
    versions: u64,
}

impl From<Skip> for StoredSkip {
    fn from(skip: Skip) -> Self {
        Self {
            from: skip.from.0,
            to: skip.to.0,
            versions: skip.versions,
        }
    }
}

impl From<StoredSkip> for Skip {
    fn from(skip: StoredSkip) -> Self {
        Self {
            from: UnixMillis(skip.from),
            to: UnixMillis(skip.to),
            versions: skip.versions,
        }
    }
}

impl Stored {
    /// A cursor that begins at an entry.
    pub(in crate::keep) fn at(through: u64, now: i64, history: Option<Past>) -> Self {
        Self {
            form: FORM,
            through,
            history,
            state: String::new(),
            skip: None,
            skipped: 0,
            at: now,
        }
    }

    pub(in crate::keep) fn write(&self, name: &CursorName) -> Write {
        Write::put(keys::cursor(name.as_str()), NewRecord::new(json(self)))
    }

    /// Moves the cursor over entries that it skips.
    pub(in crate::keep) fn skip_to(&mut self, through: u64, skip: Skip) {
        let former = self.skip.map(Skip::from);
        let all = former.map_or(skip, |former| former.joined(skip));
        self.skip = Some(all.into());
        self.skipped = self.skipped.saturating_add(skip.versions);
        self.through = through;
        self.at = self.at.max(skip.to.0);
    }

    /// Begins again at the first entry that is there, after another program used the feed.
    pub(in crate::keep) fn distrust(&mut self, first: u64, now: UnixMillis) {
        let skip = Skip {
            from: UnixMillis(self.at),
            to: now.max(UnixMillis(self.at)),
            versions: 0,
        };
        self.skip_to(first, skip);
    }

    /// Notes that the consumer was told of a skip. More may have been skipped since.
    pub(in crate::keep) fn end_skip(&mut self, told: Skip) {
        let left = self.skip.map(Skip::from).filter(|skip| *skip != told);
        self.skip = left.map(|skip| StoredSkip {
            from: told.to.0,
            to: skip.to.0,
            versions: skip.versions.saturating_sub(told.versions),
        });
    }
}

/// A cursor in memory.
#[derive(Clone, Debug)]
pub(in crate::keep) struct Consumer {
    pub(in crate::keep) stored: Stored,
    /// The number of the handle that holds it.
    pub(in crate::keep) holder: Option<u64>,
    /// Versions and bytes that were added to the feed, up to this cursor.
    pub(in crate::keep) passed: Amount,
}

/// An amount of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::keep) struct Amount {
    pub(in crate::keep) versions: u64,
    pub(in crate::keep) bytes: u64,
}

impl Amount {
    pub(in crate::keep) fn plus(self, other: Self) -> Self {
        Self {
            versions: self.versions.wrapping_add(other.versions),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }

    pub(in crate::keep) fn minus(self, other: Self) -> Self {
        Self {
            versions: self.versions.wrapping_sub(other.versions),
            bytes: self.bytes.wrapping_sub(other.bytes),
        }
    }
}

/// Reads all cursors.
pub(in crate::keep) async fn read_cursors(
    store: &dyn Store,
) -> Result<Vec<(CursorName, Stored)>, ReadError> {
    let request = ListRequest::prefix(keys::CURSORS);
    let found = store.list(request).await?.records.into_iter();
    let cursors = found.map(|found| {
        let stored: Stored = parse(&found.value)?;
        let name = String::from_utf8_lossy(&found.key[keys::CURSORS.len()..]);
        let damaged = |what: String| ReadError::from(Fault::Corrupt(what));
        if stored.form != FORM {
            let form = stored.form;
            return Err(damaged(format!(
                "the cursor {name} has the form {form}, known is {FORM}"
            )));
        }
        let name = name.parse::<CursorName>();
        let name = name.map_err(|error| damaged(error.to_string()))?;
        Ok((name, stored))
    });
    cursors.collect()
}
