//! A record in a batch: what observations, ends and deletions make of it.

use std::sync::Arc;

use bytes::Bytes;
use tidings_api::codec;
use tidings_store::{Expected, Index, NewRecord, Revision, UnixMillis, Write};

use super::index::index;
use super::keys;
use super::position::Unswept;
use crate::version::record::{Gone, Record};

/// A record that a batch changes.
#[derive(Default)]
pub(super) struct Slot {
    /// The stored revision.
    pub(super) found: Option<Revision>,
    /// The new record.
    pub(super) record: Option<Record>,
    pub(super) index: Index,
    pub(super) expires_at: Option<UnixMillis>,
    pub(super) is_changed: bool,
    /// Of an event that is deleted here, too: the version of its end.
    pub(super) ended_by: u64,
}

impl Slot {
    pub(super) fn change(&mut self, record: Record, index: Index, expires_at: UnixMillis) {
        self.record = Some(record);
        self.index = index;
        self.expires_at = Some(expires_at);
        self.is_changed = true;
    }

    /// Notes that a list has the event. Returns whether it is this one.
    pub(super) fn note_listed(&mut self, uid: &str, listed_at: i64) -> bool {
        let Some(record) = &mut self.record else {
            return false;
        };
        if *record.newest.uid != *uid {
            return false;
        }
        if !self.is_changed {
            let Ok(event) = codec::decode_stored(&record.newest.event, 0) else {
                return false;
            };
            self.index = index(&event);
        }
        record.gone = None;
        record.listed_at = listed_at;
        self.is_changed = true;
        true
    }

    /// Notes an end at the source. Returns whether there is such an event, and its end was not
    /// noted before.
    pub(super) fn end(&mut self, uid: &str, gone: Gone) -> bool {
        let Some(record) = &mut self.record else {
            return false;
        };
        let newest = &record.newest;
        if *newest.uid != *uid || record.gone.is_some() || gone.number < newest.number {
            return false;
        }
        if !self.is_changed {
            let Ok(event) = codec::decode_stored(&record.newest.event, 0) else {
                return false;
            };
            self.index = index(&event);
        }
        record.gone = Some(gone);
        self.is_changed = true;
        true
    }

    /// Notes the end of an event that is no longer in a list, or deletes it if deletions are
    /// mirrored.
    pub(super) fn sweep(&mut self, key: &Bytes, unswept: &Unswept, mirrors: bool) -> Option<Bytes> {
        let record = self
            .record
            .as_ref()
            .filter(|it| it.may_have_ended(unswept))?;
        let newest = &record.newest;
        let uid = Arc::clone(&newest.uid);
        let gone = Gone {
            number: newest.number.max(unswept.version),
            observed_at: unswept.listed_at,
            not_before: Some(unswept.not_before.max(newest.observed_at.0)),
        };
        if mirrors {
            self.record = None;
            self.is_changed = true;
        } else if !self.end(&uid, gone) {
            return None;
        }
        Some(keys::chunks(&keys::id(&uid, key)))
    }

    /// The version at the source that its change is from.
    pub(super) fn number(&self) -> u64 {
        self.record.as_ref().map_or(self.ended_by, |record| {
            let gone = record.gone.map_or(0, |gone| gone.number);
            record.newest.number.max(gone)
        })
    }

    /// The writes for the store.
    pub(super) fn write(&self, key: &Bytes) -> Option<Write> {
        let record = self.record.as_ref().map(|record| NewRecord {
            value: record.encode(),
            index: self.index.clone(),
            expires_at: self.expires_at,
        });
        if record.is_none() && self.found.is_none() {
            return None;
        }
        Some(Write {
            key: key.clone(),
            record,
            expected: self.found.map_or(Expected::Absent, Expected::At),
        })
    }
}

impl Record {
    /// Whether it is not known to have existed when a list was requested.
    pub(super) fn may_have_ended(&self, unswept: &Unswept) -> bool {
        let lived_at = self.newest.observed_at.0.max(self.listed_at);
        self.gone.is_none() && lived_at < unswept.listed_at
    }
}
