//! Tests of what policies allow and refuse, and of invalid files.

use http::{HeaderMap, Method, Uri};

use super::*;
use crate::http::request::RequestInfo;

const SHOP: &str = r#"
# A comment alone is no document.
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: shop, resourceVersion: "7", annotations: {a: b}}
rules:
- {apiGroups: [""], resources: [events], verbs: [get, list, watch]}
---
apiVersion: v1
kind: List
items:
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: readers, namespace: shop}
  roleRef: {kind: Role, name: reader}
  subjects:
  - {kind: User, name: ann, apiGroup: rbac.authorization.k8s.io}
  - {kind: Group, name: dev}
  - {kind: ServiceAccount, name: robot}
  - {kind: ServiceAccount, name: robot, namespace: tools}
- apiVersion: rbac.authorization.k8s.io/v1
  kind: RoleBinding
  metadata: {name: editors, namespace: shop}
  roleRef: {kind: ClusterRole, name: edit}
  subjects: [{kind: User, name: eve}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: one-event}
rules:
- {apiGroups: ["*"], resources: [events], resourceNames: [web.1], verbs: [get, list, watch, delete]}
- {apiGroups: [""], resources: ["*/log", pods/status], verbs: ["*"]}
- {nonResourceURLs: [/metrics, /debug/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: one-event}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: one-event}
subjects: [{kind: User, name: bob}]
"#;

fn user(name: &str) -> User {
    let groups = match name {
        "dan" => vec!["dev".to_owned()],
        "root" => vec!["system:masters".to_owned()],
        _ => vec![],
    };
    match name {
        "nobody" => User::anonymous(),
        name => User::new(name, "", groups),
    }
}

fn allowed(policy: &RbacPolicy, name: &str, request: &str) -> bool {
    let (method, uri) = request.split_once(' ').unwrap();
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let info = RequestInfo::of(&method, &uri.parse().unwrap(), &HeaderMap::new());
    policy.allows(&user(name), &Attributes::of(&info)).is_some()
}

