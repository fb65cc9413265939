//! The parts of the `tidings` command that stand on their own, apart from terminal and network.

pub mod import;
