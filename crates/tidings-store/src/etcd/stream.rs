//! One watch stream of etcd: delivers complete revisions in order, or says why it ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Status;

use super::client::{Client, STATUS, signed, unsigned};
use super::failure::Failure;
use super::keys::Keys;
use super::wire::{self, WatchAction, WatchEvent, WatchRequest};
use crate::Revision;

/// Interval at which progress is requested while nothing changes, so that bookmarks are current.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// The reason why a stream ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// etcd has compacted changes up to this revision that were not delivered yet.
    Compacted(Revision),
    /// The member or the connection failed. Another stream can continue from the same position.
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An open watch stream to one member; see the module documentation.
pub(super) struct Stream {
    client: Arc<Client>,
    member: usize,
    requests: mpsc::Sender<WatchRequest>,
    responses: tonic::Streaming<wire::WatchResponse>,
    /// Events of the last revision so far, which the next fragment of a large answer may continue.
    parts: Vec<WatchEvent>,
    /// The revision up to which everything was delivered.
    position: Revision,
    /// Whether this member orders answers to progress requests correctly with events.
    tells_progress: bool,
}

/// One delivery of a stream.
pub(super) struct Delivery {
    /// The events, in order; empty if only the revision advanced.
    pub(super) events: Vec<WatchEvent>,
    /// The revision up to which all changes are now delivered.
    pub(super) revision: Revision,
}

impl Stream {
    /// Opens a stream of all keys of the prefix, after a revision.
    pub(super) async fn open(
        client: &Arc<Client>,
        keys: &Keys,
        after: Revision,
    ) -> Result<Self, Ended> {
        let member = client.current();
        let opened = Self::open_at(client, member, keys, after).await;
        opened.map_err(|failure| {
            client.leave(member);
            Ended::Failed(failure)
        })
    }

    async fn open_at(
        client: &Arc<Client>,
        member: usize,
        keys: &Keys,
        after: Revision,
    ) -> Result<Self, Failure> {
        let status: wire::StatusResponse =
            client.ask_member(member, STATUS, wire::Empty {}).await?;
        let (requests, receiver) = mpsc::channel(4);
        let (key, range_end) = keys.all();
        let create = wire::WatchCreateRequest {
            key,
            range_end,
            start_revision: signed(after + 1),
            progress_notify: true,
            prev_kv: true,
            fragment: true,
        };
        // The channel is new, so it has room.
        let _ = requests.try_send(WatchRequest {
            action: Some(WatchAction::Create(create)),
        });
        let responses = client.stream(member, receiver).await?;
        Ok(Self {
            client: Arc::clone(client),
            member,
            requests,
            responses,
            parts: Vec::new(),
            position: after,
            tells_progress: tells_progress(&status.version),
        })
    }

    /// Waits for the next events or for progress. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Delivery, Ended> {
        let next = self.receive().await;
        if let Err(Ended::Failed(_)) = &next {
            self.client.leave(self.member);
        }
        next
    }

    async fn receive(&mut self) -> Result<Delivery, Ended> {
        loop {
            let answer = self.responses.message().await;
            let answer = answer.map_err(|status| self.client.failure(self.member, &status))?;
            let Some(answer) = answer else {
                let status = Status::unavailable("the watch was closed");
                return Err(self.client.failure(self.member, &status).into());
            };
            let at = self.client.observe(answer.header);
            if answer.canceled {
                if answer.compact_revision > 0 {
                    return Err(Ended::Compacted(unsigned(answer.compact_revision)));
                }
                let text = format!("the watch was canceled: {}", answer.cancel_reason);
                let status = Status::unavailable(text);
                return Err(self.client.failure(self.member, &status).into());
            }
            if answer.created {
                continue;
            }
            let empty = answer.events.is_empty() && self.parts.is_empty();
            self.parts.extend(answer.events);
            let mut events = whole_revisions(&mut self.parts, answer.fragment);
            // A stream starts after its position. The check is for members that do not obey.
            events.retain(|event| revision_of(event) > self.position);
            let revision = match events.last() {
                Some(last) => revision_of(last),
                // Only an answer without events is progress: more events of its last revision may
                // be on their way.
                None if empty => at,
                None => continue,
            };
            if revision > self.position {
                self.position = revision;
                return Ok(Delivery { events, revision });
            }
        }
    }

    /// Requests progress, if this member's answer is reliable.
    pub(super) fn ask_progress(&self) {
        if self.tells_progress {
            // If the queue is full, enough requests are on their way already.
            let _ = self.requests.try_send(WatchRequest {
                action: Some(WatchAction::Progress(wire::Empty {})),
            });
        }
    }
}

/// Takes the events whose revisions are complete. If another fragment follows, it may continue the
/// last revision, so that revision's events stay. An answer can have a thousand revisions with
/// large values, so it is not collected as a whole.
fn whole_revisions(parts: &mut Vec<WatchEvent>, more_follow: bool) -> Vec<WatchEvent> {
    if !more_follow {
        return std::mem::take(parts);
    }
    let last = parts.last().map_or(0, revision_of);
    let is_open = |event: &WatchEvent| revision_of(event) >= last;
    let open = parts.iter().position(is_open).unwrap_or(parts.len());
    let open = parts.split_off(open);
    std::mem::replace(parts, open)
}

pub(super) fn revision_of(event: &WatchEvent) -> Revision {
    event.kv.as_ref().map_or(0, |kv| unsigned(kv.mod_revision))
}

/// Whether etcd of this version orders progress correctly. Before 3.4.25 and 3.5.8 an answer to a
/// progress request could overtake events (etcd issue 15220). The progress that etcd sends by
/// itself every ten minutes never does.
fn tells_progress(version: &str) -> bool {
    let mut numbers = version
        .split(['.', '-', '+'])
        .map(|part| part.parse::<u64>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    let version = (next(), next(), next());
    match version {
        (3, 4, patch) => patch >= 25,
        (3, 5, patch) => patch >= 8,
        (major, minor, _) => (major, minor) > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_give_what_is_whole_at_once_and_never_a_part_of_a_revision() {
        let event = |revision: i64| WatchEvent {
            kv: Some(wire::KeyValue {
                mod_revision: revision,
                ..wire::KeyValue::default()
            }),
            ..WatchEvent::default()
        };
        // Each row: the revisions in a fragment, whether another fragment follows, and the
        // revisions complete by then.
        let fragments: [(&[i64], bool, &[u64]); 5] = [
            (&[3], true, &[]),
            (&[4, 5, 5], true, &[3, 4]),
            (&[5], true, &[]),
            (&[5, 6], false, &[5, 5, 5, 5, 6]),
            (&[7], false, &[7]),
        ];
        let mut parts = Vec::new();
        for (revisions, more_follow, want) in fragments {
            parts.extend(revisions.iter().copied().map(event));
            let whole = whole_revisions(&mut parts, more_follow);
            let whole: Vec<_> = whole.iter().map(revision_of).collect();
            assert_eq!(whole, want, "{revisions:?}");
        }
        assert!(parts.is_empty());
    }

    #[test]
    fn progress_is_believed_from_the_versions_that_order_it() {
        let cases = [
            ("3.3.27", false),
            ("3.4.23", false),
            ("3.4.25", true),
            ("3.5.7", false),
            ("3.5.8", true),
            ("3.5.21", true),
            ("3.6.0-rc.1", true),
            ("4.0.0", true),
            ("", false),
            ("unknown", false),
        ];
        for (version, want) in cases {
            assert_eq!(tells_progress(version), want, "{version:?}");
        }
    }
}
