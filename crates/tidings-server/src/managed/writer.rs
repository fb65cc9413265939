//! Who writes.

use k8s_pb::apimachinery::pkg::apis::meta::v1::Time;

use crate::codec::Api;

/// Who writes, through which version, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) api: Api,
    pub(crate) now: Time,
}
