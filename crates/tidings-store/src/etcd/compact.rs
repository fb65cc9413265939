//! Compaction of etcd's history, by the protocol that kube-apiservers use (`compact.go`).
//!
//! All clients of an etcd compare-and-swap one key on its version, once per interval. The client
//! that wins compacts to the revision of the key's previous round. The others record the new state.
//! So history reaches back one to two intervals, whatever the number of clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::Shared;
use super::client::{COMPACT, Client, RANGE, TXN, signed};
use super::failure::Failure;
use super::wire::{
    CompactionRequest, Compare, CompareWith, Empty, KeyValue, PutRequest, RangeRequest,
    RangeResponse, Request, Response, TxnRequest, TxnResponse,
};
use crate::{Fault, Revision, WriteError};

const KEY: &str = "compact_rev_key";

/// Finds the oldest readable revision of etcd and its latest revision. The oldest is zero if etcd
/// was never compacted. etcd has no request for it, but tells for each revision whether it is
/// compacted. So a binary search finds the oldest in about thirty requests.
pub(super) async fn oldest_and_latest(client: &Client) -> Result<(Revision, Revision), Failure> {
    let answer: RangeResponse = client.ask(RANGE, look(0), client.deadline()).await?;
    let latest = client.observe(answer.header);
    let (mut too_old, mut readable) = (0, latest);
    while readable - too_old > 1 {
        let middle = too_old.midpoint(readable);
        let answer: Result<RangeResponse, _> =
            client.ask(RANGE, look(middle), client.deadline()).await;
        match answer {
            Ok(_) => readable = middle,
            Err(failure) if failure.is_compacted() => too_old = middle,
            Err(failure) => return Err(failure),
        }
    }
    // Revision 1 holds no change, so nothing was compacted.
    Ok((if readable > 1 { readable } else { 0 }, latest))
}

fn look(revision: Revision) -> RangeRequest {
    RangeRequest {
        key: KEY.into(),
        revision: signed(revision),
        ..RangeRequest::default()
    }
}

/// The revision that a client wrote to the protocol's key; `None` if the value is no revision.
fn written(version: &KeyValue) -> Option<Revision> {
    std::str::from_utf8(&version.value).ok()?.parse().ok()
}

/// Takes part in the compaction protocol; never returns.
pub(super) async fn run(shared: Arc<Shared>, every: Duration) {
    // Version of the protocol's key and revision of the cluster, both as of the previous round.
    let mut version = 0;
    let mut revision = 0;
    let mut history = shared.history();
    loop {
        sleep(every).await;
        let current = shared.history();
        if current != history {
            // etcd has another history: version and revision belong to the former one.
            (history, version, revision) = (current, 0, 0);
        }
        match round(&shared, version, revision).await {
            Ok(next) => (version, revision) = next,
            Err(failure) => {
                tracing::warn!(%failure, "compaction of etcd's history failed; trying again later");
            }
        }
    }
}

/// Plays one round of the protocol. Returns the version and revision for the next round.
pub(super) async fn round(
    shared: &Shared,
    version: i64,
    revision: Revision,
) -> Result<(i64, Revision), Failure> {
    let key = Bytes::from_static(KEY.as_bytes());
    let put = Request::Put(PutRequest {
        key: key.clone(),
        value: revision.to_string().into(),
        lease: 0,
    });
    let transaction = TxnRequest {
        compare: vec![Compare::equal(key, CompareWith::Version(version))],
        success: vec![put.into()],
        failure: vec![Request::Range(look(0)).into()],
    };
    let deadline = shared.client.deadline();
    let answer: TxnResponse = shared.client.order(TXN, transaction, deadline).await?;
    let latest = shared.client.observe(answer.header);
    if !answer.succeeded {
        let response = answer
            .responses
            .into_iter()
            .next()
            .and_then(|it| it.response);
        let Some(Response::Range(range)) = response else {
            return Ok((version, latest));
        };
        let Some(theirs) = range.kvs.first() else {
            // The key was deleted. The protocol starts again.
            return Ok((0, latest));
        };
        match written(theirs) {
            // A client that has not noticed that etcd was restored may write a revision that is not
            // reached.
            Some(compacted) if compacted > latest => {}
            Some(compacted) => shared.compacted(compacted),
            None => tracing::warn!(
                key = KEY,
                "the key of the compaction of etcd's history has no revision; what is compacted is not known"
            ),
        }
        return Ok((theirs.version, latest));
    }
    if revision > 0 {
        compact_to(shared, revision).await?;
        tracing::debug!(revision, "compacted etcd's history");
    }
    Ok((version + 1, latest))
}

async fn compact_to(shared: &Shared, revision: Revision) -> Result<(), Failure> {
    let request = CompactionRequest {
        revision: signed(revision),
    };
    let deadline = shared.client.deadline();
    let answer: Result<Empty, _> = shared.client.ask(COMPACT, request, deadline).await;
    match answer {
        Err(failure) if !failure.is_compacted() => return Err(failure),
        // etcd is compacted to here or further, by us or by another client.
        _ => {}
    }
    shared.compacted(revision);
    Ok(())
}

impl Shared {
    /// Compacts to a revision at once, outside the protocol.
    pub(super) async fn compact(&self, revision: Revision) -> Result<(), WriteError> {
        self.check_open()?;
        if revision <= self.oldest() {
            return Ok(());
        }
        match compact_to(self, revision).await {
            Ok(()) => Ok(()),
            Err(failure) if failure.is_future() => {
                let latest = self.latest(self.client.deadline()).await;
                Err(WriteError::FutureRevision {
                    requested: revision,
                    current: latest.map_err(Fault::from)?,
                })
            }
            Err(failure) => Err(Fault::from(failure).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_no_revision_is_not_taken_for_one() {
        let rows: [(&[u8], _); 5] = [
            (b"0", Some(0)),
            (b"17", Some(17)),
            (b"", None),
            (b"-1", None),
            (b"\xff", None),
        ];
        for (value, expected) in rows {
            let version = KeyValue {
                value: Bytes::from_static(value),
                ..KeyValue::default()
            };
            assert_eq!(written(&version), expected, "{value:?}");
        }
    }
}
