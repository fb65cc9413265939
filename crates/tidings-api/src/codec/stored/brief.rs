//! Brief views of stored events: the fields for listing, counting and ordering many of them.

use jiff::{SignedDuration, Timestamp};
use tidings_core::reading::{EventTimes, Order, is_set, object_namespace};

use super::super::time::Moment;
use super::StoredEvent;
use super::numbers::{field, meta, reference, source};
use super::wire::Message;
use crate::codec::view::EventView;

/// Nanoseconds of a millisecond.
const NANOS_OF_MILLI: i32 = 1_000_000;

/// The fields of an event that tell what happened. A text that is not set is empty. Times are in
/// milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Brief<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `involvedObject.kind`.
    pub kind: &'a str,
    /// The namespace of the object; see [`object_namespace`].
    pub object_namespace: &'a str,
    /// `involvedObject.name`.
    pub object: &'a str,
    /// `involvedObject.uid`.
    pub object_uid: &'a str,
    /// `involvedObject.fieldPath`.
    pub field_path: &'a str,
    /// `type`.
    pub event_type: &'a str,
    /// `reason`.
    pub reason: &'a str,
    /// `message`.
    pub message: &'a str,
    /// `action`.
    pub action: &'a str,
    /// The reporting component: `source.component`, or else `reportingComponent`.
    pub component: &'a str,
    /// The reporting host: `source.host`, or else `reportingInstance`.
    pub host: &'a str,
    /// The time when it first happened, not after `last`: [`EventTimes::first_seen`].
    pub first: i64,
    /// The time when it last happened: [`EventTimes::last_seen`].
    pub last: i64,
    /// The nanoseconds of this time beyond its milliseconds. They decide between events of one
    /// millisecond.
    pub last_nanos: i32,
    /// The number of occurrences, at least 1: `series.count`, or else `count`.
    pub count: u64,
}

impl<'a> StoredEvent<'a> {
    /// All times of the event; `None` for bytes that are not in the usual form.
    pub fn times(&self) -> Option<EventTimes<Timestamp>> {
        let event = &self.event;
        let set = |moment: Option<Moment>| moment.map(Moment::timestamp).filter(|at| is_set(*at));
        Some(EventTimes {
            last_observed_time: set(self.series()?.and_then(|(_, last)| last)),
            last_timestamp: set(event.time(field::LAST_TIMESTAMP)?),
            event_time: set(event.time(field::EVENT_TIME)?),
            first_timestamp: set(event.time(field::FIRST_TIMESTAMP)?),
            creation_timestamp: set(self.metadata.time(meta::CREATION_TIMESTAMP)?),
        })
    }

    /// The brief view of the event; `None` for bytes that are not in the usual form.
    pub fn brief(&self) -> Option<Brief<'a>> {
        let (event, metadata) = (&self.event, &self.metadata);
        let object = event.message(field::INVOLVED_OBJECT)?;
        let object = object.unwrap_or(Message::EMPTY);
        let reporter = event.message(field::SOURCE)?.unwrap_or(Message::EMPTY);
        let or = |text: &'a str, other| match text {
            "" => event.text(other),
            text => Some(text),
        };
        let times = self.times()?;
        let last_seen = times.last_seen().unwrap_or(Timestamp::UNIX_EPOCH);
        let last = last_seen.as_millisecond();
        let first = times.first_seen().map_or(last, Timestamp::as_millisecond);
        let count = self.series()?.map_or(self.count()?, |(count, _)| count);
        let kind = object.text(reference::KIND)?;
        Some(Brief {
            namespace: metadata.text(meta::NAMESPACE)?,
            name: metadata.text(meta::NAME)?,
            uid: metadata.text(meta::UID)?,
            kind,
            object_namespace: object_namespace(kind, object.text(reference::NAMESPACE)?),
            object: object.text(reference::NAME)?,
            object_uid: object.text(reference::UID)?,
            field_path: object.text(reference::FIELD_PATH)?,
            event_type: event.text(field::TYPE)?,
            reason: event.text(field::REASON)?,
            message: event.text(field::MESSAGE)?,
            action: event.text(field::ACTION)?,
            component: or(
                reporter.text(source::COMPONENT)?,
                field::REPORTING_COMPONENT,
            )?,
            host: or(reporter.text(source::HOST)?, field::REPORTING_INSTANCE)?,
            first: first.min(last),
            last,
            last_nanos: last_seen.subsec_nanosecond() % NANOS_OF_MILLI,
            count: u64::try_from(count).unwrap_or(0).max(1),
        })
    }
}

impl<'a> Brief<'a> {
    /// The place of the event in the order of events, given its resourceVersion.
    pub fn order(&self, resource_version: u64) -> Order<'a> {
        let last = Timestamp::from_millisecond(self.last).ok();
        let last = last.and_then(|last| {
            let nanos = SignedDuration::from_nanos(self.last_nanos.into());
            last.checked_add(nanos).ok()
        });
        let first = Timestamp::from_millisecond(self.first).ok();
        let key = (self.namespace, self.name);
        Order::new((first, last), Some(resource_version), key)
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

    use super::*;
    use crate::codec::encode_stored;

    /// The earlier in its millisecond has the later name and resourceVersion.
    #[test]
    fn microseconds_decide_within_a_millisecond() {
        let stored = |name: &str, nanos| {
            let mut event = Event {
                metadata: Some(ObjectMeta {
                    name: Some(name.into()),
                    namespace: Some("shop".into()),
                    ..ObjectMeta::default()
                }),
                event_time: Some(MicroTime {
                    seconds: Some(1_700_000_000),
                    nanos: Some(nanos),
                }),
                ..Event::default()
            };
            encode_stored(&mut event)
        };
        let [earlier, later] = [("web.b", 252_501_000), ("web.a", 252_999_000)]
            .map(|(name, nanos)| stored(name, nanos));
        let brief = |value, revision| StoredEvent::open(value, revision)?.brief();
        let (earlier, later) = (brief(&earlier, 9).unwrap(), brief(&later, 3).unwrap());
        assert_eq!(
            (earlier.last, earlier.last_nanos),
            (1_700_000_000_252, 501_000)
        );
        assert!(earlier.order(9) < later.order(3));
    }
}
