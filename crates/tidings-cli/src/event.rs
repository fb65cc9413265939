//! An event as the verbs read and show it: the server's object, with accessors that combine its
//! fields.
//!
//! Invariant: the object is kept whole, with fields unknown to this version, so JSON output is what
//! the server has.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidings_core::reading::{EventTimes, Order, is_set, is_warning, object_namespace, object_uid};

/// The annotation that names the cluster of an archive from which an event is.
pub const CLUSTER_ANNOTATION: &str = "tidings/cluster";

/// A core/v1 Event.
///
/// ```
/// use serde_json::json;
/// use tidings_cli::event::Event;
///
/// let event = Event::new(json!({
///     "metadata": {"name": "web.1", "namespace": "shop"},
///     "involvedObject": {"kind": "Pod", "name": "web"},
///     "lastTimestamp": "2026-03-04T05:06:00Z",
///     "count": 7,
/// }));
/// assert_eq!(event.object(), "Pod/web");
/// assert_eq!(event.count(), 7);
/// assert_eq!(event.last_seen().unwrap().to_string(), "2026-03-04T05:06:00Z");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    value: Value,
}

impl Event {
    /// Makes an event of a server's object. Items of a list lack kind and apiVersion, which are
    /// added here.
    pub fn new(mut value: Value) -> Self {
        if let Some(object) = value.as_object_mut() {
            object.entry("apiVersion").or_insert_with(|| "v1".into());
            object.entry("kind").or_insert_with(|| "Event".into());
        }
        Self { value }
    }

