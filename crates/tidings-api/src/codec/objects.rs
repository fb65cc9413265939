//! The JSON tables of everything an event is made of, in the order of the Go structs
//! (`k8s.io/api/{core,events}/v1/types.go`, `k8s.io/apimachinery/pkg/apis/meta/v1/types.go`).
//!
//! One stored object has two views. What differs between them is only stated here, and for protobuf
//! in [`super::protobuf`].

use k8s_pb::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, ListMeta, ManagedFieldsEntry, ObjectMeta, OwnerReference, Preconditions,
};

use serde::de::MapAccess;

use super::json::{Members, Object, Reading, object};
use crate::managed::Changes;

/// An object of whatever kind, whose fields are passed over.
#[derive(Default, Clone, PartialEq)]
pub(crate) struct Anything;

impl<V> Object<V> for Anything {
    const GO_NAME: &'static str = "Unknown";
    const NAMES: &'static [&'static str] = &[];
    const ATOMIC: bool = true;
    fn write_fields(&self, _members: &mut Members<'_>) {}
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        _name: &'static str,
        _map: &mut A,
        _reading: &mut Reading,
    ) -> Result<(), A::Error> {
        Ok(())
    }
    fn canonicalize(&mut self) {}
    fn compare(_old: Option<&Self>, _new: Option<&Self>, _changes: &mut Changes) {}
}

/// The JSON of `v1`.
pub struct CoreV1;

/// The JSON of `events.k8s.io/v1`.
pub struct EventsV1;

object! { impl CoreV1 => Event {
    "metadata": metadata always,
    "involvedObject": involved_object always,
    "reason": reason omitted,
    "message": message omitted,
    "source": source always,
    "firstTimestamp": first_timestamp always,
    "lastTimestamp": last_timestamp always,
    "count": count omitted,
    "type": r#type omitted,
    "eventTime": event_time always,
    "series": series omitted,
    "action": action omitted,
    "related": related omitted,
    "reportingComponent": reporting_component always,
    "reportingInstance": reporting_instance always,
} }

object! { impl EventsV1 => Event {
    "metadata": metadata always,
    "eventTime": event_time always,
    "series": series omitted,
    "reportingController": reporting_component omitted,
    "reportingInstance": reporting_instance omitted,
    "action": action omitted,
    "reason": reason omitted,
    "regarding": involved_object always,
    "related": related omitted,
    "note": message omitted,
    "type": r#type omitted,
    "deprecatedSource": source always,
    "deprecatedFirstTimestamp": first_timestamp always,
    "deprecatedLastTimestamp": last_timestamp always,
    "deprecatedCount": count omitted,
} }

object! { impl CoreV1 => EventSeries {
    "count": count omitted,
    "lastObservedTime": last_observed_time always,
} }

object! { impl EventsV1 => EventSeries {
    "count": count always,
    "lastObservedTime": last_observed_time always,
} }

object! { impl<V> for EventSource {
    "component": component omitted,
    "host": host omitted,
} }

object! { impl<V> for atomic ObjectReference {
    "kind": kind omitted,
    "namespace": namespace omitted,
    "name": name omitted,
    "uid": uid omitted,
    "apiVersion": api_version omitted,
    "resourceVersion": resource_version omitted,
    "fieldPath": field_path omitted,
} }

object! { impl<V> for ObjectMeta {
    "name": name omitted,
    "generateName": generate_name omitted,
    "namespace": namespace omitted,
    "selfLink": self_link omitted,
    "uid": uid omitted,
    "resourceVersion": resource_version omitted,
    "generation": generation omitted,
    "creationTimestamp": creation_timestamp omitted,
    "deletionTimestamp": deletion_timestamp omitted,
    "deletionGracePeriodSeconds": deletion_grace_period_seconds pointer,
    "labels": labels omitted,
    "annotations": annotations omitted,
    "ownerReferences": owner_references omitted,
    "finalizers": finalizers omitted,
    "managedFields": managed_fields omitted,
} }

object! { impl<V> for atomic ManagedFieldsEntry {
    "manager": manager omitted,
    "operation": operation omitted,
    "apiVersion": api_version omitted,
    "time": time omitted,
    "fieldsType": fields_type omitted,
    "fieldsV1": fields_v1 omitted,
    "subresource": subresource omitted,
} }

object! { impl<V> for atomic OwnerReference {
    "apiVersion": api_version always,
    "kind": kind always,
    "name": name always,
    "uid": uid always,
    "controller": controller omitted,
    "blockOwnerDeletion": block_owner_deletion omitted,
} }

object! { impl<V> for ListMeta {
    "selfLink": self_link omitted,
    "resourceVersion": resource_version omitted,
    "continue": r#continue omitted,
    "remainingItemCount": remaining_item_count pointer,
} }

object! { impl<V> for DeleteOptions {
    "gracePeriodSeconds": grace_period_seconds pointer,
    "preconditions": preconditions omitted,
    "orphanDependents": orphan_dependents omitted,
    "propagationPolicy": propagation_policy omitted,
    "dryRun": dry_run omitted,
    "ignoreStoreReadErrorWithClusterBreakingPotential":
        ignore_store_read_error_with_cluster_breaking_potential omitted,
} }

object! { impl<V> for Preconditions {
    "uid": uid omitted,
    "resourceVersion": resource_version omitted,
} }
