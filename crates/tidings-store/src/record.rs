//! The values that go in and out of a store. Plain data: cheap to clone, no behaviour beyond
//! constructors.

use bytes::Bytes;

/// The number of a change; greater is later. Zero stands before the first change.
pub type Revision = u64;

/// The revision of a store that was never written to: 1, as etcd's is. Clients take a list at 0 for
/// one of no revision.
pub const REVISION_OF_NEW: Revision = 1;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// What a record can be found by in addition to its key. Empty strings are not indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// `involvedObject.uid`.
    pub object_uid: String,
    /// `involvedObject.kind`.
    pub object_kind: String,
    /// `involvedObject.namespace`; empty for cluster-scoped objects.
    pub object_namespace: String,
    /// `involvedObject.name`.
    pub object_name: String,
    /// `reason`.
    pub reason: String,
    /// `type`.
    pub event_type: String,
    /// When the event last happened.
    pub last_seen: UnixMillis,
}

/// A record to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// The bytes to keep, at most `VALUE_LEN_MAX`.
    pub value: Bytes,
    /// What to find it by.
    pub index: Index,
    /// When it ends; `None` is never.
    pub expires_at: Option<UnixMillis>,
}

impl NewRecord {
    /// A record that is found by its key only and never expires.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self {
            value: value.into(),
            ..Self::default()
        }
    }

    /// Sets what to find it by.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// Sets when it ends.
    #[must_use]
    pub fn expires_at(mut self, at: UnixMillis) -> Self {
        self.expires_at = Some(at);
        self
    }
}

/// What must be under a key for a [`Write`] to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Whatever is there, or nothing.
    #[default]
    Any,
    /// No live record.
    Absent,
    /// A live record of exactly this revision.
    At(Revision),
}

/// One of several writes that are done together; see
/// [`EmbeddedStore::write_all`](crate::embedded::EmbeddedStore::write_all).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub key: Bytes,
    /// What is there afterwards; `None` deletes.
    pub record: Option<NewRecord>,
    /// What must be there before.
    pub expected: Expected,
}

impl Write {
    /// Stores a record, whatever is there.
    pub fn put(key: impl Into<Bytes>, record: NewRecord) -> Self {
        Self {
            key: key.into(),
            record: Some(record),
            expected: Expected::Any,
        }
    }

    /// Deletes a record. If none is there, the write fails, and with it those beside it.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self {
            key: key.into(),
            record: None,
            expected: Expected::Any,
        }
    }

    /// Sets what must be there before.
    #[must_use]
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.expected = expected;
        self
    }
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it is stored.
    pub key: Bytes,
    /// The bytes that were written.
    pub value: Bytes,
    /// The revision of the write that made this version.
    pub revision: Revision,
    /// When it ends; `None` is never.
    pub expires_at: Option<UnixMillis>,
}

/// What [`Store::delete`](crate::Store::delete) removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The revision of the deletion.
    pub revision: Revision,
    /// The record as it last was.
    pub previous: Record,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A create (`previous` is `None`) or an update. The revision is the record's.
    Put {
        /// The record after the change.
        record: Record,
        /// The record before it.
        previous: Option<Record>,
    },
    /// A deletion or an expiry.
    Delete {
        /// The revision of the change.
        revision: Revision,
        /// The record before it.
        previous: Record,
        /// Whether the record expired, as opposed to a client deleting it.
        expired: bool,
    },
}

impl Change {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { record, .. } => record.revision,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// The key that was changed.
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { record, .. } => &record.key,
            Self::Delete { previous, .. } => &previous.key,
        }
    }

    /// The record after the change, if there still is one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Put { record, .. } => Some(record),
            Self::Delete { .. } => None,
        }
    }

    /// The record before the change, if there was one.
    pub fn previous(&self) -> Option<&Record> {
        match self {
            Self::Put { previous, .. } => previous.as_ref(),
            Self::Delete { previous, .. } => Some(previous),
        }
    }
}

/// The revision a list is taken at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The latest.
    #[default]
    Latest,
    /// Exactly this one.
    Exact(Revision),
}

/// One involved object, or those that share a name, for [`ListRequest::object`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectSelector {
    /// By `involvedObject.uid`.
    Uid(String),
    /// By `involvedObject.name`, and by kind and namespace if these are given.
    Name {
        /// `involvedObject.name`.
        name: String,
        /// `involvedObject.kind`; `None` is any.
        kind: Option<String>,
        /// `involvedObject.namespace`, empty for cluster-scoped objects; `None` is any.
        namespace: Option<String>,
    },
}

impl ObjectSelector {
    /// Whether a record with this index is about the object. Empty values match nothing.
    pub fn matches(&self, index: &Index) -> bool {
        match self {
            Self::Uid(uid) => !uid.is_empty() && *uid == index.object_uid,
            Self::Name {
                name,
                kind,
                namespace,
            } => {
                let is = |wanted: &Option<String>, found: &str| {
                    wanted.as_deref().is_none_or(|wanted| wanted == found)
                };
                !name.is_empty()
                    && *name == index.object_name
                    && is(kind, &index.object_kind)
                    && is(namespace, &index.object_namespace)
            }
        }
    }
}

