//! Permissions from a file, evaluated as kube-apiserver's RBAC does.
//!
//! It follows `k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac`: rules can only allow, and
//! everything else is forbidden. Roles and bindings are resolved once, when the file is read. So a
//! decision reads only the grants of one user and its groups. A binding to a role that does not
//! exist is an error.

mod error;
mod file;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

pub use error::RbacError;
pub(crate) use file::Rule;
use file::{Binding, Object, Role, Subject};

use super::User;
use super::attributes::{Attributes, ResourceAttributes};

/// The default permissions of all clients, and the roles that can be bound without a definition.
const DEFAULTS: &str = include_str!("defaults.yaml");

/// Permissions from a file; see [`RbacPolicy::parse`].
#[derive(Debug)]
pub struct RbacPolicy {
    /// What bindings grant to users whom the server itself knows, by token or certificate.
    own: Grants,
    /// The grants of users of the home cluster in other followed clusters, by their names.
    in_clusters: HashMap<String, Grants>,
}

/// Grants by their subjects.
#[derive(Debug, Default)]
struct Grants {
    users: HashMap<String, Vec<Grant>>,
    groups: HashMap<String, Vec<Grant>>,
}

/// The rules of a role, granted to one subject.
#[derive(Clone, Debug)]
struct Grant {
    /// The namespace where the grant applies; `None` means everywhere.
    namespace: Option<String>,
    rules: Arc<[Rule]>,
    /// The reason stated for a request that the grant allows.
    reason: String,
}

type Place = (Option<String>, String);

impl RbacPolicy {
    /// Reads Roles, ClusterRoles, RoleBindings and ClusterRoleBindings, one or more YAML documents
    /// as `kubectl get -o yaml` prints them. They add to the roles `cluster-admin`, `admin`, `edit`
    /// and `view` (as far as these concern Events) and to what kube-apiserver's default policy
    /// grants to all clients; an object with the same kind and name replaces a default.
    ///
    /// In an archive, a binding with the label `archive.tidings.internal/cluster` is about users of
    /// the home cluster in the followed cluster that the label names, and about nobody else.
    ///
    /// # Errors
    /// [`RbacError`] says which document is wrong and how.
    ///
    /// ```
    /// use tidings_server::RbacPolicy;
    ///
    /// RbacPolicy::parse(
    ///     r#"
    /// apiVersion: rbac.authorization.k8s.io/v1
    /// kind: RoleBinding
    /// metadata: {name: readers, namespace: shop}
    /// roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
    /// subjects:
    /// - {kind: Group, name: shop-developers}
    /// - {kind: ServiceAccount, name: dashboard, namespace: tools}
    /// "#,
    /// )?;
    ///
    /// let error = RbacPolicy::parse("{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}}").unwrap_err();
    /// assert_eq!(error.to_string(), "document 1 (Role a): metadata.namespace: Required value");
    /// # Ok::<_, tidings_server::RbacError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, RbacError> {
        let mut roles: BTreeMap<Place, Role> = BTreeMap::new();
        let mut bindings: BTreeMap<Place, Binding> = BTreeMap::new();
        for part in [DEFAULTS, text] {
            let mut seen = HashSet::new();
            for object in file::read(part)? {
                let described = match &object {
                    Object::Role(role) => describe("Role", role.namespace.as_deref(), &role.name),
                    Object::Binding(binding) => {
                        describe("RoleBinding", binding.namespace.as_deref(), &binding.name)
                    }
                };
                if !seen.insert(described.clone()) {
                    return Err(RbacError::Duplicate { object: described });
                }
                match object {
                    Object::Role(role) => {
                        roles.insert((role.namespace.clone(), role.name.clone()), role);
                    }
                    Object::Binding(binding) => {
                        bindings.insert((binding.namespace.clone(), binding.name.clone()), binding);
                    }
                }
            }
        }
        Self::resolve(&roles, bindings)
    }

    fn resolve(
        roles: &BTreeMap<Place, Role>,
        bindings: BTreeMap<Place, Binding>,
    ) -> Result<Self, RbacError> {
        let mut policy = Self {
            own: Grants::default(),
            in_clusters: HashMap::new(),
        };
        // Cluster-wide grants come first, as upstream.
        for (_, binding) in bindings {
            let namespace = binding.namespace.as_deref();
            let role_namespace = namespace.filter(|_| !binding.to_cluster_role);
            let place = (role_namespace.map(str::to_owned), binding.role.clone());
            let Some(role) = roles.get(&place) else {
                return Err(RbacError::NoSuchRole {
                    binding: describe("RoleBinding", namespace, &binding.name),
                    role: describe("Role", role_namespace, &binding.role),
                });
            };
            let rules: Arc<[Rule]> = rules_of(role, roles).into();
            let kind = if binding.to_cluster_role {
                "ClusterRole"
            } else {
                "Role"
            };
            let binding_text = match namespace {
                None => format!("ClusterRoleBinding {:?}", binding.name),
                Some(namespace) => {
                    format!("RoleBinding {:?}", format!("{}/{namespace}", binding.name))
                }
            };
            for subject in binding.subjects {
                let subject_text = match &subject {
                    Subject::User(name) => format!("User {name:?}"),
                    Subject::Group(name) => format!("Group {name:?}"),
                    Subject::ServiceAccount { namespace, name } => {
                        format!("ServiceAccount {:?}", format!("{name}/{namespace}"))
                    }
                };
                let grant = Grant {
                    namespace: namespace.map(str::to_owned),
                    rules: rules.clone(),
                    reason: format!(
                        "RBAC: allowed by {binding_text} of {kind} {:?} to {subject_text}",
                        binding.role
                    ),
                };
                let of = match &binding.cluster {
                    Some(cluster) => policy.in_clusters.entry(cluster.clone()).or_default(),
                    None => &mut policy.own,
                };
                let grants = match subject {
                    Subject::User(name) => of.users.entry(name),
                    Subject::Group(name) => of.groups.entry(name),
                    Subject::ServiceAccount { namespace, name } => of
                        .users
                        .entry(format!("system:serviceaccount:{namespace}:{name}")),
                };
                grants.or_default().push(grant);
            }
        }
        Ok(policy)
    }

    /// The reason why a request is allowed; `None` if nothing allows it.
    pub(crate) fn allows(&self, user: &User, asked: &Attributes<'_>) -> Option<&str> {
        self.own.allows(user, asked)
    }

    /// The reason why a user of the home cluster may make a request in another followed cluster.
    pub(crate) fn allows_in(
        &self,
        cluster: &str,
        user: &User,
        asked: &Attributes<'_>,
    ) -> Option<&str> {
        self.in_clusters.get(cluster)?.allows(user, asked)
    }

    /// The rules that apply to a user in a namespace.
    pub(crate) fn rules(&self, user: &User, namespace: &str) -> Vec<&Rule> {
        self.own.rules(user, namespace)
    }

    /// The rules that apply to a user of the home cluster in a namespace of another one.
    pub(crate) fn rules_in(&self, cluster: &str, user: &User, namespace: &str) -> Vec<&Rule> {
        let grants = self.in_clusters.get(cluster);
        grants.map_or_else(Vec::new, |grants| grants.rules(user, namespace))
    }

    /// The namespaces in which a user has some permission, in no order.
    pub(crate) fn namespaces(&self, user: &User) -> HashSet<&str> {
        self.own
            .all_grants(user)
            .filter_map(|grant| grant.namespace.as_deref())
            .collect()
    }
}

