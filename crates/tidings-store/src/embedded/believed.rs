//! Up to when the clock was believed last: the file `CLOCK`, milliseconds since 1970 and a
//! checksum.
//!
//! The next process continues from there
//! ([`Confirmed::resume`](crate::confirmed::Confirmed::resume)). The file is not synced and may be
//! missing, damaged or old; the ends of records are then written down a little later, none earlier.

use std::fs;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::disk;
use crate::UnixMillis;

const FILE: &str = "CLOCK";

/// What the last process noted, if that can be read.
pub(crate) fn read(folder: &Path) -> Option<UnixMillis> {
    let text = fs::read_to_string(folder.join(FILE)).ok()?;
    let (millis, checksum) = text.trim_end().split_once(' ')?;
    let is_whole = u64::from_str_radix(checksum, 16).ok()? == xxh3_64(millis.as_bytes());
    let millis = millis.parse().ok()?;
    is_whole.then_some(UnixMillis(millis))
}

/// Notes it for the next process.
pub(crate) fn write(folder: &Path, confirmed: UnixMillis) {
    let millis = confirmed.0.to_string();
    let text = format!("{millis} {:016x}\n", xxh3_64(millis.as_bytes()));
    let path = folder.join(FILE);
    if let Err(error) = disk::write(&path, text.as_bytes()) {
        tracing::debug!(file = %path.display(), %error, "failed to note the time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None);
        for time in [UnixMillis(1_700_000_000_000), UnixMillis(i64::MIN)] {
            write(folder.path(), time);
            assert_eq!(read(folder.path()), Some(time));
        }
        let path = folder.path().join(FILE);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() - 1 {
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read(folder.path()), None, "{at}");
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(folder.path()), None, "{at}");
        }
    }
}
