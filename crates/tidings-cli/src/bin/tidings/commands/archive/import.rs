//! `tidings archive --import`: imports a file of `tidings export --versions` into the folder of a
//! cluster.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tidings_archive::Imported;

use super::clusters::{self, Defaults};
use crate::commands::cluster::tell;
use tidings_cli::clusters::ClusterSetting;

/// Versions between two progress messages.
const TOLD_EVERY: u64 = 100_000;

/// Imports a file as a cluster; returns whether the file was complete.
pub(super) async fn import(
    data_dir: &Path,
    name: String,
    defaults: &Defaults,
    file: &Path,
) -> Result<bool, Box<dyn Error>> {
    let folder = clusters::folder(data_dir, &name)?;
    let opened: Box<dyn Read + Send> = if file.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let opened = File::open(file);
        Box::new(opened.map_err(|error| format!("read {}: {error}", file.display()))?)
    };
    let mut lines = BufReader::new(decompressed(opened)?);
    let options = defaults.options(&ClusterSetting::named(name), 1);
    let mut told = TOLD_EVERY;
    let mut tell_now = |imported: &Imported| {
        if imported.versions + imported.seen_before >= told {
            told += TOLD_EVERY;
            tracing::info!(
                versions = imported.versions,
                seen_before = imported.seen_before,
                "importing"
            );
        }
    };
    let imported = tidings_archive::import(&folder, options, &mut lines, &mut tell_now).await?;
    for text in words(&imported) {
        tell(&text);
    }
    Ok(imported.is_whole)
}

/// The messages about a finished import.
fn words(imported: &Imported) -> Vec<String> {
    let mut words = vec![format!(
        "{} versions and {} ends imported, {} were there already",
        imported.versions, imported.ends, imported.seen_before
    )];
    for (number, why) in [
        (
            imported.over,
            "were observed longer ago than they are kept: see --event-ttl",
        ),
        (imported.forgotten, "are of events that were deleted here"),
        (imported.too_large, "are too large"),
        (
            imported.of_another,
            "are of another namespace than their lines say",
        ),
    ] {
        if number > 0 {
            words.push(format!("{number} versions were not imported: they {why}"));
        }
    }
    if imported.deleted > 0 {
        words.push(format!(
            "{} events were deleted where the export is from, and are not fetched again",
            imported.deleted
        ));
    }
    if !imported.is_whole {
        words.push(
            "error: the export is cut off: what it has is kept; import a whole one to continue"
                .to_owned(),
        );
    }
    words
}

/// A reader of the file's text, decompressed if it is gzip.
fn decompressed(file: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let mut beginning = Vec::new();
    let mut file = file;
    (&mut file).take(2).read_to_end(&mut beginning)?;
    let is_gzip = beginning == GZIP;
    let whole = io::Cursor::new(beginning).chain(file);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    })
}
