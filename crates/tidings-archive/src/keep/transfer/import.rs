//! Imports an export into a cluster's store: every version with its time, ends, gaps, and the
//! position.
//!
//! Invariants: a version that exists already changes nothing, so an interrupted import can be
//! repeated from the beginning. The position is written when everything up to it is kept. Events of
//! another archive, or of a cluster that was followed here, are not mixed with those of the export.

use std::io::{BufRead, Read};

use bytes::Bytes;
use jiff::Timestamp;
use k8s_pb::api::core::v1::Event;
use serde::{Deserialize, Serialize};
use tidings_history::{EXPORT_FORM, ExportHead, ExportLine, Version, timestamp};
use tidings_store::embedded::OpenError;
use tidings_store::{
    ListRequest, NewRecord, ReadError, Store, UnixMillis, VALUE_LEN_MAX, Write, WriteError,
};

use super::exchange::{self, Said};
use crate::keep::coverage::Position;
use crate::keep::coverage::write_gaps;
use crate::keep::feed::Item;
use crate::keep::index::index;
use crate::keep::json::{json, parse};
use crate::keep::keys;
use crate::keep::report::positions;
use crate::keep::retention::Trimmed;
use crate::keep::versions::{Batch, KeepError, Keeper, Tries};
use crate::version::record::Record;

/// Maximum bytes of a line. An event has at most half of [`VALUE_LEN_MAX`], and JSON is longer than
/// protobuf.
const LINE_LEN_MAX: u64 = 8 * VALUE_LEN_MAX as u64;
/// Number of lines that are committed together: the usual number, at the end of an event, and the
/// maximum.
const BATCH: usize = 500;
const BATCH_MAX: usize = 5000;
/// Maximum bytes of lines that wait to be committed.
const BATCH_BYTES: usize = 16 << 20;

/// The outcome of an import, by kind of line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Versions that were kept.
    pub versions: u64,
    /// Versions and ends that existed already.
    pub seen_before: u64,
    /// Ends that were noted.
    pub ends: u64,
    /// Versions that have already expired by the rules here.
    pub over: u64,
    /// Versions of events that were deleted, here or at the origin of the export.
    pub forgotten: u64,
    /// Events that were deleted at the origin of the export, and must not come back.
    pub deleted: u64,
    /// Versions that were too large, or whose event could have no name, since others have all of
    /// its names.
    pub too_large: u64,
    /// Versions that were left out, because their event belongs to another namespace than the line
    /// states.
    pub of_another: u64,
    /// Whether the export was complete. If not, it can be imported again.
    pub is_whole: bool,
}

/// Why an export was not imported completely. What was imported is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The folder could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Opening panicked; the log says how.
    #[error("opening the store panicked")]
    Panicked,
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The export could not be read.
    #[error("read the export: {0}")]
    Io(#[from] std::io::Error),
    /// A line does not belong to an export.
    #[error("line {line}: {why}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What is wrong, or what is expected.
        why: String,
    },
    /// The cluster's folder has events of another origin.
    #[error(
        "the cluster has events already, {of}: import into another one, whose name is not taken"
    )]
    Taken {
        /// Where the existing events are from.
        of: &'static str,
    },
}

impl From<KeepError> for ImportError {
    fn from(error: KeepError) -> Self {
        match error {
            KeepError::Read(error) => error.into(),
            KeepError::Write(error) => error.into(),
        }
    }
}

/// The export that was imported into a store, and the positions at that time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    store: String,
    exported_at: String,
    /// When the latest export was made, if that is another one, which was not imported completely.
    #[serde(default)]
    begun: Option<Timestamp>,
    positions: Vec<(String, Position)>,
}

impl Mark {
    /// Returns when the latest export was made of which something may be here.
    fn latest(&self) -> Option<Timestamp> {
        let exported_at = self.exported_at.parse::<Timestamp>();
        exported_at.ok().max(self.begun)
    }
}

/// Yields lines, one after another.
struct Lines<'a> {
    from: &'a mut (dyn BufRead + Send),
    line: Vec<u8>,
    number: u64,
}