#[test]
fn rules_allow_what_they_name_and_nothing_else() {
    let policy = RbacPolicy::parse(SHOP).unwrap();
    let shop = "/api/v1/namespaces/shop/events";
    let other = "/api/v1/namespaces/other/events";
    let new_group = "/apis/events.k8s.io/v1/namespaces/shop/events";
    let robot = "system:serviceaccount:shop:robot";
    #[rustfmt::skip]
    let table = [
        // Grants to a user, a group and a service account, in one namespace.
        ("ann", format!("GET {shop}"), true),
        ("ann", format!("GET {shop}?watch=1"), true),
        ("ann", format!("GET {shop}/web.1"), true),
        ("ann", format!("POST {shop}"), false),
        ("ann", format!("DELETE {shop}"), false),
        ("ann", format!("GET {other}"), false),
        ("ann", "GET /api/v1/events".into(), false),
        ("ann", format!("GET {new_group}"), false),
        ("dan", format!("GET {shop}"), true),
        (robot, format!("GET {shop}"), true),
        ("system:serviceaccount:tools:robot", format!("GET {shop}"), true),
        ("system:serviceaccount:other:robot", format!("GET {shop}"), false),
        ("carl", format!("GET {shop}"), false),
        // A ClusterRole bound in a namespace. The role edit includes view.
        ("eve", format!("POST {shop}"), true),
        ("eve", format!("PATCH {new_group}/web.1"), true),
        ("eve", format!("DELETE {shop}"), true),
        ("eve", format!("GET {shop}"), true),
        ("eve", format!("POST {other}"), false),
        ("eve", "GET /api/v1/namespaces/shop".into(), true),
        ("eve", "GET /api/v1/namespaces".into(), false),
        // Rules that only allow events of certain names.
        ("bob", format!("GET {other}/web.1"), true),
        ("bob", format!("GET {other}/web.2"), false),
        ("bob", format!("DELETE {new_group}/web.1"), true),
        ("bob", format!("DELETE {shop}"), false),
        ("bob", "GET /api/v1/events".into(), false),
        ("bob", "GET /api/v1/events?fieldSelector=metadata.name%3Dweb.1".into(), true),
        ("bob", "GET /api/v1/events?watch&fieldSelector=metadata.name%3Dweb.1".into(), true),
        // Rules with subresources.
        ("bob", format!("GET {shop}/web.1/log"), true),
        ("bob", "GET /api/v1/namespaces/a/pods/b/log".into(), true),
        ("bob", "PUT /api/v1/namespaces/a/pods/b/status".into(), true),
        ("bob", "GET /api/v1/namespaces/a/pods/b".into(), false),
        // Rules with paths.
        ("bob", "GET /metrics".into(), true),
        ("bob", "POST /metrics".into(), false),
        ("bob", "GET /debug/pprof".into(), true),
        ("bob", "GET /debug".into(), false),
        ("ann", "GET /metrics".into(), false),
        // The default permissions.
        ("carl", "GET /version".into(), true),
        ("carl", "GET /openapi/v3".into(), true),
        ("carl", "GET /apis/events.k8s.io/v1".into(), true),
        ("carl", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews".into(), true),
        ("nobody", "GET /healthz".into(), true),
        ("nobody", "GET /healthz/ping".into(), false),
        ("nobody", "GET /api".into(), false),
        ("nobody", format!("GET {shop}"), false),
        ("root", format!("DELETE {other}"), true),
        ("root", "GET /anything".into(), true),
    ];
    for (name, request, expected) in table {
        let found = allowed(&policy, name, &request);
        assert_eq!(found, expected, "{name} {request}");
    }
}

#[test]
fn the_reason_names_the_binding() {
    let policy = RbacPolicy::parse(SHOP).unwrap();
    let uri = Uri::from_static("/api/v1/namespaces/shop/events");
    let info = RequestInfo::of(&Method::GET, &uri, &HeaderMap::new());
    let asked = Attributes::of(&info);
    for (name, reason) in [
        (
            "dan",
            r#"RBAC: allowed by RoleBinding "readers/shop" of Role "reader" to Group "dev""#,
        ),
        (
            "system:serviceaccount:shop:robot",
            r#"RBAC: allowed by RoleBinding "readers/shop" of Role "reader" to ServiceAccount "robot/shop""#,
        ),
    ] {
        assert_eq!(policy.allows(&user(name), &asked), Some(reason));
    }
}

#[test]
fn aggregated_roles_follow_labels_and_may_go_round() {
    let role = |name: &str, label: &str, selects: &str, verb: &str| {
        let rules = if verb.is_empty() {
            format!("aggregationRule: {{clusterRoleSelectors: [{selects}]}}")
        } else {
            format!("rules: [{{apiGroups: [''], resources: [events], verbs: [{verb}]}}]")
        };
        format!(
            "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}, labels: {{part: {label}}}}}\n{rules}\n"
        )
    };
    let file = [
        role("whole", "w", "{matchLabels: {part: x}}", ""),
        role("round", "x", "{matchExpressions: [{key: part, operator: In, values: [w, y]}]}", ""),
        role("leaf", "y", "", "patch"),
        role("stranger", "z", "", "delete"),
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\nroleRef: {kind: ClusterRole, name: whole}\nsubjects: [{kind: User, name: ann}]\n".into(),
    ]
    .concat();
    let policy = RbacPolicy::parse(&file).unwrap();
    let may = |request: &str| allowed(&policy, "ann", request);
    assert!(may("PATCH /api/v1/namespaces/a/events/b"));
    assert!(!may("DELETE /api/v1/namespaces/a/events/b"));
}

#[test]
fn a_default_can_be_replaced() {
    let file = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: system:discovery}\nroleRef: {kind: ClusterRole, name: system:discovery}\n";
    let policy = RbacPolicy::parse(file).unwrap();
    assert!(!allowed(&policy, "carl", "GET /api"));
    assert!(allowed(&RbacPolicy::default(), "carl", "GET /api"));
}

