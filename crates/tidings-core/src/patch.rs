//! The patch of a repeat: a strategic merge patch with absolute values.
//!
//! A later patch thus replaces an earlier one. client-go makes it by comparing the event with a
//! copy whose count is 0, whose message is empty and whose last timestamp is the Unix epoch
//! (`eventLogger.eventObserve`). The consequences for odd events are in [`client_go`].

use jiff::Timestamp;

use crate::correlator::PatchForm;
use crate::wire::{Moment, write_members, write_string};
use crate::{LAST_NOTE_ANNOTATION, Occurrence};

impl Occurrence {
    /// The body of the patch: a strategic merge patch with sorted keys.
    ///
    /// It is empty for an event without an earlier one, because there is nothing to compare with.
    /// Such an event is a [`OccurrenceKind::Create`](crate::OccurrenceKind::Create), with one
    /// exception: client-go sends an empty patch for an event whose first occurrence came with a
    /// count above 1.
    pub fn patch_body(&self) -> Vec<u8> {
        self.patch_of("")
    }

    /// The body of a patch that applies only to one resourceVersion of the stored event. The server
    /// refuses it with 409 if the event has changed since, so a late patch does not undo a later
    /// one. `None` for an event that is patched as client-go does, without a version.
    pub fn patch_body_of_version(&self, resource_version: &str) -> Option<Vec<u8>> {
        self.has_versioned_patch()
            .then(|| self.patch_of(resource_version))
    }

    /// Whether [`Occurrence::patch_body_of_version`] returns a patch.
    pub fn has_versioned_patch(&self) -> bool {
        matches!(
            self.patch_form(),
            PatchForm::Count | PatchForm::CountAndMetadata | PatchForm::Series
        )
    }

    fn patch_of(&self, resource_version: &str) -> Vec<u8> {
        match self.patch_form() {
            PatchForm::Nothing => Vec::new(),
            PatchForm::ClientGo => client_go(self),
            PatchForm::Count | PatchForm::CountAndMetadata => mended(self, resource_version),
            PatchForm::Series | PatchForm::ClientGoSeries => series(self, resource_version),
        }
    }
}

/// The patch that client-go sends. It has count, last timestamp and message, each only if it
/// differs from 0, the epoch or the empty text.
fn client_go(occurrence: &Occurrence) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + occurrence.message().len());
    write_members(&mut out, |o| {
        o.integer("count", occurrence.count().into());
        let last = occurrence.last_timestamp();
        // Times are compared as written, in whole seconds.
        let at_epoch = last.is_some_and(|last| last.as_nanosecond().div_euclid(1_000_000_000) == 0);
        if !at_epoch {
            o.time("lastTimestamp", last.and_then(set));
        }
        o.optional("message", occurrence.message());
        // The comparison sorts the finalizers of one side only, so that unsorted finalizers seem to
        // be reordered.
        let finalizers = occurrence.event().finalizers();
        if !finalizers.is_sorted() {
            o.object("metadata", |o| {
                o.raw("$setElementOrder/finalizers", |out| {
                    strings(finalizers, out);
                });
            });
        }
    });
    out
}

/// Our own patch: an unset time changes nothing, and changed annotations and labels are included.
/// It names the stored event's version, unless that is empty.
fn mended(occurrence: &Occurrence, resource_version: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + occurrence.message().len());
    write_members(&mut out, |o| {
        o.integer("count", occurrence.count().into());
        if let Some(last) = occurrence.last_timestamp().and_then(set) {
            o.time("lastTimestamp", Some(last));
        }
        o.optional("message", occurrence.message());
        let changed = occurrence.changed_metadata();
        if changed.is_some() || !resource_version.is_empty() {
            let (annotations, labels) = changed.unwrap_or_default();
            o.object("metadata", |o| {
                o.map("annotations", annotations);
                o.map("labels", labels);
                o.optional("resourceVersion", resource_version);
            });
        }
    });
    out
}

/// The patch of client-go's `tools/events`: the series and, if it is shown, the last note. It is
/// empty if the count is 1, which is no series. It names the stored event's version, unless that is
/// empty.
fn series(occurrence: &Occurrence, resource_version: &str) -> Vec<u8> {
    if occurrence.count() < 2 {
        return Vec::new();
    }
    let mut out = Vec::with_capacity(96);
    write_members(&mut out, |o| {
        let note = occurrence.last_note();
        if note.is_some() || !resource_version.is_empty() {
            o.object("metadata", |o| {
                if let Some(note) = &note {
                    o.object("annotations", |o| o.text(LAST_NOTE_ANNOTATION, note));
                }
                o.optional("resourceVersion", resource_version);
            });
        }
        o.object("series", |o| {
            o.integer("count", occurrence.count().into());
            o.micro_time(
                "lastObservedTime",
                occurrence.last_timestamp().and_then(set),
            );
        });
    });
    out
}

