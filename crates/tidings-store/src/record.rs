//! Parameters and results of a store: plain data, cheap to clone.

use bytes::Bytes;

/// The number of a change; greater is later. Zero is before the first change.
pub type Revision = u64;

/// The revision of a store without writes: 1, as in etcd. To clients, a list at 0 has no revision.
pub const REVISION_OF_NEW: Revision = 1;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

/// Index values: what a record can be found by besides its key. Empty strings are not indexed.
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
    /// The value, at most [`VALUE_LEN_MAX`](crate::VALUE_LEN_MAX) bytes.
    pub value: Bytes,
    /// The values of its index.
    pub index: Index,
    /// Time of expiry; `None` means never.
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

    /// Sets the index values.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.index = index;
        self
    }

    /// Sets the time of expiry.
    #[must_use]
    pub fn expires_at(mut self, at: UnixMillis) -> Self {
        self.expires_at = Some(at);
        self
    }
}

/// The precondition of a [`Write`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// No precondition: a record may exist or not.
    #[default]
    Any,
    /// The key must have no live record.
    Absent,
    /// The key must have a live record with exactly this revision.
    At(Revision),
}

/// One of several writes in a commit; see
/// [`EmbeddedStore::write_all`](crate::embedded::EmbeddedStore::write_all).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key that is written.
    pub key: Bytes,
    /// The new record; `None` deletes.
    pub record: Option<NewRecord>,
    /// The precondition.
    pub expected: Expected,
}

impl Write {
    /// A write that stores a record, whether or not one exists.
    pub fn put(key: impl Into<Bytes>, record: NewRecord) -> Self {
        Self {
            key: key.into(),
            record: Some(record),
            expected: Expected::Any,
        }
    }

    /// A write that deletes a record. If there is none, the whole commit fails.
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
    /// The record's key.
    pub key: Bytes,
    /// The record's value.
    pub value: Bytes,
    /// The revision at which this version was written.
    pub revision: Revision,
    /// Time of expiry; `None` means never.
    pub expires_at: Option<UnixMillis>,
}

/// The result of [`Store::delete`](crate::Store::delete).
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
    /// A create or an update; `previous` is `None` for a create. Its revision is the record's.
    Put {
        /// The record after the change.
        record: Record,
        /// The record before the change.
        previous: Option<Record>,
    },
    /// A deletion or an expiry.
    Delete {
        /// The revision of the change.
        revision: Revision,
        /// The record before the change.
        previous: Record,
        /// True if the record expired, false if a client deleted it.
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

    /// The changed key.
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

/// The revision at which a list is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The latest revision.
    #[default]
    Latest,
    /// Exactly this earlier or latest revision.
    Exact(Revision),
}

/// Selects records about one object, or about objects that share a name. It is used in
/// [`ListRequest::object`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectSelector {
    /// Records with this `involvedObject.uid`.
    Uid(String),
    /// Records with this `involvedObject.name`, and this kind and namespace if given.
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

/// The selection and paging of a list; see [`Store::list`](crate::Store::list).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// Only keys that begin with this prefix; empty means all.
    pub prefix: Bytes,
    /// Only keys greater than this one, which is the last key of the previous page.
    pub after: Option<Bytes>,
    /// Only records about this object; `None` means all.
    pub object: Option<ObjectSelector>,
    /// The revision of the list.
    pub at: At,
    /// Maximum records; `None` means all. A page has fewer if their values reach
    /// [`PAGE_BYTES_MAX`]. Callers bound their memory by reading pages.
    pub limit: Option<usize>,
    /// Whether to count the records after a limited page ([`Page::remaining`]). Counting may read
    /// all keys. So count on the first page only, and subtract the records of each later page.
    pub count_remaining: bool,
}

impl ListRequest {
    /// A request for everything under a prefix at the latest revision.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    /// Continues the list after a key.
    #[must_use]
    pub fn after(mut self, key: impl Into<Bytes>) -> Self {
        self.after = Some(key.into());
        self
    }

    /// Restricts the list to records about an object.
    #[must_use]
    pub fn object(mut self, object: ObjectSelector) -> Self {
        self.object = Some(object);
        self
    }

    /// Reads the list at exactly this revision.
    #[must_use]
    pub fn at(mut self, revision: Revision) -> Self {
        self.at = At::Exact(revision);
        self
    }

    /// Limits the list to `limit` records.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }
}

/// Bytes of values at which a limited page ends. The record that reaches them is the last one.
pub const PAGE_BYTES_MAX: usize = 2 << 20;

/// The room that is left in a page, in records and in bytes of values.
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

    /// Whether values have used up the bytes.
    pub(crate) fn is_full_of_values(self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn fill(&mut self, record: &Record) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(record.value.len());
    }
}

/// Position of a record in the order of [`Store::newest`](crate::Store::newest), latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// When the record was last seen.
    pub last_seen: UnixMillis,
    /// The revision at which this version was written.
    pub revision: Revision,
}

/// The conditions of [`Store::newest`](crate::Store::newest); a record must match all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestRequest {
    /// Only keys that begin with this prefix; empty means all.
    pub prefix: Bytes,
    /// Only records about this object; `None` means all.
    pub object: Option<ObjectSelector>,
    /// Only records with this [`Index::reason`]; `None` means all.
    pub reason: Option<String>,
    /// Only records with this [`Index::event_type`]; `None` means all.
    pub event_type: Option<String>,
    /// Lowercase texts, each of which must be in a wanted record's message, reason, source or
    /// object (`kind/name`). They are a hint: a store that keeps these apart from values may leave
    /// out records without them. Others return such records, and the caller filters.
    pub texts: Vec<String>,
    /// Only records last seen at or after this moment; `None` means all.
    pub since: Option<UnixMillis>,
    /// Only records last seen before this moment; `None` means all.
    pub until: Option<UnixMillis>,
    /// Only records after this place, which is the [`Page::place`] of the previous page.
    pub after: Option<Place>,
    /// Maximum records found. Values are returned until they reach [`PAGE_BYTES_MAX`]. The rest are
    /// returned as keys ([`Page::behind`]).
    pub limit: usize,
    /// Whether the page ends where its values reach the limit. Records that do not fit are then
    /// left to the next page, not returned as keys.
    pub values_only: bool,
}

