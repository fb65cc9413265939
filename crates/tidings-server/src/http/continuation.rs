//! Continue tokens, in kube-apiserver's own form (`k8s.io/apiserver/pkg/storage/continue.go`).
//!
//! So a list can continue at either of two servers on one etcd.

use base64::DecodeError;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine};
use serde::{Deserialize, Serialize};
use tidings_store::Revision;

use crate::http::status::Status;
use tidings_api::codec::json::complaint;

/// The position where a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The revision of the whole list. `None` means the latest, for a list whose revision is
    /// compacted.
    pub(crate) revision: Option<Revision>,
    /// The last key of the previous page; in a list of one namespace, without namespace and slash.
    pub(crate) after: String,
    /// The identity of the store, if there may be several. Otherwise it is empty, as in
    /// kube-apiserver's tokens.
    pub(crate) store: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    start: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    store: String,
}

/// The encoding of tokens. Unused bits of the last character are ignored, as in Go.
const TOKEN: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

const VERSION: &str = "meta.k8s.io/v1";

impl Continuation {
    pub(crate) fn encode(&self) -> String {
        let token = Token {
            v: VERSION.into(),
            rv: self
                .revision
                .map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX)),
            start: format!("{}\0", self.after),
            store: self.store.clone(),
        };
        // Two strings and an integer, so this cannot fail.
        TOKEN.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    /// Reads a token that must be of this store.
    ///
    /// # Errors
    ///
    /// 400 for an invalid token, 410 for one of another store.
    pub(crate) fn decode_for(text: &str, store: &str) -> Result<Self, Status> {
        let continuation = Self::decode(text)?;
        if continuation.store == store {
            Ok(continuation)
        } else {
            let why = "The provided continue parameter is of another store. You can start a new list without the continue parameter.";
            Err(Status::expired(why, None))
        }
    }

    /// Reads a token of any store.
    ///
    /// # Errors
    ///
    /// 400 for an invalid token.
    pub(crate) fn decode(text: &str) -> Result<Self, Status> {
        let invalid = |why: String| {
            Status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let json = TOKEN.decode(text).map_err(|error| {
            let place = match error {
                DecodeError::InvalidByte(place, _) | DecodeError::InvalidLastSymbol(place, _) => {
                    place
                }
                // An invalid character is reported before a wrong length, as in Go.
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text
                    .bytes()
                    .position(|byte| !alphabet::URL_SAFE.as_str().as_bytes().contains(&byte))
                    .unwrap_or(text.len().saturating_sub(1)),
            };
            invalid(format!("illegal base64 data at input byte {place}"))
        })?;
        let token: Option<Token> = serde_json::from_slice(&json)
            .map_err(|error| invalid(complaint(&json).unwrap_or_else(|| error.to_string())))?;
        let token = token.unwrap_or_default();
        if token.v != VERSION {
            let why = format!("server does not recognize this encoded version {}", token.v);
            return Err(invalid(why));
        }
        let revision = match token.rv {
            0 => {
                return Err(invalid(
                    "incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into(),
                ));
            }
            ..0 => None,
            revision => u64::try_from(revision).ok(),
        };
        if token.start.is_empty() {
            return Err(invalid(
                "encoded start key empty (version meta.k8s.io/v1)".into(),
            ));
        }
        let key = token.start.strip_prefix('/').unwrap_or(&token.start);
        // A key with empty or relative segments is not valid.
        let climbs = |step: &str| matches!(step, "" | "." | "..");
        if !key.is_empty() && key.split('/').any(climbs) {
            return Err(invalid(token.start));
        }
        Ok(Self {
            revision,
            after: key.strip_suffix('\0').unwrap_or(key).to_owned(),
            store: token.store,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for revision in [None, Some(1), Some(u64::from(u32::MAX))] {
            for store in ["", "prod"] {
                let continuation = Continuation {
                    revision,
                    after: "shop/web.1".into(),
                    store: store.into(),
                };
                let token = continuation.encode();
                let read = Continuation::decode_for(&token, store).unwrap();
                assert_eq!(read, continuation);
                let other = Continuation::decode_for(&token, "other").unwrap_err();
                assert_eq!(other.code(), 410);
            }
        }
    }

    /// A token of kube-apiserver for the events of a namespace.
    #[test]
    fn tokens_are_those_of_upstream() {
        let token = TOKEN.encode(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"web.1\u0000"}"#);
        let continuation = Continuation::decode(&token).unwrap();
        assert_eq!(continuation.after, "web.1");
        assert_eq!(continuation.encode(), token);
    }

    #[test]
    fn what_is_no_token() {
        let token = |json: &str| TOKEN.encode(json);
        #[rustfmt::skip]
        let table = [
            ("%%%".to_owned(), "illegal base64 data at input byte 0"),
            ("abcde".to_owned(), "illegal base64 data at input byte 4"),
            (token("["), "unexpected end of JSON input"),
            (token("{}"), "server does not recognize this encoded version "),
            (
                token(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#),
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                token(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#), "../x"),
            (token(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//x"}"#), "a//x"),
        ];
        for (token, why) in table {
            let status = Continuation::decode(&token).unwrap_err();
            assert_eq!(status.code().as_u16(), 400);
            let expected = format!("invalid continue token: continue key is not valid: {why}");
            assert_eq!(status.message(), expected);
        }
    }
}
