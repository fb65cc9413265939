//! Walks through objects in the order of rows, over several files, with the rows about each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use futures::future::try_join_all;

use super::fault::Fault;
use super::footer::Footer;
use super::runs::{Place, Runs, borrowed};
use super::selection::Selection;
use super::view::{Source, View};

/// The rows about one object, in all files.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) place: Place,
    pub(super) parts: Vec<Part>,
}

/// The rows about an object in one row group.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: usize,
    pub(super) footer: Arc<Footer>,
    pub(super) group: usize,
    pub(super) rows: Range<usize>,
}

/// An iterator over objects; see the module documentation.
pub(super) struct Objects<'a> {
    view: &'a View,
    selection: &'a Selection,
    cursors: Vec<Cursor>,
    /// The next object of each cursor that has one.
    next: BinaryHeap<Reverse<(Place, usize)>>,
}

/// A file, and the next wanted run of rows in it.
struct Cursor {
    source: Source,
    /// The index into the source's row groups.
    group: usize,
    runs: Option<Arc<Runs>>,
    run: usize,
}

impl Cursor {
    fn group(&self) -> Option<usize> {
        self.source.groups.get(self.group).copied()
    }

    /// Moves to the first wanted run, from here on, that is not before a place.
    async fn seek(
        &mut self,
        view: &View,
        selection: &Selection,
        from: Place<&str>,
    ) -> Result<Option<Place>, Fault> {
        while let Some(group) = self.group() {
            let footer = &self.source.footer;
            let is_before = footer.groups.get(group).is_none_or(|it| it.is_before(from));
            if !is_before {
                let runs = match &self.runs {
                    Some(runs) => Arc::clone(runs),
                    None => view.runs(self.source.file, footer, group).await?,
                };
                self.runs = Some(Arc::clone(&runs));
                self.run = self.run.max(runs.seek(from));
                while self.run < runs.len() {
                    let place = runs.place(self.run);
                    if selection.is_over(place) {
                        self.group = usize::MAX;
                        return Ok(None);
                    }
                    if selection.has(place) {
                        return Ok(Some(place.map(str::to_owned)));
                    }
                    self.run += 1;
                }
            }
            self.group += 1;
            self.runs = None;
            self.run = 0;
        }
        Ok(None)
    }
}

impl<'a> Objects<'a> {
    /// Begins at a place.
    pub(super) async fn from(
        view: &'a View,
        selection: &'a Selection,
        from: Place<&str>,
    ) -> Result<Self, Fault> {
        let sources = view.sources(selection).await?;
        let cursors = sources.into_iter().map(|source| async {
            let mut cursor = Cursor {
                source,
                group: 0,
                runs: None,
                run: 0,
            };
            let place = cursor.seek(view, selection, from).await?;
            Ok::<_, Fault>((cursor, place))
        });
        let found = try_join_all(cursors).await?;
        let mut objects = Self {
            view,
            selection,
            cursors: Vec::new(),
            next: BinaryHeap::new(),
        };
        for (cursor, place) in found {
            if let Some(place) = place {
                objects.next.push(Reverse((place, objects.cursors.len())));
                objects.cursors.push(cursor);
            }
        }
        Ok(objects)
    }

    /// Returns the next object; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Object>, Fault> {
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
            if let (Some(group), Some(runs)) = (cursor.group(), &cursor.runs) {
                object.parts.push(Part {
                    file: cursor.source.file,
                    footer: Arc::clone(&cursor.source.footer),
                    group,
                    rows: runs.rows(cursor.run),
                });
                cursor.run += 1;
            }
            // The run may continue in the next row group.
            let place = borrowed(&object.place);
            if let Some(place) = cursor.seek(self.view, self.selection, place).await? {
                self.next.push(Reverse((place, number)));
            }
        }
        Ok(Some(object))
    }

    /// Returns whether there is no further object.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_empty()
    }
}