impl NewestRequest {
    /// The place that all records must come after; `None` if there is none.
    pub fn behind(&self) -> Option<Place> {
        // No revision is less than zero, so this place comes after all records last seen at `until`
        // or later.
        let until = self.until.map(|last_seen| Place {
            last_seen,
            revision: 0,
        });
        match (self.after, until) {
            (Some(after), Some(until)) => Some(after.min(until)),
            (after, until) => after.or(until),
        }
    }

    /// Whether there are conditions other than the prefix and `since`.
    #[cfg(feature = "etcd")]
    pub(crate) fn selects(&self) -> bool {
        self.selects_by_index() || self.behind().is_some()
    }

    /// Whether there are conditions on index values.
    pub(crate) fn selects_by_index(&self) -> bool {
        self.object.is_some() || self.reason.is_some() || self.event_type.is_some()
    }

    /// Whether index values match the request's conditions on them.
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

/// Milliseconds of an hour, the unit in which [`Store::counts`](crate::Store::counts) counts.
pub const HOUR_MILLIS: i64 = 3_600_000;

/// The range and paging of [`Store::counts`](crate::Store::counts).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountsRequest {
    /// Only hours that end after this moment.
    pub since: Option<UnixMillis>,
    /// Only hours that begin before this moment.
    pub until: Option<UnixMillis>,
    /// Only counts after this hour and reason, which are those of the previous page's last count.
    pub after: Option<(UnixMillis, String)>,
    /// Maximum counts to return.
    pub limit: usize,
}

impl CountsRequest {
    /// Whether an hour, given by its beginning, is in the requested range.
    pub fn in_range(&self, hour: UnixMillis) -> bool {
        self.since.is_none_or(|since| hour >= hour_of(since))
            && self.until.is_none_or(|until| hour < until)
    }
}

/// The beginning of the hour that a moment is in.
pub fn hour_of(moment: UnixMillis) -> UnixMillis {
    // It saturates: the earliest hour that can be represented is not complete.
    UnixMillis(moment.0.saturating_sub(moment.0.rem_euclid(HOUR_MILLIS)))
}

/// The number of records with one reason that were last seen in one hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// The beginning of the hour, counted from 1970-01-01T00:00:00Z.
    pub hour: UnixMillis,
    /// The [`Index::reason`] of the counted records.
    pub reason: String,
    /// The number of records.
    pub records: u64,
}

/// Counts, all from one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The counts, latest hour first, and within an hour by the bytes of the reason.
    pub counts: Vec<Count>,
    /// The revision of the counts.
    pub revision: Revision,
    /// Whether the limit cut the counts short.
    pub more: bool,
}

impl Counts {
    /// Makes a page of a full count, given by reversed hour and reason.
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
    /// The records, in the order of the method that returned the page.
    pub records: Vec<Record>,
    /// The revision of the whole list, for [`At::Exact`] of the next page or for a watch.
    pub revision: Revision,
    /// Whether the limit cut the list short.
    pub more: bool,
    /// Number of records after the page, if [`ListRequest::count_remaining`] is set. It is never
    /// too low. It may include expired records until their expiry is written.
    pub remaining: Option<u64>,
    /// Records found after the page's last value: keys and places, in order. Only
    /// [`Store::newest`](crate::Store::newest) fills this. Read each record with
    /// [`Store::get`](crate::Store::get), unless it was changed since.
    pub behind: Vec<(Bytes, Place)>,
    /// Where [`Store::newest`](crate::Store::newest) stopped; `None` if there is no more. Pass it
    /// as [`NewestRequest::after`] for the next page.
    pub place: Option<Place>,
}

impl Page {
    /// Adds a record, or only its key if its value does not fit.
    pub(crate) fn add_found(&mut self, room: &mut Room, record: Record, place: Place) {
        if room.is_left() {
            room.fill(&record);
            self.records.push(record);
        } else {
            // A copy, because the key may share its allocation with the value.
            let key = Bytes::copy_from_slice(&record.key);
            self.behind.push((key, place));
        }
    }

    /// Number of records found, with or without values.
    pub(crate) fn found(&self) -> usize {
        self.records.len() + self.behind.len()
    }
}

/// Counts and sizes of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of records whose expiry is not written yet.
    pub records: u64,
    /// Bytes of the values of these records, before compression.
    pub value_bytes: u64,
    /// Bytes on disk; zero for a store in memory.
    pub disk_bytes: u64,
    /// The revision of the latest change.
    pub revision: Revision,
    /// The oldest revision for a list or for the start of a watch.
    pub oldest_revision: Revision,
    /// Milliseconds by which writing expiries lags behind the clock.
    pub expiry_lag_ms: u64,
    /// Number of expiries written since the store was opened.
    pub expired: u64,
    /// Number of open watches.
    pub watches: u64,
    /// Snapshots held for lists that are read page by page; zero if the store holds none.
    pub list_snapshots: u64,
    /// Changes undone since the store was opened, for list pages without a held snapshot. If this
    /// number grows, pages cost more than they should.
    pub changes_undone: u64,
}
