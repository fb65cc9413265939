//! The `Table` that `kubectl get` prints.
//!
//! Columns and cells are those of `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Serialize;
use tidings_core::validate::go_quote;
use tidings_core::wire::{write_integer, write_members, write_string};

use crate::codec::stored::{StoredEvent, field, meta, reference, source};
use crate::codec::time::Moment;
use crate::codec::view::EventView;
use crate::codec::{self, Api};

/// The object in a row, besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IncludeObject {
    /// No object.
    None,
    /// The event's metadata, as a `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// The whole event.
    Object,
}

impl IncludeObject {
    /// Reads `includeObject` (`metav1.TableOptions`).
    ///
    /// # Errors
    ///
    /// Go's words for another value.
    pub fn parse(text: Option<&str>) -> Result<Self, String> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
                 'None', or empty",
                go_quote(other)
            )),
        }
    }
}

/// The options of a Table's rows.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The API version of events in the rows.
    pub api: Api,
    /// The apiVersion of the Table, and of the metadata in its rows.
    pub api_version: &'static str,
    /// The object in a row, besides the cells.
    pub include_object: IncludeObject,
    /// The time from which ages are computed.
    pub now: Timestamp,
}

#[derive(Serialize)]
struct Column {
    name: &'static str,
    r#type: &'static str,
    format: &'static str,
    description: &'static str,
    priority: i32,
}

const fn column(name: &'static str, priority: i32, description: &'static str) -> Column {
    Column {
        name,
        r#type: "string",
        format: "",
        description,
        priority,
    }
}

const COLUMNS: [Column; 10] = [
    column("Last Seen", 0, "The time at which the event was last seen."),
    column("Type", 0, "Normal or Warning."),
    column(
        "Reason",
        0,
        "Why the event happened: one word, for programs.",
    ),
    column("Object", 0, "The object the event is about."),
    column(
        "Subobject",
        1,
        "The part of that object, if the event is about a part.",
    ),
    column(
        "Source",
        1,
        "The component that reported the event, and its host.",
    ),
    column("Message", 0, "What happened, for people."),
    column(
        "First Seen",
        1,
        "The time at which the event was first seen.",
    ),
    column("Count", 1, "The number of times the event was seen."),
    Column {
        format: "name",
        ..column("Name", 1, "The name of the event.")
    },
];

impl Rows {
    /// Appends the beginning of a Table, up to the `[` of its rows. Without `columns` the column
    /// definitions are `null`, as in all but the first Table of a watch.
    pub fn write_start(&self, meta: &ListMeta, columns: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"");
        out.extend_from_slice(self.api_version.as_bytes());
        out.extend_from_slice(b"\",\"metadata\":");
        codec::write_list_meta(meta, out);
        out.extend_from_slice(b",\"columnDefinitions\":");
        if columns {
            // These are constant strings and integers, so this cannot fail.
            out.extend(serde_json::to_vec(&COLUMNS).unwrap_or_default());
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(b",\"rows\":[");
    }

    /// Appends the end of a Table.
    pub fn write_end(out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }

    /// Appends one row for a decoded event.
    pub fn write_row(&self, event: &Event, out: &mut Vec<u8>) {
        let written = self.write(&event, out, |api_version, out| {
            match api_version {
                Some(api_version) => {
                    let metadata = event.metadata.clone().unwrap_or_default();
                    codec::write_partial(&metadata, api_version, true, out);
                }
                None => codec::write_event(self.api, event, true, out),
            }
            Some(())
        });
        debug_assert!(written.is_some(), "a decoded event can be written");
    }

    /// Appends one row from an event's stored bytes; `None` if they are not in the usual form.
    pub fn write_stored_row(&self, stored: &StoredEvent<'_>, out: &mut Vec<u8>) -> Option<()> {
        self.write(stored, out, |api_version, out| match api_version {
            Some(api_version) => stored.write_partial_json(api_version, true, out),
            None => stored.write_json(self.api, true, out),
        })
    }