impl Grants {
    /// The reason why a request is allowed; `None` if nothing allows it.
    fn allows(&self, user: &User, asked: &Attributes<'_>) -> Option<&str> {
        let namespace = match asked {
            Attributes::Resource(asked) => asked.namespace.as_ref(),
            Attributes::Path { .. } => "",
        };
        self.grants(user, namespace)
            .find(|grant| grant.rules.iter().any(|rule| rule.allows(asked)))
            .map(|grant| grant.reason.as_str())
    }

    /// The rules that apply to a user in a namespace.
    fn rules(&self, user: &User, namespace: &str) -> Vec<&Rule> {
        self.grants(user, namespace)
            .flat_map(|grant| grant.rules.iter())
            .collect()
    }

    fn grants<'a>(&'a self, user: &User, namespace: &str) -> impl Iterator<Item = &'a Grant> {
        self.all_grants(user).filter(move |grant| {
            grant
                .namespace
                .as_ref()
                .is_none_or(|held| !namespace.is_empty() && held == namespace)
        })
    }

    /// The grants of a user and its groups in all namespaces.
    fn all_grants<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a Grant> {
        let groups = user.groups.iter();
        let of_groups = groups.filter_map(|group| self.groups.get(group));
        let of_user = self.users.get(&user.name).into_iter();
        of_user.chain(of_groups).flatten()
    }
}

fn describe(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("Cluster{kind} {name}"),
    }
}

/// The rules of a role. Those of an aggregated role are the rules of the ClusterRoles that it
/// selects, which may be aggregated in turn.
fn rules_of(role: &Role, roles: &BTreeMap<Place, Role>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut seen: HashSet<&str> = HashSet::from([role.name.as_str()]);
    let mut waiting = vec![role];
    while let Some(role) = waiting.pop() {
        let Some(selectors) = &role.aggregated else {
            rules.extend(role.rules.iter().cloned());
            continue;
        };
        for candidate in roles.values().filter(|role| role.namespace.is_none()) {
            let selected = selectors.iter().any(|it| it.matches(&candidate.labels));
            if selected && seen.insert(&candidate.name) {
                waiting.push(candidate);
            }
        }
    }
    rules
}

/// The default permissions.
impl Default for RbacPolicy {
    fn default() -> Self {
        // A test checks that the built-in policy is valid. If it were not, nothing would be
        // granted.
        Self::parse("").unwrap_or_else(|_| Self {
            own: Grants::default(),
            in_clusters: HashMap::new(),
        })
    }
}

impl Rule {
    fn allows(&self, asked: &Attributes<'_>) -> bool {
        match asked {
            Attributes::Resource(asked) => {
                has(&self.verbs, &asked.verb)
                    && has(&self.api_groups, &asked.group)
                    && self.covers_resource(asked)
                    && (self.resource_names.is_empty()
                        || self.resource_names.iter().any(|name| *name == asked.name))
            }
            Attributes::Path { verb, path } => {
                has(&self.verbs, verb)
                    && self.non_resource_urls.iter().any(|url| {
                        url == path
                            || url.ends_with('*') && path.starts_with(url.trim_end_matches('*'))
                    })
            }
        }
    }

    fn covers_resource(&self, asked: &ResourceAttributes<'_>) -> bool {
        self.resources
            .iter()
            .any(|resource| match resource.split_once('/') {
                None => {
                    resource == "*" || asked.subresource.is_empty() && *resource == asked.resource
                }
                Some((resource, subresource)) => {
                    !asked.subresource.is_empty()
                        && subresource == asked.subresource
                        && (resource == "*" || resource == asked.resource)
                }
            })
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

#[cfg(test)]
mod tests;
