//! Lets a store continue an archive on object storage whose data folder was lost. It can also be
//! the archive's own data folder, if that was restored from an older copy, or if the archive lost
//! its newest manifests.
//!
//! Invariants: everything is done in one commit, which removes nothing from the journal, so that
//! the store's own unsealed versions are sealed after those of the archive. If the archive lost
//! manifests, the commit removes the journal's mark, so that everything that is kept enters the
//! journal again, at the next start at the latest. What the manifest states counts only as far as
//! the files show it.

use bytes::Bytes;
use tidings_history::{Cause, Gap};
use tidings_store::{NewRecord, Store, Write};

use super::manifests::{Commit, Commits, leave};
use crate::keep::coverage::write_gaps;
use crate::keep::coverage::{Position, cluster_gap};
use crate::keep::feed::SealedBefore;
use crate::keep::json::json;
use crate::keep::keys;
use crate::keep::report::positions;
use crate::keep::versions::{KeepError, Keeper};

/// Maximum number of sealed versions beyond the positions that are known.
pub const SEALED_BEYOND_MAX: usize = 10_000;

/// Clocks of machines are assumed to differ by at most this, in milliseconds.
const CLOCKS_DIFFER: i64 = 10 * 60_000;

/// The state at which another data folder's archive is continued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continued {
    /// The identity of the store that sealed last.
    pub writer: String,
    /// The identity of the archive, if it has one.
    pub archive: Option<String>,
    /// The archive's newest manifest.
    pub newest: Commit,
    /// The position up to which each namespace was followed.
    pub positions: Vec<(String, Position)>,
    /// For each namespace, the epoch and resourceVersion of the last version in the files that is
    /// not beyond its position. Only up to there does a position count as sealed.
    pub ends: Vec<(String, (u64, u64))>,
    /// For each namespace, when the last of these versions was observed, in milliseconds since
    /// 1970. The position's own time may be earlier, and a store that begins behind these versions
    /// has none of them.
    pub observed_until: Vec<(String, i64)>,
    /// The latest gaps.
    pub gaps: Vec<Gap>,
    /// Versions beyond the positions that are sealed, by uid, epoch and number: at most
    /// [`SEALED_BEYOND_MAX`]. If there are more, some are sealed twice.
    pub sealed_beyond: Vec<(String, u64, u64)>,
}

/// Whether a store continues an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continues {
    /// The store continues it, and has this identity now.
    As(String),
    /// Nothing was changed: the store has sealed versions elsewhere, which would be missing here.
    HasSealed,
    /// Nothing was changed: the store follows another cluster.
    OtherCluster,
}

