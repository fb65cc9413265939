//! The settings and kubeconfigs of each connection, to decide when a cluster must be reconnected.
//!
//! A connection records a hash of its files, taken before they were read. So a change in between is
//! noticed, and files that could not be used are tried until they can be.

use std::collections::BTreeMap;

use tidings_archive::SharedQuota;
use tidings_cli::clusters::ClusterSetting;

/// Reads of unchanged files until a failed connection is tried again. A retry may start a
/// credential program.
const LOOKS_BETWEEN: u32 = 6;

/// The inputs of a cluster's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) setting: ClusterSetting,
    /// A hash of the cluster's kubeconfigs.
    pub(super) said: Option<u64>,
}

impl Connected {
    /// Whether the cluster must be connected to anew because its setting or kubeconfigs changed. If
    /// no kubeconfig exists any more, the connection stays; otherwise the cluster in which the
    /// archive runs might be taken for it.
    pub(super) fn is_outdated(&self, setting: &ClusterSetting, said: Option<u64>) -> bool {
        self.setting != *setting || said.is_some() && self.said != said
    }
}

/// Logs that a cluster's quota differs from the former one.
pub(super) fn tell_of_quota(cluster: &str, former: Option<u64>, quota: Option<u64>) {
    if former != quota {
        tracing::warn!(
            cluster,
            former,
            quota,
            "the quota of a cluster has changed: events above it are deleted once it is open again"
        );
    }
}

/// Logs that the file says another quota of all clusters than the one in force. A quota decides how
/// stores lay out what they keep, and a mistyped one would delete events at once: it is in force
/// from a start on.
pub(super) fn tell_of_shared_quota(in_force: Option<&SharedQuota>, said: Option<usize>) {
    let in_force = in_force.map(SharedQuota::bytes);
    let said = said.map(|bytes| bytes as u64);
    if said != in_force {
        tracing::warn!(
            said,
            in_force,
            "the quota of all clusters has changed in the file: it is in force after a restart"
        );
    }
}

/// The failed connections, by cluster name.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    setting: ClusterSetting,
    said: Option<u64>,
    why: String,
    /// Reads of the files until the next try.
    looks: u32,
}

impl Refused {
    /// Whether to try a cluster now, given its current setting and hash of kubeconfigs.
    pub(super) fn is_due(&mut self, setting: &ClusterSetting, said: Option<u64>) -> bool {
        match self.0.get_mut(&setting.name) {
            Some(former) if former.setting == *setting && former.said == said => {
                former.looks = former.looks.saturating_sub(1);
                former.looks == 0
            }
            _ => true,
        }
    }

    /// Records why a cluster could not be used. Returns whether the reason differs from the last
    /// one.
    pub(super) fn note(&mut self, setting: &ClusterSetting, said: Option<u64>, why: &str) -> bool {
        let refusal = Refusal {
            setting: setting.clone(),
            said,
            why: why.to_owned(),
            looks: LOOKS_BETWEEN,
        };
        let former = self.0.insert(setting.name.clone(), refusal);
        former.is_none_or(|former| former.why != why)
    }

    /// Why a cluster could not be used; `None` if it was not refused.
    pub(super) fn why(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|refusal| refusal.why.as_str())
    }

    /// Forgets the failure of a cluster that works or is no longer wanted.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Option<u64> = Some(1);
    const TWO: Option<u64> = Some(2);

    fn named(context: &str) -> ClusterSetting {
        ClusterSetting {
            context: Some(context.to_owned()),
            ..ClusterSetting::named("prod".to_owned())
        }
    }

    #[test]
    fn a_cluster_is_connected_to_anew_when_something_is_not_as_it_was() {
        let connected = Connected {
            setting: named("a"),
            said: ONE,
        };
        for (context, said, expected) in [
            ("a", ONE, false),
            ("b", ONE, true),
            ("a", TWO, true),
            // The files are being written.
            ("a", None, false),
        ] {
            let found = connected.is_outdated(&named(context), said);
            assert_eq!(found, expected, "{context} {said:?}");
        }
    }

    #[test]
    fn what_could_not_be_used_is_told_once_and_tried_now_and_then() {
        let mut refused = Refused::default();
        assert!(refused.is_due(&named("a"), ONE));
        assert!(refused.note(&named("a"), ONE, "no"));
        for _ in 0..3 {
            for _ in 1..LOOKS_BETWEEN {
                assert!(!refused.is_due(&named("a"), ONE));
            }
            assert!(refused.is_due(&named("a"), ONE));
            assert!(!refused.note(&named("a"), ONE, "no"));
        }
        // A changed setting or kubeconfig is tried at once.
        assert!(refused.is_due(&named("b"), ONE));
        assert!(refused.is_due(&named("a"), TWO));
        assert!(refused.note(&named("a"), TWO, "not this either"));
        assert_eq!(refused.why("prod"), Some("not this either"));
        refused.forget("prod");
        assert_eq!(refused.why("prod"), None);
        assert!(refused.is_due(&named("a"), TWO));
        assert!(refused.note(&named("a"), TWO, "not this either"));
    }
}
