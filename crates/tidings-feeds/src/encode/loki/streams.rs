//! Bounds the streams of a feed.
//!
//! Loki limits the streams of a tenant, by default to 5,000, and then takes nothing that needs a
//! new one. Anyone who may write events chooses their reasons, so without a bound one writer could
//! end a tenant. With it, a namespace has its share, and further streams have labels `other`.
//!
//! Invariant: a stream that was admitted for a namespace stays admitted, and one that was refused
//! to it is never admitted for it later. So a request that is repeated has the same streams until
//! the process ends.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;

use parking_lot::Mutex;

use super::labels::Label;
use crate::encode::facts::OTHER;

/// How many streams a namespace and a feed may have before a new one needs fewer labels: as they
/// are, without the node, and without any label but the namespace that writers choose. Beyond
/// that, the namespace is `other`, too.
const ROOM: [(usize, usize); 3] = [(800, 3000), (900, 3400), (1000, 3800)];

/// Maximum admissions that are counted: how many streams all namespaces have, each counted for
/// itself. Beyond it, a namespace that has room is admitted to streams that exist and to no others.
const ADMISSIONS_MAX: usize = 100_000;

/// The streams of a feed.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    hasher: RandomState,
    /// Hashes of all sets of labels.
    streams: HashSet<u64>,
    /// Hashes of pairs: a stream, and a namespace whose records it was opened for.
    admissions: HashSet<u64>,
    /// The number of admissions by the hash of a cluster and a namespace.
    namespaces: HashMap<u64, usize>,
}

impl Streams {
    /// Replaces values of `written` labels by [`OTHER`] until there is room for the stream.
    pub(super) fn bound(
        &self,
        labels: &mut BTreeMap<&str, &str>,
        written: &[(&str, Label)],
        (cluster, namespace): (&str, &str),
    ) {
        let mut known = self.0.lock();
        let of = known.hasher.hash_one((cluster, namespace));
        for (step, (of_namespace, of_feed)) in ROOM.into_iter().enumerate() {
            replace(labels, written, |label| match label {
                Label::Namespace => false,
                Label::Node => step > 0,
                _ => step > 1,
            });
            let stream = known.hasher.hash_one(&*labels);
            // Namespaces can share a stream. It is admitted for each, so that one namespace does
            // not admit what was refused to another.
            let admission = known.hasher.hash_one((of, stream));
            if known.admissions.contains(&admission) {
                return;
            }
            let number = known.namespaces.get(&of).copied().unwrap_or_default();
            let is_known = known.streams.contains(&stream);
            if number < of_namespace && known.admissions.len() == ADMISSIONS_MAX && is_known {
                // It opens no stream, and needs no count: no further stream is admitted.
                return;
            }
            if number < of_namespace
                && (is_known || known.streams.len() < of_feed)
                && known.admissions.len() < ADMISSIONS_MAX
            {
                known.streams.insert(stream);
                known.admissions.insert(admission);
                known.namespaces.insert(of, number + 1);
                return;
            }
        }
        replace(labels, written, |_| true);
    }
}

fn replace(
    labels: &mut BTreeMap<&str, &str>,
    written: &[(&str, Label)],
    is_replaced: impl Fn(&Label) -> bool,
) {
    for (name, _) in written.iter().filter(|(_, label)| is_replaced(label)) {
        if let Some(value) = labels.get_mut(*name) {
            *value = OTHER;
        }
    }
}
