//! A record in a batch, as observations, ends and deletions change it.

use std::sync::Arc;

use bytes::Bytes;
use tidings_api::codec;
use tidings_store::{Expected, Index, NewRecord, Revision, UnixMillis, Write};

use crate::keep::coverage::Unswept;
use crate::keep::index::index;
use crate::keep::keys;
use crate::version::record::{Gone, Record};

/// A record that a batch changes.
#[derive(Default)]
pub(in crate::keep) struct Slot {
    /// The revision of the stored record.
    pub(in crate::keep) found: Option<Revision>,
    /// The changed record.
    pub(in crate::keep) record: Option<Record>,
    pub(in crate::keep) index: Index,
    pub(in crate::keep) expires_at: Option<UnixMillis>,
    pub(in crate::keep) is_changed: bool,
    /// The version of an event's end, even if the event is deleted here.
    pub(in crate::keep) ended_by: u64,
}

impl Slot {
    pub(in crate::keep) fn change(&mut self, record: Record, index: Index, expires_at: UnixMillis) {
        self.record = Some(record);
        self.index = index;
        self.expires_at = Some(expires_at);
        self.is_changed = true;
    }

    /// Notes that a list has the event. Returns whether this record is the event's.
    pub(in crate::keep) fn note_listed(&mut self, uid: &str, listed_at: i64) -> bool {
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

    /// Notes an end at the source. Returns whether the event exists here, and its end was not noted
    /// before.
    pub(in crate::keep) fn end(&mut self, uid: &str, gone: Gone) -> bool {
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

    /// Notes the end of an event that is not in a list any more, or deletes the event if deletions
    /// are mirrored.
    pub(in crate::keep) fn sweep(
        &mut self,
        key: &Bytes,
        unswept: &Unswept,
        mirrors: bool,
    ) -> Option<Bytes> {
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

    /// Returns the version at the source that led to the change.
    pub(in crate::keep) fn number(&self) -> u64 {
        self.record.as_ref().map_or(self.ended_by, |record| {
            let gone = record.gone.map_or(0, |gone| gone.number);
            record.newest.number.max(gone)
        })
    }

    /// The writes for the store.
    pub(in crate::keep) fn write(&self, key: &Bytes) -> Option<Write> {
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
    /// Returns whether the event may have ended when a list was requested: nothing shows that it
    /// existed then.
    pub(in crate::keep) fn may_have_ended(&self, unswept: &Unswept) -> bool {
        let lived_at = self.newest.observed_at.0.max(self.listed_at);
        self.gone.is_none() && lived_at < unswept.listed_at
    }
}