impl Lines<'_> {
    /// Returns the next complete line.
    fn next(&mut self) -> Result<Option<&[u8]>, ImportError> {
        self.line.clear();
        self.number += 1;
        let mut from = (&mut *self.from).take(LINE_LEN_MAX);
        from.read_until(b'\n', &mut self.line)?;
        if self.line.ends_with(b"\n") {
            return Ok(Some(&self.line));
        }
        if self.line.len() as u64 == LINE_LEN_MAX {
            return Err(self.wrong(format!("it is longer than {LINE_LEN_MAX} bytes")));
        }
        Ok(None)
    }

    fn wrong(&self, why: String) -> ImportError {
        ImportError::Line {
            line: self.number,
            why,
        }
    }
}

/// Imports the lines of an export; reading them blocks the caller.
pub(crate) async fn import_lines(
    keeper: &Keeper,
    from: &mut (dyn BufRead + Send),
    told: &mut (dyn FnMut(&Imported) + Send),
) -> Result<Imported, ImportError> {
    let mut lines = Lines {
        from,
        line: Vec::new(),
        number: 0,
    };
    let head = lines.next()?.map(serde_json::from_slice::<ExportLine>);
    let head = match head {
        Some(Ok(ExportLine::Coverage(head))) if head.form == EXPORT_FORM => head,
        Some(Ok(ExportLine::Coverage(head))) => {
            let why = format!("the form is {}, known is {EXPORT_FORM}", head.form);
            return Err(lines.wrong(why));
        }
        Some(Ok(_)) => {
            let why = "not the beginning of an export with versions: it has no coverage";
            return Err(lines.wrong(why.to_owned()));
        }
        Some(Err(why)) => {
            let why = format!("not the beginning of an export with versions: {why}");
            return Err(lines.wrong(why));
        }
        None => return Err(lines.wrong("it is empty, or not whole".into())),
    };
    let followed = &head.coverage.followed;
    if followed.iter().any(|followed| followed.progress.is_none()) {
        let why = "not the beginning of an export with versions: what is followed has no resourceVersions";
        return Err(lines.wrong(why.to_owned()));
    }
    let mark = begin(keeper, &head).await?;
    let mut imported = Imported::default();
    let mut batch = Vec::new();
    let mut bytes = 0;
    loop {
        let said = match lines.next()? {
            Some(line) => exchange::read(line).map_err(|why| lines.wrong(why))?,
            None => break,
        };
        match &said {
            Said::Complete => {
                imported.is_whole = true;
                break;
            }
            Said::OfAnother { own, namespace } => {
                if imported.of_another == 0 {
                    tracing::warn!(
                        line = lines.number,
                        namespace,
                        own,
                        "an event is left out: it is of another namespace than its line says, whose readers may not read it"
                    );
                }
                imported.of_another += 1;
                continue;
            }
            _ => {}
        }
        let is_next = batch
            .last()
            .is_none_or(|last| key_of(last) != key_of(&said));
        let is_full = batch.len() >= BATCH_MAX || bytes >= BATCH_BYTES;
        if is_full || batch.len() >= BATCH && is_next {
            keep(keeper, &batch, &mut imported).await?;
            batch.clear();
            bytes = 0;
            told(&imported);
        }
        bytes += lines.line.len();
        batch.push(said);
    }
    keep(keeper, &batch, &mut imported).await?;
    if imported.is_whole {
        finish(keeper, &head, mark).await?;
    }
    Ok(imported)
}