/// Lets a store begin where another one ended; again, if it did before. One that was followed
/// before keeps what it has, and a gap is noted from there on until it began. It gets another
/// identity, since it may be a copy of the former store. If the archive lost manifests, all that is
/// kept is sealed anew that is not in the others, and a gap is noted of what ended meanwhile.
///
/// # Errors
/// Nothing was changed, or not everything that is kept is in the journal yet. It may be repeated.
pub(crate) async fn continue_archive(
    keeper: &Keeper,
    identity: &str,
    continued: &Continued,
) -> Result<Continues, KeepError> {
    let own = positions(keeper).await?;
    let before = SealedBefore::read(&*keeper.store).await?;
    let noted = match &continued.archive {
        Some(archive) => Commits::read(&*keeper.store, archive).await?,
        None => None,
    };
    // Since the copy was made, others may have continued the archive.
    let is_restored = continued.writer == identity || noted.is_some();
    let has_lost = noted.is_some_and(|noted| noted.are_behind(&continued.newest));
    let is_again = before.is_some_and(|before| before.writer == continued.writer);
    let mark = keeper.store.get(Bytes::from_static(keys::SEALED)).await?;
    let has_mark = mark.is_some();
    if keeper.journal.given() > 0 && !is_restored && !is_again {
        return Ok(Continues::HasSealed);
    }
    let mut sealed = SealedBefore::new(
        &continued.writer,
        &continued.positions,
        &continued.ends,
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
        let missing = if has_lost {
            // What was sealed in the lost manifests and has ended since is nowhere any more.
            Some((position.covered_until().max(until), Cause::Storage))
        } else {
            is_later.then_some((position.since, Cause::Absent))
        };
        missed.extend(missing.map(|(to, cause)| cluster_gap(until, to, cause).of(namespace)));
        // The source went back in between, or before that.
        let went_back = is_later && position.latest < former.latest;
        let apart = former.epoch.saturating_sub(position.epoch);
        let epochs = apart.saturating_add(u64::from(went_back));
        sealed.epochs = sealed.epochs.max(epochs);
    }
    let mut writes = write_gaps(&*keeper.store, &missed).await?;
    if own.is_empty() {
        for (namespace, position) in &continued.positions {
            let observed = continued.observed_until.iter();
            let observed = observed.filter(|(of, _)| of == namespace);
            let observed = observed.map(|(_, until)| *until).max();
            // The store begins at this position. If the source has not reached it, it went back.
            let begun = Position {
                // A manifest's time far in the future would hide real gaps.
                since: observed
                    .max(Some(position.covered_until()))
                    .unwrap_or_default()
                    .min(keeper.now().0.saturating_add(CLOCKS_DIFFER)),
                versions: 0,
                latest: position.latest.max(position.version.unwrap_or(0)),
                ..position.clone()
            };
            let record = NewRecord::new(json(&begun));
            writes.push(Write::put(keys::position(namespace), record));
        }
    }
    let key = continued.archive.as_deref().map(keys::commits);
    writes.extend(leave(&*keeper.store, key.as_ref()).await?);
    let record = NewRecord::new(json(&sealed));
    writes.push(Write::put(keys::CONTINUED, record));
    let mut identity = identity.to_owned();
    // A copy that was made before the first seal looks like a new store.
    if is_restored || !is_again {
        identity = new_identity();
        let record = NewRecord::new(identity.clone());
        writes.push(Write::put(keys::IDENTITY, record));
    }
    let journal = Some(&keeper.journal).filter(|journal| has_lost && journal.is_sealed());
    if journal.is_some() && has_mark {
        writes.push(Write::delete(Bytes::from_static(keys::SEALED)));
    }
    keeper.store.write_all(writes).await?;
    keeper.set_sealed_before(sealed);
    if let Some(journal) = journal {
        journal.begin_anew(keeper).await?;
    }
    Ok(Continues::As(identity))
}

/// Lets a store seal everything that it still has into an archive that begins. What it sealed and
/// has ended since is nowhere any more, if the former archive is gone: a gap says so.
///
/// # Errors
/// Nothing was changed, or not everything that is kept is in the journal yet. It may be repeated.
pub(crate) async fn seal_anew(keeper: &Keeper) -> Result<(), KeepError> {
    let own = positions(keeper).await?;
    let missed = own.iter().map(|(namespace, position)| {
        let until = position.covered_until().max(position.since);
        cluster_gap(position.since, until, Cause::Storage).of(namespace)
    });
    let missed: Vec<Gap> = missed.collect();
    let mut writes = write_gaps(&*keeper.store, &missed).await?;
    writes.extend(leave(&*keeper.store, None).await?);
    let mark = Bytes::from_static(keys::SEALED);
    if keeper.store.get(mark.clone()).await?.is_some() {
        writes.push(Write::delete(mark));
    }
    keeper.store.write_all(writes).await?;
    if keeper.journal.is_sealed() {
        keeper.journal.begin_anew(keeper).await?;
    }
    Ok(())
}

/// Makes a random identity for a store.
pub(crate) fn new_identity() -> String {
    let mut random = fastrand::Rng::new();
    format!("{:016x}{:016x}", random.u64(..), random.u64(..))
}

/// Returns whether two positions are known to be from different clusters.
fn is_another(one: &Position, other: &Position) -> bool {
    let known = one.identity.as_ref().zip(other.identity.as_ref());
    known.is_some_and(|(one, other)| one != other)
}
