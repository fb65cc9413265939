//! The history on disk: the entries of all buckets' logs, merged by revision.

use super::bucket::Buckets;
use crate::embedded::codec::version::Ends;
use crate::embedded::log::BucketWalk;
use crate::embedded::log::frame::Kind;
use crate::{Fault, Revision};

/// One event in the log.
pub(in crate::embedded) enum Event {
    /// A record was written; `bytes` are its version's.
    Put { bucket: u64, bytes: Vec<u8> },
    /// A version ended.
    End {
        version: Revision,
        bucket: u64,
        expired: bool,
    },
    /// A version was replaced by one in a bucket that is dropped earlier. The index needs this; it
    /// is not a change by itself.
    Replaced { version: Revision, bucket: u64 },
}

/// The events with revisions after one and up to another, in order. There are a few dozen buckets
/// at most, so each step searches all heads for the smallest.
pub(in crate::embedded) struct Events {
    streams: Vec<Stream>,
    after: Revision,
    until: Revision,
}

struct Stream {
    bucket: u64,
    walk: BucketWalk,
    /// Ends of which some are not returned yet: the first revision, the ends, the number returned.
    ends: Option<(Revision, Ends, usize)>,
    head: Option<(Revision, Event)>,
}

impl Events {
    pub(in crate::embedded) fn new(
        buckets: &Buckets,
        after: Revision,
        until: Revision,
    ) -> Result<Self, Fault> {
        let mut streams = Vec::with_capacity(buckets.len());
        for (name, bucket) in buckets {
            let walk = bucket.log.walk(after.saturating_add(1));
            let mut stream = Stream {
                bucket: *name,
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

    pub(in crate::embedded) fn next(&mut self) -> Result<Option<(Revision, Event)>, Fault> {
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