/// Which records to list; see [`Store::list`](crate::Store::list).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Only keys that start with this; empty is all.
    pub prefix: Bytes,
    /// Only keys greater than this: the last key of the page before.
    pub after: Option<Bytes>,
    /// Only records about this object.
    pub object: Option<ObjectSelector>,
    /// The revision to list at.
    pub at: At,
    /// Maximum records to return; a page has fewer if their values reach [`PAGE_BYTES_MAX`]; `None`
    /// is all of them. Callers bound their memory by asking for pages.
    pub limit: Option<usize>,
    /// Whether to count what is left behind a limited page ([`Page::remaining`]), which may cost a
    /// walk over the keys: ask once, and take off what each page holds.
    pub count_remaining: bool,
}

impl ListRequest {
    /// Everything under a prefix at the latest revision.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    /// Continues behind a key.
    #[must_use]
    pub fn after(mut self, key: impl Into<Bytes>) -> Self {
        self.after = Some(key.into());
        self
    }

    /// Only records about this object.
    #[must_use]
    pub fn object(mut self, object: ObjectSelector) -> Self {
        self.object = Some(object);
        self
    }

    /// At exactly this revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = At::Exact(revision);
        self
    }

    /// At most `limit` records.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// Bytes of values at which a limited page ends: with the record that reaches them.
pub const PAGE_BYTES_MAX: usize = 8 << 20;

/// How much more a page may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    records: usize,
    bytes: usize,
}

impl Room {
    /// What a request leaves room for.
    pub(crate) fn of(request: &ListRequest) -> Self {
        Self {
            bytes: match request.limit {
                Some(_) => PAGE_BYTES_MAX,
                None => usize::MAX,
            },
            ..Self::limited(request.limit.unwrap_or(usize::MAX))
        }
    }

    /// Room for at most `records` records of a page.
    pub(crate) fn limited(records: usize) -> Self {
        Self {
            records,
            bytes: PAGE_BYTES_MAX,
        }
    }

    pub(crate) fn is_left(self) -> bool {
        self.records > 0 && self.bytes > 0
    }

    pub(crate) fn fill(&mut self, record: &Record) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(record.value.len());
    }
}

/// Where a record is among those in the order of [`Store::newest`](crate::Store::newest); a later
/// one comes before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When the record was last seen.
    pub last_seen: UnixMillis,
    /// The revision of its version.
    pub revision: Revision,
}

/// Which records [`Store::newest`](crate::Store::newest) returns: those that all that is given
/// holds for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestRequest {
    /// Only keys that start with this; empty is all.
    pub prefix: Bytes,
    /// Only records about this object.
    pub object: Option<ObjectSelector>,
    /// Only records with this [`Index::reason`].
    pub reason: Option<String>,
    /// Only records of this [`Index::event_type`].
    pub event_type: Option<String>,
    /// Only records last seen at or after this moment.
    pub since: Option<UnixMillis>,
    /// Only records last seen before this moment.
    pub until: Option<UnixMillis>,
    /// Only records that come behind this place: the [`Page::place`] of the page before.
    pub after: Option<Place>,
    /// Maximum records: in full until their values reach [`PAGE_BYTES_MAX`], after that only the
    /// places ([`Page::behind`]).
    pub limit: usize,
}

impl NewestRequest {
    /// The place that records must come behind, if there is one.
    pub(crate) fn behind(&self) -> Option<Place> {
        // No revision is less, so this stands behind all that was last seen at that moment or
        // later.
        let until = self.until.map(|last_seen| Place {
            last_seen,
            revision: 0,
        });
        match (self.after, until) {
            (Some(after), Some(until)) => Some(after.min(until)),
            (after, until) => after.or(until),
        }
    }

    /// Whether it asks for more than keys and the beginning of a range.
    #[cfg(feature = "etcd")]
    pub(crate) fn selects(&self) -> bool {
        self.selects_by_index() || self.behind().is_some()
    }

    /// Whether it asks for some values of an index.
    pub(crate) fn selects_by_index(&self) -> bool {
        self.object.is_some() || self.reason.is_some() || self.event_type.is_some()
    }

    /// Whether the values of an index are those that it asks for.
    pub(crate) fn selected(&self, index: &Index) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let mut object = self.object.iter();
        object.all(|object| object.matches(index))
            && is(&self.reason, &index.reason)
            && is(&self.event_type, &index.event_type)
    }

    /// Whether a place is in the range that it asks for.
    pub(crate) fn in_range(&self, place: Place) -> bool {
        self.since.is_none_or(|since| place.last_seen >= since)
            && self.behind().is_none_or(|behind| place < behind)
    }
}

