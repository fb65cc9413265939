//! The API as its clients see it: requests in, answers out, over the real router and a store in memory.

mod content;
mod lists;
mod support;
mod watches;
mod writes;
