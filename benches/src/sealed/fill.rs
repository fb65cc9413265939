//! An archive of several clusters over days, with the files that sealing every 20 minutes and
//! merging lead to: files of 512 sealed parts, and for the rest files of 64, 8 and one. Each event
//! has one version, its last state.

use std::path::Path;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use tidings_history::Version;
use tidings_objects::{Filler, Manifest, Place};
use tidings_store::UnixMillis;
use tidings_testing::s3::BUCKET;

use super::extent::{END, Extent, cluster};
use crate::showing::cluster::{Cluster, DAY};
use crate::{Failure, Figure};

/// Number of parts that are sealed in a day.
const SEALED_A_DAY: i64 = 72;
pub(super) const LEVEL_MAX: u32 = 3;
/// Number of parts that are merged into one.
const MERGED: i64 = 8;
/// Milliseconds from an event to the version that has it.
pub(super) const LATER: i64 = 200;
/// Number of clusters that are made at the same time.
const AT_ONCE: usize = 2;

/// Fills the folder of an S3 server with an archive.
pub(super) async fn fill(folder: &Path, extent: Extent) -> Result<(), Failure> {
    let place = folder.join(BUCKET).join("archive");
    let place = Place::create(&format!("file://{}", place.display()))?;
    let mut filled = stream::iter(0..extent.clusters)
        .map(|number| fill_cluster(&place, number, extent))
        .buffer_unordered(AT_ONCE);
    let (mut rows, mut bytes, mut rollups, mut files) = (0, 0, 0, 0);
    while let Some(manifest) = filled.try_next().await? {
        rows += manifest.rows();
        bytes += manifest.bytes();
        let of_files = manifest.files.iter();
        let of_files = of_files.filter_map(|file| file.rollup.as_ref());
        rollups += of_files.map(|rollup| rollup.bytes).sum::<u64>();
        files += manifest.files.len() as u64;
    }
    let share = |bytes: u64| bytes as f64 / rows.max(1) as f64;
    Figure::new("filled")
        .with("files", files as f64)
        .with("bytes_per_event", share(bytes))
        .with("rollup_bytes_per_event", share(rollups))
        .print();
    Ok(())
}

async fn fill_cluster(place: &Place, number: u64, extent: Extent) -> Result<Manifest, Failure> {
    let mut filler = Filler::new(place, &cluster(number));
    let all = Cluster::new(number, extent.of_each(), extent.days, END);
    let mut all = all.peekable();
    let mut until = END - extent.days * DAY;
    let mut version = 0;
    for (level, parts) in parts(extent.days * SEALED_A_DAY) {
        until += parts * DAY / SEALED_A_DAY;
        let mut versions = Vec::new();
        while let Some(said) = all.next_if(|said| said.last < until) {
            version += 1;
            versions.push(Version {
                uid: "".into(),
                epoch: 0,
                number: version,
                observed_at: UnixMillis(said.last + LATER),
                event: said.stored()?.value,
            });
        }
        filler.add(level, versions).await?;
    }
    Ok(filler.finish(Timestamp::from_millisecond(END)?).await?)
}

/// How many parts each file has, and how often these were merged.
fn parts(mut left: i64) -> Vec<(u32, i64)> {
    let mut parts = Vec::new();
    for level in (0..=LEVEL_MAX).rev() {
        let of_file = MERGED.pow(level);
        while left >= of_file {
            parts.push((level, of_file));
            left -= of_file;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_that_merging_leaves() {
        assert_eq!(parts(9), [(1, 8), (0, 1)]);
        let all = parts(90 * SEALED_A_DAY);
        assert_eq!(all.iter().map(|(_, parts)| parts).sum::<i64>(), 6480);
        let of = |level| all.iter().filter(|(of, _)| *of == level).count();
        assert_eq!([3, 2, 1, 0].map(of), [12, 5, 2, 0]);
    }
}
