//! Iterates over objects in the order of rows, over several files, with the rows about each.
//!
//! Memory: the next objects of each file, fewer where there are many files. The ends of files and
//! the objects of row groups are only in the cache.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::selection::Selection;
use super::view::{SOURCES_AT_ONCE, Source, View};
use crate::reader::fault::Fault;
use crate::reader::keys::Place;

/// Maximum number of objects of all files together that are held.
const AHEAD_MAX: usize = 16_384;
/// Minimum and maximum number of objects of one file that are held.
const AHEAD_OF_FILE: (usize, usize) = (4, 256);

/// The rows about one object, in all files.
#[derive(Debug)]
pub(in crate::reader) struct Object {
    pub(in crate::reader) place: Place,
    pub(in crate::reader) parts: Vec<Part>,
}

/// The rows about an object in one row group.
#[derive(Debug)]
pub(in crate::reader) struct Part {
    pub(in crate::reader) file: usize,
    pub(in crate::reader) group: usize,
    pub(in crate::reader) rows: Range<usize>,
}

/// An iterator over objects; see the module documentation.
pub(in crate::reader) struct Objects<'a> {
    view: &'a View,
    selection: &'a Selection,
    cursors: Vec<Cursor>,
    /// The next object of each cursor that has one.
    next: BinaryHeap<Reverse<(Place, usize)>>,
    /// Number of objects of a file that are held.
    ahead: usize,
}

/// A position in a file, with the next wanted runs.
struct Cursor {
    source: Source,
    /// The index into the source's row groups.
    group: usize,
    /// The first run of the row group that is not held.
    run: usize,
    held: VecDeque<Run>,
}

/// The rows about an object in a row group.
struct Run {
    place: Place,
    group: usize,
    rows: Range<usize>,
}

impl Cursor {
    /// Holds the next wanted runs that are not before a place, if there are any: as many as may be
    /// held, or those of one row group.
    async fn fill(
        &mut self,
        view: &View,
        selection: &Selection,
        from: Place<&str>,
        ahead: usize,
    ) -> Result<(), Fault> {
        while self.held.is_empty()
            && let Some(group) = self.source.groups.get(self.group).copied()
        {
            let footer = view.footer(self.source.file).await?;
            let is_before = footer.groups.get(group).is_none_or(|it| it.is_before(from));
            if !is_before {
                let runs = view.runs(self.source.file, &footer, group).await?;
                self.run = self.run.max(runs.seek(from));
                while self.run < runs.len() {
                    let place = runs.place(self.run);
                    if selection.is_over(place) {
                        self.group = usize::MAX;
                        return Ok(());
                    }
                    if selection.has(place) {
                        if self.held.len() == ahead {
                            return Ok(());
                        }
                        self.held.push_back(Run {
                            place: place.map(str::to_owned),
                            group,
                            rows: runs.rows(self.run),
                        });
                    }
                    self.run += 1;
                }
            }
            self.group += 1;
            self.run = 0;
        }
        Ok(())
    }
}

impl<'a> Objects<'a> {
    /// Begins at a place.
    pub(in crate::reader) async fn from(
        view: &'a View,
        selection: &'a Selection,
        from: Place<&str>,
    ) -> Result<Self, Fault> {
        let sources = view.sources(selection).await?;
        let (least, most) = AHEAD_OF_FILE;
        let ahead = (AHEAD_MAX / sources.len().max(1)).clamp(least, most);
        let cursors = sources.into_iter().map(|source| {
            let mut cursor = Cursor {
                source,
                group: 0,
                run: 0,
                held: VecDeque::new(),
            };
            let filled = async move {
                cursor.fill(view, selection, from, ahead).await?;
                Ok::<_, Fault>(cursor)
            };
            filled.boxed()
        });
        let cursors: Vec<_> = cursors.collect();
        let cursors = stream::iter(cursors).buffered(SOURCES_AT_ONCE);
        let cursors: Vec<Cursor> = cursors.try_collect().await?;
        let next = cursors.iter().enumerate().filter_map(|(number, cursor)| {
            let run = cursor.held.front()?;
            Some(Reverse((run.place.clone(), number)))
        });
        Ok(Self {
            view,
            selection,
            next: next.collect(),
            cursors,
            ahead,
        })
    }

    /// Returns the next object; `None` after the last.
    pub(in crate::reader) async fn next(&mut self) -> Result<Option<Object>, Fault> {
        let Some(Reverse((place, _))) = self.next.peek() else {
            return Ok(None);
        };
        let mut object = Object {
            place: place.clone(),
            parts: Vec::new(),
        };
        while let Some(Reverse((place, number))) = self.next.peek()
            && *place == object.place
        {
            let number = *number;
            self.next.pop();
            let Some(cursor) = self.cursors.get_mut(number) else {
                continue;
            };
            if let Some(Run { group, rows, .. }) = cursor.held.pop_front() {
                let file = cursor.source.file;
                object.parts.push(Part { file, group, rows });
            }
            if cursor.held.is_empty() {
                let filled = cursor.fill(self.view, self.selection, [""; 3], self.ahead);
                filled.await?;
            }
            // The run may continue in the next row group.
            if let Some(run) = cursor.held.front() {
                self.next.push(Reverse((run.place.clone(), number)));
            }
        }
        Ok(Some(object))
    }

    /// Returns whether there is no further object.
    pub(in crate::reader) fn is_over(&self) -> bool {
        self.next.is_empty()
    }
}
