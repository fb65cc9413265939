//! Counts the events of a time range by the stores' counts by hour and reason, so that events that
//! were not read are counted, too.

use foldhash::{HashMap, HashSet};
use futures::{StreamExt, TryStreamExt, stream};
use tidings_core::filter::{Key, Term};
use tidings_store::{BoxFuture, Count, CountsRequest, NewestRequest, Store, UnixMillis};

use super::super::read::{self, Read};
use super::super::visible::Caller;
use crate::http::status::Status;

/// Counts read in one page.
const PAGE: usize = 10_000;
/// Maximum counts of all clusters together.
const COUNTS_MAX: usize = 100_000;
/// Maximum bytes of counts; the page that reaches it is included.
const COUNTS_BYTES_MAX: usize = 6 << 20;
/// Maximum reasons whose type is looked up.
const LOOKUPS_MAX: usize = 100;
/// Reasons that are looked up concurrently.
const LOOKUPS_AT_ONCE: usize = 4;
/// Maximum pages searched for each reason, in a store that searches among other events.
const LOOKUP_PAGES_MAX: usize = 16;

/// The counts of a range, in whole hours, if counts can answer the request. That is so if all
/// namespaces are visible and events are selected by nothing but their reasons.
pub(super) async fn hours(
    caller: &Caller,
    (from, to): (i64, i64),
) -> Result<Option<Vec<Count>>, Status> {
    let is_all = |namespaces: &Option<_>| namespaces.is_none();
    let clusters = &caller.clusters;
    let is_reason = |term: &Term| term.key() == Key::Reason;
    if !caller.filter.terms().iter().all(is_reason)
        || !clusters.iter().all(|it| is_all(&it.namespaces))
    {
        return Ok(None);
    }
    let mut counts = Vec::new();
    for visible in clusters {
        let mut request = CountsRequest {
            since: Some(UnixMillis(from)),
            until: Some(UnixMillis(to)),
            limit: PAGE,
            ..CountsRequest::default()
        };
        loop {
            let found = visible.source.server.store.counts(request.clone()).await?;
            let last = found.counts.last();
            request.after = last.map(|last| (last.hour, last.reason.clone()));
            counts.extend(found.counts);
            if counts.len() > COUNTS_MAX || bytes(&counts) > COUNTS_BYTES_MAX {
                return Ok(None);
            }
            if !found.more {
                break;
            }
        }
    }
    counts.retain(|count| caller.filter.accepts(Key::Reason, &count.reason));
    Ok(Some(counts))
}

/// Memory of counts. Their number depends on the reasons, which writers of events choose.
fn bytes(counts: &[Count]) -> usize {
    let reasons = counts.iter().map(|count| count.reason.len());
    reasons.sum::<usize>() + size_of_val(counts)
}

/// The type of each counted reason. As a rule, a reason has one type.
pub(super) type Types = HashMap<String, String>;

/// The types of counted reasons, as far as their events were read.
pub(super) fn types_read(counts: &[Count], read: &Read, range: (i64, i64)) -> Types {
    let mut types = Types::default();
    let reasons = counts.iter().map(|count| count.reason.as_str());
    let mut unknown: HashSet<&str> = reasons.collect();
    for event in read.seen(range) {
        if unknown.is_empty() {
            break;
        }
        let brief = &event.brief;
        if unknown.remove(brief.reason) {
            types.insert(brief.reason.to_owned(), brief.event_type.to_owned());
        }
    }
    types
}

/// A reason with its type.
type Typed = (String, String);

/// Looks up the unknown types. Each is that of the latest event with this reason that was last seen
/// in the range or, if there is none, since the range began.
pub(super) async fn look_up(
    caller: &Caller,
    counts: &[Count],
    types: &mut Types,
    range: (i64, i64),
) -> Result<(), Status> {
    let reasons = counts.iter().map(|count| count.reason.as_str());
    let unknown: HashSet<&str> = reasons
        .filter(|reason| !reason.is_empty() && !types.contains_key(*reason))
        .collect();
    let mut looked_up: Vec<BoxFuture<'_, Result<Option<Typed>, Status>>> = Vec::new();
    for reason in unknown.into_iter().take(LOOKUPS_MAX) {
        looked_up.push(Box::pin(type_of(caller, reason.to_owned(), range)));
    }
    // A store without an index by reason answers several queries in about the time of one.
    let looked_up = stream::iter(looked_up).buffered(LOOKUPS_AT_ONCE);
    let looked_up: Vec<_> = looked_up.try_collect().await?;
    types.extend(looked_up.into_iter().flatten());
    Ok(())
}

/// A reason with its type, if that is found.
async fn type_of(
    caller: &Caller,
    reason: String,
    (from, to): (i64, i64),
) -> Result<Option<Typed>, Status> {
    for until in [Some(UnixMillis(to)), None] {
        for visible in &caller.clusters {
            let request = NewestRequest {
                reason: Some(reason.clone()),
                since: Some(UnixMillis(from)),
                until,
                ..NewestRequest::default()
            };
            let found = type_of_latest(&*visible.source.server.store, request).await?;
            if let Some(found) = found {
                return Ok(Some((reason, found)));
            }
        }
    }
    Ok(None)
}

/// The type of the latest selected event, if it is in the first pages.
async fn type_of_latest(
    store: &dyn Store,
    request: NewestRequest,
) -> Result<Option<String>, Status> {
    let mut part = read::Part::new(request, None);
    for _ in 0..LOOKUP_PAGES_MAX {
        let found = part.read(store, 1).await?;
        if let Some(record) = found.records.into_iter().next() {
            let record = read::plain(record)?;
            return Ok(read::brief(&record).map(|brief| brief.event_type.to_owned()));
        }
        if part.done {
            break;
        }
    }
    Ok(None)
}
