//! The sealer's cursor in the feed: which entries are sealed, and which of these are still there.
//!
//! Invariants: entries from `first` on are there unless they expired, and those before `sealed` are
//! sealed. Only entries before both are deleted, and the cursor moves in memory before that. So a
//! reader never takes a deleted entry for one that never was. The cursor is stored right behind the
//! mark `sealed`, in the same commit. If the mark was written without it, another program used the
//! folder, and the stored cursor is not believed.

use serde::{Deserialize, Serialize};
use tidings_store::{Fault, ReadError, Record};

use crate::keep::json::parse;

/// The form of the stored cursor.
const FORM: u32 = 1;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::keep) struct Cursor {
    /// Entries before this one may be deleted, if they are sealed.
    pub(in crate::keep) first: u64,
    /// Entries before this one are sealed.
    pub(in crate::keep) sealed: u64,
    /// The number of the first entry that the sealer has not read yet. A file may have every entry
    /// before it, even if no manifest that names the file is known.
    pub(in crate::keep) given: u64,
    /// Whether a seal is under way that moved the cursor.
    is_moving: bool,
}

/// What is stored of the feed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keep) struct Stored {
    form: u32,
    /// `None` if the cluster is not sealed.
    sealer: Option<StoredCursor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCursor {
    first: u64,
    through: u64,
    /// Folders that were sealed before there were named cursors do not have it: it is the mark.
    #[serde(default)]
    given: Option<u64>,
}

impl Cursor {
    /// The cursor of a feed that is not sealed. It needs no entries.
    pub(in crate::keep) const NONE: Self = Self::at(u64::MAX);

    /// The cursor of a feed whose entries begin at a number.
    pub(in crate::keep) const fn at(number: u64) -> Self {
        Self {
            first: number,
            sealed: number,
            given: number,
            is_moving: false,
        }
    }

    pub(in crate::keep) fn with_given(self, given: u64) -> Self {
        Self { given, ..self }
    }

    pub(in crate::keep) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Reads the stored cursor; `None` if it was not written with the present mark.
    pub(in crate::keep) fn read(stored: &Record, mark: &Record) -> Result<Option<Self>, ReadError> {
        if stored.revision != mark.revision + 1 {
            return Ok(None);
        }
        let given = parse(&mark.value)?;
        let Stored { form, sealer } = parse(&stored.value)?;
        if form != FORM {
            let what = format!("the feed has the form {form}, known is {FORM}");
            return Err(Fault::Corrupt(what).into());
        }
        Ok(Some(sealer.map_or(Self::NONE, |sealer| Self {
            first: sealer.first,
            sealed: sealer.through,
            given: sealer.given.unwrap_or(given),
            is_moving: false,
        })))
    }

    /// Returns the form in which it is stored.
    pub(in crate::keep) fn stored(self) -> Stored {
        let sealer = (!self.is_none()).then_some(StoredCursor {
            first: self.first,
            through: self.sealed,
            given: Some(self.given),
        });
        Stored { form: FORM, sealer }
    }

    /// Everything in front of a number is sealed. A number that is no further ends a seal: what it
    /// sealed is deleted by the next one that moves the cursor.
    pub(in crate::keep) fn advance(&mut self, through: u64) {
        if through <= self.sealed {
            self.is_moving = false;
            return;
        }
        if !self.is_moving {
            self.first = self.first.max(self.sealed);
        }
        self.sealed = through;
        self.is_moving = true;
    }

    /// Entries before this one are deleted.
    pub(in crate::keep) fn floor(self) -> u64 {
        self.first.min(self.sealed)
    }
}

/// The mark and the cursor as they were stored last.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::keep) struct LastStored {
    /// Numbers of entries before this one are not used again.
    pub(in crate::keep) mark: u64,
    /// `None` before this process stored it.
    pub(in crate::keep) cursor: Option<Stored>,
}

impl LastStored {
    /// The state after a mark was read.
    pub(in crate::keep) fn of(mark: u64) -> Self {
        Self { mark, cursor: None }
    }
}
