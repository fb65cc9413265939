//! Converts between the lines of an export and events of this store. Lines are checked when they
//! are read.

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;
use serde_json::Value;
use tidings_api::codec::{self, Api};
use tidings_history::{ExportLine, Version};
use tidings_store::UnixMillis;

use crate::keep::keys;
use crate::version::record::Gone;

/// A line after the first.
#[derive(Debug)]
pub(crate) enum Said {
    /// A version, with its decoded event.
    Version {
        key: Bytes,
        event: Box<Event>,
        version: Version,
    },
    End {
        key: Bytes,
        uid: String,
        gone: Gone,
    },
    Deleted {
        key: Bytes,
        uid: String,
        until: i64,
    },
    /// A version whose event belongs to another namespace than the line states.
    OfAnother {
        own: String,
        namespace: String,
    },
    Complete,
}

/// Reads a line.
pub(crate) fn read(line: &[u8]) -> Result<Said, String> {
    let line: ExportLine = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    match line {
        ExportLine::Version {
            namespace,
            name,
            epoch,
            observed_at,
            event,
        } => {
            let mut reading = codec::json::Reading::default();
            let read = codec::read_event(Api::Core, event, &mut reading);
            if let Some(why) = reading.complaint() {
                return Err(format!("the event cannot be read: {why}"));
            }
            let (_, mut event) = read.map_err(|error| error.to_string())?;
            let metadata = event.metadata.get_or_insert_default();
            let found = metadata.resource_version();
            let number = found
                .parse()
                .map_err(|_| format!("the resourceVersion {found:?} is no number"))?;
            let uid = metadata.uid();
            let key = key(&namespace, &name, uid)?;
            // Otherwise users of the line's namespace could read the event, and what else it has.
            let own = metadata.namespace();
            if own != namespace {
                let own = own.to_owned();
                return Ok(Said::OfAnother { own, namespace });
            }
            let version = Version {
                uid: uid.into(),
                epoch,
                number,
                observed_at,
                event: codec::encode_stored(&mut event),
            };
            Ok(Said::Version {
                key,
                event: Box::new(event),
                version,
            })
        }
        ExportLine::End {
            namespace,
            name,
            uid,
            resource_version,
            observed_at,
            not_before,
        } => Ok(Said::End {
            key: key(&namespace, &name, &uid)?,
            uid,
            gone: Gone {
                number: resource_version,
                observed_at: observed_at.0,
                not_before: not_before.map(|before| before.0),
            },
        }),
        ExportLine::Deleted {
            namespace,
            name,
            uid,
            until,
        } => Ok(Said::Deleted {
            key: key(&namespace, &name, &uid)?,
            uid,
            until: until.0,
        }),
        ExportLine::Complete {} => Ok(Said::Complete),
        ExportLine::Coverage(_) => Err("it is the first line of an export".into()),
        ExportLine::Continue { .. } => {
            Err("it is the end of a page, and the next is missing".into())
        }
    }
}

/// Returns the key of an event. Its names must be possible for a kept event.
fn key(namespace: &str, name: &str, uid: &str) -> Result<Bytes, String> {
    if !keys::is_step(namespace) || !keys::is_step(name) {
        return Err("the event's name cannot be part of a path".into());
    }
    if !keys::is_uid(uid) {
        return Err("the event's uid is not one".into());
    }
    // The name of an elder event may be longer by a dot and its uid.
    let is_long = namespace.len() + name.len() > keys::NAMES_LEN_MAX + 1;
    if is_long || uid.len() > keys::NAMES_LEN_MAX {
        return Err("the event's names are too long".into());
    }
    Ok(keys::event(namespace, name))
}

/// Appends the line of a version of the event with a key.
pub(crate) fn write_version(key: &str, version: &Version, out: &mut Vec<u8>) -> Result<(), String> {
    let event = codec::decode_stored(&version.event, version.number)?;
    let (namespace, name) = split(key);
    let line = ExportLine::Version {
        namespace,
        name,
        epoch: version.epoch,
        observed_at: version.observed_at,
        event: Value::Null,
    };
    line.write(out);
    // The event is inserted before the closing brace.
    out.truncate(out.len() - 2);
    out.extend_from_slice(b",\"event\":");
    codec::write_event(Api::Core, &event, true, out);
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends the line of an event's end at its source.
pub(crate) fn write_end(key: &str, uid: &str, gone: Gone, out: &mut Vec<u8>) {
    let (namespace, name) = split(key);
    let line = ExportLine::End {
        namespace,
        name,
        uid: uid.to_owned(),
        resource_version: gone.number,
        observed_at: UnixMillis(gone.observed_at),
        not_before: gone.not_before.map(UnixMillis),
    };
    line.write(out);
}

/// Appends the line of an event that was deleted here.
pub(crate) fn write_deleted(key: &str, uid: &str, until: UnixMillis, out: &mut Vec<u8>) {
    let (namespace, name) = split(key);
    let line = ExportLine::Deleted {
        namespace,
        name,
        uid: uid.to_owned(),
        until,
    };
    line.write(out);
}

fn split(key: &str) -> (String, String) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    (namespace.to_owned(), name.to_owned())
}
