//! About how many bytes of memory an event takes in its wire form, besides the struct itself.
//!
//! This is used for the bounds on events that are read back.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};
use serde_json::Value;

/// Bytes of a map's entry besides its texts: its share of a node.
const MAP_ENTRY_BYTES: usize = 64;

/// Bytes of everything that `event` points to.
pub(super) fn heap_size(event: &v1::Event) -> usize {
    let source = event.source.as_ref();
    texts([
        event.type_.as_ref(),
        event.reason.as_ref(),
        event.message.as_ref(),
        event.action.as_ref(),
        event.reporting_component.as_ref(),
        event.reporting_instance.as_ref(),
        source.and_then(|source| source.component.as_ref()),
        source.and_then(|source| source.host.as_ref()),
    ]) + reference(&event.involved_object)
        + event.related.as_ref().map_or(0, reference)
        + metadata(&event.metadata)
}

/// Bytes of a map's entries.
pub(super) fn map_size(map: &BTreeMap<String, String>) -> usize {
    map.iter()
        .map(|(key, value)| key.len() + value.len() + MAP_ENTRY_BYTES)
        .sum()
}

fn texts<const N: usize>(texts: [Option<&String>; N]) -> usize {
    texts.into_iter().flatten().map(String::len).sum()
}

fn list<T>(list: Option<&Vec<T>>, heap_size: impl Fn(&T) -> usize) -> usize {
    let items = list.into_iter().flatten();
    items.map(|item| size_of::<T>() + heap_size(item)).sum()
}

fn reference(reference: &v1::ObjectReference) -> usize {
    texts([
        reference.api_version.as_ref(),
        reference.field_path.as_ref(),
        reference.kind.as_ref(),
        reference.name.as_ref(),
        reference.namespace.as_ref(),
        reference.resource_version.as_ref(),
        reference.uid.as_ref(),
    ])
}

fn metadata(meta: &ObjectMeta) -> usize {
    texts([
        meta.generate_name.as_ref(),
        meta.name.as_ref(),
        meta.namespace.as_ref(),
        meta.resource_version.as_ref(),
        meta.self_link.as_ref(),
        meta.uid.as_ref(),
    ]) + meta.annotations.as_ref().map_or(0, map_size)
        + meta.labels.as_ref().map_or(0, map_size)
        + list(meta.finalizers.as_ref(), String::len)
        + list(meta.owner_references.as_ref(), owner)
        + list(meta.managed_fields.as_ref(), managed)
}

fn owner(owner: &OwnerReference) -> usize {
    owner.api_version.len() + owner.kind.len() + owner.name.len() + owner.uid.len()
}

fn managed(entry: &ManagedFieldsEntry) -> usize {
    texts([
        entry.api_version.as_ref(),
        entry.fields_type.as_ref(),
        entry.manager.as_ref(),
        entry.operation.as_ref(),
        entry.subresource.as_ref(),
    ]) + entry.fields_v1.as_ref().map_or(0, |fields| json(&fields.0))
}

/// Bytes of a JSON value. It does not recurse, because the value may be nested to any depth.
fn json(value: &Value) -> usize {
    let mut bytes = 0;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => {
                bytes += items.len() * size_of::<Value>();
                left.extend(items);
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    bytes += key.len() + size_of::<Value>() + MAP_ENTRY_BYTES;
                    left.push(value);
                }
            }
        }
    }
    bytes
}
