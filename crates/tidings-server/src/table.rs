//! `Table`, what `kubectl get` prints: the columns of `pkg/printers/internalversion/printers.go` and their cells.

use jiff::Timestamp;
use k8s_pb::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use serde::Serialize;

use crate::codec::json::{write_members, write_string};
use crate::codec::time::Moment;
use crate::codec::{self, Api};
use crate::error::Status;
use crate::query::Query;

/// What goes into a row beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Reads `includeObject`.
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject") {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(Status::bad_request(format!(
                "unrecognized includeObject value: {other:?}"
            ))),
        }
    }
}

/// How rows are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) api: Api,
    /// The version of meta.k8s.io.
    pub(crate) version: &'static str,
    pub(crate) include_object: IncludeObject,
    pub(crate) now: Timestamp,
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
        "Why the event happened, in one word for machines.",
    ),
    column("Object", 0, "The object the event is about."),
    column("Subobject", 1, "The part of that object, if not all of it."),
    column("Source", 1, "Who reported the event, and from where."),
    column("Message", 0, "What happened, in words for humans."),
    column(
        "First Seen",
        1,
        "The time at which the event was first seen.",
    ),
    column("Count", 1, "How often the event was seen."),
    Column {
        format: "name",
        ..column("Name", 1, "The name of the event.")
    },
];

impl Rows {
    /// Appends a table's beginning up to and including the `[` of its rows. Without columns they are `null`, as in all
    /// but the first object of a watch.
    pub(crate) fn write_start(&self, meta: &ListMeta, columns: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/");
        out.extend_from_slice(self.version.as_bytes());
        out.extend_from_slice(b"\",\"metadata\":");
        codec::write_list_meta(meta, out);
        out.extend_from_slice(b",\"columnDefinitions\":");
        if columns {
            // Constant strings and integers: this cannot fail.
            out.extend(serde_json::to_vec(&COLUMNS).unwrap_or_default());
        } else {
            out.extend_from_slice(b"null");
        }
        out.extend_from_slice(b",\"rows\":[");
    }

    /// Appends a table's end.
    pub(crate) fn write_end(out: &mut Vec<u8>) {
        out.extend_from_slice(b"]}");
    }

    /// Appends one row.
    pub(crate) fn write_row(&self, event: &Event, out: &mut Vec<u8>) {
        write_members(out, |members| {
            members.raw("cells", |out| self.write_cells(event, out));
            members.raw("object", |out| match self.include_object {
                IncludeObject::None => out.extend_from_slice(b"null"),
                IncludeObject::Metadata => {
                    let metadata = event.metadata.clone().unwrap_or_default();
                    let api_version = format!("meta.k8s.io/{}", self.version);
                    codec::write_partial(&metadata, &api_version, true, out);
                }
                IncludeObject::Object => codec::write_event(self.api, event, true, out),
            });
        });
    }

    fn write_cells(&self, event: &Event, out: &mut Vec<u8>) {
        let first_timestamp = codec::time(event.first_timestamp);
        let first_seen = self.age(first_timestamp.or_else(|| codec::micro_time(event.event_time)));
        let last_seen = match (&event.series, codec::time(event.last_timestamp)) {
            (Some(series), _) => self.age(codec::micro_time(series.last_observed_time)),
            (None, Some(last)) => self.age(Some(last)),
            (None, None) => first_seen.clone(),
        };
        let count = match &event.series {
            Some(series) => series.count(),
            None => Some(event.count()).filter(|count| *count != 0).unwrap_or(1),
        };
        let object = event.involved_object.as_ref();
        let kind = object
            .map(|object| object.kind().to_lowercase())
            .unwrap_or_default();
        let name = object.map(ObjectReference::name).unwrap_or_default();
        let object_cell = if name.is_empty() {
            kind
        } else {
            format!("{kind}/{name}")
        };

        let source = event.source.as_ref();
        let or = |first: Option<&str>, second: &str| -> String {
            first
                .filter(|text| !text.is_empty())
                .unwrap_or(second)
                .to_owned()
        };
        let mut source_cell = or(
            source.map(EventSource::component),
            event.reporting_component(),
        );
        let host = or(source.map(EventSource::host), event.reporting_instance());
        if !host.is_empty() {
            source_cell = format!("{source_cell}, {host}");
        }

        out.push(b'[');
        for text in [
            &last_seen,
            event.r#type(),
            event.reason(),
            &object_cell,
            object.map(ObjectReference::field_path).unwrap_or_default(),
            &source_cell,
            event.message().trim(),
            &first_seen,
        ] {
            write_string(text, out);
            out.push(b',');
        }
        out.extend_from_slice(count.to_string().as_bytes());
        out.push(b',');
        write_string(
            event
                .metadata
                .as_ref()
                .map(ObjectMeta::name)
                .unwrap_or_default(),
            out,
        );
        out.push(b']');
    }

    fn age(&self, moment: Option<Moment>) -> String {
        match moment.and_then(Moment::timestamp) {
            None => "<unknown>".into(),
            Some(then) => human_duration(self.now.duration_since(then).as_millis()),
        }
    }
}

/// A duration as `kubectl` shows ages (`k8s.io/apimachinery/pkg/util/duration.HumanDuration`).
fn human_duration(millis: i128) -> String {
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
