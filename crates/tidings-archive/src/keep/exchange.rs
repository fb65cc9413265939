//! The lines of an export: everything that is kept of a cluster, as JSON Lines.
//!
//! | kind | |
//! |---|---|
//! | `Coverage` | the first line: the cluster's coverage, the form, and the origin of the export |
//! | `Deleted` | an event that was deleted here, and until when it is not fetched again; before all versions |
//! | `Version` | an observed version; those of one event follow each other, oldest first |
//! | `End` | the end of an event at its source; after its versions |
//! | `Complete` | the last line: nothing is missing |
//!
//! Each names the event by the namespace and name under which it is kept.
//! `docs/archive-reference.md` has the fields.

use bytes::Bytes;
use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidings_api::codec::{self, Api};

use super::keys;
use super::position::{Cause, Gap, Position};
use super::quota::Trimmed;
use crate::version::record::{Gone, Version};

/// The form of the lines.
pub(crate) const FORM: u64 = 1;

/// The origin of the export, and the times that it covers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    pub(crate) form: u64,
    /// The identity of the store that was exported.
    pub(crate) store: String,
    pub(crate) exported_at: Timestamp,
    followed: Vec<Followed>,
    gaps: Vec<FoundGap>,
    over_quota: OverQuota,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Followed {
    namespace: String,
    identity: Option<String>,
    since: Timestamp,
    complete_until: Timestamp,
    resource_version: Option<String>,
    latest_resource_version: String,
    epoch: u64,
    versions: u64,
    #[serde(default)]
    selection: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundGap {
    from: Timestamp,
    to: Timestamp,
    cause: Cause,
    namespace: String,
    #[serde(default)]
    gaps: u64,
    #[serde(default)]
    missing_seconds: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OverQuota {
    events: u64,
    /// Programs before this one say until when the deleted events were last seen.
    #[serde(alias = "lastSeenBefore")]
    observed_before: Option<Timestamp>,
}

impl Head {
    /// The positions, by namespace. Everything up to them is in the export.
    pub(crate) fn positions(&self) -> Vec<(String, Position)> {
        let followed = self.followed.iter();
        let positions = followed.map(|followed| {
            let number = |text: &String| text.parse().ok();
            let version = followed.resource_version.as_ref().and_then(number);
            let position = Position {
                version,
                latest: number(&followed.latest_resource_version).unwrap_or(0),
                epoch: followed.epoch,
                identity: followed.identity.clone(),
                since: followed.since.as_millisecond(),
                complete_until: followed.complete_until.as_millisecond(),
                // An unfinished list is begun again.
                cause: version.is_none().then_some(Cause::Absent),
                versions: followed.versions,
                selection: followed.selection.clone(),
                authorities: Vec::new(),
            };
            (followed.namespace.clone(), position)
        });
        positions.collect()
    }

    pub(crate) fn gaps(&self) -> impl Iterator<Item = Gap> {
        self.gaps.iter().map(|found| {
            let (from, to) = (found.from.as_millisecond(), found.to.as_millisecond());
            let gap = Gap {
                namespace: found.namespace.clone(),
                ..Gap::new(from, to, found.cause)
            };
            gap.of_several(
                found.gaps.max(1),
                found.missing_seconds.saturating_mul(1000),
            )
        })
    }

    /// Events deleted to keep a quota, if any.
    pub(crate) fn trimmed(&self) -> Option<Trimmed> {
        let before = self.over_quota.observed_before?;
        Some(Trimmed {
            events: self.over_quota.events,
            before: before.as_millisecond(),
        })
    }
}

/// A line about an event. The name under which it is kept may differ from its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
enum Line {
    Version {
        namespace: String,
        name: String,
        epoch: u64,
        observed_at: Timestamp,
        #[serde(default, skip_serializing)]
        event: Value,
    },
    End {
        namespace: String,
        name: String,
        uid: String,
        resource_version: String,
        observed_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    Deleted {
        namespace: String,
        name: String,
        uid: String,
        until: Timestamp,
    },
    Complete {},
}

/// A line after the first.
#[derive(Debug)]
pub(crate) enum Said {
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
    /// A version of an event that is of another namespace than its line.
    OfAnother {
        own: String,
        namespace: String,
    },
    Complete,
}

/// Reads a line.
pub(crate) fn read(line: &[u8]) -> Result<Said, String> {
    let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("the resourceVersion {text:?} is no number"))
    };
    match line {
        Line::Version {
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
            let (_, event) = read.map_err(|error| error.to_string())?;
            let metadata = event.metadata.as_ref();
            let found = metadata.map_or("", |metadata| metadata.resource_version());
            let version = Version {
                number: number(found)?,
                epoch,
                observed_at: observed_at.as_millisecond(),
            };
            let uid = metadata.map_or("", |metadata| metadata.uid());
            let key = key(&namespace, &name, uid)?;
            // Who may read the line's namespace would read the event, and what is beside it.
            let own = metadata.map_or("", |metadata| metadata.namespace());
            if own != namespace {
                let own = own.to_owned();
                return Ok(Said::OfAnother { own, namespace });
            }
            Ok(Said::Version {
                key,
                event: Box::new(event),
                version,
            })
        }
        Line::End {
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
                number: number(&resource_version)?,
                observed_at: observed_at.as_millisecond(),
                not_before: not_before.map(Timestamp::as_millisecond),
            },
        }),
        Line::Deleted {
            namespace,
            name,
            uid,
            until,
        } => Ok(Said::Deleted {
            key: key(&namespace, &name, &uid)?,
            uid,
            until: until.as_millisecond(),
        }),
        Line::Complete {} => Ok(Said::Complete),
    }
}

