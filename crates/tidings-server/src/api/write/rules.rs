//! The server's side of `tidings_core::validate`: the fields of a stored event that it checks, and
//! the changes that a create or an update makes to metadata before the rules apply
//! (`k8s.io/apiserver/pkg/registry/rest/{create,update,meta}.go`).

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_pb::api::core::v1::{Event, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use tidings_core::validate::{
    self, EventFields, FieldErrors, MetadataFields, NameRule, ReferenceFields, RequestVersion,
};
use tidings_store::{Index, UnixMillis};

use tidings_api::bounded::BoundedList;
use tidings_api::codec::time::Moment;
use tidings_api::codec::{self, Api};

/// Maximum bytes of the list of repeated owners in a warning. A header holds less of a longer one.
const REPEATED_BYTES_MAX: usize = 16 * 1024;

/// Checks a new event; metadata is checked only if the event itself is valid.
pub(crate) fn check_create(api: Api, event: &Event) -> FieldErrors {
    let fields = fields(event);
    let errors = validate::validate_create(&fields, version(api));
    if errors.is_empty() {
        validate::validate_metadata(&fields.metadata, NameRule::PathSegment)
    } else {
        errors
    }
}

/// Checks a changed event: metadata first, then the event itself (`BeforeUpdate` and
/// `validateCommonFields`).
pub(crate) fn check_update(api: Api, new: &Event, old: &Event) -> FieldErrors {
    let (new, old) = (fields(new), fields(old));
    let mut errors = validate::validate_metadata(&new.metadata, NameRule::PathSegment);
    errors.append(validate::validate_metadata_update(
        &new.metadata,
        &old.metadata,
    ));
    errors.append(validate::validate_update(&new, &old, version(api)));
    errors
}

fn version(api: Api) -> RequestVersion {
    match api {
        Api::Core | Api::Past => RequestVersion::CoreV1,
        Api::Events => RequestVersion::EventsV1,
    }
}

/// Prepares the metadata of a new event: sets uid and creation time, and removes fields that
/// clients may not set.
pub(crate) fn prepare_create(metadata: &mut ObjectMeta, uid: String, now: Time) {
    wipe_system_fields(metadata);
    metadata.uid = Some(uid);
    metadata.creation_timestamp = Some(now);
    metadata.resource_version = None;
}

/// Removes fields that only the server sets.
pub(crate) fn wipe_system_fields(metadata: &mut ObjectMeta) {
    metadata.uid = None;
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.self_link = None;
}

/// Keeps the first of several equal owners, and returns the warning about the others
/// (`dedupOwnerReferencesAndAddWarning` of `k8s.io/apiserver/pkg/endpoints/handlers/rest.go`).
pub(crate) fn dedup_owner_references(event: &mut Event, found: &str) -> Option<String> {
    let owners = &mut event.metadata.as_mut()?.owner_references;
    let mut seen = HashSet::new();
    let mut repeated = BoundedList::new(", ", REPEATED_BYTES_MAX);
    let new = |owner| seen.insert(whole(owner));
    let kept: Vec<bool> = owners.iter().map(new).collect();
    if kept.iter().all(|kept| *kept) {
        return None;
    }
    let mut kept = kept.into_iter();
    owners.retain(|owner| {
        let first = kept.next().unwrap_or(true);
        if !first {
            repeated.push(owner.uid());
        }
        first
    });
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{found}; API server dedups owner references in 1.20+, and \
         may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.finish()
    ))
}

/// The fields by which owners are compared. Empty texts are left out: some processors take a tenth
/// of a microsecond to compare two empty texts, of which a body may have a million.
fn whole(owner: &OwnerReference) -> ([Option<&str>; 4], [Option<bool>; 2]) {
    let texts = [owner.uid(), owner.name(), owner.kind(), owner.api_version()];
    let texts = texts.map(|text| (!text.is_empty()).then_some(text));
    (texts, [owner.controller, owner.block_owner_deletion])
}

/// Restores the fields of a changed event that no update may change.
pub(crate) fn prepare_update(new: &mut ObjectMeta, old: &ObjectMeta) {
    if new.uid().is_empty() {
        new.uid.clone_from(&old.uid);
    }
    new.creation_timestamp = old.creation_timestamp;
    if old.deletion_timestamp.is_some() {
        new.deletion_timestamp = old.deletion_timestamp;
    }
    if new.deletion_grace_period_seconds.is_none() {
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
    new.generation = old.generation;
    new.self_link = None;
}

/// The index entry of an event in the store.
pub(crate) fn index(event: &Event) -> Index {
    let object = event.involved_object.as_ref();
    let text = |of: fn(&ObjectReference) -> &str| object.map(of).unwrap_or_default().to_owned();
    Index {
        object_uid: text(ObjectReference::uid),
        object_kind: text(ObjectReference::kind),
        object_namespace: text(ObjectReference::namespace),
        object_name: text(ObjectReference::name),
        reason: event.reason().to_owned(),
        event_type: event.r#type().to_owned(),
        last_seen: UnixMillis(codec::last_seen(event).map_or(0, Timestamp::as_millisecond)),
    }
}

fn fields(event: &Event) -> EventFields<'_> {
    let timestamp = |moment: Option<Moment>| moment.map(Moment::timestamp);
    let (object, source) = (event.involved_object.as_ref(), event.source.as_ref());
    EventFields {
        metadata: event.metadata.as_ref().map(metadata).unwrap_or_default(),
        involved_object: object.map(reference).unwrap_or_default(),
        related: event.related.as_ref().map(reference),
        reason: event.reason(),
        message: event.message(),
        source: source.map_or([""; 2], |it| [it.component(), it.host()]),
        first_timestamp: timestamp(codec::time(event.first_timestamp)),
        last_timestamp: timestamp(codec::time(event.last_timestamp)),
        count: event.count(),
        event_type: event.r#type(),
        event_time: timestamp(codec::micro_time(event.event_time)),
        series: event.series.as_ref().map(|series| {
            (
                series.count(),
                timestamp(codec::micro_time(series.last_observed_time)),
            )
        }),
        action: event.action(),
        reporting_controller: event.reporting_component(),
        reporting_instance: event.reporting_instance(),
    }
}

fn reference(object: &ObjectReference) -> ReferenceFields<'_> {
    [
        object.kind(),
        object.namespace(),
        object.name(),
        object.uid(),
        object.api_version(),
        object.resource_version(),
        object.field_path(),
    ]
}

fn metadata(metadata: &ObjectMeta) -> MetadataFields<'_> {
    MetadataFields {
        name: metadata.name(),
        generate_name: metadata.generate_name(),
        namespace: metadata.namespace(),
        uid: metadata.uid(),
        generation: metadata.generation(),
        labels: Some(&metadata.labels),
        annotations: Some(&metadata.annotations),
        owner_references: metadata
            .owner_references
            .iter()
            .map(|owner| {
                (
                    [owner.api_version(), owner.kind(), owner.name(), owner.uid()],
                    [owner.controller, owner.block_owner_deletion],
                )
            })
            .collect(),
        finalizers: &metadata.finalizers,
        deletion: (
            codec::time(metadata.deletion_timestamp).map(Moment::timestamp),
            metadata.deletion_grace_period_seconds,
        ),
    }
}
