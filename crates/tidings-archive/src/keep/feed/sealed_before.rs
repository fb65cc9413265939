//! What was sealed before this store began, if the store continues an archive on object storage
//! that another store began.
//!
//! Invariants: a version that is already sealed is not sealed again. Sealed are, in each followed
//! namespace, all versions up to the position at which the archive was continued, and a few named
//! versions beyond it. No version after the last one in the archive's files is taken for sealed,
//! whatever the position. What this store seals has the archive's epochs, and names the time since
//! which it covers the cluster.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_store::{ReadError, Store};

use crate::keep::coverage::Position;
use crate::keep::json::parse;
use crate::keep::keys;

/// What is sealed, by followed namespace. The whole cluster has the empty name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SealedBefore {
    /// The epoch and resourceVersion up to which everything is sealed, compared in this order.
    through: BTreeMap<String, (u64, u64)>,
    beyond: HashSet<(String, u64, u64)>,
    /// The identity of the store that sealed it. Notes of earlier versions of this program have
    /// neither this field nor the following ones.
    #[serde(default)]
    pub(crate) writer: String,
    /// How far that store had followed the cluster.
    #[serde(default)]
    pub(crate) positions: Vec<(String, Position)>,
    /// By how much the archive's epochs are greater than this store's own.
    #[serde(default)]
    pub(crate) epochs: u64,
}

impl SealedBefore {
    /// Reads what was sealed before a store began; `None` if it continues no other.
    pub(crate) async fn read(store: &dyn Store) -> Result<Option<Self>, ReadError> {
        let found = store.get(Bytes::from_static(keys::CONTINUED)).await?;
        let read = found.map(|found| parse(&found.value)).transpose();
        read.map_err(ReadError::Fault)
    }

    /// Derives it from the positions, from the last version of each followed namespace in the
    /// files, and from the versions beyond.
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

    /// Whether a version of this store is already sealed. It was observed by following this
    /// namespace, or the whole cluster.
    pub(crate) fn has(&self, followed: &str, uid: &str, epoch: u64, number: u64) -> bool {
        let epoch = epoch.saturating_add(self.epochs);
        let through = self.through.get(followed).or_else(|| self.through.get(""));
        through.is_some_and(|through| (epoch, number) <= *through)
            || (!self.beyond.is_empty() && self.beyond.contains(&(uid.to_owned(), epoch, number)))
    }

    /// The position up to which a namespace, or the whole cluster, was sealed.
    pub(crate) fn position(&self, followed: &str) -> Option<&Position> {
        let of = |namespace: &str| self.positions.iter().find(|(found, _)| found == namespace);
        let found = of(followed).or_else(|| of(""));
        found.map(|(_, position)| position)
    }

    /// This store's positions as the archive reports them, in which what was sealed before counts
    /// as covered.
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
        // The position of a namespace that is not followed any more does not change.
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
