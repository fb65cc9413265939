//! The writer of a change.

use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;

use crate::codec::Api;

/// The manager of a write, with the write's API version and time.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The manager's name.
    pub manager: &'a str,
    /// The API version of the write.
    pub api: Api,
    /// The time of the write.
    pub now: Time,
}
