//! Measures the size of real events: captures from clusters, repeated with other names, uids and
//! times, in files that were merged as often as possible.

use std::path::Path;

use jiff::Timestamp;
use tidings_history::Version;
use tidings_objects::{Filler, Place};
use tidings_store::UnixMillis;

use super::fill::{LATER, LEVEL_MAX};
use crate::storing::real::RealEvents;
use crate::{Failure, Figure};

/// Number of versions in a file, as in that of some days of a small cluster.
const OF_FILE: usize = 40_000;

/// Makes an archive of this number of events, and prints its size.
pub(super) async fn real(captures: &Path, events: u64) -> Result<(), Failure> {
    let captured = RealEvents::read(captures)?;
    let folder = tempfile::tempdir()?;
    let place = Place::create(&format!("file://{}", folder.path().display()))?;
    let all = (0..events).map(|number| captured.event(number));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    all.sort_by_key(|event| event.index.last_seen);
    let mut filler = Filler::new(&place, "real");
    let mut version = 0;
    for some in all.chunks(OF_FILE) {
        let versions = some.iter().map(|event| {
            version += 1;
            Version {
                uid: "".into(),
                epoch: 0,
                number: version,
                observed_at: UnixMillis(event.index.last_seen.0 + LATER),
                event: event.value.clone(),
            }
        });
        filler.add(LEVEL_MAX, versions.collect()).await?;
    }
    let end = all.last().map_or(0, |event| event.index.last_seen.0);
    let manifest = filler.finish(Timestamp::from_millisecond(end)?).await?;
    let stored: usize = all.iter().map(|event| event.value.len()).sum();
    let share = |bytes: u64| bytes as f64 / all.len().max(1) as f64;
    Figure::new("real")
        .with("events", all.len() as f64)
        .with("stored_bytes_per_event", share(stored as u64))
        .with("bytes_per_event", share(manifest.bytes()))
        .print();
    Ok(())
}
