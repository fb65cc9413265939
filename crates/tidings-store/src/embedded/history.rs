//! The history on disk: what every bucket's log says, merged by revision.

use bytes::Bytes;

use super::frame::Kind;
use super::keys::{Ends, Pointer};
use super::log::BucketWalk;
use super::read::{Stored, View, unpack};
use super::tables::Buckets;
use crate::{Change, Fault, Revision};

/// What the log says happened.
pub(crate) enum Event {
    /// A record was written: its version's bytes.
    Put { bucket: u64, bytes: Vec<u8> },
    /// A version ended.
    End {
        version: Revision,
        bucket: u64,
        expired: bool,
    },
    /// A version was replaced by one in a bucket that goes earlier. This is noted for the index; it is no change by itself.
    Replaced { version: Revision, bucket: u64 },
}

impl Event {
    /// The key that was changed, and what it pointed to before.
    pub(crate) fn previous(
        self,
        revision: Revision,
        view: &View<'_>,
    ) -> Result<(Bytes, Option<Pointer>), Fault> {
        let (key, previous) = match self {
            Self::Put { bucket, bytes } => {
                let stored = unpack(view.codec, &bytes, revision, bucket)?;
                let previous = stored
                    .previous
                    .map(|(revision, bucket)| view.version(revision, bucket));
                // A copy: what was unpacked shares one buffer, and a list may hold many keys.
                (
                    Bytes::copy_from_slice(&stored.record.key),
                    previous.transpose()?.flatten(),
                )
            }
            Self::End {
                version, bucket, ..
            }
            | Self::Replaced { version, bucket } => {
                let stored = view
                    .version(version, bucket)?
                    .ok_or_else(|| missing(version))?;
                (Bytes::copy_from_slice(&stored.record.key), Some(stored))
            }
        };
        let pointer = previous.map(|Stored { record, bucket, .. }| Pointer {
            revision: record.revision,
            bucket,
            expires_at: record.expires_at,
        });
        Ok((key, pointer))
    }

    /// The change with its records; `None` if it is none by itself.
    pub(crate) fn change(
        self,
        revision: Revision,
        view: &View<'_>,
    ) -> Result<Option<Change>, Fault> {
        Ok(Some(match self {
            Self::Put { bucket, bytes } => {
                let stored = unpack(view.codec, &bytes, revision, bucket)?;
                let previous = match stored.previous {
                    Some((revision, bucket)) => {
                        view.version(revision, bucket)?.map(|stored| stored.record)
                    }
                    None => None,
                };
                Change::Put {
                    record: stored.record,
                    previous,
                }
            }
            Self::End {
                version,
                bucket,
                expired,
            } => {
                let stored = view
                    .version(version, bucket)?
                    .ok_or_else(|| missing(version))?;
                Change::Delete {
                    revision,
                    previous: stored.record,
                    expired,
                }
            }
            Self::Replaced { .. } => return Ok(None),
        }))
    }
}

fn missing(revision: Revision) -> Fault {
    Fault::Corrupt(format!(
        "revision {revision} is in the history but not in the store"
    ))
}

/// The events after a revision up to another, in order.
///
/// There are a few dozen buckets at most, so the smallest head is looked for anew at each step.
pub(crate) struct Events {
    streams: Vec<Stream>,
    after: Revision,
    until: Revision,
}

struct Stream {
    bucket: u64,
    walk: BucketWalk,
    /// Ends of which some were not yet returned: the revision of the first of them, and how many were returned.
    ends: Option<(Revision, Ends, usize)>,
    head: Option<(Revision, Event)>,
}

impl Events {
    pub(crate) fn new(buckets: &Buckets, after: Revision, until: Revision) -> Result<Self, Fault> {
        let mut streams = Vec::with_capacity(buckets.len());
        for (bucket, tables) in buckets {
            let walk = tables.log.walk(after.saturating_add(1));
            let mut stream = Stream {
                bucket: *bucket,
                walk,
                ends: None,
                head: None,
            };
            stream.advance(after)?;
            streams.push(stream);
        }
        Ok(Self {
            streams,
            after,
            until,
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<(Revision, Event)>, Fault> {
        let revision = |stream: &Stream| {
            stream
                .head
                .as_ref()
                .map_or(Revision::MAX, |(revision, _)| *revision)
        };
        let Some(stream) = self
            .streams
            .iter_mut()
            .min_by_key(|stream| revision(stream))
        else {
            return Ok(None);
        };
        let event = stream.head.take_if(|(revision, _)| *revision <= self.until);
        if event.is_some() {
            stream.advance(self.after)?;
        }
        Ok(event)
    }
}

impl Stream {
    fn advance(&mut self, after: Revision) -> Result<(), Fault> {
        loop {
            if let Some((first, ends, position)) = &mut self.ends
                && let Some(version) = ends.versions.get(*position)
            {
                let revision = *first + *position as u64;
                *position += 1;
                if revision > after {
                    let (version, bucket, expired) = (*version, ends.bucket, ends.expired);
                    self.head = Some((
                        revision,
                        Event::End {
                            version,
                            bucket,
                            expired,
                        },
                    ));
                    return Ok(());
                }
                continue;
            }
            let bucket = self.bucket;
            let found = self.walk.next(|entry| {
                let revision = entry.revision;
                Ok(match entry.kind {
                    Kind::Ends => Some(Found::Ends(revision, entry.ends()?)),
                    _ if revision <= after => None,
                    Kind::Version => Some(Found::Event(
                        revision,
                        Event::Put {
                            bucket,
                            bytes: entry.content.to_vec(),
                        },
                    )),
                    Kind::Replaced => Some(Found::Event(
                        revision,
                        Event::Replaced {
                            version: entry.replaced()?,
                            bucket,
                        },
                    )),
                })
            })?;
            match found {
                None => {
                    self.head = None;
                    return Ok(());
                }
                Some(Found::Ends(first, ends)) => self.ends = Some((first, ends, 0)),
                Some(Found::Event(revision, event)) => {
                    self.head = Some((revision, event));
                    return Ok(());
                }
            }
        }
    }
}

enum Found {
    Ends(Revision, Ends),
    Event(Revision, Event),
}
