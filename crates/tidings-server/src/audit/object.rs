//! Reads a request's body as JSON of bounded length, decoded as the API does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use http::HeaderMap;
use k8s_pb::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use prost::Message;
use serde_json::Value;

use crate::http::negotiate::{Media, body_media};
use tidings_api::codec::json::replace_what_is_no_text;
use tidings_api::codec::{self, Api};
use tidings_api::yaml::first_document;

/// The expected kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// An event of this version, or a patch.
    Event(Api),
    DeleteOptions,
}

/// Reads a body; `None` if it cannot be read or is too long, as sent or as JSON.
pub(super) fn read(
    expected: Expected,
    headers: &HeaderMap,
    body: &Bytes,
    bytes_max: usize,
) -> Option<Value> {
    if body.len() > bytes_max {
        return None;
    }
    // If a parser panics, the entry is still written, without the body.
    let read = catch_unwind(AssertUnwindSafe(|| match body_media(headers) {
        Ok(Media::Protobuf) => protobuf(expected, body),
        Ok(Media::Json) => json(body),
        Ok(Media::Yaml) => yaml(body, bytes_max),
        // An apply is YAML; other patches are JSON.
        Err(_) => json(body).or_else(|| yaml(body, bytes_max)),
    }));
    read.unwrap_or_default()
}

fn json(body: &[u8]) -> Option<Value> {
    let read = serde_json::from_slice(body);
    read.or_else(|_| serde_json::from_slice(&replace_what_is_no_text(body)))
        .ok()
}

/// Reads the first YAML document. Of duplicate keys the last value counts. Each use of an alias
/// counts towards the length.
fn yaml(body: &[u8], bytes_max: usize) -> Option<Value> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_nodes: bytes_max,
            max_total_scalar_bytes: bytes_max,
        },
        with_snippet: false,
    };
    serde_saphyr::from_slice_with_options(first_document(body), options).ok()
}

fn protobuf(expected: Expected, body: &Bytes) -> Option<Value> {
    let enveloped = codec::protobuf::open(body).ok()?;
    match expected {
        Expected::DeleteOptions => DeleteOptions::decode(enveloped.raw).ok().map(options),
        Expected::Event(api) => {
            let event = codec::read_protobuf_event(api, enveloped.raw).ok()?;
            let mut json = Vec::new();
            codec::write_event(api, &event, true, &mut json);
            serde_json::from_slice(&json).ok()
        }
    }
}

/// The options that are set, as JSON.
fn options(options: DeleteOptions) -> Value {
    let preconditions = options.preconditions.map(|given| {
        let version = given.resource_version.map(Value::from);
        object([
            ("uid", given.uid.map(Value::from)),
            ("resourceVersion", version),
        ])
    });
    let dry_run = Some(options.dry_run).filter(|values| !values.is_empty());
    let grace_period = options.grace_period_seconds.map(Value::from);
    let orphan = options.orphan_dependents.map(Value::from);
    let policy = options.propagation_policy.map(Value::from);
    object([
        ("kind", Some("DeleteOptions".into())),
        ("gracePeriodSeconds", grace_period),
        ("preconditions", preconditions),
        ("orphanDependents", orphan),
        ("propagationPolicy", policy),
        ("dryRun", dry_run.map(Value::from)),
    ])
}

/// An object of the members that have a value.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, header};
    use k8s_pb::apimachinery::pkg::apis::meta::v1::Preconditions;
    use serde_json::json;

    use super::*;

    fn read_as(content_type: &'static str, body: &[u8]) -> Option<Value> {
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))];
        let body = Bytes::copy_from_slice(body);
        let expected = Expected::DeleteOptions;
        read(expected, &headers.into_iter().collect(), &body, 100)
    }

    #[test]
    fn what_the_api_accepts_is_read() {
        let json = "application/json";
        let yaml = "application/yaml";
        let apply = "application/apply-patch+yaml";
        #[rustfmt::skip]
        let table = [
            (json, &br#"{"a": 1}"#[..], Some(json!({"a": 1}))),
            (json, b"{\"a\": \"\xff\"}", Some(json!({"a": "\u{fffd}"}))),
            (json, b"a: 1", None),
            (yaml, b"a: 1\na: 2\n---\na: 3\n", Some(json!({"a": 2}))),
            (yaml, b"a: &a [1, 2]\nb: *a", Some(json!({"a": [1, 2], "b": [1, 2]}))),
            (apply, b"a: 1", Some(json!({"a": 1}))),
            ("application/merge-patch+json", br#"{"a": "\ud800"}"#, Some(json!({"a": "\u{fffd}"}))),
        ];
        for (content_type, body, expected) in table {
            let text = String::from_utf8_lossy(body);
            assert_eq!(read_as(content_type, body), expected, "{text}");
        }
    }

    #[test]
    fn what_is_long_as_sent_or_through_aliases_is_not_read() {
        let yaml = "application/yaml";
        assert!(read_as(yaml, format!("a: {}", "b".repeat(97)).as_bytes()).is_some());
        assert!(read_as(yaml, format!("a: {}", "b".repeat(98)).as_bytes()).is_none());
        let twice = |len| format!("a: &a {}\nb: *a", "b".repeat(len));
        assert!(read_as(yaml, twice(40).as_bytes()).is_some());
        assert!(read_as(yaml, twice(60).as_bytes()).is_none());
    }

    #[test]
    fn options_of_a_delete_are_read_from_protobuf() {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some("7".into()),
                ..Preconditions::default()
            }),
            dry_run: vec!["All".into()],
            ..DeleteOptions::default()
        };
        // An envelope whose second field is the object.
        let raw = options.encode_to_vec();
        let len = u8::try_from(raw.len()).unwrap();
        let body = [b"k8s\0\x12", &[len][..], &raw].concat();
        assert_eq!(
            read_as("application/vnd.kubernetes.protobuf", &body),
            Some(json!({
                "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": "7"}, "dryRun": ["All"],
            }))
        );
    }
}
