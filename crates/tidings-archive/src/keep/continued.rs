//! Lets a new store continue an archive on object storage whose data folder was lost.

use bytes::Bytes;
use tidings_store::{ListRequest, NewRecord, Store, Write};

use super::keeper::{KeepError, Keeper};
use super::own::json;
use super::position::{Gap, Position};
use super::sealed_before::SealedBefore;
use super::{gaps, keys};

/// Maximum versions beyond the positions that are known to be sealed.
pub const SEALED_BEYOND_MAX: usize = 10_000;

/// Where an archive is continued that another data folder began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continued {
    /// How far the cluster was followed, by namespaces.
    pub positions: Vec<(String, Position)>,
    /// The latest gaps.
    pub gaps: Vec<Gap>,
    /// Versions beyond the positions that are sealed, by uid, epoch and number: at most
    /// [`SEALED_BEYOND_MAX`]; of more, some are sealed twice.
    pub sealed_beyond: Vec<(String, u64, u64)>,
}

/// Lets a store without events begin where another one ended; again, if it did before. `false`: it
/// has events, and nothing was done.
///
/// # Errors
/// Nothing was done.
pub(crate) async fn begin(keeper: &Keeper, continued: &Continued) -> Result<bool, KeepError> {
    let events = ListRequest::default().after(Bytes::from_static(keys::BEFORE_EVENTS));
    let found = keeper.store.list(events.limit(1)).await?;
    if !found.records.is_empty() {
        return Ok(false);
    }
    let sealed = SealedBefore::new(&continued.positions, &continued.sealed_beyond);
    let mut writes = gaps::write(&*keeper.store, &continued.gaps).await?;
    for (namespace, position) in &continued.positions {
        let record = NewRecord::new(json(position));
        writes.push(Write::put(keys::position(namespace), record));
    }
    let record = NewRecord::new(json(&sealed));
    writes.push(Write::put(keys::CONTINUED, record));
    keeper.store.write_all(writes).await?;
    keeper.set_sealed_before(sealed);
    Ok(true)
}
