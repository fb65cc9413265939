//! A walk over many keys, in parts of bounded size, all at one revision.

use bytes::Bytes;

use super::Shared;
use super::client::{RANGE, signed, unsigned};
use super::wire::{KeyValue, RangeRequest, RangeResponse};
use crate::{Fault, ReadError, Revision};

/// Maximum keys read at once; fewer if their values are large.
const PART_LEN: usize = 1000;

/// A walk over a range of keys; see the module documentation.
pub(super) struct Walk {
    begin: Bytes,
    end: Bytes,
    /// The revision; zero until the first part has returned the latest.
    revision: Revision,
    keys_only: bool,
    part_len: usize,
    /// Number of keys in the range, known from the first part on.
    pub(super) count: Option<u64>,
    over: bool,
}

impl Walk {
    /// A walk over a range at a revision; zero means the latest.
    pub(super) fn new((begin, end): (Bytes, Bytes), revision: Revision) -> Self {
        Self {
            begin,
            end,
            revision,
            keys_only: false,
            part_len: PART_LEN,
            count: None,
            over: false,
        }
    }

    /// Reads the remaining keys without values.
    pub(super) fn keys_only(&mut self) {
        self.keys_only = true;
    }

    /// Sets the number of keys read at once to about `len`.
    pub(super) fn part_len(mut self, len: usize) -> Self {
        self.part_len = len.clamp(1, PART_LEN);
        self
    }

    /// The revision of all keys read; known after the first part.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// Reads the next part of the keys, in order; `None` at the end.
    pub(super) async fn next(
        &mut self,
        shared: &Shared,
    ) -> Result<Option<Vec<KeyValue>>, ReadError> {
        if self.over {
            return Ok(None);
        }
        let answer = loop {
            let request = RangeRequest {
                key: self.begin.clone(),
                range_end: self.end.clone(),
                limit: signed(self.part_len as u64),
                revision: signed(self.revision),
                keys_only: self.keys_only,
                ..RangeRequest::default()
            };
            let deadline = shared.client.deadline();
            let answer: Result<RangeResponse, _> =
                shared.client.ask(RANGE, request, deadline).await;
            match answer {
                Ok(answer) => break answer,
                Err(failure) if failure.says("message length too large") && self.part_len > 1 => {
                    self.part_len /= 2;
                }
                Err(failure) if failure.is_compacted() => {
                    return Err(ReadError::Compacted {
                        requested: self.revision,
                        oldest: shared.oldest().max(self.revision + 1),
                    });
                }
                Err(failure) if failure.is_future() => {
                    return Err(ReadError::Future {
                        requested: self.revision,
                        current: shared.latest(deadline).await.map_err(Fault::from)?,
                    });
                }
                Err(failure) => return Err(Fault::from(failure).into()),
            }
        };
        let latest = shared.client.observe(answer.header);
        if self.revision == 0 {
            self.revision = latest;
        }
        self.count.get_or_insert(unsigned(answer.count));
        self.over = !answer.more;
        if let Some(last) = answer.kvs.last() {
            let mut next = last.key.to_vec();
            next.push(0);
            self.begin = next.into();
        }
        Ok(Some(answer.kvs))
    }
}

impl Shared {
    /// A walk over all keys of the store at the latest revision.
    pub(super) fn walk_all(&self) -> Walk {
        Walk::new(self.keys.all(), 0)
    }
}
