//! What an archive keeps of one cluster, in a store of its own: events under their keys, and the
//! archive's own records.
//!
//! Its rooms, each of which uses those below it:
//!
//! | room | contents |
//! |---|---|
//! | `consumers`, `served` | readers of the feed; and the events as the API server serves them |
//! | `transfer` | exports and imports |
//! | `report` | the coverage of a cluster, from the records below |
//! | `retention` | expiry, changed rules, quota |
//! | `versions` | the keeper, names and ends of events |
//! | `feed` | stored entries and cursors |
//! | `coverage` | stored positions, gaps and rules in force |

pub(crate) mod consumers;
pub(crate) mod coverage;
mod error;
pub(crate) mod feed;
mod index;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod report;
pub(crate) mod retention;
pub(crate) mod served;
pub(crate) mod transfer;
pub(crate) mod versions;