/// The milliseconds of an hour, by which [`Store::counts`](crate::Store::counts) counts.
pub const HOUR_MILLIS: i64 = 3_600_000;

/// Which counts [`Store::counts`](crate::Store::counts) returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountsRequest {
    /// Only hours that end after this moment.
    pub since: Option<UnixMillis>,
    /// Only hours that begin before this moment.
    pub until: Option<UnixMillis>,
    /// Only what comes behind this hour and reason: those of the last count of the page before.
    pub after: Option<(UnixMillis, String)>,
    /// Maximum counts to return.
    pub limit: usize,
}

impl CountsRequest {
    /// Whether an hour is in the range that it asks for.
    pub(crate) fn in_range(&self, hour: UnixMillis) -> bool {
        self.since.is_none_or(|since| hour >= hour_of(since))
            && self.until.is_none_or(|until| hour < until)
    }
}

/// The beginning of the hour that a moment is in.
pub(crate) fn hour_of(moment: UnixMillis) -> UnixMillis {
    // The first hour of all is not whole.
    UnixMillis(moment.0.saturating_sub(moment.0.rem_euclid(HOUR_MILLIS)))
}

/// How many records were last seen in one hour for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The beginning of the hour, counted from 1970-01-01T00:00:00Z.
    pub hour: UnixMillis,
    /// Their [`Index::reason`].
    pub reason: String,
    /// How many there are.
    pub records: u64,
}

/// Some counts, all from one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The latest hour first, and within an hour in the order of the reasons' bytes.
    pub counts: Vec<Count>,
    /// The revision they are of.
    pub revision: Revision,
    /// Whether the limit cut them short.
    pub more: bool,
}

impl Counts {
    /// What a store answers that has counted everything in a range: by inverted hour and reason.
    pub(crate) fn of(
        all: std::collections::BTreeMap<(std::cmp::Reverse<UnixMillis>, String), u64>,
        request: &CountsRequest,
        revision: Revision,
    ) -> Self {
        let after = request.after.clone();
        let after = after.map(|(hour, reason)| (std::cmp::Reverse(hour), reason));
        let mut behind = all
            .into_iter()
            .filter(|(at, _)| after.as_ref().is_none_or(|after| at > after));
        let counts = behind.by_ref().take(request.limit);
        let counts = counts.map(|((hour, reason), records)| Count {
            hour: hour.0,
            reason,
            records,
        });
        Self {
            counts: counts.collect(),
            revision,
            more: behind.next().is_some(),
        }
    }
}

/// A part of a list, all from one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The records, in the order the method states.
    pub records: Vec<Record>,
    /// The revision the whole list is taken at: give it to the next page's [`At::Exact`], or to a
    /// watch.
    pub revision: Revision,
    /// Whether the limit cut the list short.
    pub more: bool,
    /// How many records are behind the page, if [`ListRequest::count_remaining`] asked for it.
    /// Never too few; those whose time is over may count until their end is written down.
    pub remaining: Option<u64>,
    /// What [`Store::newest`](crate::Store::newest) found within the limit behind the page's last
    /// value: keys and revisions, in order. Each can be read by itself, by
    /// [`Store::get`](crate::Store::get) unless it was changed since.
    pub behind: Vec<(Bytes, Revision)>,
    /// Up to where [`Store::newest`](crate::Store::newest) looked if there may be more: for
    /// [`NewestRequest::after`].
    pub place: Option<Place>,
}

impl Page {
    /// Adds a record, or, once there is no room for its value, where it is.
    pub(crate) fn add_found(&mut self, room: &mut Room, record: Record) {
        if room.is_left() {
            room.fill(&record);
            self.records.push(record);
        } else {
            // A copy: the key may share its allocation with the value.
            let key = Bytes::copy_from_slice(&record.key);
            self.behind.push((key, record.revision));
        }
    }

    /// How many records were found, whether their values are here or not.
    pub(crate) fn found(&self) -> usize {
        self.records.len() + self.behind.len()
    }
}

/// Counts and sizes of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records whose end is not yet written down.
    pub records: u64,
    /// Bytes of their values, before compression.
    pub value_bytes: u64,
    /// Bytes on disk; zero for a store in memory.
    pub disk_bytes: u64,
    /// The revision of the latest change.
    pub revision: Revision,
    /// The oldest revision a list can be taken at and a watch can start after.
    pub oldest_revision: Revision,
    /// By how many milliseconds the writing down of ends is behind the clock.
    pub expiry_lag_ms: u64,
    /// Records whose end was written down since the store was opened.
    pub expired: u64,
    /// Watches that are open.
    pub watches: u64,
    /// Snapshots held for lists that are read page by page, in a store that holds some.
    pub list_snapshots: u64,
    /// Changes that were taken back since the store was opened for pages of lists whose snapshot
    /// was not held. If this grows, pages cost more than they should.
    pub changes_undone: u64,
}
