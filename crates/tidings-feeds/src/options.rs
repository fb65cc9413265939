//! The options of a feed, and the name of its cursor.

use std::time::Duration;

use tidings_api::conditions::Conditions;
use tidings_core::filter::Filter;

use crate::receiver::ReceiverOptions;

/// Maximum number of feeds: each has a cursor in each cluster.
pub const FEEDS_MAX: usize = 24;
/// Maximum length of a feed's name.
pub const NAME_LEN_MAX: usize = 56;

/// Where a new feed begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// With the next version that is observed.
    #[default]
    Now,
    /// With everything that is kept.
    Oldest,
    /// With versions that were observed up to this long ago.
    Ago(Duration),
}

/// A feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedOptions {
    /// The feed's name: a DNS label of at most [`NAME_LEN_MAX`] bytes.
    pub name: String,
    /// Where it begins, if it is new for a cluster. Default: now.
    pub from: From,
    /// The events that it has, as the language of filters states them. Default: all.
    pub filter: Filter,
    /// The events that it has, as the conditions of retention rules state them. Default: all.
    pub conditions: Conditions,
    /// The period in which at most one version of an event is delivered. Default: every version is.
    pub every: Option<Duration>,
    /// The receiver.
    pub receiver: ReceiverOptions,
}

impl FeedOptions {
    /// A feed with every version.
    pub fn new(name: &str, receiver: ReceiverOptions) -> Self {
        Self {
            name: name.to_owned(),
            from: From::Now,
            filter: Filter::default(),
            conditions: Conditions::default(),
            every: None,
            receiver,
        }
    }
}

/// The name of a feed's cursor.
pub(crate) fn cursor_name(feed: &str) -> String {
    format!("feed-{feed}")
}
