//! Server-side apply: a PATCH that creates the event if it does not exist.

use serde_json::Value;
use tidings_core::validate::go_quote;

use super::commit::{AFTER_ADMISSION, CHANGE_ATTEMPTS, Write, Written, now};
use crate::api::request::decoding::lenient_yaml;
use crate::http::status::Status;
use tidings_api::managed::{self, ApplyError, Writer};
use tidings_api::yaml;

/// Upstream's message before a duplicate key.
const KEYS_TWICE: &str =
    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  ";

/// Applies the configuration in the body.
pub(in crate::api) async fn apply(write: &mut Write<'_>) -> Result<Written, Status> {
    let (call, options) = (write.call, write.options);
    let (config, duplicates) = read(&call.body)?;
    let writer = Writer {
        manager: &options.field_manager,
        api: call.api,
        now: now(write.server),
    };
    for _ in 0..CHANGE_ATTEMPTS {
        write.warnings.clear();
        let stored = write.stored().await?;
        let live = stored.as_ref().map(|stored| &stored.event);
        let mut event = managed::apply(live, &config, writer, options.force).map_err(refusal)?;
        write.warnings = options
            .field_validation
            .heed_as(KEYS_TWICE, duplicates.clone())
            .map_err(Status::bad_request)?;
        let metadata = event.metadata.get_or_insert_default();
        if live.is_none() && !metadata.uid().is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                metadata.uid()
            );
            return Err(Status::conflict(call.api, &call.info.name, &why));
        }
        write.check_place(metadata)?;
        // As with other patches, the resourceVersion has to match only if the configuration names
        // it.
        if config.pointer("/metadata/resourceVersion").is_none() {
            metadata.resource_version = None;
        }
        write.dedup_owners(&mut event, AFTER_ADMISSION);
        if let Some(written) = write.put(stored.as_ref(), event).await? {
            return Ok(written);
        }
    }
    Err(Status::modified(call.api, &call.info.name))
}

fn refusal(error: ApplyError) -> Status {
    match error {
        ApplyError::Unacceptable(why) => Status::bad_request(why),
        ApplyError::Conflicts(conflicts) => Status::apply_conflicts(&conflicts),
        // kube-apiserver answers 500 to a configuration that does not fit the schema.
        _ => Status::internal(error),
    }
}

/// Reads a configuration in YAML or JSON, and warnings about duplicate keys, whose last value is
/// used.
fn read(body: &[u8]) -> Result<(Value, Vec<String>), Status> {
    if body.trim_ascii().is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    if let Some(config) = yaml::plain_json(body) {
        return Ok((config, Vec::new()));
    }
    // Only the first of several documents is used.
    let body = yaml::first_document(body);
    let unreadable =
        |why: &dyn std::fmt::Display| Status::bad_request(format!("error decoding YAML: {why}"));
    let (mut config, duplicates): (Value, Vec<String>) = match lenient_yaml(body) {
        Ok((config, twice)) => (config, twice.iter().map(repeated).collect()),
        // Some JSON is not YAML: its escapes of surrogate pairs are not.
        Err(why) => match serde_json::from_slice(body) {
            Ok(config) => (config, Vec::new()),
            Err(_) => return Err(unreadable(&why.strict)),
        },
    };
    if !config.is_object() {
        return Err(unreadable(&"an object is accepted"));
    }
    settle_numbers(&mut config);
    Ok((config, duplicates))
}

/// Turns whole floats into integers: 5.0 is 5.
fn settle_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            // The float has no fraction, and no more digits than a float holds exactly.
            if let Some(float) = number.as_f64()
                && number.is_f64()
                && float.fract() == 0.0
                && let Ok(integer) = format!("{float:.0}").parse::<i64>()
            {
                *value = integer.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(settle_numbers),
        Value::Object(members) => members.values_mut().for_each(settle_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The first duplicate key, in kube-apiserver's words.
fn repeated(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let said = || {
        let (_, place) = line.split_once("line ")?;
        let (number, what) = place.split_once(' ')?;
        let (_, key) = what.split_once("duplicate mapping key: ")?;
        let (key, _) = key.rsplit_once(", set ")?;
        Some(format!(
            "line {number}: key {} already set in map",
            go_quote(key)
        ))
    };
    said().unwrap_or_else(|| line.to_owned())
}
