//! What an event says, in short: what one looks at to list, count and order many of them.

use super::super::time::Moment;
use super::StoredEvent;
use super::numbers::{field, meta, reference, source};
use super::wire::Message;
use crate::codec::view::EventView;

/// The fields of an event that tell what happened; those that are not set are empty. Times are in
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
    /// `involvedObject.namespace`.
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
    /// Who reported it: `source.component`, or else `reportingComponent`.
    pub component: &'a str,
    /// From where: `source.host`, or else `reportingInstance`.
    pub host: &'a str,
    /// When it first happened, no later than `last`: `firstTimestamp`, or else `eventTime`, or else
    /// the creation.
    pub first: i64,
    /// When it last happened, as [`last_seen`](crate::codec::last_seen) has it.
    pub last: i64,
    /// How often, once at least: `series.count`, or else `count`.
    pub count: u64,
}

impl<'a> StoredEvent<'a> {
    /// What it says, in short.
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
        let created = metadata.time(meta::CREATION_TIMESTAMP)?;
        let event_time = event.time(field::EVENT_TIME)?;
        let first = event.time(field::FIRST_TIMESTAMP)?;
        let last = series
            .and_then(|(_, last)| last)
            .or(event.time(field::LAST_TIMESTAMP)?)
            .or(event_time)
            .or(first)
            .or(created);
        let last = last.map_or(0, millis);
        let first = first.or(event_time).or(created).map_or(last, millis);
        let count = series.map_or(self.count()?, |(count, _)| count);
        Some(Brief {
            namespace: metadata.text(meta::NAMESPACE)?,
            name: metadata.text(meta::NAME)?,
            uid: metadata.text(meta::UID)?,
            kind: object.text(reference::KIND)?,
            object_namespace: object.text(reference::NAMESPACE)?,
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

fn millis(moment: Moment) -> i64 {
    moment.timestamp().as_millisecond()
}
