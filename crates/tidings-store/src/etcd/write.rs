//! Writes: each is one transaction on the key's `ModRevision`.
//!
//! If the answer to a write is lost, whether the request is sent again depends on its kind:
//!
//! - An update or a delete on revision r is sent again. The key is at r only before the write, so
//!   only one copy takes effect.
//! - A create is not. The first copy could create the key, another client delete it, and the second
//!   copy create it again.
//!
//! Then the key and, for an update, its history show what was done (`settle.rs`). If they do not,
//! the outcome is [`Fault::Unknown`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::time::Instant;

use super::Shared;
use super::client::{RANGE, TXN, signed};
use super::failure::{Failure, Outcome};
use super::pause::Pause;
use super::settle::Lost;
use super::wire::{
    Compare, CompareWith, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse,
    Request, Response, TxnRequest, TxnResponse,
};
use crate::limits::check_size;
use crate::{Deleted, Fault, NewRecord, ReadError, Record, Revision, VALUE_LEN_MAX, WriteError};

/// Maximum deletes in one transaction. etcd allows 128 operations by default. Each delete here is a
/// nested transaction.
const EXPIRE_BATCH: usize = 64;

/// Bytes of a transaction besides value and key; a generous estimate.
const REQUEST_OVERHEAD: usize = 4096;

#[derive(Debug, thiserror::Error)]
#[error("the key kept changing until the time was up")]
struct Contended;

/// The answer to a transaction on one key.
enum Answered {
    /// The condition held; the write was done at this revision.
    Done(Revision),
    /// The condition did not hold; this is the key's current version, if there is one.
    Other(Option<KeyValue>),
}

impl Shared {
    /// Reads the record under a key, even if it has expired.
    pub(super) async fn get_any(
        &self,
        key: &[u8],
        deadline: Instant,
    ) -> Result<Option<Record>, Fault> {
        let request = RangeRequest {
            key: self.keys.full(key),
            ..RangeRequest::default()
        };
        let answer: RangeResponse = self.client.ask(RANGE, request, deadline).await?;
        self.client.observe(answer.header);
        match answer.kvs.into_iter().next() {
            Some(version) => Ok(Some(self.record(version).await)),
            None => Ok(None),
        }
    }

    pub(super) async fn put(
        &self,
        key: Bytes,
        record: NewRecord,
        expected: Option<Revision>,
    ) -> Result<Revision, WriteError> {
        check_size(&key, Some(&record))?;
        self.check_open()?;
        let deadline = self.client.deadline();
        // Every revision that this call writes is later than this one.
        let before = self.client.revision();
        if let Some(expected) = expected {
            self.check_live(&key, expected, deadline).await?;
        }
        let mut pause = Pause::default();
        loop {
            let lease = match record.expires_at {
                Some(_) => self.lease_for(&key, &record, expected, deadline).await?,
                None => 0,
            };
            let guard = record
                .expires_at
                .map(|end| self.expiries.begin(&key, &record.value, lease, end));
            let put = Request::Put(PutRequest {
                key: self.keys.full(&key),
                value: record.value.clone(),
                lease,
            });
            let answered = self
                .transact(&key, expected.unwrap_or(0), put, deadline)
                .await;
            let other = match answered {
                Ok(Answered::Done(revision)) => {
                    if let Some(end) = record.expires_at {
                        self.wrote(&key, revision, end);
                    }
                    return Ok(revision);
                }
                Ok(Answered::Other(other)) => other,
                Err(failure) if failure.says("requested lease not found") => {
                    self.leases.forget(lease).await;
                    if !pause.wait_until(deadline).await {
                        return Err(Fault::from(failure).into());
                    }
                    continue;
                }
                Err(failure) if failure.outcome == Outcome::Unknown => {
                    let lost = Lost {
                        key: &key,
                        value: &record.value,
                        lease,
                        expected,
                        before,
                    };
                    let revision = self.settle(lost, failure).await?;
                    if let Some(end) = record.expires_at {
                        self.wrote(&key, revision, end);
                    }
                    return Ok(revision);
                }
                Err(failure) => return Err(too_large(failure, &record)),
            };
            drop(guard);
            let current = match other {
                Some(version) => Some(self.record(version).await),
                None => None,
            };
            match (current, expected) {
                (Some(current), None) if !self.is_live(&current) => {
                    self.remove_expired(&key, current.revision, deadline)
                        .await?;
                }
                // The key was deleted between the condition and the read. Try again.
                (None, None) => {}
                (current, expected) => return Err(self.refusal(current.as_ref(), expected)),
            }
            if !pause.wait_until(deadline).await {
                return Err(Fault::Storage(Arc::new(Contended)).into());
            }
        }
    }

