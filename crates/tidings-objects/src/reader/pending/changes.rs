//! What each view adds to the one before it, for watchers.
//!
//! Memory: a bounded number of steps, and some megabytes of files.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tidings_store::{Change, Record, Revision};

use super::tail::Part;
use crate::file::read::{FileError, Reader};
use crate::reader::keys::Position;
use crate::reader::keys::names::{self, Order};

/// Number of steps that are remembered; a watcher further behind has to list again.
const STEPS_MAX: usize = 64;
/// Bytes of files above which fewer steps are remembered.
const BYTES_MAX: u64 = 4 << 20;
/// Bytes of events at which one delivery to watchers ends. A delivery of up to four times as many
/// bytes is kept for the other watchers.
const EVENTS_BYTES: u64 = 1 << 20;

/// What is new in a view.
pub(in crate::reader) enum News {
    /// The versions of these parts.
    Parts(Vec<Arc<Part>>),
    /// What is new is unknown.
    Unknown,
}

/// Parts, each with the revision that first showed it.
pub(in crate::reader) type New = Vec<(Revision, Arc<Part>)>;

/// The step from one revision to the next.
struct Step {
    from: Revision,
    to: Revision,
    news: News,
}

impl Step {
    fn bytes(&self) -> u64 {
        match &self.news {
            News::Parts(parts) => parts.iter().map(|part| part.file.bytes).sum(),
            News::Unknown => 0,
        }
    }
}

/// The latest steps, in order.
#[derive(Default)]
pub(in crate::reader) struct Steps(VecDeque<Step>);

impl Steps {
    pub(in crate::reader) fn add(&mut self, from: Revision, to: Revision, news: News) {
        if from == to {
            return;
        }
        self.0.push_back(Step { from, to, news });
        let mut bytes: u64 = self.0.iter().map(Step::bytes).sum();
        while (self.0.len() > STEPS_MAX || bytes > BYTES_MAX)
            && let Some(step) = self.0.pop_front()
        {
            bytes -= step.bytes();
        }
    }

    /// Returns what came first after a revision, and up to which revision; `None` if that is
    /// unknown.
    pub(in crate::reader) fn after(&self, revision: Revision) -> Option<(Revision, New)> {
        // The last such step: a revision is shown again if the archive's data folder was restored
        // from a copy.
        let first = self.0.iter().rposition(|step| step.from == revision)?;
        let (mut to, mut new, mut bytes) = (revision, Vec::new(), 0);
        for step in self.0.range(first..) {
            let News::Parts(parts) = &step.news else {
                break;
            };
            to = step.to;
            bytes += parts.iter().map(|part| part.events).sum::<u64>();
            new.extend(parts.iter().map(|part| (step.to, Arc::clone(part))));
            if bytes >= EVENTS_BYTES {
                break;
            }
        }
        // If the first step is unknown, nothing is known.
        (to != revision).then_some((to, new))
    }
}

/// The changes last delivered to a watcher, kept for the others.
pub(in crate::reader) struct Told {
    after: Revision,
    to: Revision,
    changes: Arc<[Arc<Change>]>,
}

impl Told {
    /// Keeps the changes from one revision to another; `None` if they are too large for that.
    pub(in crate::reader) fn new(
        (after, to): (Revision, Revision),
        changes: &Arc<[Arc<Change>]>,
    ) -> Option<Self> {
        let records = changes.iter().filter_map(|change| change.record());
        let bytes: u64 = records.map(|record| record.value.len() as u64).sum();
        let changes = Arc::clone(changes);
        (bytes <= 4 * EVENTS_BYTES).then_some(Self { after, to, changes })
    }

    /// Returns the changes, if they are between these revisions.
    pub(in crate::reader) fn of(
        &self,
        after: Revision,
        to: Revision,
    ) -> Option<Arc<[Arc<Change>]>> {
        let is_it = (self.after, self.to) == (after, to);
        is_it.then(|| Arc::clone(&self.changes))
    }
}

