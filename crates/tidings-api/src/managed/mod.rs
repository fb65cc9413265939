//! `metadata.managedFields`, the managers of an event's fields, and server-side apply.
//!
//! It follows `k8s.io/apimachinery/pkg/util/managedfields` and `sigs.k8s.io/structured-merge-diff`.
//!
//! - [`track`] is called for every create, PUT and patch. It gives the writer the fields that it
//!   changed, and removes them from all other managers. Whether events that were never applied are
//!   tracked is an option.
//! - [`apply()`] merges an applied configuration into an event. It refuses to change fields of
//!   other managers, and removes fields that the manager no longer applies.
//!
//! Fields are named as in the API version of the write. As in kube-apiserver, whose converter
//! cannot convert between the two groups, a write forgets the managers of fields in the other
//! version.

mod apply;
mod changes;
pub(crate) mod compare;
mod entries;
mod merge;
mod schema;
mod set;
mod writer;

use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};

pub use apply::{ApplyError, Conflict, apply};
use compare::compare;
use entries::{Managed, Manager, Operation};
use set::{FieldSet, PathElement};
pub use writer::Writer;

/// The manager that gets the fields set before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The fields of metadata that never have a manager, besides metadata itself.
const UNMANAGED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Updates the managed fields of an event that is created (`live` is `None`) or replaces `live`.
///
/// The client's managedFields are used if they can be read. Empty ones make the event forget all
/// managers. An event without managers is tracked from its creation if `track_on_create`, otherwise
/// from the first apply.
pub fn track(live: Option<&Event>, new: &mut Event, writer: Writer<'_>, track_on_create: bool) {
    let metadata = new.metadata.get_or_insert_default();
    let sent = std::mem::take(&mut metadata.managed_fields);
    let managed = match (sent.as_slice(), Managed::decode(&sent)) {
        // An empty list, which is read as one empty entry, asks to forget all managers.
        ([only], _) if *only == ManagedFieldsEntry::default() => Managed::default(),
        (_, Ok(managed)) if !managed.is_empty() => managed,
        _ => Managed::decode(managed_fields(live)).unwrap_or_default(),
    };
    if managed.is_empty() && (live.is_some() || !track_on_create) {
        return;
    }
    let managed = update(live, new, managed, writer);
    new.metadata.get_or_insert_default().managed_fields = managed.encode();
}

/// Gives the writer the fields that it changed, and takes them from all other managers.
fn update(live: Option<&Event>, new: &Event, mut managed: Managed, writer: Writer<'_>) -> Managed {
    let changes = compare(writer.api, live.unwrap_or(&Event::default()), new);
    managed.keep_version(writer.api.api_version());
    managed.take(&changes);
    let mut own = changes.written;
    strip(&mut own);
    if !own.is_empty() {
        let manager = Manager::new(writer.manager, Operation::Update, writer.api.api_version());
        managed.add(manager, &own, writer);
    }
    managed.cap();
    managed
}

/// Removes the fields that are never managed.
fn strip(set: &mut FieldSet) {
    for element in ["apiVersion", "kind"] {
        set.strip(&PathElement::known(element), &[]);
    }
    set.strip(&PathElement::known("metadata"), &UNMANAGED);
}

fn managed_fields(event: Option<&Event>) -> &[ManagedFieldsEntry] {
    let metadata = event.and_then(|event| event.metadata.as_ref());
    metadata.map_or(&[], |metadata| metadata.managed_fields.as_slice())
}

/// Restores the old times if nothing but times changed. So times alone cause no write
/// (`IgnoreManagedFieldsTimestampsTransformer`).
pub fn keep_times(new: &mut ObjectMeta, old: &ObjectMeta) {
    let timeless = |entry: &ManagedFieldsEntry| ManagedFieldsEntry {
        time: None,
        ..entry.clone()
    };
    let [own, others] = [&*new, old].map(|it| it.managed_fields.iter().map(timeless));
    if new.managed_fields != old.managed_fields && own.eq(others) {
        new.managed_fields.clone_from(&old.managed_fields);
    }
}

/// The default name of a manager: the User-Agent up to the first slash.
pub fn manager_of(user_agent: &str) -> String {
    const BYTES_MAX: usize = 128;
    let program = user_agent.split('/').next().unwrap_or_default();
    let printable = program.chars().filter(|character| !character.is_control());
    let mut bytes = 0;
    let fitting = printable.take_while(|character| {
        bytes += character.len_utf8();
        bytes <= BYTES_MAX
    });
    fitting.collect()
}

/// Whether the apply schema declares the field at a JSON pointer.
#[cfg(test)]
pub(crate) fn declares(api: crate::codec::Api, pointer: &str) -> bool {
    let mut names = pointer.split('/').skip(1);
    let schema = names.try_fold(schema::Schema::of(api), |schema, name| match name {
        "0" => Some(schema.item()),
        name => schema.declared(name),
    });
    schema.is_some()
}

#[cfg(test)]
mod tests;