/// The key of an event, whose names must be such that it can have been kept.
fn key(namespace: &str, name: &str, uid: &str) -> Result<Bytes, String> {
    if !keys::is_step(namespace) || !keys::is_step(name) {
        return Err("the event's name cannot be part of a path".into());
    }
    if !keys::is_uid(uid) {
        return Err("the event's uid is not one".into());
    }
    // The name of an elder one may end with a dot and its uid.
    let is_long = namespace.len() + name.len() > keys::NAMES_LEN_MAX + 1;
    if is_long || uid.len() > keys::NAMES_LEN_MAX {
        return Err("the event's names are too long".into());
    }
    Ok(keys::event(namespace, name))
}

/// Appends a version of the event that is kept under a key.
pub(crate) fn write_version(
    key: &str,
    version: Version,
    event: &Bytes,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let event = codec::decode_stored(event, version.number)?;
    let (namespace, name) = split(key);
    let line = Line::Version {
        namespace,
        name,
        epoch: version.epoch,
        observed_at: time(version.observed_at),
        event: Value::Null,
    };
    write(&line, out);
    // The event goes in before the brace and the line's end.
    out.truncate(out.len() - 2);
    out.extend_from_slice(b",\"event\":");
    codec::write_event(Api::Core, &event, true, out);
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends the end of an event at its source.
pub(crate) fn write_end(key: &str, uid: &[u8], gone: Gone, out: &mut Vec<u8>) {
    let (namespace, name) = split(key);
    let line = Line::End {
        namespace,
        name,
        uid: String::from_utf8_lossy(uid).into_owned(),
        resource_version: gone.number.to_string(),
        observed_at: time(gone.observed_at),
        not_before: gone.not_before.map(time),
    };
    write(&line, out);
}

/// Appends an event that was deleted here.
pub(crate) fn write_deleted(key: &str, uid: &str, until: i64, out: &mut Vec<u8>) {
    let (namespace, name) = split(key);
    let line = Line::Deleted {
        namespace,
        name,
        uid: uid.to_owned(),
        until: time(until),
    };
    write(&line, out);
}

/// Appends the last line.
pub(crate) fn write_complete(out: &mut Vec<u8>) {
    write(&Line::Complete {}, out);
}

fn write(line: &Line, out: &mut Vec<u8>) {
    // It has only texts and numbers, so this cannot fail.
    out.extend(serde_json::to_vec(line).unwrap_or_default());
    out.push(b'\n');
}

fn split(key: &str) -> (String, String) {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    (namespace.to_owned(), name.to_owned())
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or_default()
}
