//! Stores the versions of one event in the bytes of one record.
//!
//! A record holds the complete newest version, followed by a delta for each older version from the
//! next newer one. When the deltas have grown, the record is stored again as a *chunk* under its
//! own key, and the newest version starts without deltas.

pub(crate) mod delta;
pub(crate) mod record;
