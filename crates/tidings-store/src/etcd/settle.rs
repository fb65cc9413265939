//! Finds the outcome of a put whose answer was lost.
//!
//! - **Done**, if the key has our value under our lease, at a revision later than any known when
//!   the call began, and no other call of this process is writing the same.
//! - **Done or refused**, for an update on revision r, once the key is beyond r. Either the first
//!   change after r is ours, or ours was not done and never will be, because its condition cannot
//!   hold again. The key's history decides.
//! - **Not done**, if etcd reported that it has no space left and the key is unchanged: absent, or
//!   at revision r. A create whose key was deleted since counts as not done, because nothing of it
//!   is left.
//! - **Unknown** otherwise. This is mainly the case while the key is unchanged, because the lost
//!   request may still be on its way.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::Shared;
use super::client::{RANGE, signed, unsigned};
use super::failure::Failure;
use super::wire::{KeyValue, RangeRequest, RangeResponse};
use crate::{Fault, Revision, WriteError};

/// Maximum versions of a key that are read to find the first one after a revision.
const VERSIONS_MAX: usize = 16;

/// A put whose answer was lost.
#[derive(Clone, Copy)]
pub(super) struct Lost<'a> {
    pub(super) key: &'a Bytes,
    pub(super) value: &'a Bytes,
    pub(super) lease: i64,
    /// The expected revision; `None` for a create.
    pub(super) expected: Option<Revision>,
    /// The latest revision known when the call began.
    pub(super) before: Revision,
}

impl Shared {
    /// The revision of the put if it was done; otherwise the reason, as far as it is known.
    pub(super) async fn settle(
        &self,
        lost: Lost<'_>,
        failure: Failure,
    ) -> Result<Revision, WriteError> {
        // A deadline of its own: that of the write may have passed, and the answer is worth the
        // wait.
        let deadline = self.client.deadline();
        let unknown = || Err(Fault::Unknown(Arc::new(failure.clone())).into());
        let Ok(current) = self.version_at(lost.key, 0, deadline).await else {
            return unknown();
        };
        // etcd has answered, so the request is no longer on its way: an unchanged key stays
        // unchanged.
        let is_as_it_was = current
            .as_ref()
            .map(|current| unsigned(current.mod_revision))
            == lost.expected;
        if failure.is_no_space() && is_as_it_was {
            return Err(Fault::NoSpace.into());
        }
        let Some(current) = current else {
            return unknown();
        };
        if self.is_ours(&lost, &current) {
            return Ok(unsigned(current.mod_revision));
        }
        let Some(expected) = lost.expected else {
            return unknown();
        };
        match self
            .first_behind(lost.key, expected, current.clone(), deadline)
            .await
        {
            Some(first) if self.is_ours(&lost, &first) => Ok(unsigned(first.mod_revision)),
            // The version has our value, but may be another client's.
            Some(first) if first.value == *lost.value => unknown(),
            Some(_) => {
                let current = self.record(current).await;
                Err(self.refusal(Some(&current), Some(expected)))
            }
            None => unknown(),
        }
    }

    fn is_ours(&self, lost: &Lost<'_>, version: &KeyValue) -> bool {
        lost.lease != 0
            && version.lease == lost.lease
            && version.value == *lost.value
            && unsigned(version.mod_revision) > lost.before
            && self.expiries.is_alone(lost.key, lost.lease, lost.value)
    }

    /// Finds the version that replaced the one at revision `expected`. It searches backwards from
    /// the current version. `None` if the key is still at that revision, was deleted since, or has
    /// changed more than [`VERSIONS_MAX`] times.
    async fn first_behind(
        &self,
        key: &Bytes,
        expected: Revision,
        mut version: KeyValue,
        deadline: Instant,
    ) -> Option<KeyValue> {
        for _ in 0..VERSIONS_MAX {
            let at = unsigned(version.mod_revision);
            // A key that was created again has no previous version, or only one from before its
            // deletion.
            if at <= expected || unsigned(version.create_revision) > expected {
                return None;
            }
            let previous = self.version_at(key, at - 1, deadline).await.ok()??;
            if unsigned(previous.mod_revision) == expected {
                return Some(version);
            }
            version = previous;
        }
        None
    }

    /// The version of a key at a revision; zero means the latest.
    pub(super) async fn version_at(
        &self,
        key: &Bytes,
        revision: Revision,
        deadline: Instant,
    ) -> Result<Option<KeyValue>, Failure> {
        let request = RangeRequest {
            key: self.keys.full(key),
            revision: signed(revision),
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.client.ask(RANGE, request, deadline).await?;
        self.client.observe(answer.header);
        Ok(answer.kvs.into_iter().next())
    }
}
