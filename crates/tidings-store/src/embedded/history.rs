//! The history on disk: every version in every bucket, and the log of ends, merged by revision.

use bytes::Bytes;
use fjall::{Iter, Readable, UserValue};

use super::keys::{self, Ends, Pointer};
use super::read::{Stored, View, unpack};
use super::tables::fault;
use crate::{Change, Fault, Revision};

/// One change as the disk has it.
pub(crate) enum Step {
    /// A record was written: its version's bytes.
    Put {
        revision: Revision,
        bucket: u64,
        bytes: UserValue,
    },
    /// A version ended.
    End {
        revision: Revision,
        version: Revision,
        bucket: u64,
        expired: bool,
    },
}

impl Step {
    pub(crate) fn revision(&self) -> Revision {
        match self {
            Self::Put { revision, .. } | Self::End { revision, .. } => *revision,
        }
    }

    /// The key that was changed, and what it pointed to before.
    pub(crate) fn previous(self, view: &View<'_>) -> Result<(Bytes, Option<Pointer>), Fault> {
        let (key, previous) = match self {
            Self::Put {
                revision,
                bucket,
                bytes,
            } => {
                let stored = unpack(view.codec, &bytes, revision, bucket)?;
                (
                    // A copy: what was unpacked shares one buffer, and a list may hold many keys.
                    Bytes::copy_from_slice(&stored.record.key),
                    stored
                        .previous
                        .map(|(revision, bucket)| view.version(revision, bucket)),
                )
            }
            Self::End {
                version, bucket, ..
            } => {
                let stored = view
                    .version(version, bucket)?
                    .ok_or_else(|| missing(version))?;
                (stored.record.key.clone(), Some(Ok(Some(stored))))
            }
        };
        let previous = previous
            .transpose()?
            .flatten()
            .map(|Stored { record, bucket, .. }| Pointer {
                revision: record.revision,
                bucket,
                expires_at: record.expires_at,
            });
        Ok((key, previous))
    }

    /// The change with its records.
    pub(crate) fn change(self, view: &View<'_>) -> Result<Change, Fault> {
        match self {
            Self::Put {
                revision,
                bucket,
                bytes,
            } => {
                let stored = unpack(view.codec, &bytes, revision, bucket)?;
                let previous = match stored.previous {
                    Some((revision, bucket)) => {
                        view.version(revision, bucket)?.map(|stored| stored.record)
                    }
                    None => None,
                };
                Ok(Change::Put {
                    record: stored.record,
                    previous,
                })
            }
            Self::End {
                revision,
                version,
                bucket,
                expired,
            } => {
                let stored = view
                    .version(version, bucket)?
                    .ok_or_else(|| missing(version))?;
                Ok(Change::Delete {
                    revision,
                    previous: stored.record,
                    expired,
                })
            }
        }
    }
}

fn missing(revision: Revision) -> Fault {
    Fault::Corrupt(format!(
        "revision {revision} is in the history but not in the store"
    ))
}

/// The changes after a revision up to the view's, in order.
///
/// There are a few dozen buckets at most, so the smallest head is looked for anew at each step.
pub(crate) struct Steps {
    streams: Vec<Stream>,
    until: Revision,
}

struct Stream {
    source: Source,
    head: Option<Step>,
}

enum Source {
    Data {
        bucket: u64,
        entries: Iter,
    },
    Log {
        entries: Iter,
        ends: Option<(Revision, Ends, usize)>,
    },
}

impl Steps {
    pub(crate) fn new(view: &View<'_>, after: Revision) -> Result<Self, Fault> {
        let first = after.saturating_add(1);
        let start = keys::revision_key(first);
        let mut streams = Vec::with_capacity(view.buckets.len() + 1);
        for (bucket, tables) in view.buckets.iter() {
            let entries = view.snapshot.range(&tables.data, start..);
            streams.push(Stream::new(
                Source::Data {
                    bucket: *bucket,
                    entries,
                },
                first,
            )?);
        }
        // The entry that covers the first revision may begin before it.
        let log = &view.tables.log;
        let covering = view.snapshot.range(log, ..=start).next_back();
        let start = covering
            .map(|entry| entry.key().map_err(fault))
            .transpose()?
            .unwrap_or(start.into());
        let entries = view.snapshot.range(log, start..);
        streams.push(Stream::new(
            Source::Log {
                entries,
                ends: None,
            },
            first,
        )?);
        Ok(Self {
            streams,
            until: view.state.revision,
        })
    }
}

impl Iterator for Steps {
    type Item = Result<Step, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let revision = |stream: &Stream| stream.head.as_ref().map_or(Revision::MAX, Step::revision);
        let stream = self
            .streams
            .iter_mut()
            .min_by_key(|stream| revision(stream))?;
        let step = stream.head.take_if(|step| step.revision() <= self.until)?;
        match stream.source.next() {
            Ok(head) => stream.head = head,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(step))
    }
}

impl Stream {
    fn new(mut source: Source, first: Revision) -> Result<Self, Fault> {
        loop {
            let head = source.next()?;
            if head.as_ref().is_none_or(|step| step.revision() >= first) {
                return Ok(Self { source, head });
            }
        }
    }
}

impl Source {
    fn next(&mut self) -> Result<Option<Step>, Fault> {
        match self {
            Self::Data { bucket, entries } => {
                let Some(entry) = entries.next() else {
                    return Ok(None);
                };
                let (key, bytes) = entry.into_inner().map_err(fault)?;
                Ok(Some(Step::Put {
                    revision: keys::read_revision_key(&key)?,
                    bucket: *bucket,
                    bytes,
                }))
            }
            Self::Log { entries, ends } => loop {
                if let Some((first, ends, position)) = ends
                    && let Some(version) = ends.versions.get(*position)
                {
                    let revision = *first + *position as u64;
                    *position += 1;
                    let (version, bucket, expired) = (*version, ends.bucket, ends.expired);
                    return Ok(Some(Step::End {
                        revision,
                        version,
                        bucket,
                        expired,
                    }));
                }
                let Some(entry) = entries.next() else {
                    return Ok(None);
                };
                let (key, value) = entry.into_inner().map_err(fault)?;
                *ends = Some((keys::read_revision_key(&key)?, Ends::decode(&value)?, 0));
            },
        }
    }
}
