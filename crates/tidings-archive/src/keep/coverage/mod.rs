//! The records of what was followed: positions, gaps, and the rules in force.
//!
//! Invariant: the time in which versions may be missing is never left out.
//!
//! From outside: [`Position`], [`read_gaps`] and [`write_gaps`], and the rules in force
//! ([`RetentionPolicy`], [`Lives`]).

mod gaps;
mod policy;
mod position;
mod rules_in_force;

pub(crate) use gaps::read_gaps;
pub(super) use gaps::write_gaps;
pub use policy::{EVENT_TTL, KeepFor, RetentionPolicy, RuleOf};
pub use position::Position;
pub(crate) use position::{Unswept, cluster_gap};
pub(super) use rules_in_force::EndedByRules;
pub use rules_in_force::Lives;
pub(crate) use rules_in_force::{Applied, Held};
