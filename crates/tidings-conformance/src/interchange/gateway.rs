//! Requests to etcd through its JSON gateway.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::error::{InterchangeError, different};
use crate::http::{HttpError, send_plainly};

pub(super) struct Gateway {
    address: String,
}

/// A key's value and lease in etcd.
pub(super) struct Kept {
    /// The value in base64.
    value: Value,
    pub(super) lease: String,
}

impl Gateway {
    pub(super) fn new(url: &str) -> Self {
        Self {
            address: url.trim_start_matches("http://").to_owned(),
        }
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value, InterchangeError> {
        let request = Request::post(format!("/v3/{method}"))
            .header("Content-Type", "application/json")
            .body(Full::from(Bytes::from(body.to_string())))
            .map_err(HttpError::from)?;
        let answer = send_plainly(&self.address, request).await?;
        let status = answer.status;
        let body = answer.body().await?;
        if status != 200 {
            let said = String::from_utf8_lossy(&body).into_owned();
            return Err(different(format!("etcd's {method}: {said}")));
        }
        Ok(serde_json::from_slice(&body)?)
    }

    pub(super) async fn read(&self, namespace: &str, name: &str) -> Result<Kept, InterchangeError> {
        let answer = self
            .call("kv/range", &json!({"key": key(namespace, name)}))
            .await?;
        let kept = answer.pointer("/kvs/0");
        let kept = kept.ok_or_else(|| different(format!("etcd has no {namespace}/{name}")))?;
        let lease = kept.get("lease").and_then(Value::as_str).unwrap_or("0");
        Ok(Kept {
            value: kept.get("value").cloned().unwrap_or_default(),
            lease: lease.to_owned(),
        })
    }

    /// Writes an existing value again, with a new lease of this number of seconds.
    pub(super) async fn lease_anew(
        &self,
        namespace: &str,
        name: &str,
        seconds: u64,
    ) -> Result<(), InterchangeError> {
        let kept = self.read(namespace, name).await?;
        let granted = self
            .call("lease/grant", &json!({"TTL": seconds.to_string()}))
            .await?;
        let body = json!({
            "key": key(namespace, name),
            "value": kept.value,
            "lease": granted.get("ID"),
        });
        self.call("kv/put", &body).await.map(drop)
    }

    /// The granted and the remaining seconds of a lease.
    pub(super) async fn life(&self, lease: &str) -> Result<(u64, u64), InterchangeError> {
        let answer = self.call("lease/timetolive", &json!({"ID": lease})).await?;
        let number = |name: &str| {
            let number = answer.get(name).and_then(Value::as_str)?;
            number.parse().ok()
        };
        Ok((
            number("grantedTTL").unwrap_or(0),
            number("TTL").unwrap_or(0),
        ))
    }

    /// Compacts the history before a revision.
    pub(super) async fn compact(&self, revision: &str) -> Result<(), InterchangeError> {
        let body = json!({"revision": revision, "physical": true});
        self.call("kv/compaction", &body).await.map(drop)
    }
}

fn key(namespace: &str, name: &str) -> String {
    BASE64_STANDARD.encode(format!("/registry/events/{namespace}/{name}"))
}
