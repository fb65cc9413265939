//! What an archive keeps of one cluster, in a store of its own: events under their keys, and the
//! archive's own records.

pub(crate) mod bounds;
mod chunks;
pub(crate) mod commits;
mod consumers;
pub(crate) mod continued;
pub(crate) mod coverage;
mod cursor;
mod elder;
mod entries;
mod error;
pub(crate) mod exchange;
#[cfg(test)]
mod exchange_tests;
pub(crate) mod expiry;
pub(crate) mod export;
mod fair_share;
pub(crate) mod feed;
#[cfg(test)]
mod feed_tests;
pub(crate) mod gaps;
pub(crate) mod import;
mod index;
pub(crate) mod journal;
pub(crate) mod keeper;
#[cfg(test)]
mod keeper_tests;
pub(crate) mod keys;
pub(crate) mod lasted;
pub(crate) mod lives;
pub(crate) mod numbers;
pub(crate) mod own;
pub(crate) mod position;
#[cfg(test)]
mod quarter_tests;
pub(crate) mod quota;
#[cfg(test)]
mod quota_tests;
pub(crate) mod retention;
#[cfg(test)]
mod retention_tests;
pub(crate) mod sealed_before;
pub(crate) mod served;
#[cfg(test)]
mod served_tests;
mod slot;
pub(crate) mod sweep;
pub(crate) mod unerased;
pub(crate) mod unsealed;
#[cfg(test)]
mod unsealed_tests;
