//! Server-side apply of one configuration to one event.
//!
//! It follows `managedfields/internal`: `fieldmanager.go`, `structuredmerge.go`,
//! `skipnonapplied.go`, `lastappliedmanager.go`, `lastappliedupdater.go`.
//!
//! A configuration is partial, so it is handled as JSON; the stored event is typed. An apply that
//! changes nothing leaves the event as it is, including the time of its manager.

use std::sync::Arc;

use k8s_pb::api::core::v1::Event;
use serde::de::Error;
use serde_json::Value;

use super::entries::{Entry, Managed, Manager, Operation};
use super::merge::{merge, prune};
use super::schema::{self, Schema};
use super::set::{FieldSet, PathElement, Shown};
use super::{BEFORE_FIRST_APPLY, Writer, managed_fields, strip, update};
use crate::codec::{self, Api, json::Reading};

/// A field that the configuration would change and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager, such as `"name" using v1`.
    pub manager: Arc<str>,
    /// The field, such as `.metadata.labels.app`.
    pub field: String,
}

/// The reason why a configuration is not applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The configuration is not one of this kind.
    #[error("{0}")]
    Unacceptable(String),
    /// The configuration or the stored event does not fit the kind's schema.
    #[error("{0}")]
    Unfit(String),
    /// Other managers own fields that the configuration would change.
    #[error("others manage what would change")]
    Conflicts(Vec<Conflict>),
}

/// The annotation in which kubectl keeps the configuration of its client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager whose server-side apply continues its client-side applies.
const KUBECTL: &str = "kubectl";
/// Maximum bytes of all annotations. The annotation of the client-side apply is dropped if it would
/// exceed them.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Applies a configuration to an event, or makes a new event of it if `live` is `None`.
///
/// # Errors
///
/// [`ApplyError`] says what is wrong with the configuration, or which fields other managers own
/// (never if `force`).
pub fn apply(
    live: Option<&Event>,
    config: &Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<Event, ApplyError> {
    check_type(config, writer.api)?;
    let mut managed = Managed::decode(managed_fields(live))
        .map_err(|why| ApplyError::Unfit(format!("failed to decode managed fields: {why}")))?;
    let mut event = live.cloned().unwrap_or_default();
    let metadata = event.metadata.get_or_insert_default();
    metadata.managed_fields.clear();
    if managed.is_empty() {
        let before = Writer {
            manager: BEFORE_FIRST_APPLY,
            ..writer
        };
        managed = update(None, &event, managed, before);
    }
    let sent = config.pointer("/metadata/managedFields");
    if sent.is_some_and(|sent| !sent.is_null()) {
        let why = "metadata.managedFields must be nil";
        return Err(ApplyError::Unacceptable(why.into()));
    }
    let schema = Schema::of(writer.api);
    schema::check(schema, config).map_err(|why| {
        ApplyError::Unfit(format!(
            "failed to create typed patch object ({}): {why}",
            describe(config)
        ))
    })?;
    managed.keep_version(writer.api.api_version());

    let live_value = to_value(writer.api, &event)?;
    let manager = Manager::new(writer.manager, Operation::Apply, "");
    let last = managed.0.remove(&manager);
    let mut own = schema::field_set(schema, config);
    let merged = merge(schema, &live_value, config);
    let merged = match &last {
        Some(last) => {
            let mut all = own.clone();
            managed.0.values().for_each(|entry| all.unite(&entry.set));
            prune(schema, merged, &last.set, &all)
        }
        None => merged,
    };

    let changes = schema::compare(schema, &live_value, &merged);
    if !force {
        let mut conflicts = conflicts(&managed, &changes.written);
        if writer.manager == KUBECTL && !conflicts.is_empty() {
            let ours = applied_by_client(schema, &event, &live_value, writer.api);
            conflicts.retain(|(_, path)| !ours.has_path(path));
        }
        if !conflicts.is_empty() {
            let conflict = |(manager, path): (Arc<str>, Vec<PathElement>)| Conflict {
                manager,
                field: Shown(&path).to_string(),
            };
            return Err(ApplyError::Conflicts(
                conflicts.into_iter().map(conflict).collect(),
            ));
        }
    }
    managed.take(&changes);
    let unchanged = live.is_some() && merged == live_value;
    strip(&mut own);
    if !own.is_empty() {
        let time = if unchanged {
            last.and_then(|last| last.time)
        } else {
            Some(writer.now)
        };
        let entry = Entry {
            set: own,
            api_version: writer.api.api_version().to_owned(),
            time,
        };
        managed.0.insert(manager, entry);
    }
    if !unchanged {
        event = to_event(writer.api, merged).map_err(|why| {
            ApplyError::Unfit(format!(
                "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}: {why}",
                describe(config),
                group_version_kind(config)
            ))
        })?;
    }
    if writer.manager == KUBECTL {
        renew_last_applied(&mut event, config);
    }
    event.metadata.get_or_insert_default().managed_fields = managed.encode();
    Ok(event)
}

/// Checks that a configuration states the kind and version that the request is for.
fn check_type(config: &Value, api: Api) -> Result<(), ApplyError> {
    if text(config, "/apiVersion") == api.api_version() && text(config, "/kind") == "Event" {
        return Ok(());
    }
    let why = format!("invalid object type: {}", group_version_kind(config));
    Err(ApplyError::Unacceptable(why))
}

/// The text at a JSON pointer; empty if there is none.
fn text<'a>(config: &'a Value, pointer: &str) -> &'a str {
    let text = config.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The configuration's `GroupVersionKind`, as Go prints it.
