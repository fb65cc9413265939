//! The identity of a store on etcd, stored under a key outside the prefix.
//!
//! There it is not a record, but a snapshot of etcd restores it together with the records.

use bytes::Bytes;

use super::Shared;
use super::client::TXN;
use super::failure::Failure;
use super::wire::{
    Compare, CompareWith, PutRequest, RangeRequest, Request, Response, TxnRequest, TxnResponse,
};

/// Suffix of the key, which follows the prefix without its last slash.
const SUFFIX: &str = ".tidings/identity";

impl Shared {
    /// Reads the identity from etcd; stores `new` as the identity if there is none yet.
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
        // This may be repeated: a second attempt finds the key that the first one wrote.
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
