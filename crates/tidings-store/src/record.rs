//! Parameters and results of a store: plain data, cheap to clone.

use bytes::Bytes;

/// The number of a change; greater is later. Zero is before the first change.
pub type Revision = u64;

/// The revision of a store without writes: 1, as in etcd. To clients, a list at 0 has no revision.
pub const REVISION_OF_NEW: Revision = 1;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// Values that a record can be found by, in addition to its key. Empty strings are not indexed.
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

/// A record to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    /// The value, at most `VALUE_LEN_MAX` bytes.
    pub value: Bytes,
    /// The values of its index.
    pub index: Index,
    /// When it expires; `None` means never.
    pub expires_at: Option<UnixMillis>,
}

impl NewRecord {
    /// A record without index values that never expires.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self {
            value: value.into(),
            ..Self::default()
        }
    }

    /// Sets the values of its index.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// Sets when it expires.
    #[must_use]
    pub fn expires_at(mut self, at: UnixMillis) -> Self {
        self.expires_at = Some(at);
        self
    }
}

/// The precondition of a [`Write`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// None: a record may exist or not.
    #[default]
    Any,
    /// No live record.
    Absent,
    /// A live record with exactly this revision.
    At(Revision),
}

/// One of several writes in one commit; see
/// [`EmbeddedStore::write_all`](crate::embedded::EmbeddedStore::write_all).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub key: Bytes,
    /// The new record; `None` deletes.
    pub record: Option<NewRecord>,
    /// The precondition.
    pub expected: Expected,
}

impl Write {
    /// Stores a record, whether or not one exists.
    pub fn put(key: impl Into<Bytes>, record: NewRecord) -> Self {
        Self {
            key: key.into(),
            record: Some(record),
            expected: Expected::Any,
        }
    }

    /// Deletes a record. If there is none, the whole commit fails.
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self {
            key: key.into(),
            record: None,
            expected: Expected::Any,
        }
    }

    /// Sets the precondition.
    #[must_use]
    pub fn expecting(mut self, expected: Expected) -> Self {
        self.expected = expected;
        self
    }
}

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// The revision of the write of this version.
    pub revision: Revision,
    /// When it expires; `None` means never.
    pub expires_at: Option<UnixMillis>,
}

/// What [`Store::delete`](crate::Store::delete) removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The revision of the deletion.
    pub revision: Revision,
    /// The deleted record.
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

    /// The record after the change, if there is one.
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

/// The revision of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The latest revision.
    #[default]
    Latest,
    /// Exactly this revision.
    Exact(Revision),
}

/// Selects one involved object, or those that share a name, for [`ListRequest::object`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectSelector {
    /// By `involvedObject.uid`.
    Uid(String),
    /// By `involvedObject.name`, and by kind and namespace if these are given.
    Name {
        /// `involvedObject.name`.
        name: String,
        /// `involvedObject.kind`; `None` means any.
        kind: Option<String>,
        /// `involvedObject.namespace`, empty for cluster-scoped objects; `None` means any.
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
    /// Only keys that begin with this; empty means all.
    pub prefix: Bytes,
    /// Only keys greater than this: the last key of the previous page.
    pub after: Option<Bytes>,
    /// Only records about this object.
    pub object: Option<ObjectSelector>,
    /// The revision of the list.
    pub at: At,
    /// Maximum records; a page has fewer if their values reach [`PAGE_BYTES_MAX`]. `None` means
    /// all. Callers bound their memory by reading pages.
    pub limit: Option<usize>,
    /// Whether to count the records after a limited page ([`Page::remaining`]), which may read all
    /// keys: count once, and subtract the records of each page.
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

    /// Continues after a key.
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

/// Bytes of values at which a limited page ends, after the record that reaches them.
pub const PAGE_BYTES_MAX: usize = 2 << 20;

/// The remaining room of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    records: usize,
    bytes: usize,
}

impl Room {
    /// The room for a request's page.
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

    /// Whether values have filled it.
    pub(crate) fn is_full_of_values(self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn fill(&mut self, record: &Record) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(record.value.len());
    }
}

/// The place of a record in the order of [`Store::newest`](crate::Store::newest), the latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When the record was last seen.
    pub last_seen: UnixMillis,
    /// The revision of its version.
    pub revision: Revision,
}

/// Which records [`Store::newest`](crate::Store::newest) returns: those that match all given
/// conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestRequest {
    /// Only keys that begin with this; empty means all.
    pub prefix: Bytes,
    /// Only records about this object.
    pub object: Option<ObjectSelector>,
    /// Only records with this [`Index::reason`].
    pub reason: Option<String>,
    /// Only records of this [`Index::event_type`].
    pub event_type: Option<String>,
    /// Texts in lower case, all of which are in the message of a record that is wanted. A store
    /// that keeps messages apart from values may leave out others; the rest are returned.
    pub texts: Vec<String>,
    /// Only records last seen at or after this moment.
    pub since: Option<UnixMillis>,
    /// Only records last seen before this moment.
    pub until: Option<UnixMillis>,
    /// Only records after this place: the [`Page::place`] of the previous page.
    pub after: Option<Place>,
    /// Maximum records: with values until these reach [`PAGE_BYTES_MAX`], after that without
    /// ([`Page::behind`]).
    pub limit: usize,
    /// Whether the page ends with its values: records that do not fit are not read, and left to the
    /// next page.
    pub values_only: bool,
}

