//! Invented events like those that a cluster's components send: many objects, nodes, reasons and
//! messages, no two events alike.

use serde::Serialize;

/// What components report about objects: component, type, reason, message.
const SAID: [(&str, &str, &str, &str); 8] = [
    (
        "default-scheduler",
        "Normal",
        "Scheduled",
        "Successfully assigned {object} to {node}",
    ),
    (
        "kubelet",
        "Normal",
        "Pulling",
        "Pulling image \"registry.example.com/team/{object}:v1.{number}\"",
    ),
    (
        "kubelet",
        "Normal",
        "Pulled",
        "Successfully pulled image \"registry.example.com/team/{object}:v1.{number}\" in {number}ms ({number}ms including waiting). Image size: 48{number} bytes.",
    ),
    (
        "kubelet",
        "Normal",
        "Created",
        "Created container: main-{number}",
    ),
    (
        "kubelet",
        "Normal",
        "Started",
        "Started container main-{number}",
    ),
    (
        "kubelet",
        "Warning",
        "BackOff",
        "Back-off restarting failed container main in pod {object}({number})",
    ),
    (
        "kubelet",
        "Warning",
        "Unhealthy",
        "Readiness probe failed: Get \"http://10.2.{number}.17:8080/healthz\": dial tcp: connect: connection refused",
    ),
    (
        "kubelet",
        "Warning",
        "FailedMount",
        "MountVolume.SetUp failed for volume \"kube-api-access-{number}\" : failed to sync configmap cache: timed out waiting for the condition",
    ),
];

/// An event in the form in which it is serialized, so that making a body costs the load as little
/// as possible.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
    involved_object: InvolvedObject<'a>,
    reason: &'a str,
    message: &'a str,
    source: Source<'a>,
    first_timestamp: &'a str,
    last_timestamp: &'a str,
    count: u64,
    r#type: &'a str,
    event_time: (),
    reporting_component: &'a str,
    reporting_instance: &'a str,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InvolvedObject<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    api_version: &'a str,
    resource_version: &'a str,
    field_path: &'a str,
}

#[derive(Serialize)]
struct Source<'a> {
    component: &'a str,
    host: &'a str,
}

/// Number of namespaces that the objects are in, in turn.
pub(super) const NAMESPACES: u64 = 10;

/// The namespace of an object.
pub(super) fn namespace(object: u64) -> String {
    format!("team-{}", object % NAMESPACES)
}

/// The name of an object.
pub(super) fn object_name(object: u64) -> String {
    format!("web-{:08x}-{:05}", scatter(object) >> 32, object)
}

fn node_name(object: u64) -> String {
    format!("node-{:03}", object % 250)
}

/// The uid of an object.
pub(super) fn object_uid(object: u64) -> String {
    let bits = scatter(object);
    format!(
        "{:08x}-{:04x}-4a3b-9c1d-{object:012x}",
        bits >> 32,
        bits & 0xffff
    )
}

/// The body of a create: event `number` of a run, about the object with this number.
pub fn event(run: &str, number: u64, object: u64) -> String {
    let bits = scatter(number);
    let said = SAID[(bits % SAID.len() as u64) as usize];
    let message = said
        .3
        .replace("{object}", &object_name(object))
        .replace("{node}", &node_name(object))
        .replace("{number}", &(bits % 9973).to_string());
    event_with(run, number, object, &namespace(object), &message)
}

/// Like `event`, with a given namespace and message.
pub(super) fn event_with(
    run: &str,
    number: u64,
    object: u64,
    namespace: &str,
    message: &str,
) -> String {
    let (component, event_type, reason, _) = SAID[(scatter(number) % SAID.len() as u64) as usize];
    let (name, node) = (object_name(object), node_name(object));
    let seconds = number / 50 % 3600;
    let time = format!("2026-03-01T10:{:02}:{:02}Z", seconds / 60, seconds % 60);
    let resource_version = (number / 3).to_string();
    let metadata_name = format!("{name}.{run}{number:x}");
    json_text(&Body {
        api_version: "v1",
        kind: "Event",
        metadata: Metadata {
            name: &metadata_name,
            namespace,
        },
        involved_object: InvolvedObject {
            kind: "Pod",
            namespace,
            name: &name,
            uid: &object_uid(object),
            api_version: "v1",
            resource_version: &resource_version,
            field_path: "spec.containers{main}",
        },
        reason,
        message,
        source: Source {
            component,
            host: &node,
        },
        first_timestamp: &time,
        last_timestamp: &time,
        count: 1,
        r#type: event_type,
        event_time: (),
        reporting_component: component,
        reporting_instance: &node,
    })
}

/// The body of the patch with which a recorder counts a repeat.
pub fn patch(count: u64) -> String {
    let seconds = count % 3600;
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    format!(r#"{{"count":{count},"lastTimestamp":"2026-03-01T11:{minutes:02}:{seconds:02}Z"}}"#)
}

/// Serialization of strings and numbers cannot fail.
fn json_text(event: &Body<'_>) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

/// A number whose 64 bits all depend on the given one.
fn scatter(number: u64) -> u64 {
    let mixed = (number.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_about_the_size_of_real_ones_and_no_two_alike() {
        let bodies: Vec<String> = (0..100)
            .map(|number| event("a", number, number / 20))
            .collect();
        let mean = bodies.iter().map(String::len).sum::<usize>() / bodies.len();
        assert!((600..900).contains(&mean), "{mean}");
        let distinct: std::collections::HashSet<&String> = bodies.iter().collect();
        assert_eq!(distinct.len(), bodies.len());
    }
}