/// Checks whether the export may be imported into this store, and notes its origin.
async fn begin(keeper: &Keeper, head: &ExportHead) -> Result<Mark, ImportError> {
    let key = Bytes::from_static(keys::IMPORTED);
    let found = keeper.store.get(key.clone()).await?;
    let found: Option<Mark> = found
        .map(|found| parse(&found.value))
        .transpose()
        .map_err(ReadError::Fault)?;
    let taken = |of| Err(ImportError::Taken { of });
    let exported = timestamp(head.exported_at);
    let exported_at = exported.to_string();
    let positions = positions(keeper).await?;
    if let Some(mark) = found {
        if mark.store != head.store {
            return taken("from the export of another archive");
        }
        // An event that has been renamed since would be duplicated, and the position would be set
        // back.
        if mark.latest() > Some(exported) {
            return taken("from a later export of the same archive");
        }
        if mark.exported_at != exported_at && mark.positions != positions {
            return taken("as it was followed since the former import");
        }
        if mark.latest() < Some(exported) {
            // This is written before anything of the export, since the import may be interrupted.
            let begun = Mark {
                begun: Some(exported),
                ..mark.clone()
            };
            let write = Write::put(key, NewRecord::new(json(&begun)));
            keeper.store.write_all(vec![write]).await?;
        }
        return Ok(Mark {
            exported_at,
            begun: None,
            ..mark
        });
    }
    let events = ListRequest::default().after(keys::BEFORE_EVENTS).limit(1);
    if !positions.is_empty() || !keeper.store.list(events).await?.records.is_empty() {
        return taken("as it was followed");
    }
    let mark = Mark {
        store: head.store.clone(),
        exported_at,
        begun: None,
        positions,
    };
    let write = Write::put(key, NewRecord::new(json(&mark)));
    keeper.store.write_all(vec![write]).await?;
    Ok(mark)
}

/// Ends the import: everything is kept, so the positions are written too, unless the cluster was
/// followed since.
async fn finish(keeper: &Keeper, head: &ExportHead, mark: Mark) -> Result<(), ImportError> {
    let mut writes = Vec::new();
    writes.extend(write_gaps(&*keeper.store, &head.coverage.gaps).await?);
    if mark.positions == positions(keeper).await? {
        let mark = Mark {
            positions: positions_of(head),
            ..mark
        };
        for (namespace, position) in &mark.positions {
            let record = NewRecord::new(json(position));
            writes.push(Write::put(keys::position(namespace), record));
        }
        let over_quota = head.coverage.over_quota;
        if let Some(before) = over_quota.observed_before {
            let record = NewRecord::new(json(&Trimmed {
                events: over_quota.events,
                before: before.0,
            }));
            writes.push(Write::put(keys::TRIMMED, record));
        }
        writes.push(Write::put(keys::IMPORTED, NewRecord::new(json(&mark))));
    }
    keeper.store.write_all(writes).await?;
    Ok(())
}

/// Returns the positions of an export, by namespace. The export has everything up to them.
fn positions_of(head: &ExportHead) -> Vec<(String, Position)> {
    let followed = head.coverage.followed.iter();
    let positions = followed.filter_map(|followed| {
        let position = Position::of(followed)?;
        Some((followed.namespace.clone(), position))
    });
    positions.collect()
}

fn key_of(said: &Said) -> Option<&Bytes> {
    match said {
        Said::Version { key, .. } | Said::End { key, .. } | Said::Deleted { key, .. } => Some(key),
        Said::OfAnother { .. } | Said::Complete => None,
    }
}

/// Commits some lines.
async fn keep(
    keeper: &Keeper,
    mut said: &[Said],
    imported: &mut Imported,
) -> Result<(), ImportError> {
    while !said.is_empty() {
        said = keep_some(keeper, said, imported).await?;
    }
    Ok(())
}

/// Commits as many lines as one commit has room for, at least one. Returns the others.
async fn keep_some<'a>(
    keeper: &Keeper,
    all: &'a [Said],
    imported: &mut Imported,
) -> Result<&'a [Said], ImportError> {
    let mut tries = Tries::default();
    loop {
        let mut batch = Batch::default();
        let mut counts = *imported;
        let mut marks = Vec::new();
        let mut left = all;
        while !batch.is_full()
            && marks.len() < BATCH
            && let Some((said, others)) = left.split_first()
        {
            left = others;
            match said {
                Said::Version {
                    key,
                    event,
                    version,
                } => {
                    let what = observe(keeper, key, event, version.clone(), &mut batch).await?;
                    *what(&mut counts) += 1;
                }
                Said::End { key, uid, gone } => {
                    let here = keeper.key_here(key, uid, &mut batch).await?;
                    let here = here.unwrap_or_else(|| key.clone());
                    let slot = keeper.slot(&here, &mut batch).await?;
                    if slot.end(uid, *gone) {
                        counts.ends += 1;
                    } else {
                        counts.seen_before += 1;
                    }
                }
                Said::Deleted { key, uid, until } => {
                    let until = UnixMillis(*until);
                    if until > keeper.clock.now() {
                        delete(keeper, key, uid).await?;
                        let id = keys::id(uid, key);
                        let mark = NewRecord::new(key.clone()).expires_at(until);
                        marks.push(Write::put(keys::forgotten(&id), mark));
                        // Sealed files may have what is no longer kept here.
                        marks.extend(keeper.erase(&id, key, uid));
                        counts.deleted += 1;
                    }
                }
                Said::OfAnother { .. } | Said::Complete => {}
            }
        }
        let (mut writes, over) = batch.writes(keeper.clock.now());
        writes.append(&mut marks);
        counts.over += over;
        counts.versions = counts.versions.saturating_sub(over);
        if keeper.commit(&batch, writes, &mut tries).await? {
            *imported = counts;
            return Ok(left);
        }
    }
}

