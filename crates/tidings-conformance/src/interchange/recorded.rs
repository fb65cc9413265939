//! Events recorded by the library: JSON and protobuf give the same event on both servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use tidings_core::{
    ClusterScopedNamespace, Correlated, Correlator, CorrelatorOptions, Event, EventApi,
    EventSource, EventType, NameStamps, NewEvent, Now, Occurrence, Reference, ReferenceFields,
    Series, SeriesOptions, TEXT_BYTES_MAX,
};

use super::error::{InterchangeError, different};
use super::server::Server;
use super::world::{GROUPS, World, events};

const NAMESPACE: &str = "recorded";

/// Each server creates the events in JSON and in protobuf, as first occurrence and as repeat, in
/// both groups.
pub(super) async fn recorded(world: &World<'_>) -> Result<(), InterchangeError> {
    for server in world.servers() {
        for occurrence in occurrences()? {
            let json = ("application/json", occurrence.create_body());
            let protobuf = (
                "application/vnd.kubernetes.protobuf",
                occurrence.create_body_protobuf(),
            );
            let json = stored(server, &occurrence, json).await?;
            let protobuf = stored(server, &occurrence, protobuf).await?;
            if json != protobuf {
                return Err(different(format!(
                    "{} stores other events:\n    as JSON:     {json}\n    as protobuf: {protobuf}",
                    server.name
                )));
            }
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
) -> Result<Value, InterchangeError> {
    let group = match occurrence.api() {
        EventApi::Core => GROUPS[0],
        EventApi::Events => GROUPS[1],
    };
    let all = events(group, NAMESPACE);
    let path = format!("{all}/{}", occurrence.name());
    let created = server.post_bytes(&all, content_type, body).await?;
    created.expect(201)?;
    let mut stored = server.get(&path).await?.expect(200)?;
    if let Some(metadata) = stored.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
        let managers = metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut);
        // Managers may differ only in the second of their write.
        for manager in managers
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            manager.remove("time");
        }
    }
    server.delete(&path, None).await?.expect(200)?;
    Ok(stored)
}

/// Events with all fields of a recorder, each as the first and as a repeat.
fn occurrences() -> Result<Vec<Occurrence>, InterchangeError> {
    let wrong = |error: &dyn std::fmt::Display| different(error.to_string());
    let names = Arc::new(NameStamps::new(1));
    let mut counts = Correlator::new(CorrelatorOptions::default(), Arc::clone(&names))
        .map_err(|error| wrong(&error))?;
    let mut series =
        Series::new(SeriesOptions::default(), &names).map_err(|error| wrong(&error))?;
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
        let at = Timestamp::from_microsecond(micros).map_err(|error| wrong(&error))?;
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
        Ok(found)
    } else {
        Err(different(format!(
            "{} of 4 events are written",
            found.len()
        )))
    }
}
