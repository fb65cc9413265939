//! Events of clocks that are ahead: last seen after now, as they say.

use super::merged::Merged;
use super::query::{END, Filters};
use super::read::ReadEvent;
use super::visible::Visible;
use crate::http::status::Status;

/// Maximum of such events of a picture: those that are furthest ahead come first.
const EVENTS_MAX: usize = 500;

/// The events that are asked for and were last seen at a moment or later.
pub(super) async fn read(
    clusters: &[Visible],
    filters: &Filters,
    since: i64,
) -> Result<Vec<ReadEvent>, Status> {
    let mut merged = Merged::of(clusters, filters, (since, END), EVENTS_MAX);
    let mut ahead = Vec::new();
    while let Some(found) = merged.next().await? {
        let found = found.iter();
        ahead.extend(found.filter_map(|event| ReadEvent::of(event.cluster, &event.record)));
    }
    Ok(ahead)
}
