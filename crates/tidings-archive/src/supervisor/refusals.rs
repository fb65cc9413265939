//! The clusters that could not be followed as they are set, and when they are tried again.

use std::collections::BTreeMap;

use super::connector::{Setting, Target};

/// Looks at an unchanged setting and unchanged files until a refused cluster is tried again. A try
/// may start a credential program.
pub(super) const LOOKS_BETWEEN: u32 = 6;

/// The refused clusters, by name.
pub(super) struct Refusals<S>(BTreeMap<String, Refused<S>>);

struct Refused<S> {
    target: Target<S>,
    why: String,
    /// Looks until the next try.
    looks: u32,
}

impl<S> Default for Refusals<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Setting> Refusals<S> {
    /// Counts a look at a cluster, and returns whether to try it now. A changed target is tried at
    /// once.
    pub(super) fn count_look(&mut self, target: &Target<S>) -> bool {
        match self.0.get_mut(target.name()) {
            Some(former) if former.target == *target => {
                former.looks = former.looks.saturating_sub(1);
                former.looks == 0
            }
            _ => true,
        }
    }

    /// Records why a cluster was refused. Returns whether the reason differs from the previous one.
    pub(super) fn note(&mut self, target: &Target<S>, why: &str) -> bool {
        let refused = Refused {
            target: target.clone(),
            why: why.to_owned(),
            looks: LOOKS_BETWEEN,
        };
        let former = self.0.insert(target.name().to_owned(), refused);
        former.is_none_or(|former| former.why != why)
    }

    /// Returns why a cluster was refused; `None` if it was not.
    pub(super) fn why(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|refused| refused.why.as_str())
    }

    /// Forgets why a cluster was refused that is followed now.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Forgets why clusters were refused, except those that are wanted.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_wanted(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Setting for () {
        fn name(&self) -> &'static str {
            "prod"
        }

        fn is_followed(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_refused_cluster_is_reported_once_and_tried_now_and_then() {
        let [one, two] = [Some(1), Some(2)].map(|files| Target { setting: (), files });
        let mut refused = Refusals::default();
        assert!(refused.count_look(&one));
        assert!(refused.note(&one, "no"));
        for _ in 0..3 {
            for _ in 1..LOOKS_BETWEEN {
                assert!(!refused.count_look(&one));
            }
            assert!(refused.count_look(&one));
            assert!(!refused.note(&one, "no"));
        }
        // A changed target is tried at once.
        assert!(refused.count_look(&two));
        assert!(refused.note(&two, "not this either"));
        assert_eq!(refused.why("prod"), Some("not this either"));
        refused.forget("prod");
        assert_eq!(refused.why("prod"), None);
        assert!(refused.count_look(&two));
        assert!(refused.note(&two, "not this either"));
    }
}
