//! An event in the form that the rules read.

use tidings_api::codec::stored::Brief;
use tidings_core::reading::{is_warning, object_uid};

/// The content of an event of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The index of its cluster among those requested.
    pub(crate) cluster: usize,
    /// The events that it stands for: several of one object, reason and type that a picture cannot
    /// tell apart.
    pub(crate) events: u64,
    pub(crate) brief: Brief<'a>,
}

/// An object of a cluster, as events name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Object<'a> {
    pub(crate) cluster: usize,
    pub(crate) namespace: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Seen<'a> {
    /// One event.
    pub(crate) fn one(cluster: usize, brief: Brief<'a>) -> Self {
        Self {
            cluster,
            events: 1,
            brief,
        }
    }

    /// The object that the event is about.
    pub(crate) fn object(&self) -> Object<'a> {
        Object {
            cluster: self.cluster,
            namespace: self.brief.object_namespace,
            kind: self.brief.kind,
            name: self.brief.object,
        }
    }

    /// The uid that distinguishes its object from others of the same name, if the event has one.
    pub(crate) fn object_uid(&self) -> &'a str {
        object_uid(self.brief.object, self.brief.object_uid)
    }

    pub(crate) fn is_warning(&self) -> bool {
        is_warning(self.brief.event_type)
    }
}
