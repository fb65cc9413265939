//! Errors of access checks, which contain the missing rule.

use std::fmt;

use tidings_core::EventApi;

use super::response;

/// Why events cannot be written, or why that is not known.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The server will refuse events. The message has the missing rule, for a Role or ClusterRole.
    #[error("{}", Denied { verbs, api: *api, namespace })]
    Denied {
        /// The missing verbs, of `create` and `patch`.
        verbs: Vec<&'static str>,
        /// The API group of the events.
        api: EventApi,
        /// The namespace of the events; empty for all namespaces.
        namespace: String,
    },
    /// The cluster did not answer, or answered with no access review.
    #[error("could not ask the cluster whether events may be written: {}", response::explain(.0))]
    Unknown(Box<kube::Error>),
}

/// The same text as the message, as `main` and `unwrap` show it.
impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

struct Denied<'a> {
    verbs: &'a [&'static str],
    api: EventApi,
    namespace: &'a str,
}

impl fmt::Display for Denied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs = self.verbs.join(" or ");
        let (group, namespace) = (group(self.api), self.namespace);
        let group = if group.is_empty() {
            "the core API group"
        } else {
            group
        };
        write!(f, "may not {verbs} events of {group} in ")?;
        if namespace.is_empty() {
            write!(
                f,
                "all namespaces: bind its service account to a ClusterRole"
            )?;
        } else {
            write!(
                f,
                "namespace {namespace:?}: bind its service account there to a Role"
            )?;
        }
        write!(f, " with this rule:\n{}", rules_for(self.api))
    }
}

pub(super) fn group(api: EventApi) -> &'static str {
    match api {
        EventApi::Core => "",
        EventApi::Events => "events.k8s.io",
    }
}

/// The rule that a Role or ClusterRole needs for recording events as `api`, as YAML.
///
/// ```
/// use tidings::{EventApi, rules_for};
///
/// assert_eq!(
///     rules_for(EventApi::Events),
///     r#"- apiGroups: ["events.k8s.io"]
///   resources: ["events"]
///   verbs: ["create", "patch"]
/// "#
/// );
/// ```
pub fn rules_for(api: EventApi) -> String {
    format!(
        "- apiGroups: [{:?}]\n  resources: [\"events\"]\n  verbs: [\"create\", \"patch\"]\n",
        group(api)
    )
}
