//! Continue tokens, in kube-apiserver's own form (`k8s.io/apiserver/pkg/storage/continue.go`), so that a list goes on at
//! either of two servers on one etcd.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tidings_store::Revision;

use crate::error::Status;

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The revision the whole list is of; `None` is the latest, for a list whose revision is forgotten.
    pub(crate) revision: Option<Revision>,
    /// The key it stopped behind, in a list of one namespace without that and the slash.
    pub(crate) after: String,
}

#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

const VERSION: &str = "meta.k8s.io/v1";

impl Continuation {
    pub(crate) fn encode(&self) -> String {
        let token = Token {
            v: VERSION.into(),
            rv: self
                .revision
                .map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX)),
            start: format!("{}\0", self.after),
        };
        // Two strings and an integer: this cannot fail.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    /// Reads a token.
    ///
    /// # Errors
    /// 400 for what is none of ours.
    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: String| Status::bad_request(format!("invalid continue token: {why}"));
        let json = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(error.to_string()))?;
        let token: Token =
            serde_json::from_slice(&json).map_err(|error| invalid(error.to_string()))?;
        if token.v != VERSION {
            return Err(invalid(format!(
                "server does not recognize this encoded version {:?}",
                token.v
            )));
        }
        let revision = match token.rv {
            -1 => None,
            0 => {
                return Err(invalid(
                    "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into(),
                ));
            }
            revision => Some(
                u64::try_from(revision)
                    .map_err(|_| invalid(format!("resource version {revision} is negative")))?,
            ),
        };
        let after = token
            .start
            .strip_suffix('\0')
            .filter(|after| !after.is_empty())
            .map(str::to_owned);
        let after =
            after.ok_or_else(|| invalid("the start key is not the one after a key".into()))?;
        Ok(Self { revision, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for revision in [None, Some(1), Some(u64::from(u32::MAX))] {
            let continuation = Continuation {
                revision,
                after: "shop/web.1".into(),
            };
            assert_eq!(
                Continuation::decode(&continuation.encode()).unwrap(),
                continuation
            );
        }
    }

    #[test]
    fn what_is_no_token() {
        let encode = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for token in [
            "%%%".to_owned(),
            encode("{}"),
            encode("[]"),
            encode(r#"{"v":"v2","rv":1,"start":"a\u0000"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":-2,"start":"a\u0000"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a"}"#),
            encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"\u0000"}"#),
        ] {
            assert_eq!(
                Continuation::decode(&token).unwrap_err().code().as_u16(),
                400,
                "{token}"
            );
        }
    }
}
