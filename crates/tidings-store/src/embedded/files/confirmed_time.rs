//! The file `CLOCK`, which holds the confirmed time for the next process.
//!
//! The next process continues from it ([`Confirmed::resume`](crate::confirmed::Confirmed::resume)).
//! The file is one line of words:
//!
//! - the confirmed time in milliseconds since 1970, or `-` if there is none;
//! - the candidate in the same form, and the milliseconds for which it was held, or `- 0`;
//! - a checksum.
//!
//! The file is replaced but not synced. After a power cut it may be missing, damaged or old.
//! Expiries are then written a little later, never earlier.

use std::fs;
use std::num::ParseIntError;
use std::path::Path;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::disk;
use crate::UnixMillis;
use crate::confirmed::{Belief, Candidate};

const FILE: &str = "CLOCK";

/// Whether a process has ever stored the time, even if the file is damaged now.
pub(in crate::embedded) fn is_there(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Reads the state that the last process stored; `None` if it cannot be read.
pub(in crate::embedded) fn read(folder: &Path) -> Option<Belief> {
    let text = fs::read_to_string(folder.join(FILE)).ok()?;
    let (belief, checksum) = text.trim_end().rsplit_once(' ')?;
    if u64::from_str_radix(checksum, 16).ok()? != xxh3_64(belief.as_bytes()) {
        return None;
    }
    let [confirmed, candidate, held] = belief.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let held = Duration::from_millis(held.parse().ok()?);
    Some(Belief {
        confirmed: time(confirmed).ok()?,
        candidate: time(candidate).ok()?.map(|wall| Candidate { wall, held }),
    })
}

fn time(text: &str) -> Result<Option<UnixMillis>, ParseIntError> {
    match text {
        "-" => Ok(None),
        millis => Ok(Some(UnixMillis(millis.parse()?))),
    }
}

/// Stores the state for the next process. A failure is only logged.
pub(in crate::embedded) fn write(folder: &Path, belief: Belief) {
    let time = |time: Option<UnixMillis>| time.map_or("-".into(), |time| time.0.to_string());
    let Belief {
        confirmed,
        candidate,
    } = belief;
    let held = candidate.map_or(0, |candidate| candidate.held.as_millis());
    let candidate = time(candidate.map(|candidate| candidate.wall));
    let belief = format!("{} {candidate} {held}", time(confirmed));
    let text = format!("{belief} {:016x}\n", xxh3_64(belief.as_bytes()));
    let path = folder.join(FILE);
    if let Err(error) = disk::write_anew(&path, text.as_bytes()) {
        tracing::debug!(file = %path.display(), %error, "failed to store the time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None);
        let candidate = Some(Candidate {
            wall: UnixMillis(1_700_000_003_000),
            held: Duration::from_millis(29_999),
        });
        for confirmed in [
            None,
            Some(UnixMillis(1_700_000_000_000)),
            Some(UnixMillis(-1)),
        ] {
            for candidate in [None, candidate] {
                let belief = Belief {
                    confirmed,
                    candidate,
                };
                write(folder.path(), belief);
                assert_eq!(read(folder.path()), Some(belief));
            }
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
