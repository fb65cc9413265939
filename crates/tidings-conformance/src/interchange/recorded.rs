//! Events recorded by the library: JSON and protobuf give the same event on both servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use tidings_core::{
    ClusterScopedNamespace, Correlated, Correlator, CorrelatorOptions, Event, EventApi,
    EventSource, EventType, NameStamps, NewEvent, Now, Occurrence, Reference, ReferenceFields,
    Series, SeriesOptions, TEXT_BYTES_MAX,
};

use super::server::Server;
use super::world::{GROUPS, World, events, same};
use crate::error::{Result, fail};

const NAMESPACE: &str = "recorded";

/// Each server creates the events in JSON and in protobuf, as first occurrence and as repeat, in
/// both groups.
pub(super) async fn recorded(world: &World<'_>) -> Result<()> {
    for server in world.servers() {
        for occurrence in occurrences()? {
            let json = ("application/json", occurrence.create_body());
            let protobuf = (
                "application/vnd.kubernetes.protobuf",
                occurrence.create_body_protobuf(),
            );
            let json = stored(server, &occurrence, json).await?;
            let protobuf = stored(server, &occurrence, protobuf).await?;
            let what = format!("{} stores other events", server.name);
            same(&what, ("as JSON", &json), ("as protobuf", &protobuf))?;
        }
    }
    Ok(())
}

/// The event that the server stores, without the values that differ each time. It is deleted
/// afterwards.
async fn stored(
    server: &Server,
    occurrence: &Occurrence,
    (content_type, body): (&str, Vec<u8>),
) -> Result<Value> {
    let group = match occurrence.api() {
        EventApi::Core => GROUPS[0],
        EventApi::Events => GROUPS[1],
    };
    let all = events(group, NAMESPACE);
    let path = format!("{all}/{}", occurrence.name());
    server
        .send(Method::POST, &all, content_type, body, 201)
        .await?;
    let mut stored = server.get(&path).await?;
    if let Some(metadata) = stored["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    // Managers may differ only in the second of their write.
    let managers = stored["metadata"]["managedFields"].as_array_mut();
    for manager in managers.into_iter().flatten() {
        manager["time"].take();
    }
    server.delete(&path, &Value::Null, 200).await?;
    Ok(stored)
}

/// Events with all fields of a recorder, each as the first and as a repeat.
fn occurrences() -> Result<Vec<Occurrence>> {
    let names = Arc::new(NameStamps::new(1));
    let mut counts = Correlator::new(CorrelatorOptions::default(), Arc::clone(&names))?;
    let mut series = Series::new(SeriesOptions::default(), &names)?;
    let reference = |kind, name| {
        Reference::new(ReferenceFields {
            api_version: "v1",
            kind,
            namespace: NAMESPACE,
            name,
            uid: "u-1",
            resource_version: "7",
            field_path: "spec.containers{web}",
        })
    };
    let map =
        |key: &str, value: &str| Arc::new(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    let annotations = map("example.com/note", "<ü>");
    let labels = map("by", "recorder");
    let mut found = Vec::new();
    for micros in [1_704_067_200_000_001, 1_704_067_205_900_000] {
        let at = Timestamp::from_microsecond(micros)?;
        let new = NewEvent {
            source: &EventSource::component("example.com/controller").host("node-1"),
            regarding: &reference("Pod", "web"),
            related: Some(&reference("Node", "node-1")),
            event_type: EventType::Warning,
            reason: "BackOff",
            action: "Restarting",
            message: &"back-off <restarting> & failing ü",
            annotations: Some(&annotations),
            labels: Some(&labels),
            cluster_scoped_namespace: &ClusterScopedNamespace::Default,
            text_bytes_max: TEXT_BYTES_MAX,
        };
        let event = Event::new(&new, &names, at);
        if let Correlated::Write(occurrence) = counts.correlate(Now::at(at), &event) {
            counts.acknowledged(&occurrence);
            found.push(occurrence);
        }
        series.handle_event(Now::at(at), &event);
        found.extend(series.poll_write());
    }
    if found.len() == 4 {
        return Ok(found);
    }
    fail(format!("{} of 4 events are written", found.len()))
}
