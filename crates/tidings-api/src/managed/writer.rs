//! Who writes.

use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;

use crate::codec::Api;

/// Who writes, through which version, and when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// The manager's name.
    pub manager: &'a str,
    /// The version the write came in.
    pub api: Api,
    /// When the write is made.
    pub now: Time,
}