/// Writes a list of strings.
fn strings(strings: &[String], out: &mut Vec<u8>) {
    out.push(b'[');
    for (place, text) in strings.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_string(text, out);
    }
    out.push(b']');
}

/// The time; `None` if it is Go's zero time.
fn set(time: Timestamp) -> Option<Moment> {
    Some(Moment::from(time)).filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use crate::{Correlated, Correlator, CorrelatorOptions, Event, NameStamps, Now};

    /// The patch of the second of two events like this one.
    fn patch(options: CorrelatorOptions, event: serde_json::Value) -> String {
        let event = Event::from_wire(serde_json::from_value(event).unwrap());
        let mut correlator = Correlator::new(options, Arc::new(NameStamps::new(1))).unwrap();
        let now = Now::at(jiff::Timestamp::UNIX_EPOCH);
        correlator.correlate(now, &event);
        match correlator.correlate(now, &event) {
            Correlated::Write(occurrence) => String::from_utf8(occurrence.patch_body()).unwrap(),
            Correlated::Filtered | Correlated::HeldBack { .. } => String::new(),
        }
    }

    /// The version is in the order of keys, next to the other metadata. An event that is patched as
    /// client-go does has none.
    #[test]
    fn a_patch_may_be_for_one_version() {
        let second = |options, annotations| {
            let mut correlator = Correlator::new(options, Arc::new(NameStamps::new(1))).unwrap();
            let now = Now::at(jiff::Timestamp::UNIX_EPOCH);
            let event = |annotations| {
                Event::from_wire(
                    serde_json::from_value(
                        json!({"message": "m", "metadata": {"annotations": annotations}}),
                    )
                    .unwrap(),
                )
            };
            correlator.correlate(now, &event(json!({})));
            match correlator.correlate(now, &event(annotations)) {
                Correlated::Write(occurrence) => occurrence,
                Correlated::Filtered | Correlated::HeldBack { .. } => panic!("two are no flood"),
            }
        };
        let text = |body: Option<Vec<u8>>| body.map(|body| String::from_utf8(body).unwrap());
        for (annotations, expected) in [
            (
                json!({}),
                r#"{"count":2,"message":"m","metadata":{"resourceVersion":"7"}}"#,
            ),
            (
                json!({"a": "b"}),
                r#"{"count":2,"message":"m","metadata":{"annotations":{"a":"b"},"resourceVersion":"7"}}"#,
            ),
        ] {
            let mended = second(CorrelatorOptions::default(), annotations.clone());
            assert_eq!(
                text(mended.patch_body_of_version("7")).as_deref(),
                Some(expected)
            );
            let as_client_go = second(CorrelatorOptions::client_go(), annotations);
            assert_eq!(as_client_go.patch_body_of_version("7"), None);
        }
    }

    /// Each row: the result of `strategicpatch.CreateTwoWayMergePatch` for
    /// `eventLogger.eventObserve`; then ours.
    #[test]
    fn odd_events_are_patched_as_client_go_does() {
        let time = "2024-01-01T00:00:00Z";
        let rows = [
            (
                json!({"count": 1, "message": "<m>", "lastTimestamp": time}),
                r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:00Z","message":"\u003cm\u003e"}"#,
                r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:00Z","message":"\u003cm\u003e"}"#,
            ),
            (
                json!({"count": 1}),
                r#"{"count":2,"lastTimestamp":null}"#,
                r#"{"count":2}"#,
            ),
            (
                json!({"count": 1, "message": "m", "lastTimestamp": "1970-01-01T00:00:00.9Z"}),
                r#"{"count":2,"message":"m"}"#,
                r#"{"count":2,"lastTimestamp":"1970-01-01T00:00:00Z","message":"m"}"#,
            ),
            (
                json!({"count": 1, "lastTimestamp": time, "metadata": {"finalizers": ["b", "a"]}}),
                r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:00Z","metadata":{"$setElementOrder/finalizers":["b","a"]}}"#,
                r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:00Z"}"#,
            ),
            (
                json!({"count": 1, "lastTimestamp": time, "metadata": {"finalizers": ["a", "b"]}}),
                r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:00Z"}"#,
                r#"{"count":2,"lastTimestamp":"2024-01-01T00:00:00Z"}"#,
            ),
        ];
        for (event, client_go, mended) in rows {
            assert_eq!(
                patch(CorrelatorOptions::client_go(), event.clone()),
                client_go
            );
            assert_eq!(patch(CorrelatorOptions::default(), event), mended);
        }
    }
}