fn group_version_kind(config: &Value) -> String {
    let api_version = text(config, "/apiVersion");
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((group, version)) if !version.contains('/') => (group, version),
        Some(_) => return "/, Kind=".into(),
    };
    format!("{group}/{version}, Kind={}", text(config, "/kind"))
}

/// The object that a configuration is for, as messages name it.
fn describe(config: &Value) -> String {
    let namespace = text(config, "/metadata/namespace");
    let name = text(config, "/metadata/name");
    format!("{namespace}/{name}; {}", group_version_kind(config))
}

fn to_value(api: Api, event: &Event) -> Result<Value, ApplyError> {
    let mut json = Vec::with_capacity(1024);
    codec::write_event(api, event, true, &mut json);
    serde_json::from_slice(&json).map_err(|error| ApplyError::Unfit(error.to_string()))
}

fn to_event(api: Api, value: Value) -> Result<Event, serde_json::Error> {
    let mut reading = Reading::of_unstructured();
    let (_, event) = codec::read_event(api, value, &mut reading)?;
    match reading.uninterpretable().or(reading.complaint()) {
        Some(why) => Err(serde_json::Error::custom(why)),
        None => Ok(event),
    }
}

/// The managers of changed fields, with the fields, in the order in which messages list them.
fn conflicts(managed: &Managed, written: &FieldSet) -> Vec<(Arc<str>, Vec<PathElement>)> {
    let by_manager = managed.0.iter().flat_map(|(manager, entry)| {
        let paths = entry.set.intersection(written).paths();
        let manager: Arc<str> = manager.describe().into();
        paths.into_iter().map(move |path| (manager.clone(), path))
    });
    by_manager.collect()
}

/// The fields that kubectl applied client-side and that are unchanged since.
/// `kubectl apply --server-side` may take them over.
fn applied_by_client(schema: Schema, event: &Event, live: &Value, api: Api) -> FieldSet {
    let metadata = event.metadata.as_ref();
    let applied: Option<Value> = metadata
        .and_then(|metadata| metadata.annotations.get(LAST_APPLIED))
        .and_then(|text| serde_json::from_str(text).ok());
    let Some(applied) = applied.filter(|applied| {
        text(applied, "/apiVersion") == api.api_version() && schema::check(schema, applied).is_ok()
    }) else {
        return FieldSet::default();
    };
    let mut ours = schema::field_set(schema, &applied);
    let changes = schema::compare(schema, &applied, live);
    ours.subtract(&changes.written);
    ours.subtract(&changes.removed);
    ours
}

/// Updates the annotation of kubectl's client-side apply, if there is one.
fn renew_last_applied(event: &mut Event, config: &Value) {
    let annotations = &mut event.metadata.get_or_insert_default().annotations;
    if annotations.get(LAST_APPLIED).is_none_or(String::is_empty) {
        return;
    }
    let mut config = config.clone();
    let applied = config.pointer_mut("/metadata/annotations");
    if let Some(applied) = applied.and_then(Value::as_object_mut) {
        applied.remove(LAST_APPLIED);
    }
    annotations.insert(LAST_APPLIED.into(), as_go_encodes(&config));
    let bytes: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}

/// JSON as Go's encoder writes it. Go escapes these characters, which occur only in texts.
fn as_go_encodes(value: &Value) -> String {
    let mut json = value.to_string();
    for (character, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        json = json.replace(character, escaped);
    }
    json + "\n"
}
