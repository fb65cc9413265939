//! Counts versions by the hour in which they were last seen, and by reason.
//!
//! The counts come from the rollups of files. If a file has no rollup, or a damaged one, two of its
//! columns are counted instead.
//!
//! Memory: as many counts as a page may have and one more, of each of some files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use tidings_store::{CountsRequest, HOUR_MILLIS, UnixMillis, hour_of};
use tokio::task::spawn_blocking;

use crate::file::rollup::clipped;
use crate::reader::fault::Fault;
use crate::reader::plan::View;
use crate::reader::scan::Rolled;
use crate::reader::scan::columns;
use crate::reader::scan::leaf;
use crate::reader::scan::{Held, Key, REQUEST_BYTES_MAX, Remote};

/// Number of files counted at once.
const FILES_AT_ONCE: usize = 4;
/// Number of row groups of a file counted at once.
const GROUPS_AT_ONCE: usize = 4;

/// Counts by hour (latest first) and reason.
type At = (Reverse<UnixMillis>, String);
pub(in crate::reader) type Counted = BTreeMap<At, u64>;

/// The first counts after those of the previous page, in their order. There is one more than the
/// page may have, which shows that there are more.
struct First<'a> {
    request: &'a CountsRequest,
    after: Option<At>,
    counted: Counted,
}

impl<'a> First<'a> {
    fn of(request: &'a CountsRequest) -> Self {
        let after = request.after.clone();
        Self {
            request,
            after: after.map(|(hour, reason)| (Reverse(hour), reason)),
            counted: Counted::new(),
        }
    }

    /// Counts some versions of an hour and a reason.
    fn add(&mut self, hour: UnixMillis, reason: &str, versions: u64) {
        let at = (Reverse(hour), reason.to_owned());
        if !self.request.in_range(hour) || self.after.as_ref().is_some_and(|after| at <= *after) {
            return;
        }
        let count = self.counted.entry(at).or_default();
        *count = count.saturating_add(versions);
        // A count that is dropped here comes after enough others, and so do its later versions.
        if self.counted.len() > self.request.limit.saturating_add(1) {
            self.counted.pop_last();
        }
    }
}

/// Returns whether versions last seen between two times may be asked for.
fn is_asked(request: &CountsRequest, (from, to): (i64, i64)) -> bool {
    let end = |until: UnixMillis| until.0.saturating_add(HOUR_MILLIS);
    request.since.is_none_or(|since| to >= hour_of(since).0)
        && request.until.is_none_or(|until| from < end(until))
}

impl View {
    /// Counts the versions of the hours asked for.
    pub(in crate::reader) async fn count(&self, request: &CountsRequest) -> Result<Counted, Fault> {
        let files = self.files().enumerate();
        let files = files.filter(|(_, file)| {
            let times = file
                .seen
                .map(|(from, to)| (from.as_millisecond(), to.as_millisecond()));
            times.is_none_or(|times| is_asked(request, times))
        });
        let files: Vec<usize> = files.map(|(number, _)| number).collect();
        let mut read = stream::iter(files)
            .map(|file| self.count_file(file, request))
            .buffer_unordered(FILES_AT_ONCE);
        let mut first = First::of(request);
        while let Some(of_file) = read.try_next().await? {
            for ((Reverse(hour), reason), versions) in of_file {
                first.add(hour, &reason, versions);
            }
        }
        Ok(first.counted)
    }

    async fn count_file(&self, file: usize, request: &CountsRequest) -> Result<Counted, Fault> {
        let Some(rolled) = self.rolled(file).await? else {
            return self.count_rows(file, request).await;
        };
        let mut first = First::of(request);
        for (hour, reason, versions) in rolled.counts() {
            first.add(hour, reason, versions);
        }
        Ok(first.counted)
    }

    /// Returns the counts of a file's rollup, if it has one that can be read.
    async fn rolled(&self, file: usize) -> Result<Option<Arc<Rolled>>, Fault> {
        let remote = self.rollup(file);
        let Some(remote) = remote.filter(|remote| remote.len <= REQUEST_BYTES_MAX) else {
            return Ok(None);
        };
        // The key is the versions' file, as its number of rows was compared with the rollup's.
        let key = Key::Rolled(self.file(file)?.id);
        if let Some(Held::Rolled(rolled)) = self.fetch.held(key) {
            return Ok(rolled);
        }
        let rolled = match self.read_rollup(file, remote).await {
            Ok(rolled) => Some(Arc::new(rolled)),
            // The rows give the same counts, if they can be read.
            Err(fault) if fault.is_damaged() || fault.is_gone() => {
                tracing::warn!(%fault, "rows are counted instead");
                None
            }
            Err(fault) => return Err(fault),
        };
        self.fetch.hold(key, Held::Rolled(rolled.clone()));
        Ok(rolled)
    }

    async fn read_rollup(&self, file: usize, remote: &Remote) -> Result<Rolled, Fault> {
        let rows = self.manifest().files.get(file).map_or(0, |file| file.rows);
        let bytes = self.fetch.compared(remote).await?;
        let decodes = Arc::clone(&self.fetch.shared.decodes);
        // The semaphore is never closed.
        let place = decodes.acquire_owned().await.ok();
        let path = remote.path.clone();
        let decoded = spawn_blocking(move || {
            let decoded = Rolled::of(bytes, rows);
            // The permit is held until here, even if the read was given up meanwhile.
            drop(place);
            decoded.map_err(|error| Fault::parquet(&path, &error))
        });
        let cannot = |_| Fault::damaged(&remote.path, "it cannot be decoded");
        decoded.await.map_err(cannot)?
    }

    async fn count_rows(&self, file: usize, request: &CountsRequest) -> Result<Counted, Fault> {
        let footer = self.footer(file).await?;
        let groups = footer.groups.iter().enumerate();
        let groups = groups.filter(|(_, group)| is_asked(request, group.seen));
        let wants = groups.map(|(group, it)| {
            let rows = std::iter::once(0..it.rows).collect();
            self.want(file, &footer, group, rows)
        });
        let wants: Vec<_> = wants.collect::<Result<_, Fault>>()?;
        let mut read = stream::iter(wants)
            .map(|want| columns::read(&self.fetch, vec![want], [leaf::LAST_SEEN, leaf::REASON]))
            .buffered(GROUPS_AT_ONCE);
        let mut first = First::of(request);
        while let Some(read) = read.try_next().await? {
            for [seen, reasons] in &read {
                for (row, reason) in reasons.texts().iter().enumerate() {
                    let hour = hour_of(UnixMillis(leaf::seen(seen.maybe(row))));
                    let reason = String::from_utf8_lossy(reason.data());
                    // Rollups of other files also cut off their texts.
                    first.add(hour, clipped(&reason), 1);
                }
            }
        }
        Ok(first.counted)
    }
}