/// Returns the changes: for each revision each event once, in its newest version of that revision.
pub(in crate::reader) fn read(cluster: &Arc<str>, new: New) -> Result<Vec<Arc<Change>>, FileError> {
    let mut records: Vec<Record> = Vec::new();
    // Where in `records` the newest version of each event of the current revision is.
    let mut newest: HashMap<Bytes, (Order, usize)> = HashMap::new();
    let mut reached = None;
    for (revision, part) in new {
        if reached.replace(revision) != Some(revision) {
            newest.clear();
        }
        let bytes = part.remote.held.clone().unwrap_or_default();
        let reader = Reader::new(cluster, bytes)?;
        for group in 0..reader.groups() {
            for row in reader.group(group)? {
                let order = Order {
                    epoch: row.epoch,
                    version: row.version,
                    observed: row.observed,
                };
                let position = Position {
                    place: row.place().map(str::to_owned),
                    base: names::base(&row.event, &row.uid).to_owned(),
                    uid: row.uid,
                };
                let key = position.key();
                if let Some((known, at)) = newest.get_mut(&key) {
                    if order > *known {
                        *known = order;
                        records[*at].value = row.object;
                    }
                    continue;
                }
                newest.insert(key.clone(), (order, records.len()));
                records.push(Record {
                    key,
                    value: row.object,
                    revision,
                    expires_at: None,
                });
            }
        }
    }
    let changes = records.into_iter().map(|record| {
        let previous = None;
        Arc::new(Change::Put { record, previous })
    });
    Ok(changes.collect())
}

#[cfg(test)]
mod tests {
    use k8s_pb::api::core::v1::Event;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use object_store::memory::InMemory;
    use tidings_api::codec;
    use tidings_store::UnixMillis;

    use super::super::tail::Heard;
    use super::*;
    use crate::file::write::Writer;
    use crate::folder::Folder;
    use crate::place::Place;
    use crate::row::Row;
    use crate::waiting::{Head, KEY};

    /// Makes a part of one entry, with versions of events by their uids, the latest first.
    fn part(cluster: &Arc<str>, entry: u64, versions: &[(&str, u64)]) -> Arc<Part> {
        let mut file = Writer::new(false).unwrap();
        for (uid, number) in versions {
            let mut event = Event {
                metadata: Some(ObjectMeta {
                    name: Some((*uid).to_owned()),
                    uid: Some((*uid).to_owned()),
                    ..ObjectMeta::default()
                }),
                message: Some(number.to_string()),
                ..Event::default()
            };
            file.push(
                Row::new(
                    cluster,
                    0,
                    *number,
                    UnixMillis(i64::try_from(*number).unwrap()),
                    codec::encode_stored(&mut event),
                )
                .unwrap(),
            )
            .unwrap();
        }
        let head = Head {
            cluster: cluster.to_string(),
            writer: String::new(),
            from: entry,
            through: entry + 1,
            is_whole: true,
            positions: Vec::new(),
            gaps: Vec::new(),
        };
        file.say(KEY, serde_json::to_string(&head).unwrap());
        let bytes = file.finish().unwrap();
        let place = Place::of(Arc::new(InMemory::new()), "memory:");
        let heard = Heard::read(&Folder::new(&place, cluster), cluster, bytes.into());
        heard.unwrap().part.unwrap()
    }

    /// Encoded changes are shared by revision and key, so two versions would be taken for one.
    #[test]
    fn an_event_is_told_once_of_a_revision() {
        let cluster: Arc<str> = "prod".into();
        let new = vec![
            (7, part(&cluster, 0, &[("a", 3), ("b", 2), ("a", 1)])),
            (7, part(&cluster, 1, &[("a", 4)])),
            (8, part(&cluster, 2, &[("a", 5)])),
        ];
        let told: Vec<_> = read(&cluster, new)
            .unwrap()
            .iter()
            .map(|change| {
                let value = &change.record().unwrap().value;
                let event = codec::decode_stored(value, 0).unwrap();
                let name = event.metadata.unwrap().name.unwrap();
                (change.revision(), name, event.message.unwrap())
            })
            .collect();
        let expected = [(7, "a", "4"), (7, "b", "2"), (8, "a", "5")];
        let expected = expected.map(|(revision, name, message)| {
            let (name, message) = (name.to_owned(), message.to_owned());
            (revision, name, message)
        });
        assert_eq!(told, expected);
    }
}