    /// Returns a lease for a record. An expiry in the past is refused, but refusals because of the
    /// existing record come first.
    async fn lease_for(
        &self,
        key: &Bytes,
        record: &NewRecord,
        expected: Option<Revision>,
        deadline: Instant,
    ) -> Result<i64, WriteError> {
        let Some(expires_at) = record.expires_at else {
            return Ok(0);
        };
        let now = self.clock.now();
        if expires_at <= now {
            let current = self.get_any(key, deadline).await?;
            let current = current.filter(|current| self.is_live(current));
            return Err(match (&current, expected) {
                (None, None) => WriteError::AlreadyExpired { expires_at, now },
                (Some(current), Some(expected)) if current.revision == expected => {
                    WriteError::AlreadyExpired { expires_at, now }
                }
                _ => self.refusal(current.as_ref(), expected),
            });
        }
        let lease = self
            .leases
            .attach(&self.client, now, expires_at, deadline)
            .await;
        Ok(lease.map_err(Fault::from)?)
    }

    /// Refuses a write on an expired version that etcd still has. It reads the version only if its
    /// end is not known locally.
    async fn check_live(
        &self,
        key: &Bytes,
        expected: Revision,
        deadline: Instant,
    ) -> Result<(), WriteError> {
        let end = self.expiries.of_revision(expected);
        let indexed = || Some(self.as_set_now(self.index.end_of(key, expected)?).at);
        let end = end.or_else(indexed);
        if end.is_some_and(|end| end > self.clock.now()) {
            return Ok(());
        }
        match self.get_any(key, deadline).await? {
            Some(current) if current.revision == expected && self.is_live(&current) => Ok(()),
            current => Err(self.refusal(current.as_ref(), Some(expected))),
        }
    }

    /// The error of a refused write, given the existing version.
    pub(super) fn refusal(
        &self,
        current: Option<&Record>,
        expected: Option<Revision>,
    ) -> WriteError {
        match (current.filter(|current| self.is_live(current)), expected) {
            (None, _) => WriteError::NotFound,
            (Some(current), None) => WriteError::AlreadyExists {
                revision: current.revision,
            },
            (Some(current), Some(expected)) => WriteError::Conflict {
                expected,
                current: current.revision,
            },
        }
    }

    /// Changes a key if it is at a revision, and otherwise reads it. Revision zero means absent.
    async fn transact(
        &self,
        key: &[u8],
        expected: Revision,
        then: Request,
        deadline: Instant,
    ) -> Result<Answered, Failure> {
        let full = self.keys.full(key);
        let look = RangeRequest {
            key: full.clone(),
            ..RangeRequest::default()
        };
        let at = CompareWith::ModRevision(signed(expected));
        let transaction = TxnRequest {
            compare: vec![Compare::equal(full, at)],
            success: vec![then.into()],
            failure: vec![Request::Range(look).into()],
        };
        let mut lost: Option<Failure> = None;
        let mut pause = Pause::default();
        loop {
            let sent = self.client.order(TXN, transaction.clone(), deadline).await;
            let failure = match sent {
                Ok(answer) => {
                    let answered = self.answered(answer);
                    // An earlier copy, whose answer was lost, may have been done; the condition
                    // would then fail for this copy.
                    return match (answered, lost) {
                        (Answered::Other(_), Some(failure)) => Err(failure),
                        (answered, _) => Ok(answered),
                    };
                }
                Err(failure) => failure,
            };
            let again = failure.outcome == Outcome::Unknown && expected > 0;
            let failure = match lost {
                // Once an answer was lost, a later refusal does not make the outcome certain.
                Some(lost) if failure.outcome != Outcome::Unknown => return Err(lost),
                // The write may be done, and is not repeated: there will be no space for it.
                None if failure.is_no_space() => return Err(failure.knowing(Outcome::Unknown)),
                _ => failure,
            };
            if !again || !pause.wait_until(deadline).await {
                return Err(failure);
            }
            lost = Some(failure);
        }
    }

    fn answered(&self, answer: TxnResponse) -> Answered {
        let revision = self.client.observe(answer.header);
        let version = answer
            .responses
            .into_iter()
            .next()
            .and_then(|it| it.response);
        match version {
            _ if answer.succeeded => {
                self.wrote.fetch_max(revision, Ordering::AcqRel);
                Answered::Done(revision)
            }
            Some(Response::Range(range)) => Answered::Other(range.kvs.into_iter().next()),
            _ => Answered::Other(None),
        }
    }

