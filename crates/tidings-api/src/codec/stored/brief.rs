//! Brief views of stored events: the fields for listing, counting and ordering many of them.

use jiff::Timestamp;
use tidings_core::reading::{EventTimes, Order, is_set, object_namespace};

use super::super::time::Moment;
use super::StoredEvent;
use super::numbers::{field, meta, reference, source};
use super::wire::Message;
use crate::codec::view::EventView;

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
    /// The number of occurrences, at least 1: `series.count`, or else `count`.
    pub count: u64,
}

impl<'a> StoredEvent<'a> {
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
        let series = self.series()?;
        let set = |moment: Option<Moment>| moment.map(Moment::timestamp).filter(|at| is_set(*at));
        let times = EventTimes {
            last_observed_time: set(series.and_then(|(_, last)| last)),
            last_timestamp: set(event.time(field::LAST_TIMESTAMP)?),
            event_time: set(event.time(field::EVENT_TIME)?),
            first_timestamp: set(event.time(field::FIRST_TIMESTAMP)?),
            creation_timestamp: set(metadata.time(meta::CREATION_TIMESTAMP)?),
        };
        let last = times.last_seen().map_or(0, Timestamp::as_millisecond);
        let first = times.first_seen().map_or(last, Timestamp::as_millisecond);
        let count = series.map_or(self.count()?, |(count, _)| count);
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
            count: u64::try_from(count).unwrap_or(0).max(1),
        })
    }
}

impl<'a> Brief<'a> {
    /// The place of the event in the order of events, given its resourceVersion.
    pub fn order(&self, resource_version: u64) -> Order<'a> {
        let last = Timestamp::from_millisecond(self.last).ok();
        Order::new(last, Some(resource_version), (self.namespace, self.name))
    }
}
