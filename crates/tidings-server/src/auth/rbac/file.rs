//! Reads the permissions file: documents in YAML or JSON, as `kubectl get -o yaml` prints them.
//!
//! Each is a Role, ClusterRole, RoleBinding, ClusterRoleBinding, or a List of these. They are
//! validated as `k8s.io/kubernetes/pkg/apis/rbac/validation` does. An unknown field is an error,
//! because a misspelt one would grant or deny something unintended.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tidings_api::codec::CLUSTER_LABEL;
use tidings_core::validate::{check_dns1123_label, check_path_segment_name};

use super::error::RbacError;

const GROUP: &str = "rbac.authorization.k8s.io";
/// The kinds of objects, apart from lists.
const KINDS: [&str; 4] = ["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

/// One object, read and checked.
#[derive(Debug)]
pub(super) enum Object {
    Role(Role),
    Binding(Binding),
}

/// A Role; without a namespace a ClusterRole.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) rules: Vec<Rule>,
    /// Selectors of the ClusterRoles whose rules this role has; `None` for a role with its own
    /// rules.
    pub(super) aggregated: Option<Vec<LabelSelector>>,
}

/// A RoleBinding; without a namespace a ClusterRoleBinding.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    /// Whether the role is a ClusterRole.
    pub(super) to_cluster_role: bool,
    pub(super) role: String,
    pub(super) subjects: Vec<Subject>,
    /// The followed cluster in which the binding gives permissions to users of the home cluster.
    /// `None` for a binding of the server's own users.
    pub(super) cluster: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

/// A policy rule. A rule about resources has no URLs; a rule about URLs has only URLs and verbs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(crate) non_resource_urls: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    metadata: Metadata,
    rules: Option<Vec<Rule>>,
    aggregation_rule: Option<AggregationRule>,
    role_ref: Option<RoleRef>,
    subjects: Option<Vec<SubjectRef>>,
    items: Option<Vec<Value>>,
}

/// The metadata of an object. Other fields are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct AggregationRule {
    cluster_role_selectors: Vec<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct LabelSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<LabelRequirement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LabelRequirement {
    key: String,
    operator: Operator,
    #[serde(default)]
    values: Vec<String>,
}

#[derive(Debug, Deserialize)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RoleRef {
    api_group: String,
    kind: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SubjectRef {
    api_group: String,
    kind: String,
    name: String,
    namespace: String,
}

impl LabelSelector {
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| {
                let value = labels.get(&requirement.key);
                let listed = value.is_some_and(|value| requirement.values.contains(value));
                match requirement.operator {
                    Operator::In => listed,
                    Operator::NotIn => !listed,
                    Operator::Exists => value.is_some(),
                    Operator::DoesNotExist => value.is_none(),
                }
            })
    }
}

/// Reads every object of a file. Empty documents (two separators in a row, a comment) are skipped.
pub(super) fn read(text: &str) -> Result<Vec<Object>, RbacError> {
    // Strict, because a user or namespace may be called y or no.
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Option<Value>> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| RbacError::Unreadable {
            why: error.to_string(),
        })?;
    let mut objects = Vec::new();
    for (number, document) in (1..).zip(documents) {
        if let Some(document) = document.filter(|value| !value.is_null()) {
            read_document(&format!("document {number}"), document, true, &mut objects)?;
        }
    }
    Ok(objects)
}

