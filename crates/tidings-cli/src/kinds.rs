//! Names of kinds as users write them: `deploy/web`, `deployments.apps/web`, `Deployment/web`.
//!
//! The kinds that every cluster has are built in, so that events of deleted objects are found on
//! servers that serve only events.

/// The kind of an object in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The group, such as `apps`; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The resource, such as `deployments`.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

impl Kind {
    /// The apiVersion: `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of its objects in a namespace, which is empty for all namespaces or cluster-scoped
    /// objects.
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let namespaces = match namespace {
            "" => String::new(),
            namespace => format!("/namespaces/{namespace}"),
        };
        format!("/{root}/{}{namespaces}/{}", self.api_version(), self.plural)
    }
}

/// An object as named on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The kind in any form: `deploy`, `Deployment`, `deployments.apps`, `deployments.v1.apps`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self {
                    kind: kind.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("expected KIND/NAME, such as pod/web-0 or deployments.apps/web".to_owned()),
        }
    }
}

impl Named {
    /// Parses the objects named by words, as in kubectl: `KIND/NAME…`, or one `KIND` and then
    /// `NAME…`.
    ///
    /// # Errors
    /// For other words; the error says what is accepted.
    ///
    /// ```
    /// use tidings_cli::kinds::Named;
    ///
    /// let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    /// let apart = Named::all(&words(&["pod", "web-0", "web-1"]));
    /// assert_eq!(apart, Named::all(&words(&["pod/web-0", "pod/web-1"])));
    /// assert!(Named::all(&words(&["pod"])).is_err());
    /// ```
    pub fn all(words: &[String]) -> Result<Vec<Self>, String> {
        let has_slash = |word: &String| word.contains('/');
        match words {
            [kind, names @ ..] if !names.is_empty() && !words.iter().any(has_slash) => {
                let names = names.iter();
                names.map(|name| format!("{kind}/{name}").parse()).collect()
            }
            [_, _, ..] if !words.iter().all(has_slash) => Err(
                "expected KIND/NAME for each object, or one KIND and names without a slash"
                    .to_owned(),
            ),
            words => words.iter().map(|word| word.parse()).collect(),
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

impl Named {
    /// The resource or kind without its group, and the group if one is given: `deployments.v1.apps`
    /// has the group `apps`.
    pub fn parts(&self) -> (&str, Option<&str>) {
        let Some((resource, rest)) = self.kind.split_once('.') else {
            return (&self.kind, None);
        };
        let group = match rest.split_once('.') {
            Some((version, group)) if is_version(version) => group,
            None if is_version(rest) => "",
            _ => rest,
        };
        (resource, Some(group))
    }

    /// The version in a name such as `deployments.v1.apps`.
    pub fn version(&self) -> Option<&str> {
        let (_, rest) = self.kind.split_once('.')?;
        let version = rest.split_once('.').map_or(rest, |(version, _)| version);
        is_version(version).then_some(version)
    }

    /// The built-in kind of this name, if there is one.
    pub fn built_in(&self) -> Option<Kind> {
        let (resource, group) = self.parts();
        let word = resource.to_ascii_lowercase();
        KINDS
            .iter()
            .find(|known| {
                (known.plural == word
                    || known.short == word
                    || known.kind.eq_ignore_ascii_case(&word))
                    && group.is_none_or(|group| group == known.group)
            })
            .map(|known| Kind {
                kind: known.kind.to_owned(),
                group: known.group.to_owned(),
                version: self.version().unwrap_or(known.version).to_owned(),
                plural: known.plural.to_owned(),
                namespaced: known.namespaced,
            })
    }

    /// Whether events may refer to the object by this kind and group. Used for kinds that no server
    /// has confirmed.
    pub fn may_be(&self, kind: &str, group: &str) -> bool {
        let (word, wanted) = self.parts();
        let (word, kind) = (word.to_ascii_lowercase(), kind.to_ascii_lowercase());
        let same = word == kind
            || word == format!("{kind}s")
            || word == format!("{kind}es")
            || kind
                .strip_suffix('y')
                .is_some_and(|stem| word == format!("{stem}ies"));
        same && wanted.is_none_or(|wanted| wanted == group)
    }
}

/// Whether a text is a version such as `v1`, `v2beta1` or `v1alpha3`.
fn is_version(text: &str) -> bool {
    text.strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

struct Known {
    kind: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    short: &'static str,
    namespaced: bool,
}

const fn namespaced(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
) -> Known {
    Known {
        kind,
        group,
        version,
        plural,
        short,
        namespaced: true,
    }
}

const fn cluster(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
) -> Known {
    Known {
        namespaced: false,
        ..namespaced(group, version, kind, plural, short)
    }
}

const KINDS: [Known; 39] = [
    namespaced("", "v1", "Pod", "pods", "po"),
    namespaced("", "v1", "Service", "services", "svc"),
    namespaced("", "v1", "ConfigMap", "configmaps", "cm"),
    namespaced("", "v1", "Secret", "secrets", "secret"),
    namespaced("", "v1", "ServiceAccount", "serviceaccounts", "sa"),
    namespaced(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "pvc",
    ),
    namespaced(
        "",
        "v1",
        "ReplicationController",
        "replicationcontrollers",
        "rc",
    ),
    namespaced("", "v1", "Endpoints", "endpoints", "ep"),
    namespaced("", "v1", "ResourceQuota", "resourcequotas", "quota"),
    namespaced("", "v1", "LimitRange", "limitranges", "limits"),
    cluster("", "v1", "Node", "nodes", "no"),
    cluster("", "v1", "Namespace", "namespaces", "ns"),
    cluster("", "v1", "PersistentVolume", "persistentvolumes", "pv"),
    namespaced("apps", "v1", "Deployment", "deployments", "deploy"),
    namespaced("apps", "v1", "ReplicaSet", "replicasets", "rs"),
    namespaced("apps", "v1", "StatefulSet", "statefulsets", "sts"),
    namespaced("apps", "v1", "DaemonSet", "daemonsets", "ds"),
    namespaced("batch", "v1", "Job", "jobs", "job"),
    namespaced("batch", "v1", "CronJob", "cronjobs", "cj"),
    namespaced(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
    ),
    namespaced(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
    ),
    namespaced("networking.k8s.io", "v1", "Ingress", "ingresses", "ing"),
    namespaced(
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        "netpol",
    ),
    cluster(
        "networking.k8s.io",
        "v1",
        "IngressClass",
        "ingressclasses",
        "ingressclass",
    ),
    namespaced(
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        "endpointslice",
    ),
    namespaced("coordination.k8s.io", "v1", "Lease", "leases", "lease"),
    cluster(
        "storage.k8s.io",
        "v1",
        "StorageClass",
        "storageclasses",
        "sc",
    ),
    cluster(
        "storage.k8s.io",
        "v1",
        "VolumeAttachment",
        "volumeattachments",
        "volumeattachment",
    ),
    cluster("storage.k8s.io", "v1", "CSINode", "csinodes", "csinode"),
    cluster(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        "pc",
    ),
    namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles", "role"),
    namespaced(
        "rbac.authorization.k8s.io",
        "v1",
        "RoleBinding",
        "rolebindings",
        "rolebinding",
    ),
    cluster(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
        "clusterrole",
    ),
    cluster(
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        "clusterrolebinding",
    ),
    cluster(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "csr",
    ),
    cluster(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
    ),
    cluster(
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        "apiservice",
    ),
    namespaced(
        "gateway.networking.k8s.io",
        "v1",
        "Gateway",
        "gateways",
        "gtw",
    ),
    namespaced(
        "gateway.networking.k8s.io",
        "v1",
        "HTTPRoute",
        "httproutes",
        "httproute",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Named {
        text.parse().unwrap()
    }

    #[test]
    fn kinds_are_known_by_every_name_kubectl_knows_them_by() {
        for (text, expected) in [
            ("po/web", Some("/api/v1/namespaces/shop/pods")),
            ("Pod/web", Some("/api/v1/namespaces/shop/pods")),
            ("PODS/web", Some("/api/v1/namespaces/shop/pods")),
            (
                "deploy/web",
                Some("/apis/apps/v1/namespaces/shop/deployments"),
            ),
            (
                "deployments.apps/web",
                Some("/apis/apps/v1/namespaces/shop/deployments"),
            ),
            (
                "deployment.v1beta1.apps/web",
                Some("/apis/apps/v1beta1/namespaces/shop/deployments"),
            ),
            ("pods.v1/web", Some("/api/v1/namespaces/shop/pods")),
            ("deployments.example.com/web", None),
            ("widget/web", None),
        ] {
            let path = named(text).built_in().map(|kind| kind.path("shop"));
            assert_eq!(path.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_no_server_told_is_matched_by_words() {
        assert!(named("widget/a").may_be("Widget", "example.com"));
        assert!(named("widgets.example.com/a").may_be("Widget", "example.com"));
        assert!(named("widgets.v1.example.com/a").may_be("Widget", "example.com"));
        assert!(named("policies/a").may_be("Policy", ""));
        assert!(!named("widgets.example.org/a").may_be("Widget", "example.com"));
        assert!(!named("gadget/a").may_be("Widget", ""));
    }

    #[test]
    fn objects_are_named_by_words_as_in_kubectl() {
        let named = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let named = Named::all(&words).ok()?;
            let names: Vec<_> = named.iter().map(ToString::to_string).collect();
            Some(names.join(" "))
        };
        for (words, expected) in [
            ("pod/a", Some("pod/a")),
            ("pod a", Some("pod/a")),
            (
                "deployments.apps a b",
                Some("deployments.apps/a deployments.apps/b"),
            ),
            ("pod/a deploy/b", Some("pod/a deploy/b")),
            ("pod", None),
            ("pod pod/a", None),
            ("pod/a b", None),
            ("pod/a/b", None),
            ("/a", None),
        ] {
            assert_eq!(named(words).as_deref(), expected, "{words}");
        }
    }

    #[test]
    fn what_names_no_object() {
        for text in ["", "pod", "pod/", "/web", "pod/web/x"] {
            assert!(text.parse::<Named>().is_err(), "{text}");
        }
    }
}
