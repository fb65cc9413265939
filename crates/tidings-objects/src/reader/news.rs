//! What one view has that the one before had not, for those who watch.
//!
//! Memory: a bounded number of steps, and some megabytes of files.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tidings_store::{Change, Record, Revision};

use super::names;
use super::position::Position;
use super::tail::Part;
use crate::file::read::{FileError, Reader};

/// Steps that are remembered: who is further behind reads everything again.
const STEPS_MAX: usize = 64;
/// Bytes of files from which on fewer are.
const BYTES_MAX: u64 = 4 << 20;

/// What is new.
pub(super) enum News {
    /// The versions of these.
    Parts(Vec<Arc<Part>>),
    /// That is not known.
    Unknown,
}

/// Parts, each with the revision with which it came.
pub(super) type New = Vec<(Revision, Arc<Part>)>;

/// From one revision to the next.
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

/// The latest steps, in their order.
#[derive(Default)]
pub(super) struct Steps(VecDeque<Step>);

impl Steps {
    pub(super) fn add(&mut self, from: Revision, to: Revision, news: News) {
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

    /// What came after a revision; `None` if that is not known.
    pub(super) fn after(&self, revision: Revision) -> Option<New> {
        let first = self.0.iter().position(|step| step.from == revision)?;
        let mut new = Vec::new();
        for step in self.0.range(first..) {
            match &step.news {
                News::Parts(parts) => {
                    new.extend(parts.iter().map(|part| (step.to, Arc::clone(part))));
                }
                News::Unknown => return None,
            }
        }
        Some(new)
    }
}

/// The events of a namespace, or of all, in their newest versions of each part.
pub(super) fn changes(
    cluster: &Arc<str>,
    namespace: Option<&str>,
    new: New,
) -> Result<Vec<Arc<Change>>, FileError> {
    let mut changes = Vec::new();
    for (revision, part) in new {
        let bytes = part.remote.held.clone().unwrap_or_default();
        let reader = Reader::new(cluster, bytes)?;
        let mut seen = HashSet::new();
        for group in 0..reader.groups() {
            for row in reader.group(group)? {
                if namespace.is_some_and(|namespace| row.namespace != namespace) {
                    continue;
                }
                let position = Position {
                    place: row.place().map(str::to_owned),
                    base: names::base(&row.event, &row.uid).to_owned(),
                    uid: row.uid,
                };
                let key = position.key();
                // The newest version comes first.
                if seen.insert(key.clone()) {
                    let record = Record {
                        key,
                        value: row.object,
                        revision,
                        expires_at: None,
                    };
                    let previous = None;
                    changes.push(Arc::new(Change::Put { record, previous }));
                }
            }
        }
    }
    Ok(changes)
}