impl NewestRequest {
    /// The place after which records must be, if there is one.
    pub fn behind(&self) -> Option<Place> {
        // No revision is less, so this is after all records last seen at that moment or later.
        let until = self.until.map(|last_seen| Place {
            last_seen,
            revision: 0,
        });
        match (self.after, until) {
            (Some(after), Some(until)) => Some(after.min(until)),
            (after, until) => after.or(until),
        }
    }

    /// Whether it has conditions other than keys and the beginning of the range.
    #[cfg(feature = "etcd")]
    pub(crate) fn selects(&self) -> bool {
        self.selects_by_index() || self.behind().is_some()
    }

    /// Whether it has conditions on index values.
    pub(crate) fn selects_by_index(&self) -> bool {
        self.object.is_some() || self.reason.is_some() || self.event_type.is_some()
    }

    /// Whether the values of an index match.
    pub(crate) fn selected(&self, index: &Index) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let mut object = self.object.iter();
        object.all(|object| object.matches(index))
            && is(&self.reason, &index.reason)
            && is(&self.event_type, &index.event_type)
    }

    /// Whether a place is in the requested range.
    pub fn in_range(&self, place: Place) -> bool {
        self.since.is_none_or(|since| place.last_seen >= since)
            && self.behind().is_none_or(|behind| place < behind)
    }
}

/// Milliseconds of an hour, the unit of [`Store::counts`](crate::Store::counts).
pub const HOUR_MILLIS: i64 = 3_600_000;

/// Which counts [`Store::counts`](crate::Store::counts) returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountsRequest {
    /// Only hours that end after this moment.
    pub since: Option<UnixMillis>,
    /// Only hours that begin before this moment.
    pub until: Option<UnixMillis>,
    /// Only counts after this hour and reason: those of the last count of the previous page.
    pub after: Option<(UnixMillis, String)>,
    /// Maximum counts to return.
    pub limit: usize,
}

impl CountsRequest {
    /// Whether an hour, by its beginning, is in the requested range.
    pub fn in_range(&self, hour: UnixMillis) -> bool {
        self.since.is_none_or(|since| hour >= hour_of(since))
            && self.until.is_none_or(|until| hour < until)
    }
}

/// The beginning of a moment's hour.
pub fn hour_of(moment: UnixMillis) -> UnixMillis {
    // The first hour of all is not complete.
    UnixMillis(moment.0.saturating_sub(moment.0.rem_euclid(HOUR_MILLIS)))
}

/// The number of records with one reason last seen in one hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The beginning of the hour, counted from 1970-01-01T00:00:00Z.
    pub hour: UnixMillis,
    /// The [`Index::reason`].
    pub reason: String,
    /// The number of records.
    pub records: u64,
}

/// Counts, all from one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The latest hour first, and within an hour by the bytes of reasons.
    pub counts: Vec<Count>,
    /// Their revision.
    pub revision: Revision,
    /// Whether the limit cut them short.
    pub more: bool,
}

impl Counts {
    /// The answer of a store that has counted everything in a range: by inverted hour and reason.
    pub fn of(
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
    /// The records, in the order of the method.
    pub records: Vec<Record>,
    /// The revision of the whole list, for the next page's [`At::Exact`], or for a watch.
    pub revision: Revision,
    /// Whether the limit cut the list short.
    pub more: bool,
    /// The number of records after the page, if [`ListRequest::count_remaining`] is set. Never too
    /// few; expired records may count until their expiry is written.
    pub remaining: Option<u64>,
    /// Records that [`Store::newest`](crate::Store::newest) found within the limit, after the
    /// page's last value: keys and revisions, in order. [`Store::get`](crate::Store::get) reads
    /// each, unless it was changed since.
    pub behind: Vec<(Bytes, Revision)>,
    /// The place where [`Store::newest`](crate::Store::newest) stopped if there may be more: for
    /// [`NewestRequest::after`].
    pub place: Option<Place>,
}

impl Page {
    /// Adds a record, or only its key if there is no room for its value.
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

    /// Number of records that were found, with or without values.
    pub(crate) fn found(&self) -> usize {
        self.records.len() + self.behind.len()
    }
}

/// Counts and sizes of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records whose expiry is not yet written.
    pub records: u64,
    /// Bytes of their values, before compression.
    pub value_bytes: u64,
    /// Bytes on disk; zero for a store in memory.
    pub disk_bytes: u64,
    /// The revision of the latest change.
    pub revision: Revision,
    /// The oldest revision at which a list is possible and after which a watch can start.
    pub oldest_revision: Revision,
    /// Milliseconds by which the writing of expiries is behind the clock.
    pub expiry_lag_ms: u64,
    /// Records whose expiry was written since the store was opened.
    pub expired: u64,
    /// Open watches.
    pub watches: u64,
    /// Snapshots held for lists that are read page by page, if the store holds any.
    pub list_snapshots: u64,
    /// Changes undone since the store was opened for pages of lists without a held snapshot. If
    /// this grows, pages cost more than they should.
    pub changes_undone: u64,
}
