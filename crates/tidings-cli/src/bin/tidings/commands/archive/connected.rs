//! With what a cluster is connected to, and when it is to be connected to anew.
//!
//! What is noted is what the files said before they were read for the connection. So nothing that
//! changes meanwhile is missed, and what could not be used is tried until it can.

use std::collections::BTreeMap;

use tidings_cli::clusters::ClusterSetting;

/// How often the files are looked at until the same is tried again that could not be used: it may
/// start a program that gives out credentials.
const LOOKS_BETWEEN: u32 = 6;

/// With what a cluster is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) setting: ClusterSetting,
    /// What its kubeconfigs said: a hash.
    pub(super) said: Option<u64>,
}

impl Connected {
    /// Whether it is to be connected to anew, as something is not as it was. Where kubeconfigs say
    /// nothing any more, the cluster that this runs in might be taken for it.
    pub(super) fn is_outdated(&self, setting: &ClusterSetting, said: Option<u64>) -> bool {
        self.setting != *setting || said.is_some() && self.said != said
    }
}

/// What could not be used, by clusters.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    setting: ClusterSetting,
    said: Option<u64>,
    why: String,
    /// Looks until it is tried again.
    looks: u32,
}

impl Refused {
    /// Whether a cluster is to be tried now, with what is said of it now.
    pub(super) fn is_due(&mut self, setting: &ClusterSetting, said: Option<u64>) -> bool {
        match self.0.get_mut(&setting.name) {
            Some(former) if former.setting == *setting && former.said == said => {
                former.looks = former.looks.saturating_sub(1);
                former.looks == 0
            }
            _ => true,
        }
    }

    /// Notes why a cluster could not be used. Whether that is something else than the last time.
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

    /// Why a cluster could not be used, if it could not.
    pub(super) fn why(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|refusal| refusal.why.as_str())
    }

    /// A cluster could be used, or is not wanted any more.
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
            // The files are about to be written.
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
        // Something else at once.
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
