//! Which files are merged, and their rows in one order.
//!
//! Invariants: eight small files that follow each other in time, and were merged equally often,
//! become one, so that few small files remain. Files are merged at most three times, so that a
//! version is written at most four times; where there are many files, three more times. Memory:
//! some rows of each file, and the bytes of their unread rows.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet, VecDeque};

use crate::file::read::{FileError, GroupRows, Rest};
use crate::manifest::File;
use crate::row::Row;

/// Bytes at which a file ends, after the row group that reaches them.
pub(crate) const FILE_BYTES_MAX: usize = 32 << 20;
/// Number of files that are merged into one.
const FILES: usize = 8;
/// Number of rows of a file that are read at once.
const ROWS_AT_ONCE: usize = 256;
/// The level from which on files are not merged again, unless there are very many.
const LEVEL_MAX: u32 = 3;
/// Number of files from which on those of equal levels that follow each other are merged, into
/// files of at least half the maximum size.
const FILES_MANY: usize = 10_000;
/// The level from which on a file is not merged again, however many files there are.
const LEVEL_MANY_MAX: u32 = LEVEL_MAX + 3;

/// Returns the oldest files of one level that should be merged, without damaged ones.
pub(crate) fn group(files: &[File], damaged: &HashSet<String>) -> Option<Vec<File>> {
    let small = (0..LEVEL_MAX).find_map(|level| {
        let of_level = of_level(files, level, damaged);
        let group = of_level.windows(FILES).find(|group| {
            let bytes: u64 = group.iter().map(|file| file.bytes).sum();
            bytes <= FILE_BYTES_MAX as u64
        })?;
        Some(group.iter().map(|file| (*file).clone()).collect())
    });
    if small.is_some() || files.len() < FILES_MANY {
        return small;
    }
    (0..LEVEL_MANY_MAX).find_map(|level| growing(&of_level(files, level, damaged)))
}

fn of_level<'a>(files: &'a [File], level: u32, damaged: &HashSet<String>) -> Vec<&'a File> {
    let of_level = files.iter().filter(|file| file.level == level);
    of_level
        .filter(|file| !damaged.contains(&file.path))
        .collect()
}

/// Returns the first files that follow each other and together have about the maximum bytes of a
/// file, at least half of that, or are as many as are merged at once.
fn growing(files: &[&File]) -> Option<Vec<File>> {
    let (mut from, mut bytes) = (0, 0_u64);
    for (to, file) in files.iter().enumerate() {
        // A file that is as large alone separates those before it from those after it.
        if file.bytes > FILE_BYTES_MAX as u64 {
            (from, bytes) = (to + 1, 0);
            continue;
        }
        bytes = bytes.saturating_add(file.bytes);
        while bytes > FILE_BYTES_MAX as u64 {
            bytes -= files[from].bytes;
            from += 1;
        }
        let is_enough = bytes >= FILE_BYTES_MAX as u64 / 2 || to + 1 - from >= FILES;
        if to > from && is_enough {
            let group = files[from..=to].iter();
            return Some(group.map(|file| (*file).clone()).collect());
        }
    }
    None
}

/// Returns whether a file of this level and about these bytes is not merged again. It assumes that
/// the files after it are like it.
pub(crate) fn is_last(level: u32, bytes: u64) -> bool {
    level >= LEVEL_MAX || bytes >= (FILE_BYTES_MAX / FILES) as u64
}

/// Returns the sum of the row hashes of several files.
pub(crate) fn sum(files: &[File]) -> Option<u64> {
    files.iter().try_fold(0_u64, |sum, file| {
        let one = u64::from_str_radix(&file.sum, 16).ok()?;
        Some(sum.wrapping_add(one))
    })
}

/// The rows of several files, in the order of rows.
pub(crate) struct Merged {
    sources: Vec<Source>,
    next: BinaryHeap<Next>,
}

struct Source {
    rest: Rest,
    of_group: Option<GroupRows>,
    rows: VecDeque<Row>,
}

impl Source {
    fn next(&mut self) -> Result<Option<Row>, FileError> {
        while self.rows.is_empty() {
            if let Some(of_group) = &mut self.of_group {
                self.rows = of_group.some(ROWS_AT_ONCE)?.into();
                if self.rows.is_empty() {
                    self.of_group = None;
                }
            } else {
                self.of_group = self.rest.group()?;
                if self.of_group.is_none() {
                    break;
                }
            }
        }
        Ok(self.rows.pop_front())
    }
}

/// The next row of a source; the order is reversed, as the heap yields the greatest first.
struct Next {
    row: Row,
    source: usize,
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = other.row.order(&self.row);
        order.then_with(|| other.source.cmp(&self.source))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next {}

impl Merged {
    pub(crate) fn new(files: Vec<Rest>) -> Result<Self, FileError> {
        let sources = files.into_iter().map(|rest| Source {
            rest,
            of_group: None,
            rows: VecDeque::new(),
        });
        let mut sources: Vec<_> = sources.collect();
        let mut next = BinaryHeap::with_capacity(sources.len());
        for (source, of) in sources.iter_mut().enumerate() {
            if let Some(row) = of.next()? {
                next.push(Next { row, source });
            }
        }
        Ok(Self { sources, next })
    }