    /// Writes the cells and, by `write_object`, the object of a row. `write_object` gets the
    /// version of a `PartialObjectMetadata`, or `None` for the event itself.
    fn write<'a>(
        &self,
        event: &impl EventView<'a>,
        out: &mut Vec<u8>,
        write_object: impl FnOnce(Option<&str>, &mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        let (mut cells, mut object) = (None, Some(()));
        write_members(out, |members| {
            members.raw("cells", |out| cells = self.write_cells(event, out));
            members.raw("object", |out| match self.include_object {
                IncludeObject::None => out.extend_from_slice(b"null"),
                IncludeObject::Metadata => object = write_object(Some(self.api_version), out),
                IncludeObject::Object => object = write_object(None, out),
            });
        });
        cells.and(object)
    }

    fn write_cells<'a>(&self, event: &impl EventView<'a>, out: &mut Vec<u8>) -> Option<()> {
        let of_object = |number| event.text_of(field::INVOLVED_OBJECT, number);
        let of_source = |number| event.text_of(field::SOURCE, number);
        let first_timestamp = event.time(field::FIRST_TIMESTAMP)?;
        let first_seen = self.age(first_timestamp.or(event.time(field::EVENT_TIME)?));
        let series = event.series()?;
        let last_seen = match (series, event.time(field::LAST_TIMESTAMP)?) {
            (Some((_, last)), _) => self.age(last),
            (None, Some(last)) => self.age(Some(last)),
            (None, None) => first_seen.clone(),
        };
        let count = match (series, event.count()?) {
            (None, 0) => 1,
            (Some((count, _)), _) | (None, count) => count,
        };
        let mut object = of_object(reference::KIND)?.to_lowercase();
        let name = of_object(reference::NAME)?;
        if !name.is_empty() {
            object.push('/');
            object.push_str(name);
        }
        let or = |first: &'a str, second: &'a str| if first.is_empty() { second } else { first };
        let component = of_source(source::COMPONENT)?;
        let mut source = or(component, event.text(field::REPORTING_COMPONENT)?).to_owned();
        let instance = event.text(field::REPORTING_INSTANCE)?;
        let host = or(of_source(source::HOST)?, instance);
        if !host.is_empty() {
            source.push_str(", ");
            source.push_str(host);
        }

        out.push(b'[');
        for text in [
            &last_seen,
            event.text(field::TYPE)?,
            event.text(field::REASON)?,
            &object,
            of_object(reference::FIELD_PATH)?,
            &source,
            event.text(field::MESSAGE)?.trim(),
            &first_seen,
        ] {
            write_string(text, out);
            out.push(b',');
        }
        write_integer(count, out);
        out.push(b',');
        write_string(event.text_of(field::METADATA, meta::NAME)?, out);
        out.push(b']');
        Some(())
    }

    fn age(&self, moment: Option<Moment>) -> String {
        match moment.map(Moment::timestamp) {
            None => "<unknown>".into(),
            Some(then) => human_duration(self.now.duration_since(then).as_millis()),
        }
    }
}

/// A duration in milliseconds as `kubectl` shows ages, such as `12m` or `2d3h`. It follows
/// `k8s.io/apimachinery/pkg/util/duration.HumanDuration`.
pub fn human_duration(millis: i128) -> String {
    let seconds = millis / 1000;
    if seconds < -1 {
        return "<invalid>".into();
    }
    let two = |large: i128, large_unit: &str, small: i128, small_unit: &str| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        const M: i128 = 60;
        const H: i128 = 60 * M;
        const D: i128 = 24 * H;
        for (seconds, age) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * M, "2m"),
            (2 * M + 1, "2m1s"),
            (10 * M + 59, "10m"),
            (3 * H - 1, "179m"),
            (3 * H, "3h"),
            (7 * H + 59 * M, "7h59m"),
            (8 * H + 59 * M, "8h"),
            (48 * H - 1, "47h"),
            (2 * D, "2d"),
            (2 * D + 3 * H, "2d3h"),
            (8 * D + 3 * H, "8d"),
            (729 * D, "729d"),
            (730 * D, "2y"),
            (731 * D, "2y1d"),
            (9 * 365 * D, "9y"),
        ] {
            assert_eq!(human_duration(seconds * 1000), age, "{seconds}");
        }
    }
}
