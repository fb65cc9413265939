//! Lets a store continue an archive on object storage whose data folder was lost, or whose data
//! folder it is, restored from a copy that is older than the archive.
//!
//! Invariant: everything is done in one commit. Nothing is taken out of the journal: what the store
//! has and is not sealed is sealed behind what is there.

use bytes::Bytes;
use tidings_store::{NewRecord, ReadError, Store, Write};

use super::coverage::Coverage;
use super::keeper::{KeepError, Keeper};
use super::own::{json, parse};
use super::position::{Cause, Gap, Position};
use super::sealed_before::SealedBefore;
use super::{gaps, keys};

/// Maximum versions beyond the positions that are known to be sealed.
pub const SEALED_BEYOND_MAX: usize = 10_000;

/// Where an archive is continued that another data folder began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continued {
    /// The identity of the store that sealed last.
    pub writer: String,
    /// The identity of the archive. Those of the first days have none.
    pub archive: Option<String>,
    /// How far the cluster was followed, by namespaces.
    pub positions: Vec<(String, Position)>,
    /// The latest gaps.
    pub gaps: Vec<Gap>,
    /// Versions beyond the positions that are sealed, by uid, epoch and number: at most
    /// [`SEALED_BEYOND_MAX`]; of more, some are sealed twice.
    pub sealed_beyond: Vec<(String, u64, u64)>,
}

/// Whether a store continues an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continues {
    /// It does, under this identity.
    As(String),
    /// Nothing was done: it has sealed versions elsewhere, which would be missing.
    HasSealed,
    /// Nothing was done: it follows another cluster.
    OtherCluster,
}

/// Lets a store begin where another one ended; again, if it did before. One that was followed
/// before keeps what it has, and a gap is noted from there on until it began. One that wrote the
/// archive itself, before it was restored from a copy, gets another identity.
///
/// # Errors
/// Nothing was done.
pub(crate) async fn begin(
    keeper: &Keeper,
    identity: &str,
    continued: &Continued,
) -> Result<Continues, KeepError> {
    let own = Coverage::followed(keeper).await?;
    let before = SealedBefore::read(&*keeper.store).await?;
    let is_restored = continued.writer == identity || has_sealed_to(keeper, continued).await?;
    let is_again = before.is_some_and(|before| before.writer == continued.writer);
    let mark = keeper.store.get(Bytes::from_static(keys::SEALED)).await?;
    let given: u64 = mark
        .map_or(Ok(0), |mark| parse(&mark.value))
        .map_err(ReadError::Fault)?;
    if given > 0 && !is_restored && !is_again {
        return Ok(Continues::HasSealed);
    }
    let mut sealed = SealedBefore::new(
        &continued.writer,
        &continued.positions,
        &continued.sealed_beyond,
    );
    let mut missed = continued.gaps.clone();
    for (namespace, position) in &own {
        let Some(former) = sealed.position(namespace) else {
            continue;
        };
        if is_another(position, former) {
            return Ok(Continues::OtherCluster);
        }
        let until = former.covered_until();
        let is_later = position.since > until;
        if is_later {
            missed.push(Gap {
                namespace: namespace.clone(),
                ..Gap::new(until, position.since, Cause::Absent)
            });
        }
        // The source went back meanwhile, or did before.
        let went_back = is_later && position.latest < former.latest;
        let epochs = former.epoch.saturating_sub(position.epoch) + u64::from(went_back);
        sealed.epochs = sealed.epochs.max(epochs);
    }
    let mut writes = gaps::write(&*keeper.store, &missed).await?;
    if own.is_empty() {
        for (namespace, position) in &continued.positions {
            // What is here begins there.
            let begun = Position {
                since: position.covered_until(),
                versions: 0,
                ..position.clone()
            };
            let record = NewRecord::new(json(&begun));
            writes.push(Write::put(keys::position(namespace), record));
        }
    }
    let record = NewRecord::new(json(&sealed));
    writes.push(Write::put(keys::CONTINUED, record));
    let mut identity = identity.to_owned();
    if is_restored {
        identity = new_identity();
        let record = NewRecord::new(identity.clone());
        writes.push(Write::put(keys::IDENTITY, record));
    }
    keeper.store.write_all(writes).await?;
    keeper.set_sealed_before(sealed);
    Ok(Continues::As(identity))
}

/// Whether a store noted manifests of the archive, whoever continued that since: another copy of
/// the same data folder, perhaps.
async fn has_sealed_to(keeper: &Keeper, continued: &Continued) -> Result<bool, ReadError> {
    let Some(archive) = &continued.archive else {
        return Ok(false);
    };
    let noted = keeper.store.get(keys::commits(archive)).await?;
    Ok(noted.is_some())
}

/// The identity of a store: random.
pub(crate) fn new_identity() -> String {
    let mut random = fastrand::Rng::new();
    format!("{:016x}{:016x}", random.u64(..), random.u64(..))
}

/// Whether two positions are known to be in different clusters.
fn is_another(one: &Position, other: &Position) -> bool {
    let known = one.identity.as_ref().zip(other.identity.as_ref());
    known.is_some_and(|(one, other)| one != other)
}
