//! The forms of a Kubernetes Event, as pure functions: JSON, YAML, protobuf, stored bytes and
//! `Table`; patches, server-side apply with its managed fields, and selectors.
//!
//! In memory, an event is [`k8s_pb`]'s core/v1 message, whatever version and form it was read from.
//! One table, [`tidings_core::fields`], states its fields and their names in both versions; the
//! rest of this crate walks that table.
//!
//! ```
//! use tidings_api::codec::json::Reading;
//! use tidings_api::codec::{self, Api};
//! use tidings_api::selector::FieldSelector;
//!
//! // What a client sent as core/v1,
//! let body = br#"{"involvedObject": {"kind": "Pod", "name": "web"}, "reason": "BackOff", "x": 1}"#;
//! let mut body = serde_json::Deserializer::from_slice(body);
//! let mut reading = Reading::default();
//! let (_, event) = codec::read_event(Api::Core, &mut body, &mut reading)?;
//! assert_eq!(reading.notes.texts, ["unknown field \"x\""]);
//!
//! // is selected
//! let selector = FieldSelector::parse(Api::Core, "involvedObject.name=web")?;
//! assert!(selector.matches(&event));
//!
//! // and read as events.k8s.io/v1.
//! let mut json = Vec::new();
//! codec::write_event(Api::Events, &event, true, &mut json);
//! let json: serde_json::Value = serde_json::from_slice(&json)?;
//! assert_eq!(json["regarding"]["name"], "web");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | To | there is |
//! |---|---|
//! | read and write events | [`codec`], and for YAML [`yaml`] |
//! | serve stored bytes without decoding them | [`codec::stored`] |
//! | print what `kubectl get` shows | [`table`], and for `?pretty` [`indent`] |
//! | select | [`selector`], and for files [`conditions`] |
//! | change | [`patch`], and for server-side apply [`managed`] |
//! | say what is wrong in a bounded text | [`bounded`], [`field_validation`] |
//!
//! Nothing here knows HTTP, a store, a clock or async: functions take bytes and values, and return
//! bytes, values and errors. [`tidings-server`](https://docs.rs/tidings-server) serves them.

pub mod bounded;
pub mod codec;
pub mod conditions;
pub mod field_validation;
mod go;
pub mod indent;
pub mod managed;
pub mod patch;
pub mod selector;
pub mod table;
pub mod yaml;
