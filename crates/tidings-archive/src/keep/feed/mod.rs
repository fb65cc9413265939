//! The feed as it is stored: entries, named cursors, the sealer's cursor, and what another store
//! sealed before.
//!
//! Invariants: numbers of entries only grow. An entry is deleted only before all cursors.
//!
//! From outside: a [`Journal`] numbers the entries that a commit writes; [`items`] reads them; a
//! [`Consumer`] is a stored cursor, and [`Cursor`] the sealer's.

mod cursors;
mod entries;
mod journal;
mod sealed_before;
mod sealer_cursor;

pub(super) use cursors::{Amount, Consumer, Past, Stored, read_cursors};
pub(super) use entries::{confirmed_entries, count, entries, entries_up_to, items};
pub(crate) use journal::Journal;
pub use journal::NotSealed;
pub(super) use journal::{ANY_EPOCH, Deleted, Item, amount, expiry};
pub(crate) use sealed_before::SealedBefore;
pub(super) use sealer_cursor::{Cursor, LastStored};
