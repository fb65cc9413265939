//! Reads everything that is kept of a cluster, page by page, as the lines of an export.
//!
//! First come the events that were deleted here. A page of them begins after `deleted/ID`. A page
//! of versions begins at a place `NUMBER/namespace/name`, with the number of one of the event's
//! records, counted from its first chunk. Records before the newest one do not change, so every
//! version is read once, even while the cluster is followed. An event that gets an elder's name
//! moves to a later place, and is not skipped.

use bytes::Bytes;
use tidings_history::{EXPORT_FORM, ExportHead, ExportLine, ExportPart, Exported, Version};
use tidings_store::{Fault, ListRequest, ReadError, Record as Stored, Store, UnixMillis};

use super::exchange;
use crate::keep::versions::Keeper;
use crate::keep::{keys, report};
use crate::version::record::{Gone, Record};

/// Bytes of lines at which a page ends, after the record that reaches them.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Events read per request.
const EVENTS_READ: usize = 50;
/// Records at which a page ends, of which a part may have few lines.
const RECORDS_MAX: usize = 10_000;

/// The first part of a place among deleted events.
const DELETED: &str = "deleted";

/// The place where a page begins.
#[derive(Clone, Debug)]
pub(in crate::keep) enum Place {
    /// After the mark of a deleted event.
    Deleted(String),
    /// At a record of the event with this key.
    Event { number: u64, key: String },
}

impl Place {
    /// The first record of the first event.
    pub(in crate::keep) const FIRST: Self = Self::Event {
        number: 0,
        key: String::new(),
    };

    pub(in crate::keep) fn parse(text: &str) -> Option<Self> {
        let (number, key) = text.split_once('/')?;
        if number == DELETED {
            return Some(Self::Deleted(key.to_owned()));
        }
        let number = number.parse().ok()?;
        let key = Some(key).filter(|key| key.contains('/') && !keys::is_own(key.as_bytes()))?;
        Some(Self::Event {
            number,
            key: key.to_owned(),
        })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deleted(id) => write!(f, "{DELETED}/{id}"),
            Self::Event { number, key } => write!(f, "{number}/{key}"),
        }
    }
}

/// Returns the first line.
pub(crate) async fn export_head(
    keeper: &Keeper,
    name: &str,
    identity: &str,
    part: &ExportPart,
) -> Result<Vec<u8>, ReadError> {
    let coverage = match &part.namespace {
        _ if part.is_everything() => report::read(keeper, name).await?,
        Some(namespace) => report::read_of(keeper, name, namespace).await?.of_part(),
        None => report::read(keeper, name).await?.of_part(),
    };
    let head = ExportHead {
        form: EXPORT_FORM,
        store: identity.to_owned(),
        exported_at: keeper.clock.now(),
        coverage,
    };
    let mut line = Vec::new();
    ExportLine::Coverage(Box::new(head)).write(&mut line);
    Ok(line)
}

/// What is done with a record of an event: its key, its versions, oldest first, and the event's end
/// if it is the newest record. Returns whether that was enough.
pub(in crate::keep) type Take<'a> =
    &'a mut (dyn FnMut(&str, Vec<Version>, Option<Gone>) -> Result<bool, String> + Send);

/// Reads the records of the events with a prefix from a place on, until one is enough. Returns the
/// place behind it.
pub(in crate::keep) async fn walk(
    keeper: &Keeper,
    prefix: &Bytes,
    place: Place,
    take: Take<'_>,
) -> Result<Option<Place>, ReadError> {
    let mut after = Bytes::from_static(keys::BEFORE_EVENTS).max(prefix.clone());
    if let Place::Event { number, key } = place
        && !key.is_empty()
    {
        after = Bytes::from(key);
        if let Some(found) = keeper.store.get(after.clone()).await?
            && let Some(more) = event(keeper, &found, number, take).await?
        {
            return Ok(Some(more));
        }
    }
    loop {
        let request = ListRequest::prefix(prefix.clone());
        let request = request.after(after).limit(EVENTS_READ);
        let found = keeper.store.list(request).await?;
        let Some(last) = found.records.last() else {
            return Ok(None);
        };
        after = last.key.clone();
        for found in &found.records {
            let more = event(keeper, found, 0, take).await?;
            if more.is_some() {
                return Ok(more);
            }
        }
    }
}

