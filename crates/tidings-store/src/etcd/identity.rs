//! The identity of the store: a key outside the prefix, so that it is not a record, but is restored
//! with the records from a snapshot of etcd.

use bytes::Bytes;

use super::Shared;
use super::client::TXN;
use super::failure::Failure;
use super::wire::{
    Compare, CompareWith, PutRequest, RangeRequest, Request, Response, TxnRequest, TxnResponse,
};

/// The end of the key, after the prefix without its last slash.
const SUFFIX: &str = ".tidings/identity";

impl Shared {
    /// The identity in etcd, which becomes `new` if there is none yet.
    pub(super) async fn identity(&self, new: String) -> Result<Option<String>, Failure> {
        let prefix = self.options.prefix.trim_end_matches('/');
        let key = Bytes::from(format!("{prefix}{SUFFIX}"));
        let new = Bytes::from(new);
        let put = Request::Put(PutRequest {
            key: key.clone(),
            value: new.clone(),
            lease: 0,
        });
        let look = Request::Range(RangeRequest {
            key: key.clone(),
            ..RangeRequest::default()
        });
        let transaction = TxnRequest {
            compare: vec![Compare::equal(key, CompareWith::Version(0))],
            success: vec![put.into()],
            failure: vec![look.into()],
        };
        // It may be sent again: a second copy finds what the first has written.
        let answer: TxnResponse = self
            .client
            .ask(TXN, transaction, self.client.deadline())
            .await?;
        self.client.observe(answer.header);
        let response = answer.responses.into_iter().next();
        let found = match response.and_then(|it| it.response) {
            Some(Response::Range(range)) => range.kvs.into_iter().next().map(|kv| kv.value),
            _ => Some(new),
        };
        Ok(found.map(|found| String::from_utf8_lossy(&found).into_owned()))
    }
}