fn read_document(
    place: &str,
    value: Value,
    may_be_list: bool,
    objects: &mut Vec<Object>,
) -> Result<(), RbacError> {
    let invalid = |place: &str, why: String| RbacError::Invalid {
        place: place.to_owned(),
        why,
    };
    let text = |at: &str| value.pointer(at).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or_default();
    let name = text("/metadata/name").unwrap_or_default();
    let place = match (kind, name) {
        ("", _) => return Err(invalid(place, "kind: Required value".into())),
        (kind, "") => format!("{place} ({kind})"),
        (kind, name) => format!("{place} ({kind} {name})"),
    };
    let is_kind = |kind: &str| KINDS.contains(&kind);
    let is_list = kind == "List" || kind.strip_suffix("List").is_some_and(is_kind);
    if !is_list && !is_kind(kind) {
        let why = format!(
            "kind: Unsupported value: {kind:?}: supported values: \"ClusterRole\", \"ClusterRoleBinding\", \"Role\", \"RoleBinding\", \"List\""
        );
        return Err(invalid(&place, why));
    }
    let version = text("/apiVersion").unwrap_or_default();
    let supported = format!("{GROUP}/v1");
    let list_of_any = kind == "List" && version == "v1";
    if version != supported && !list_of_any {
        let why =
            format!("apiVersion: Unsupported value: {version:?}: supported values: {supported:?}");
        return Err(invalid(&place, why));
    }
    let document: Document =
        serde_json::from_value(value).map_err(|error| invalid(&place, error.to_string()))?;
    if is_list {
        if !may_be_list {
            return Err(invalid(&place, "a List within a List".into()));
        }
        for (number, item) in (0..).zip(document.items.unwrap_or_default()) {
            read_document(&format!("{place}, items[{number}]"), item, false, objects)?;
        }
        return Ok(());
    }
    let mut problems = Problems::default();
    let object = read_object(document, &mut problems);
    if problems.0.is_empty() {
        objects.push(object);
        Ok(())
    } else {
        Err(invalid(&place, problems.0.join("; ")))
    }
}

/// The mistakes in one object.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, field: impl std::fmt::Display, why: impl std::fmt::Display) {
        self.0.push(format!("{field}: {why}"));
    }

    fn require_name(&mut self, field: &str, name: &str) {
        if name.is_empty() {
            self.add(field, "Required value");
        }
        for why in check_path_segment_name(name) {
            self.add(field, format_args!("Invalid value: {name:?}: {why}"));
        }
    }

    fn forbid<T>(&mut self, field: &str, value: Option<&T>, kind: &str) {
        if value.is_some() {
            self.add(field, format_args!("a {kind} has none"));
        }
    }
}