/// Returns a page of a part. The first page has no place. `None` if the text is not a place in it.
pub(crate) async fn export_page(
    keeper: &Keeper,
    place: Option<&str>,
    part: &ExportPart,
) -> Result<Option<Exported>, ReadError> {
    let prefix = part.namespace.as_deref();
    let prefix = prefix.map_or_else(Bytes::new, |namespace| keys::event(namespace, ""));
    let mut page = Exported::default();
    let place = match place.map(Place::parse) {
        None => Place::Deleted(String::new()),
        Some(Some(place)) => place,
        Some(None) => return Ok(None),
    };
    match &place {
        Place::Deleted(id) => page.more = deleted(keeper, id, &prefix, &mut page.lines).await?,
        // Users of a namespace may read no other.
        Place::Event { key, .. } if !key.as_bytes().starts_with(&prefix) => return Ok(None),
        Place::Event { .. } => {}
    }
    if page.more.is_some() {
        return Ok(Some(page));
    }
    let lines = &mut page.lines;
    let mut records = 0;
    let mut take = |key: &str, versions: Vec<Version>, gone: Option<Gone>| {
        let gone = gone.filter(|gone| part.has(UnixMillis(gone.observed_at)));
        let newest = versions.len().saturating_sub(1);
        for (number, version) in versions.iter().enumerate() {
            // An end is not exported without the version that ended.
            if part.has(version.observed_at) || gone.is_some() && number == newest {
                exchange::write_version(key, version, lines)?;
            }
        }
        if let (Some(gone), Some(newest)) = (gone, versions.last()) {
            exchange::write_end(key, &newest.uid, gone, lines);
        }
        records += 1;
        Ok(lines.len() >= PAGE_BYTES_MAX || records >= RECORDS_MAX)
    };
    match walk(keeper, &prefix, place, &mut take).await? {
        Some(more) => page.more = Some(more.to_string()),
        None => ExportLine::Complete {}.write(&mut page.lines),
    }
    Ok(Some(page))
}

/// Appends the events with a prefix that were deleted here, after the mark of one of them. Returns
/// the place of the page's end, if there is one.
async fn deleted(
    keeper: &Keeper,
    id: &str,
    prefix: &Bytes,
    lines: &mut Vec<u8>,
) -> Result<Option<String>, ReadError> {
    let mut after = keys::forgotten(id.as_bytes());
    loop {
        let request = ListRequest::prefix(keys::FORGOTTEN).after(after);
        let found = keeper.store.list(request.limit(EVENTS_READ)).await?.records;
        let Some(last) = found.last() else {
            return Ok(None);
        };
        after = last.key.clone();
        for mark in found.iter().filter(|mark| mark.value.starts_with(prefix)) {
            let id = String::from_utf8_lossy(&mark.key[keys::FORGOTTEN.len()..]);
            let key = String::from_utf8_lossy(&mark.value);
            // An event without a uid is identified by its key.
            let uid = if id == key { "" } else { &*id };
            let until = mark.expires_at.unwrap_or(UnixMillis(i64::MAX));
            exchange::write_deleted(&key, uid, until, lines);
            if lines.len() >= PAGE_BYTES_MAX {
                return Ok(Some(Place::Deleted(id.into_owned()).to_string()));
            }
        }
    }
}

/// Takes an event's records from one on. Returns the place behind the one that was enough.
async fn event(
    keeper: &Keeper,
    found: &Stored,
    from: u64,
    take: Take<'_>,
) -> Result<Option<Place>, ReadError> {
    let key = String::from_utf8_lossy(&found.key);
    let damaged = |why: String| ReadError::from(Fault::Corrupt(format!("{key}: {why}")));
    let newest = Record::decode(&found.value).map_err(|why| damaged(why.to_string()))?;
    let id = keys::id(&newest.newest.uid, &found.key);
    for number in from..=newest.chunks {
        let chunk;
        let record = if number == newest.chunks {
            &newest
        } else {
            // The first versions expire before the event does, so this chunk may be gone.
            let Some(found) = keeper.store.get(keys::chunk(&id, number)).await? else {
                continue;
            };
            chunk = Record::decode(&found.value).map_err(|why| damaged(why.to_string()))?;
            &chunk
        };
        let versions: Result<Vec<_>, _> = record.versions().collect();
        let mut versions = versions.map_err(|why| damaged(why.to_string()))?;
        versions.reverse();
        let gone = newest.gone.filter(|_| number == newest.chunks);
        if take(&key, versions, gone).map_err(damaged)? {
            let (number, key) = (number + 1, key.into_owned());
            return Ok(Some(Place::Event { number, key }));
        }
    }
    Ok(None)
}
