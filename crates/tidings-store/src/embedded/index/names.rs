//! The names of a [`Snapshot`] in order, with their versions.
//!
//! Names in memory are merged with those of the tree. A name may be in several places, and is
//! returned once. The newest memtable with the name decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;

use lsm_tree::UserKey;

use super::keys::Pointer;
use super::memtable::Names as Stream;
use super::{Entries, Snapshot, Tree, key_value_of};
use crate::{Fault, Revision};

/// A name and its version; `None` if it has none.
type Entry = (UserKey, Option<Pointer>);

/// The merged names of a snapshot; see the module documentation.
pub(in crate::embedded) struct Names {
    prefix: Vec<u8>,
    /// The next name of each stream in memory. The order is by name, then by the age of the
    /// memtable, then by the stream's number.
    heads: BinaryHeap<Reverse<(UserKey, usize, usize)>>,
    streams: Vec<(usize, Stream)>,
    tree: Entries,
    /// The next name of the tree.
    head: Option<Entry>,
    begun: bool,
}

impl Names {
    /// The names with a prefix that come after a name, as of a revision. `tree` is the tree of
    /// names.
    pub(in crate::embedded) fn new(
        snapshot: &Snapshot,
        tree: &Tree,
        at: Revision,
        prefix: &[u8],
        after: Option<&[u8]>,
    ) -> Self {
        let after = after.filter(|after| *after >= prefix);
        let is_before = |name: &[u8]| after.map_or(name < prefix, |after| name <= after);
        let mut streams = Vec::new();
        for (age, memtable) in snapshot.memtables.iter().enumerate() {
            let of_memtable = memtable.chunks(at).into_iter();
            streams.extend(of_memtable.map(|chunk| (age, Stream::new(chunk, at, is_before))));
        }
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        let mut merged = Self {
            prefix: prefix.to_vec(),
            heads: BinaryHeap::with_capacity(streams.len()),
            tree: snapshot.range::<&[u8], _>(tree, (start, Bound::Unbounded)),
            streams,
            head: None,
            begun: false,
        };
        for number in 0..merged.streams.len() {
            merged.push_head(number);
        }
        merged
    }

    fn push_head(&mut self, number: usize) {
        if let Some((age, stream)) = self.streams.get_mut(number)
            && let Some((name, _)) = stream.peek()
            && name.starts_with(&self.prefix)
        {
            self.heads.push(Reverse((name.into(), *age, number)));
        }
    }

    /// Takes the next name in memory.
    fn pop_memory(&mut self) -> Option<Entry> {
        let (name, pointer) = self.pass()?;
        while let Some(Reverse((other, ..))) = self.heads.peek()
            && *other == name
        {
            // The same name from an older memtable is skipped.
            self.pass();
        }
        Some((name, pointer))
    }

    /// Takes the first head and advances its stream.
    fn pass(&mut self) -> Option<Entry> {
        let mut first = self.heads.peek_mut()?;
        let Reverse((name, _, number)) = &mut *first;
        let (_, stream) = self.streams.get_mut(*number)?;
        let pointer = stream.peek().and_then(|(_, pointer)| pointer);
        stream.advance();
        let next = stream.peek().map(|(name, _)| name);
        // Replacing the head sorts once; removing it and adding another would sort twice.
        let name = if let Some(next) = next.filter(|next| next.starts_with(&self.prefix)) {
            std::mem::replace(name, next.into())
        } else {
            let Reverse((name, ..)) = PeekMut::pop(first);
            name
        };
        Some((name, pointer))
    }

    fn advance_tree(&mut self) -> Result<(), Fault> {
        self.head = match self.tree.next() {
            None => None,
            Some(entry) => {
                let (name, value) = key_value_of(entry)?;
                if name.starts_with(&self.prefix) {
                    Some((name, Some(Pointer::decode(&value)?)))
                } else {
                    None
                }
            }
        };
        Ok(())
    }

    /// Takes the next name. After an error there are no more.
    pub(in crate::embedded) fn next(&mut self) -> Result<Option<Entry>, Fault> {
        if !self.begun {
            self.begun = true;
            self.advance_tree()?;
        }
        let in_memory = self.heads.peek().map(|Reverse((name, ..))| name);
        match (in_memory, &self.head) {
            (Some(name), Some((in_tree, _))) if in_tree < name => {}
            (Some(name), Some((in_tree, _))) if in_tree == name => {
                self.advance_tree()?;
                return Ok(self.pop_memory());
            }
            (Some(_), _) => return Ok(self.pop_memory()),
            (None, _) => {}
        }
        let next = self.head.take();
        if next.is_some() {
            self.advance_tree()?;
        }
        Ok(next)
    }
}