fn read_object(document: Document, problems: &mut Problems) -> Object {
    let kind = document.kind.as_str();
    let in_cluster = kind.starts_with("Cluster");
    let Metadata {
        name,
        namespace,
        labels,
    } = document.metadata;
    problems.require_name("metadata.name", &name);
    if in_cluster && !namespace.is_empty() {
        problems.add("metadata.namespace", format_args!("a {kind} has none"));
    }
    if !in_cluster {
        problems.require_name("metadata.namespace", &namespace);
    }
    let namespace = (!in_cluster).then_some(namespace);
    problems.forbid("items", document.items.as_ref(), kind);

    if kind.ends_with("Role") {
        problems.forbid("roleRef", document.role_ref.as_ref(), kind);
        problems.forbid("subjects", document.subjects.as_ref(), kind);
        if !in_cluster {
            problems.forbid("aggregationRule", document.aggregation_rule.as_ref(), kind);
        }
        let rules = document.rules.unwrap_or_default();
        for (number, rule) in rules.iter().enumerate() {
            check_rule(rule, in_cluster, &format!("rules[{number}]"), problems);
        }
        let aggregated = document.aggregation_rule;
        let aggregated = aggregated.map(|rule| rule.cluster_role_selectors);
        if aggregated.as_ref().is_some_and(Vec::is_empty) {
            problems.add(
                "aggregationRule.clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
        }
        return Object::Role(Role {
            namespace,
            name,
            labels: labels.unwrap_or_default(),
            rules,
            aggregated,
        });
    }

    problems.forbid("rules", document.rules.as_ref(), kind);
    problems.forbid("aggregationRule", document.aggregation_rule.as_ref(), kind);
    let role = document.role_ref.unwrap_or_default();
    // As in kube-apiserver, an empty group is valid.
    if !role.api_group.is_empty() && role.api_group != GROUP {
        unsupported(problems, "roleRef.apiGroup", &role.api_group, &[GROUP]);
    }
    let kinds: &[&str] = if in_cluster {
        &["ClusterRole"]
    } else {
        &["Role", "ClusterRole"]
    };
    if !kinds.contains(&role.kind.as_str()) {
        unsupported(problems, "roleRef.kind", &role.kind, kinds);
    }
    problems.require_name("roleRef.name", &role.name);
    let mut subjects = Vec::new();
    for (number, subject) in (0..).zip(document.subjects.unwrap_or_default()) {
        let field = format!("subjects[{number}]");
        let subject = read_subject(subject, namespace.as_deref(), &field, problems);
        subjects.extend(subject);
    }
    let cluster = labels.unwrap_or_default().remove(CLUSTER_LABEL);
    if let Some(cluster) = &cluster {
        for why in check_dns1123_label(cluster) {
            let field = format!("metadata.labels[{CLUSTER_LABEL}]");
            problems.add(field, format_args!("Invalid value: {cluster:?}: {why}"));
        }
    }
    Object::Binding(Binding {
        cluster,
        namespace,
        name,
        to_cluster_role: role.kind == "ClusterRole",
        role: role.name,
        subjects,
    })
}

fn unsupported(problems: &mut Problems, field: &str, value: &str, supported: &[&str]) {
    let list: Vec<_> = supported.iter().map(|it| format!("{it:?}")).collect();
    let list = list.join(", ");
    problems.add(
        field,
        format_args!("Unsupported value: {value:?}: supported values: {list}"),
    );
}

fn check_rule(rule: &Rule, in_cluster: bool, field: &str, problems: &mut Problems) {
    if rule.verbs.is_empty() {
        problems.add(
            format_args!("{field}.verbs"),
            "Required value: verbs must contain at least one value",
        );
    }
    if !rule.non_resource_urls.is_empty() {
        let field = format!("{field}.nonResourceURLs");
        if !in_cluster {
            problems.add(&field, "namespaced rules cannot apply to non-resource URLs");
        }
        if !(rule.api_groups.is_empty()
            && rule.resources.is_empty()
            && rule.resource_names.is_empty())
        {
            problems.add(
                &field,
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if rule.api_groups.is_empty() {
        problems.add(
            format_args!("{field}.apiGroups"),
            "Required value: resource rules must supply at least one api group",
        );
    }
    if rule.resources.is_empty() {
        problems.add(
            format_args!("{field}.resources"),
            "Required value: resource rules must supply at least one resource",
        );
    }
}

fn read_subject(
    subject: SubjectRef,
    binding_namespace: Option<&str>,
    field: &str,
    problems: &mut Problems,
) -> Option<Subject> {
    if subject.name.is_empty() {
        problems.add(format_args!("{field}.name"), "Required value");
    }
    let group = subject.api_group.as_str();
    match subject.kind.as_str() {
        "ServiceAccount" => {
            if !group.is_empty() {
                unsupported(problems, &format!("{field}.apiGroup"), group, &[""]);
            }
            // In a RoleBinding, the default namespace is the binding's.
            let namespace = if subject.namespace.is_empty() {
                binding_namespace.unwrap_or_default().to_owned()
            } else {
                subject.namespace
            };
            if namespace.is_empty() {
                problems.add(format_args!("{field}.namespace"), "Required value");
            }
            Some(Subject::ServiceAccount {
                namespace,
                name: subject.name,
            })
        }
        kind @ ("User" | "Group") => {
            if !group.is_empty() && group != GROUP {
                unsupported(problems, &format!("{field}.apiGroup"), group, &[GROUP]);
            }
            Some(match kind {
                "User" => Subject::User(subject.name),
                _ => Subject::Group(subject.name),
            })
        }
        kind => {
            let kinds = ["ServiceAccount", "User", "Group"];
            unsupported(problems, &format!("{field}.kind"), kind, &kinds);
            None
        }
    }
}
