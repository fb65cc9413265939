//! Calculates what the timeline shows of events, without input or output. Time is an argument, and
//! the cost is that of sorting the events.

pub(crate) mod before;
pub(crate) mod changes;
pub(crate) mod firsts;
pub(crate) mod lanes;
pub(crate) mod marks;
pub(crate) mod rates;
pub(crate) mod repeats;
pub(crate) mod seen;
pub(crate) mod sentence;
pub(crate) mod unread;
mod words;

#[cfg(test)]
pub(crate) mod cases;
