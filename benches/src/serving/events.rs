//! Invented events like those that a cluster's components send: many objects, nodes, reasons and
//! messages, no two events alike. They are written as text, so that making a body costs the load as
//! little as possible.

/// What components report about objects: component, type, reason, message as JSON.
#[rustfmt::skip]
const SAID: [(&str, &str, &str, &str); 8] = [
    ("default-scheduler", "Normal", "Scheduled", "Successfully assigned {object} to {node}"),
    ("kubelet", "Normal", "Pulling", r#"Pulling image \"registry.example.com/team/{object}:v1.{number}\""#),
    ("kubelet", "Normal", "Pulled", r#"Successfully pulled image \"registry.example.com/team/{object}:v1.{number}\" in {number}ms ({number}ms including waiting). Image size: 48{number} bytes."#),
    ("kubelet", "Normal", "Created", "Created container: main-{number}"),
    ("kubelet", "Normal", "Started", "Started container main-{number}"),
    ("kubelet", "Warning", "BackOff", "Back-off restarting failed container main in pod {object}({number})"),
    ("kubelet", "Warning", "Unhealthy", r#"Readiness probe failed: Get \"http://10.2.{number}.17:8080/healthz\": dial tcp: connect: connection refused"#),
    ("kubelet", "Warning", "FailedMount", r#"MountVolume.SetUp failed for volume \"kube-api-access-{number}\" : failed to sync configmap cache: timed out waiting for the condition"#),
];

/// Number of namespaces that the objects are in, in turn.
pub(super) const NAMESPACES: u64 = 10;

/// The namespace of an object.
pub(super) fn namespace(object: u64) -> String {
    format!("team-{}", object % NAMESPACES)
}

/// The path of a namespace's events.
pub(super) fn path(object: u64) -> String {
    format!("/api/v1/namespaces/{}/events", namespace(object))
}

/// The name of an object.
pub(super) fn object_name(object: u64) -> String {
    format!("web-{:08x}-{:05}", scatter(object) >> 32, object)
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
pub(super) fn event(run: &str, number: u64, object: u64) -> String {
    let bits = scatter(number);
    let message = SAID[(bits % SAID.len() as u64) as usize].3;
    let message = message.replace("{object}", &object_name(object));
    let message = message.replace("{node}", &format!("node-{:03}", object % 250));
    event_with(
        run,
        number,
        object,
        &message.replace("{number}", &(bits % 9973).to_string()),
    )
}

/// Like `event`, with a given message.
pub(super) fn event_with(run: &str, number: u64, object: u64, message: &str) -> String {
    let (component, event_type, reason, _) = SAID[(scatter(number) % SAID.len() as u64) as usize];
    let (name, uid, namespace) = (object_name(object), object_uid(object), namespace(object));
    let (node, version) = (object % 250, number / 3);
    let seconds = number / 50 % 3600;
    let time = format!("2026-03-01T10:{:02}:{:02}Z", seconds / 60, seconds % 60);
    format!(
        r#"{{"apiVersion":"v1","kind":"Event","metadata":{{"name":"{name}.{run}{number:x}","namespace":"{namespace}"}},"involvedObject":{{"kind":"Pod","namespace":"{namespace}","name":"{name}","uid":"{uid}","apiVersion":"v1","resourceVersion":"{version}","fieldPath":"spec.containers{{main}}"}},"reason":"{reason}","message":"{message}","source":{{"component":"{component}","host":"node-{node:03}"}},"firstTimestamp":"{time}","lastTimestamp":"{time}","count":1,"type":"{event_type}","eventTime":null,"reportingComponent":"{component}","reportingInstance":"node-{node:03}"}}"#
    )
}

/// The body of the patch with which a recorder counts a repeat.
pub(super) fn patch(count: u64) -> String {
    let (minutes, seconds) = (count % 3600 / 60, count % 60);
    format!(r#"{{"count":{count},"lastTimestamp":"2026-03-01T11:{minutes:02}:{seconds:02}Z"}}"#)
}

/// A number whose 64 bits all depend on the given one.
fn scatter(number: u64) -> u64 {
    crate::Numbers(number).next()
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
        for body in bodies {
            assert!(
                serde_json::from_str::<serde_json::Value>(&body)
                    .unwrap()
                    .is_object()
            );
        }
    }
}
