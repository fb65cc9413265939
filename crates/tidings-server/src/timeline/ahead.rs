//! Reads events whose clocks are ahead: by their own times, they were last seen in the future.

use tidings_core::filter::Filter;

use super::merged::Merged;
use super::query::END;
use super::read::ReadEvent;
use super::visible::Visible;
use crate::http::status::Status;

/// Maximum of these events in a view; those furthest ahead come first.
const EVENTS_MAX: usize = 500;

/// Reads the selected events that were last seen at `from` or later.
pub(super) async fn read(
    clusters: &[Visible],
    filter: &Filter,
    since: i64,
) -> Result<Vec<ReadEvent>, Status> {
    let mut merged = Merged::of(clusters, filter, (since, END), EVENTS_MAX);
    let mut ahead = Vec::new();
    while let Some(found) = merged.next().await? {
        let found = found.iter();
        ahead.extend(found.filter_map(|event| ReadEvent::of(event.cluster, &event.record)));
    }
    Ok(ahead)
}
