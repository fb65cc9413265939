//! The versions of one event in the bytes of one record.
//!
//! A record holds the newest version whole and, behind it, what makes each older version from the
//! next newer one. When that has grown, the record as it is becomes a *chunk*, a record of its own,
//! and the newest version starts with nothing behind it.

pub(crate) mod delta;
pub(crate) mod record;
