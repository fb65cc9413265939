//! An event as the page lists it.

use serde::Serialize;
use tidings_api::codec::stored::Brief;

/// An event in the page's list. Times are in milliseconds since 1970.
#[derive(Debug, Serialize)]
pub(super) struct Item<'a> {
    cluster: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    reason: &'a str,
    message: &'a str,
    first: i64,
    last: i64,
    count: u64,
    object: Object<'a>,
    source: &'a str,
    host: &'a str,
    action: &'a str,
}

#[derive(Debug, Serialize)]
struct Object<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

/// Makes the item of an event of a cluster.
pub(super) fn item<'a>(cluster: &'a str, brief: &Brief<'a>) -> Item<'a> {
    Item {
        cluster,
        namespace: brief.namespace,
        name: brief.name,
        uid: brief.uid,
        event_type: brief.event_type,
        reason: brief.reason,
        message: brief.message,
        first: brief.first,
        last: brief.last,
        count: brief.count,
        object: Object {
            kind: brief.kind,
            namespace: brief.object_namespace,
            name: brief.object,
            uid: brief.object_uid,
        },
        source: brief.component,
        host: brief.host,
        action: brief.action,
    }
}