    fn take(&mut self) -> Result<Option<Row>, FileError> {
        let Some(Next { row, source }) = self.next.pop() else {
            return Ok(None);
        };
        let following = self.sources.get_mut(source).map(Source::next).transpose()?;
        if let Some(row) = following.flatten() {
            self.next.push(Next { row, source });
        }
        Ok(Some(row))
    }
}

impl Iterator for Merged {
    type Item = Result<Row, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use k8s_pb::api::core::v1::Event;
    use tidings_store::UnixMillis;

    use super::*;
    use crate::file::read::Reader;
    use crate::file::write::Writer;

    /// The bytes of a merged file, which tests count as long as any part of them is held.
    struct Held(Arc<Vec<u8>>);

    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    /// Otherwise eight files and the one they become would be in memory at once.
    #[test]
    fn a_file_that_is_merged_is_not_held_as_a_whole() {
        let cluster: Arc<str> = "prod".into();
        let mut writer = Writer::new(false).unwrap();
        for number in (0..3).rev() {
            writer
                .push(
                    Row::new(
                        &cluster,
                        0,
                        number,
                        UnixMillis(1),
                        tidings_api::codec::encode_stored(&mut Event::default()),
                    )
                    .unwrap(),
                )
                .unwrap();
        }
        let bytes = Arc::new(writer.finish().unwrap());
        let held = Bytes::from_owner(Held(Arc::clone(&bytes)));
        let reader = Reader::new(&cluster, held).unwrap();
        assert_eq!(Arc::strong_count(&bytes), 2);
        let rest = reader.rest().unwrap();
        assert_eq!(Arc::strong_count(&bytes), 1);
        let merged = Merged::new(vec![rest]).unwrap();
        let numbers: Vec<u64> = merged.map(|row| row.unwrap().version).collect();
        assert_eq!(numbers, [2, 1, 0]);
    }

    /// Otherwise an archive of many years would have more files than a manifest can name.
    #[test]
    fn files_grow_where_there_are_many() {
        let mebibytes = |sizes: &[u64]| -> Vec<File> {
            let many = std::iter::repeat_n(&32, FILES_MANY);
            let sizes = many.chain(sizes).enumerate();
            let file = sizes.map(|(number, size)| File {
                bytes: size << 20,
                level: 3,
                ..File::at(&number.to_string())
            });
            file.collect()
        };
        for (sizes, found) in [
            (&[][..], None),
            (&[15], None),
            (&[7, 8], None),
            (&[8, 8], Some(vec![0, 1])),
            (&[8, 8, 8], Some(vec![0, 1])),
            (&[1, 20, 1], Some(vec![0, 1])),
            (&[31, 1], Some(vec![0, 1])),
            (&[31, 2, 31], None),
            (&[5, 28, 4], Some(vec![1, 2])),
            (&[1; 7], None),
            (&[1; 9], Some((0..8).collect())),
            // Files above the usual size, because of events and filters after their last row group,
            // are not merged.
            (&[33], None),
            (&[33; 40], None),
            (&[8, 33, 8], None),
            (&[33, 8, 8], Some(vec![1, 2])),
        ] {
            let files = mebibytes(sizes);
            let group = group(&files, &HashSet::new()).map(|group| {
                let numbers = group.iter().map(|file| file.path.parse::<usize>().unwrap());
                numbers
                    .map(|number| number - FILES_MANY)
                    .collect::<Vec<_>>()
            });
            assert_eq!(group, found, "{sizes:?}");
        }
    }

    #[test]
    fn eight_small_files_of_one_level_that_follow_each_other_are_merged() {
        let file = |number: usize, level, bytes| File {
            bytes,
            level,
            ..File::at(&number.to_string())
        };
        let large = FILE_BYTES_MAX as u64;
        let of = |levels: &[(u32, u64, usize)]| -> Vec<File> {
            let files = levels
                .iter()
                .flat_map(|(level, bytes, number)| std::iter::repeat_n((*level, *bytes), *number));
            let files = files.enumerate();
            files
                .map(|(number, (level, bytes))| file(number, level, bytes))
                .collect()
        };
        let eight = |from: usize| Some((from..from + FILES).collect());
        let damaged = HashSet::from(["99".to_owned(), "100".to_owned()]);
        for (levels, found) in [
            (vec![(0, 1, 7)], None),
            (vec![(0, 1, 8)], eight(0)),
            // A file of another level lies between them.
            (
                vec![(0, 1, 4), (1, 1, 1), (0, 1, 4)],
                Some(vec![0, 1, 2, 3, 5, 6, 7, 8]),
            ),
            (vec![(1, 1, 3), (0, 1, 9)], eight(3)),
            (vec![(0, large / 8, 8)], eight(0)),
            (vec![(0, large / 8 + 1, 8)], None),
            (vec![(0, large, 8), (0, 1, 8)], eight(8)),
            // A large file does not prevent the merge of those after it.
            (vec![(0, large, 1), (0, 1, 8)], eight(1)),
            (vec![(3, 1, 8)], None),
            (vec![(3, 1, 99), (2, 1, 9)], None),
            (vec![(3, 1, 99), (2, 1, 10)], eight(101)),
        ] {
            let group = group(&of(&levels), &damaged);
            let group = group.map(|group| {
                let numbers = group.iter().map(|file| file.path.parse().unwrap());
                numbers.collect::<Vec<usize>>()
            });
            assert_eq!(group, found, "{levels:?}");
        }
    }
}
