//! The parts of the `tidings` command that need neither terminal nor network.

pub mod capture;
pub mod clusters;
pub mod columns;
pub mod event;
pub mod family;
pub mod feeds;
pub mod filter;
pub mod format;
pub mod jsonpath;
pub mod kinds;
pub mod printer;
pub mod sort_key;
pub mod table;
pub mod text;
pub mod time_form;
pub mod times;
pub mod values;