/// Deletes an event of an earlier import with all its versions.
async fn delete(keeper: &Keeper, key: &Bytes, uid: &str) -> Result<(), ImportError> {
    let mut looked_at = Batch::default();
    if let Some(here) = keeper.key_here(key, uid, &mut looked_at).await? {
        keeper.forget(here, None).await?;
    }
    Ok(())
}

/// Returns the key for an event of an export, and makes room there. It is the event's key in the
/// export, unless the event is an elder one here. Another event with that key becomes an elder one.
/// An event that was imported before it became an elder one is moved to its new name. `None` if
/// other events have all of its names.
async fn make_place(
    keeper: &Keeper,
    key: &Bytes,
    uid: &str,
    batch: &mut Batch,
) -> Result<Option<Bytes>, ReadError> {
    let text = String::from_utf8_lossy(key);
    let (namespace, name) = text.split_once('/').unwrap_or_default();
    match keeper.key_here(key, uid, batch).await? {
        Some(here) if keys::before_elder(key, uid).as_ref() != Some(&here) => {
            return Ok(Some(here));
        }
        before => {
            // If the key is taken, the name was used again since the earlier import.
            if !keeper.move_elder(namespace, name, batch).await? {
                return Ok(None);
            }
            if let Some(before) = before {
                keeper
                    .rename(&before, namespace, name.to_owned(), batch)
                    .await?;
            }
        }
    }
    Ok(Some(key.clone()))
}

/// Returns the count to which a version belongs.
type Counted = fn(&mut Imported) -> &mut u64;

/// Adds a version to a batch, unless it exists already.
async fn observe(
    keeper: &Keeper,
    key: &Bytes,
    event: &Event,
    version: Version,
    batch: &mut Batch,
) -> Result<Counted, ReadError> {
    let id = keys::id(&version.uid, key);
    let index = index(event);
    let expires_at = keeper.end_of(event, version.observed_at);
    if version.event.len() > VALUE_LEN_MAX / 2 {
        return Ok(|counts| &mut counts.too_large);
    }
    batch.bytes += version.event.len();
    let Some(key) = &make_place(keeper, key, &version.uid, batch).await? else {
        return Ok(|counts| &mut counts.too_large);
    };
    let slot = keeper.slot(key, batch).await?;
    let Some(record) = slot.record.take() else {
        if keeper.is_forgotten(&id, batch).await? {
            return Ok(|counts| &mut counts.forgotten);
        }
        let record = Record::new(version);
        batch.unsealed.push(Item::newest(key, &record));
        keeper
            .slot(key, batch)
            .await?
            .change(record, index, expires_at);
        return Ok(|counts| &mut counts.versions);
    };
    if version.order() <= record.newest.order() {
        slot.record = Some(record);
        return Ok(|counts| &mut counts.seen_before);
    }
    let (record, chunk) = record.followed_by(version);
    let item = Item::newest(key, &record);
    slot.change(record, index, expires_at);
    batch.unsealed.push(item);
    if let Some(chunk) = chunk {
        batch.chunk(&id, chunk, expires_at);
    }
    Ok(|counts| &mut counts.versions)
}
