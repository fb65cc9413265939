//! Reads everything that is kept of a cluster, page by page, as the lines of an export.
//!
//! First come the events that were deleted here. A page of them begins after `deleted/ID`. A page
//! of versions begins at a place `NUMBER/namespace/name`, with the number of one of the event's
//! records, counted from its first chunk. Records before the newest one do not change, so every
//! version is read once, even while the cluster is followed. An event that gets an elder's name
//! moves to a later place, and is not skipped.

use bytes::Bytes;
use tidings_history::{EXPORT_FORM, ExportHead, ExportLine, Exported, Version};
use tidings_store::{Fault, ListRequest, ReadError, Record as Stored, Store, UnixMillis};

use super::exchange;
use crate::keep::versions::Keeper;
use crate::keep::{keys, report};
use crate::version::record::{Gone, Record};

/// Bytes of lines at which a page ends, after the record that reaches them.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Events read per request.
const EVENTS_READ: usize = 50;

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
) -> Result<Vec<u8>, ReadError> {
    let head = ExportHead {
        form: EXPORT_FORM,
        store: identity.to_owned(),
        exported_at: keeper.clock.now(),
        coverage: report::read(keeper, name).await?,
    };
    let mut line = Vec::new();
    ExportLine::Coverage(Box::new(head)).write(&mut line);
    Ok(line)
}

/// What is done with a record of an event: its key, its versions, oldest first, and the event's end
/// if it is the newest record. Returns whether that was enough.
pub(in crate::keep) type Take<'a> =
    &'a mut (dyn FnMut(&str, Vec<Version>, Option<Gone>) -> Result<bool, String> + Send);

/// Reads the records of all events from a place on, until one is enough. Returns the place behind
/// it.
pub(in crate::keep) async fn walk(
    keeper: &Keeper,
    place: Place,
    take: Take<'_>,
) -> Result<Option<Place>, ReadError> {
    let mut after = Bytes::from_static(keys::BEFORE_EVENTS);
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
        let request = ListRequest::default().after(after).limit(EVENTS_READ);
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

/// Returns a page. The first page has no place. `None` if the text is not a place.
pub(crate) async fn export_page(
    keeper: &Keeper,
    place: Option<&str>,
) -> Result<Option<Exported>, ReadError> {
    let mut page = Exported::default();
    let place = match place.map(Place::parse) {
        None => Place::Deleted(String::new()),
        Some(Some(place)) => place,
        Some(None) => return Ok(None),
    };
    if let Place::Deleted(id) = &place {
        page.more = deleted(keeper, id, &mut page.lines).await?;
    }
    if page.more.is_some() {
        return Ok(Some(page));
    }
    let lines = &mut page.lines;
    let mut take = |key: &str, versions: Vec<Version>, gone: Option<Gone>| {
        for version in &versions {
            exchange::write_version(key, version, lines)?;
        }
        if let (Some(gone), Some(newest)) = (gone, versions.last()) {
            exchange::write_end(key, &newest.uid, gone, lines);
        }
        Ok(lines.len() >= PAGE_BYTES_MAX)
    };
    match walk(keeper, place, &mut take).await? {
        Some(more) => page.more = Some(more.to_string()),
        None => ExportLine::Complete {}.write(&mut page.lines),
    }
    Ok(Some(page))
}

/// Appends the events that were deleted here, after the mark of one of them. Returns the place of
/// the page's end, if there is one.
async fn deleted(
    keeper: &Keeper,
    id: &str,
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
        for mark in &found {
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