    pub(super) async fn remove(
        &self,
        key: Bytes,
        expected: Option<Revision>,
    ) -> Result<Deleted, WriteError> {
        check_size(&key, None)?;
        self.check_open()?;
        let deadline = self.client.deadline();
        let mut pause = Pause::default();
        loop {
            let current = self.get_any(&key, deadline).await?;
            let Some(current) = current.filter(|current| self.is_live(current)) else {
                return Err(WriteError::NotFound);
            };
            if expected.is_some_and(|expected| expected != current.revision) {
                return Err(self.refusal(Some(&current), expected));
            }
            let delete = self.delete_request(&key);
            let answered = self
                .transact(&key, current.revision, delete, deadline)
                .await;
            match answered {
                Ok(Answered::Done(revision)) => {
                    return Ok(Deleted {
                        revision,
                        previous: current,
                    });
                }
                // The key was changed in between. Reading it again also finds the right refusal.
                Ok(Answered::Other(_)) => {}
                Err(failure) if failure.outcome == Outcome::Unknown => {
                    return Err(Fault::Unknown(Arc::new(failure)).into());
                }
                Err(failure) => return Err(Fault::from(failure).into()),
            }
            if !pause.wait_until(deadline).await {
                return Err(Fault::Storage(Arc::new(Contended)).into());
            }
        }
    }

    fn delete_request(&self, key: &[u8]) -> Request {
        Request::DeleteRange(DeleteRangeRequest {
            key: self.keys.full(key),
            ..DeleteRangeRequest::default()
        })
    }

    /// Deletes one expired record, so that its key is free.
    async fn remove_expired(
        &self,
        key: &[u8],
        revision: Revision,
        deadline: Instant,
    ) -> Result<(), Fault> {
        let answered = self
            .transact(key, revision, self.delete_request(key), deadline)
            .await;
        match answered {
            Ok(_) => Ok(()),
            // The next attempt on the key shows whether the delete was done.
            Err(failure) if failure.outcome == Outcome::Unknown => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Deletes every record that has expired by the confirmed time.
    pub(super) async fn expire(&self) -> Result<u64, WriteError> {
        self.check_open()?;
        let mut removed = 0;
        let mut walk = self.walk_all();
        while let Some(part) = walk.next(self).await.map_err(into_fault)? {
            let mut ended = Vec::new();
            for version in part {
                let record = self.record(version).await;
                // The end is known by now, so the confirmed time includes every reading that the
                // end was computed from.
                if record.expires_at.is_some_and(|end| end <= self.confirmed()) {
                    ended.push((record.key, record.revision));
                }
            }
            removed += self.remove_ended(&ended).await?;
        }
        Ok(removed)
    }

    /// Deletes exactly these versions, several at one revision. Returns how many still existed.
    pub(super) async fn remove_ended(
        &self,
        ended: &[(Bytes, Revision)],
    ) -> Result<u64, WriteError> {
        let mut removed = 0;
        for batch in ended.chunks(EXPIRE_BATCH) {
            let one = |(key, revision): &(Bytes, Revision)| {
                let at = CompareWith::ModRevision(signed(*revision));
                Request::Txn(TxnRequest {
                    compare: vec![Compare::equal(self.keys.full(key), at)],
                    success: vec![self.delete_request(key).into()],
                    failure: Vec::new(),
                })
                .into()
            };
            let transaction = TxnRequest {
                success: batch.iter().map(one).collect(),
                ..TxnRequest::default()
            };
            // The conditions name exact revisions, so it may be sent again. A deletion whose answer
            // was lost is then not counted.
            let deadline = self.client.deadline();
            let answer: Result<TxnResponse, _> = self.client.ask(TXN, transaction, deadline).await;
            let answer = answer.map_err(Fault::from)?;
            self.client.observe(answer.header);
            removed += answer
                .responses
                .iter()
                .filter(|it| matches!(&it.response, Some(Response::Txn(inner)) if inner.succeeded))
                .count() as u64;
        }
        Ok(removed)
    }
}

/// Explains a request that etcd refused as too large. etcd's own limit for a whole request may be
/// below ours for a value.
fn too_large(failure: Failure, record: &NewRecord) -> WriteError {
    let (len, max) = (record.value.len() + REQUEST_OVERHEAD, VALUE_LEN_MAX);
    if failure.says("request is too large") && len > max {
        return WriteError::TooLarge {
            what: "the request to etcd",
            len,
            max,
        };
    }
    Fault::from(failure).into()
}

/// Converts the error of a walk at the latest revision, which fails only with a fault.
fn into_fault(error: ReadError) -> Fault {
    match error {
        ReadError::Fault(fault) => fault,
        other => Fault::Storage(Arc::new(other)),
    }
}
