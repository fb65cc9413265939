//! The store's folder and its small files.
//!
//! Invariant: every change and every sync of a file of the store's own is one of [`disk`], so that
//! tests can make it fail or undo it.
//!
//! From outside: the functions of the modules [`disk`], [`identity`], [`confirmed_time`] and
//! [`parallel`], and the locked [`Folder`] with the names in it.

pub(super) mod confirmed_time;
pub(super) mod disk;
#[cfg(test)]
pub(super) mod faults;
mod folder;
pub(super) mod identity;
pub(super) mod parallel;
#[cfg(test)]
pub(super) mod power;

#[cfg(fuzzing)]
pub(super) use folder::FORMAT;
pub(super) use folder::{Folder, INDEX, LOG, number_in};