    /// Records the cluster of an archive from which the event is, as an annotation.
    pub fn set_cluster(&mut self, name: &str) {
        let Some(metadata) = self
            .value
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
        else {
            return;
        };
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(CLUSTER_ANNOTATION.to_owned(), name.into());
        }
    }

    /// The cluster of an archive from which the event is; empty if unknown.
    pub fn cluster(&self) -> &str {
        let annotations = self.value.pointer("/metadata/annotations");
        let cluster = annotations.and_then(|annotations| annotations.get(CLUSTER_ANNOTATION));
        cluster.and_then(Value::as_str).unwrap_or_default()
    }

    /// The whole object.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Takes the whole object.
    pub fn into_value(self) -> Value {
        self.value
    }

    fn text(&self, pointer: &str) -> &str {
        self.value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    fn time(&self, pointer: &str) -> Option<Timestamp> {
        let text = self.text(pointer);
        // Kubernetes' times reach one day further than jiff's.
        let last_day = || text.starts_with("9999-12-3").then_some(Timestamp::MAX);
        let time = text.parse().ok().or_else(last_day);
        time.filter(|at| is_set(*at))
    }

    fn times(&self) -> EventTimes<Timestamp> {
        EventTimes {
            last_observed_time: self.time("/series/lastObservedTime"),
            last_timestamp: self.time("/lastTimestamp"),
            event_time: self.time("/eventTime"),
            first_timestamp: self.time("/firstTimestamp"),
            creation_timestamp: self.time("/metadata/creationTimestamp"),
        }
    }

    fn integer(&self, pointer: &str) -> i64 {
        self.value
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or(0)
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `namespace/name`, the order in which API servers list.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// `metadata.resourceVersion` as a number, which it is for every API server.
    pub fn revision(&self) -> Option<u64> {
        self.text("/metadata/resourceVersion").parse().ok()
    }

    /// Removes `metadata.resourceVersion`.
    pub fn remove_revision(&mut self) {
        if let Some(metadata) = self
            .value
            .get_mut("metadata")
            .and_then(Value::as_object_mut)
        {
            metadata.remove("resourceVersion");
        }
    }

    /// `type`.
    pub fn event_type(&self) -> &str {
        self.text("/type")
    }

    /// `reason`.
    pub fn reason(&self) -> &str {
        self.text("/reason")
    }

    /// `message`, without blank space around it.
    pub fn message(&self) -> &str {
        self.text("/message").trim()
    }

    /// `involvedObject.kind`.
    pub fn object_kind(&self) -> &str {
        self.text("/involvedObject/kind")
    }

    /// `involvedObject.name`.
    pub fn object_name(&self) -> &str {
        self.text("/involvedObject/name")
    }

    /// `involvedObject.uid`.
    pub fn object_uid(&self) -> &str {
        self.text("/involvedObject/uid")
    }

    /// `involvedObject.fieldPath`.
    pub fn field_path(&self) -> &str {
        self.text("/involvedObject/fieldPath")
    }

    /// The group of `involvedObject.apiVersion`; empty for the core group, or if unknown.
    pub fn object_group(&self) -> &str {
        self.text("/involvedObject/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group)
    }

    /// The [`object_namespace`] of the object: the event's namespace, unless the object's kind is
    /// cluster-scoped.
    pub fn object_namespace(&self) -> &str {
        object_namespace(self.object_kind(), self.namespace())
    }

    /// The [`object_uid`] of the object.
    pub fn told_apart_by(&self) -> &str {
        object_uid(self.object_name(), self.text("/involvedObject/uid"))
    }

    /// `Kind/name` of the object the event is about.
    pub fn object(&self) -> String {
        format!("{}/{}", self.object_kind(), self.object_name())
    }

    /// The reporting component: `source.component`, or else `reportingComponent`.
    pub fn component(&self) -> &str {
        match self.text("/source/component") {
            "" => self.text("/reportingComponent"),
            component => component,
        }
    }

    /// The reporting host: `source.host`, or else `reportingInstance`.
    pub fn host(&self) -> &str {
        match self.text("/source/host") {
            "" => self.text("/reportingInstance"),
            host => host,
        }
    }

    /// Whether the event has been seen more than once, by kubectl's rule.
    pub fn is_repeated(&self) -> bool {
        self.value.get("series").is_some_and(Value::is_object) || self.integer("/count") > 1
    }

    /// How often the event was seen, at least 1.
    pub fn count(&self) -> u64 {
        let count = match self.value.get("series") {
            Some(Value::Object(_)) => self.integer("/series/count"),
            _ => self.integer("/count"),
        };
        u64::try_from(count).unwrap_or(0).max(1)
    }

    /// When the event was first seen: [`EventTimes::first_seen`].
    pub fn first_seen(&self) -> Option<Timestamp> {
        self.times().first_seen()
    }

    /// When the event was last seen: [`EventTimes::last_seen`].
    pub fn last_seen(&self) -> Option<Timestamp> {
        self.times().last_seen()
    }

    /// The event's sort position; the last seen comes last.
    pub fn order(&self) -> Order<'_> {
        let key = (self.namespace(), self.name());
        Order::new(self.times().seen(), self.revision(), key)
    }

    /// Whether the event is a warning: [`is_warning`].
    pub fn is_warning(&self) -> bool {
        is_warning(self.event_type())
    }

    /// The time since which the event is known to occur: `firstTimestamp`, or else `eventTime`.
    pub fn known_since(&self) -> Option<Timestamp> {
        let times = self.times();
        times.first_timestamp.or(times.event_time)
    }

    /// `metadata.labels` as kubectl shows them, `a=b,c=d`; `<none>` if there are none.
    pub fn labels(&self) -> String {
        let labels = self.value.pointer("/metadata/labels");
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        let labels = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")));
        let labels: Vec<_> = labels.collect();
        if labels.is_empty() {
            return "<none>".to_owned();
        }
        labels.join(",")
    }
}

/// Sorts events by when they were last seen, the latest at the end.
pub fn sort(events: &mut Vec<Event>) {
    // Each order is found once, because reading an event's times is slow.
    let mut orders: Vec<_> = events.iter().map(Event::order).zip(0..).collect();
    orders.sort_unstable();
    let places: Vec<usize> = orders.into_iter().map(|(_, place)| place).collect();
    let mut left: Vec<_> = events.drain(..).map(Some).collect();
    let sorted = places
        .into_iter()
        .filter_map(|place| left.get_mut(place)?.take());
    events.extend(sorted);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(value: Value) -> (Option<String>, Option<String>, u64) {
        let event = Event::new(value);
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        (
            text(event.first_seen()),
            text(event.last_seen()),
            event.count(),
        )
    }

    #[test]
    fn when_and_how_often_it_was_seen() {
        let time = |text: &str| Some(text.to_owned());
        let cases = [
            (json!({}), None, None, 1),
            (json!("no object"), None, None, 1),
            (
                json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "count": -3}),
                time("2026-01-01T00:00:00Z"),
                time("2026-01-01T00:00:00Z"),
                1,
            ),
            (
                json!({"firstTimestamp": "0001-01-01T00:00:00Z", "lastTimestamp": "0001-01-01T00:00:00Z", "eventTime": "2026-01-01T00:00:00.000001Z"}),
                time("2026-01-01T00:00:00.000001Z"),
                time("2026-01-01T00:00:00.000001Z"),
                1,
            ),
            (
                json!({"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "9999-12-31T23:59:59Z"}),
                time("2026-01-01T00:00:00Z"),
                time("9999-12-30T22:00:00.999999999Z"),
                1,
            ),
            (
                json!({"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 4}),
                time("2026-01-01T00:00:00Z"),
                time("2026-01-01T00:01:00Z"),
                4,
            ),
            (
                json!({"eventTime": "2026-01-01T00:00:00.000001Z", "firstTimestamp": null, "series": null}),
                time("2026-01-01T00:00:00.000001Z"),
                time("2026-01-01T00:00:00.000001Z"),
                1,
            ),
            (
                json!({"eventTime": "2026-01-01T00:00:00.000001Z", "series": {"count": 9, "lastObservedTime": "2026-01-01T00:09:00.5Z"}, "count": 2}),
                time("2026-01-01T00:00:00.000001Z"),
                time("2026-01-01T00:09:00.5Z"),
                9,
            ),
        ];
        for (value, first, last, count) in cases {
            assert_eq!(seen(value.clone()), (first, last, count), "{value}");
        }
    }
}
