//! What was sealed before this store began: it continues an archive on object storage whose data
//! folder was lost.
//!
//! Invariant: a version that is sealed there is not sealed again. In a namespace those are all up
//! to the position that the store began with, and a few beyond it, which are named.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tidings_store::{ReadError, Store};

use super::keys;
use super::own::parse;
use super::position::Position;

/// What is sealed, by followed namespaces; the whole cluster is the empty one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SealedBefore {
    /// The epoch and the resourceVersion up to which everything is, in the order of both.
    through: BTreeMap<String, (u64, u64)>,
    beyond: HashSet<(String, u64, u64)>,
}

impl SealedBefore {
    /// Of a store; `None` if it continues no other.
    pub(crate) async fn read(store: &dyn Store) -> Result<Option<Self>, ReadError> {
        let found = store.get(Bytes::from_static(keys::CONTINUED)).await?;
        let read = found.map(|found| parse(&found.value)).transpose();
        read.map_err(ReadError::Fault)
    }

    pub(crate) fn new(positions: &[(String, Position)], beyond: &[(String, u64, u64)]) -> Self {
        let through = positions.iter().filter_map(|(namespace, position)| {
            let version = position.version?;
            Some((namespace.clone(), (position.epoch, version)))
        });
        Self {
            through: through.collect(),
            beyond: beyond.iter().cloned().collect(),
        }
    }

    /// Whether a version is sealed, which was observed by following this namespace.
    pub(crate) fn has(&self, followed: &str, uid: &str, epoch: u64, number: u64) -> bool {
        let through = self.through.get(followed);
        through.is_some_and(|through| (epoch, number) <= *through)
            || (!self.beyond.is_empty() && self.beyond.contains(&(uid.to_owned(), epoch, number)))
    }
}
