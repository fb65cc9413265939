//! What was sealed before this store began: it continues an archive on object storage that another
//! one began.
//!
//! Invariants: a version that is sealed there is not sealed again. In a namespace those are all up
//! to the position at which the archive was continued, and a few beyond it, which are named. No
//! version is taken for sealed that is behind the last one in the archive's files, whatever
//! position it says. What is sealed from here has the epochs of the archive, and says since when it
//! covers the cluster.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_store::{ReadError, Store};

use super::keys;
use super::own::parse;
use super::position::Position;

/// What is sealed, by followed namespaces; the whole cluster is the empty one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SealedBefore {
    /// The epoch and the resourceVersion up to which everything is, in the order of both.
    through: BTreeMap<String, (u64, u64)>,
    beyond: HashSet<(String, u64, u64)>,
    /// The identity of the store that sealed it. Stores of former programs do not have this, nor
    /// what follows.
    #[serde(default)]
    pub(crate) writer: String,
    /// How far the cluster was followed then.
    #[serde(default)]
    pub(crate) positions: Vec<(String, Position)>,
    /// By how much the epochs of the archive are greater than those of this store.
    #[serde(default)]
    pub(crate) epochs: u64,
}

impl SealedBefore {
    /// Of a store; `None` if it continues no other.
    pub(crate) async fn read(store: &dyn Store) -> Result<Option<Self>, ReadError> {
        let found = store.get(Bytes::from_static(keys::CONTINUED)).await?;
        let read = found.map(|found| parse(&found.value)).transpose();
        read.map_err(ReadError::Fault)
    }

    /// By the positions, by the last version of each that the files have, and by the versions
    /// beyond.
    pub(crate) fn new(
        writer: &str,
        positions: &[(String, Position)],
        ends: &[(String, (u64, u64))],
        beyond: &[(String, u64, u64)],
    ) -> Self {
        let end = |namespace: &str| {
            let mut ends = ends.iter();
            ends.find_map(|(found, end)| (found == namespace).then_some(*end))
        };
        let through = positions.iter().filter_map(|(namespace, position)| {
            let through = (position.epoch, position.version?);
            let end = end(namespace).unwrap_or_default();
            Some((namespace.clone(), through.min(end)))
        });
        Self {
            through: through.collect(),
            beyond: beyond.iter().cloned().collect(),
            writer: writer.to_owned(),
            positions: positions.to_vec(),
            epochs: 0,
        }
    }

    /// Whether a version of this store is sealed, which was observed by following this namespace,
    /// or the whole cluster.
    pub(crate) fn has(&self, followed: &str, uid: &str, epoch: u64, number: u64) -> bool {
        let epoch = epoch.saturating_add(self.epochs);
        let through = self.through.get(followed).or_else(|| self.through.get(""));
        through.is_some_and(|through| (epoch, number) <= *through)
            || (!self.beyond.is_empty() && self.beyond.contains(&(uid.to_owned(), epoch, number)))
    }

    /// The position that was sealed, of a namespace or of the whole cluster.
    pub(crate) fn position(&self, followed: &str) -> Option<&Position> {
        let of = |namespace: &str| self.positions.iter().find(|(found, _)| found == namespace);
        let found = of(followed).or_else(|| of(""));
        found.map(|(_, position)| position)
    }

    /// Positions of this store as the archive says them: what was sealed before is covered, too.
    pub(crate) fn with_sealed(&self, own: Vec<(String, Position)>) -> Vec<(String, Position)> {
        let mut all = own;
        for (namespace, position) in &mut all {
            position.epoch = position.epoch.saturating_add(self.epochs);
            let Some(sealed) = self.position(namespace) else {
                continue;
            };
            position.versions = if position.since >= sealed.covered_until() {
                position.versions.saturating_add(sealed.versions)
            } else {
                position.versions.max(sealed.versions)
            };
            position.since = position.since.min(sealed.since);
        }
        // What is not followed any more stays where it was.
        for (namespace, sealed) in &self.positions {
            if all
                .iter()
                .all(|(found, _)| found != namespace && !found.is_empty())
            {
                all.push((namespace.clone(), sealed.clone()));
            }
        }
        all
    }
}