#[test]
fn files_that_are_refused() {
    let with = |kind: &str, rest: &str| {
        format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\n{rest}")
    };
    let named = "metadata: {name: a, namespace: n}";
    let role = |rule: &str| with("Role", &format!("{named}\nrules: [{rule}]"));
    let binding = |rest: &str| with("RoleBinding", &format!("{named}\n{rest}"));
    let fine = "roleRef: {kind: ClusterRole, name: view}";
    #[rustfmt::skip]
    let table = [
        ("a: [".to_owned(), "not valid YAML"),
        ("[]".into(), "document 1: kind: Required value"),
        (
            "kind: Role".into(),
            r#"document 1 (Role): apiVersion: Unsupported value: "": supported values: "rbac.authorization.k8s.io/v1""#,
        ),
        (
            with("Rôle", "metadata: {name: a}"),
            r#"document 1 (Rôle a): kind: Unsupported value: "Rôle""#,
        ),
        (
            with("Role", "metadata: {name: a}"),
            "document 1 (Role a): metadata.namespace: Required value",
        ),
        (
            with("ClusterRole", "metadata: {name: a, namespace: b}"),
            "document 1 (ClusterRole a): metadata.namespace: a ClusterRole has none",
        ),
        (with("ClusterRole", "metadata: {name: a/b}"), r#"metadata.name: Invalid value: "a/b""#),
        (with("ClusterRole", "metadata: {name: a}\nrule: []"), "unknown field `rule`"),
        (
            with("ClusterRole", "metadata: {name: a}\nsubjects: []"),
            "subjects: a ClusterRole has none",
        ),
        (
            with("ClusterRole", "metadata: {name: a}\naggregationRule: {}"),
            "at least one clusterRoleSelector required",
        ),
        (role("{resources: [events], apiGroups: ['']}"), "rules[0].verbs: Required value"),
        (role("{verbs: [get], apiGroups: ['']}"), "rules[0].resources: Required value"),
        (role("{verbs: [get], resources: [events]}"), "rules[0].apiGroups: Required value"),
        (role("{verbs: [get], resources: [events], apigroups: ['']}"), "unknown field `apigroups`"),
        (
            role("{verbs: [get], nonResourceURLs: [/x]}"),
            "rules[0].nonResourceURLs: namespaced rules cannot apply",
        ),
        (
            with(
                "ClusterRole",
                "metadata: {name: a}\nrules: [{verbs: [get], nonResourceURLs: [/x], resources: [events]}]",
            ),
            "rules cannot apply to both",
        ),
        (
            binding(""),
            r#"roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole""#,
        ),
        (binding("roleRef: {kind: Role, name: none}"), "RoleBinding n/a: there is no Role n/none"),
        (
            binding(&format!("{fine}\nsubjects: [{{kind: user, name: a}}]")),
            r#"subjects[0].kind: Unsupported value: "user""#,
        ),
        (
            binding(&format!("{fine}\nsubjects: [{{kind: User}}]")),
            "subjects[0].name: Required value",
        ),
        (
            with(
                "ClusterRoleBinding",
                &format!(
                    "metadata: {{name: a}}\n{fine}\nsubjects: [{{kind: ServiceAccount, name: b}}]"
                ),
            ),
            "subjects[0].namespace: Required value",
        ),
        (
            with(
                "ClusterRoleBinding",
                "metadata: {name: a}\nroleRef: {kind: Role, name: b}",
            ),
            r#"supported values: "ClusterRole""#,
        ),
        (format!("{0}\n---\n{0}", binding(fine)), "RoleBinding n/a occurs twice"),
    ];
    for (file, error) in table {
        let refused = RbacPolicy::parse(&file).unwrap_err().to_string();
        assert!(
            refused.contains(error),
            "{file}\n=> {refused}\nexpected {error}"
        );
    }
}
