//! Every verb, in both groups, for every kind of user.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Authority, Credentials, Server, token, write};

/// Requests about an existing event, or about all events.
const VERBS: [(&str, Method, &str); 10] = [
    ("get", Method::GET, "/web.1"),
    ("list", Method::GET, ""),
    ("watch", Method::GET, "?watch=true&timeoutSeconds=1"),
    ("update", Method::PUT, "/web.1"),
    ("patch", Method::PATCH, "/web.1"),
    ("create", Method::POST, ""),
    ("delete", Method::DELETE, "/web.1"),
    ("deletecollection", Method::DELETE, ""),
    ("list", Method::GET, "?fieldSelector=metadata.name%3Dweb.1"),
    (
        "watch",
        Method::GET,
        "?fieldSelector=metadata.name%3Dweb.1&watch=true&timeoutSeconds=1",
    ),
];

const GROUPS: [(&str, &str, &str); 2] = [
    ("/api/v1", "v1", ""),
    (
        "/apis/events.k8s.io/v1",
        "events.k8s.io/v1",
        "events.k8s.io",
    ),
];

fn event(version: &str, name: &str) -> Value {
    let mut event = json!({
        "apiVersion": version,
        "kind": "Event",
        "metadata": {"name": name, "namespace": "shop"},
        "reason": "BackOff",
        "type": "Warning",
    });
    let object = json!({"kind": "Pod", "namespace": "shop", "name": "web"});
    if version == "v1" {
        event["involvedObject"] = object;
    } else {
        event["regarding"] = object;
        event["eventTime"] = "2026-03-04T05:06:07.000000Z".into();
        event["action"] = "Restart".into();
        event["reportingController"] = "kubelet".into();
        event["reportingInstance"] = "node-1".into();
    }
    event
}

/// The form of a 403.
fn forbidden(user: &str, verb: &str, group: &str, name: &str) -> Value {
    let resource = if group.is_empty() {
        "events".to_owned()
    } else {
        format!("events.{group}")
    };
    let named = if name.is_empty() {
        String::new()
    } else {
        format!(" {name:?}")
    };
    let mut details = json!({"kind": "events"});
    for (key, value) in [("group", group), ("name", name)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!(
            "{resource}{named} is forbidden: User {user:?} cannot {verb} resource \"events\" in API group {group:?} in the namespace \"shop\""
        ),
        "reason": "Forbidden", "details": details, "code": 403,
    })
}

fn unauthorized() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    })
}

/// Credentials, and the verbs that they permit.
type Known = Option<(&'static str, &'static [&'static str])>;

#[tokio::test]
async fn every_verb_in_both_groups_by_everybody() {
    let authority = Authority::new("clients");
    let server = Server::start(|options, folder| {
        options.security.client_ca_file = Some(write(folder, "clients.pem", &authority.pem));
    })
    .await;
    let foreign = Authority::new("clients");
    let good = Credentials::Certificate(authority.client("ann", &[], 2040));
    let expired = Credentials::Certificate(authority.client("ann", &["system:masters"], 2021));
    let unknown = Credentials::Certificate(foreign.client("ann", &["system:masters"], 2040));
    let master = Credentials::Certificate(authority.client("root", &["system:masters"], 2040));
    let all: &'static [&'static str] = &[
        "create",
        "get",
        "list",
        "watch",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let reading: &'static [&'static str] = &["get", "list", "watch"];
    let callers: [(&str, Credentials, Known); 11] = [
        ("no token", Credentials::Nothing, None),
        ("bad token", token("t-wrong"), None),
        ("expired certificate", expired, None),
        ("certificate of somebody else's", unknown, None),
        (
            "wrong namespace",
            token("t-stranger"),
            Some(("stranger", &[])),
        ),
        ("reader", token("t-reader"), Some(("reader", reading))),
        (
            "updater",
            token("t-updater"),
            Some(("updater", &["update"])),
        ),
        ("right", token("t-ann"), Some(("ann", all))),
        ("right, by certificate", good, Some(("ann", all))),
        ("admin", token("t-admin"), Some(("admin", all))),
        ("admin, by certificate", master, Some(("root", all))),
    ];
    let admin = server.as_admin().await;
    for (what, credentials, known) in &callers {
        let caller = server.client(credentials).await;
        for (prefix, version, group) in GROUPS {
            let events = format!("{prefix}/namespaces/shop/events");
            for (verb, method, rest) in VERBS {
                // The event is made again, so that requests do not depend on each other.
                admin.send(Method::DELETE, &events, &Value::Null).await;
                let made = admin
                    .send(Method::POST, &events, &event(version, "web.1"))
                    .await;
                assert_eq!(made.code, 201, "{}", made.body);
                let body = match verb {
                    "create" => event(version, "web.2"),
                    "update" => made.body,
                    "patch" => json!({"metadata": {"labels": {"seen": "yes"}}}),
                    _ => Value::Null,
                };
                let Answer { code, body } =
                    caller.send(method, &format!("{events}{rest}"), &body).await;
                let case = format!("{what}: {verb} {prefix}{rest}: {body}");
                match known {
                    None => assert_eq!((code, &body), (401, &unauthorized()), "{case}"),
                    Some((_, allowed)) if allowed.contains(&verb) => {
                        assert_eq!(code, if verb == "create" { 201 } else { 200 }, "{case}");
                    }
                    Some((user, _)) => {
                        let name = if rest.contains("web.1") { "web.1" } else { "" };
                        assert_eq!(
                            (code, &body),
                            (403, &forbidden(user, verb, group, name)),
                            "{case}"
                        );
                    }
                }
            }
        }
    }
    server.running.shutdown().await;
}

/// Permissions that go beyond the verb of the request, or have no namespace.
#[tokio::test]
async fn other_permissions() {
    let server = Server::start(|_, _| {}).await;
    let (updater, ann) = (
        server.client(&token("t-updater")).await,
        server.client(&token("t-ann")).await,
    );
    let events = "/api/v1/namespaces/shop/events";

    // The permission to update does not include create.
    let refused = updater
        .send(
            Method::PUT,
            &format!("{events}/new.1"),
            &event("v1", "new.1"),
        )
        .await;
    assert_eq!(
        (refused.code, refused.body),
        (403, forbidden("updater", "create", "", "new.1"))
    );
    let created = ann
        .send(
            Method::PUT,
            &format!("{events}/new.1"),
            &event("v1", "new.1"),
        )
        .await;
    assert_eq!(created.code, 201);

    // A role in a namespace applies only there.
    let refused = ann.get("/api/v1/events").await;
    assert_eq!(
        refused.body["message"],
        r#"events is forbidden: User "ann" cannot list resource "events" in API group "" at the cluster scope"#
    );
    // Paths that are not resources of this server.
    for (path, message) in [
        (
            "/metrics",
            r#"forbidden: User "ann" cannot get path "/metrics""#,
        ),
        (
            "/<b>&",
            r#"forbidden: User "ann" cannot get path "/&lt;b&gt;&amp;""#,
        ),
        (
            "/api/v1/nodes/n",
            r#"nodes "n" is forbidden: User "ann" cannot get resource "nodes" in API group "" at the cluster scope"#,
        ),
    ] {
        let path = path.replace('<', "%3C").replace('>', "%3E");
        let refused = ann.get(&path).await;
        let message = message.replace("&lt;", "%3C").replace("&gt;", "%3E");
        assert_eq!(
            (refused.code, refused.body["message"].as_str()),
            (403, Some(message.as_str()))
        );
    }
    for path in [
        "/api",
        "/apis",
        "/api/v1",
        "/apis/events.k8s.io/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/version",
        "/readyz",
    ] {
        assert_eq!(ann.get(path).await.code, 200, "{path}");
    }
    server.running.shutdown().await;
}

#[tokio::test]
async fn acting_as_somebody_else_takes_permission() {
    let server = Server::start(|_, _| {}).await;
    let events = "/api/v1/namespaces/shop/events";
    let (admin, ann) = (
        server.as_admin().await,
        server.client(&token("t-ann")).await,
    );
    for (caller, headers, code, message) in [
        (&admin, vec![("Impersonate-User", "reader")], 200, ""),
        (
            &admin,
            vec![("Impersonate-User", "system:serviceaccount:shop:robot")],
            200,
            "",
        ),
        (
            &admin,
            vec![
                ("Impersonate-User", "nobody"),
                ("Impersonate-Group", "system:masters"),
            ],
            200,
            "",
        ),
        (
            &admin,
            vec![("Impersonate-User", "stranger")],
            403,
            r#"events is forbidden: User "stranger" cannot list resource "events" in API group "" in the namespace "shop""#,
        ),
        (
            &ann,
            vec![("Impersonate-User", "reader")],
            403,
            r#"users "reader" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope"#,
        ),
        (&ann, vec![("Impersonate-Group", "system:masters")], 400, ""),
    ] {
        let answer = caller
            .try_send(Method::GET, events, &headers, &Value::Null)
            .await
            .unwrap();
        assert_eq!(answer.code, code, "{headers:?}: {}", answer.body);
        if !message.is_empty() {
            assert_eq!(answer.body["message"], message);
        }
    }
    server.running.shutdown().await;
}

/// Self reviews agree with the decisions.
#[tokio::test]
async fn reviews_are_honest() {
    let server = Server::start(|_, _| {}).await;
    let reader = server.client(&token("t-reader")).await;
    let access = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (spec, allowed, reason) in [
        (
            json!({"resourceAttributes": {"namespace": "shop", "verb": "list", "resource": "events"}}),
            true,
            r#"RBAC: allowed by RoleBinding "readers/shop" of ClusterRole "view" to User "reader""#,
        ),
        (
            json!({"resourceAttributes": {"namespace": "shop", "verb": "create", "resource": "events"}}),
            false,
            "",
        ),
        (
            json!({"resourceAttributes": {"verb": "list", "resource": "events"}}),
            false,
            "",
        ),
        (
            json!({"nonResourceAttributes": {"path": "/version", "verb": "get"}}),
            true,
            r#"RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#,
        ),
    ] {
        let answer = reader
            .send(Method::POST, access, &json!({"spec": spec}))
            .await;
        assert_eq!((answer.code, &answer.body["spec"]), (201, &spec));
        let status = &answer.body["status"];
        assert_eq!(status["allowed"], allowed, "{spec}");
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason);
    }
    for (spec, message) in [
        (
            json!({}),
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            json!({"resourceAttributes": {}, "nonResourceAttributes": {}}),
            "cannot be specified in combination with resourceAttributes",
        ),
    ] {
        let answer = reader
            .send(Method::POST, access, &json!({"spec": spec}))
            .await;
        assert_eq!(answer.code, 422);
        assert!(
            answer.body["message"].as_str().unwrap().contains(message),
            "{}",
            answer.body
        );
    }

    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = reader
        .send(Method::POST, rules, &json!({"spec": {"namespace": "shop"}}))
        .await;
    let read = json!({"verbs": ["get", "list", "watch"], "apiGroups": ["", "events.k8s.io"], "resources": ["events"]});
    assert_eq!(answer.code, 201);
    let found = answer.body["status"]["resourceRules"].as_array().unwrap();
    assert!(found.contains(&read), "{}", answer.body);
    assert_eq!(answer.body["status"]["incomplete"], false);
    let elsewhere = reader
        .send(
            Method::POST,
            rules,
            &json!({"spec": {"namespace": "other"}}),
        )
        .await;
    assert!(
        !elsewhere.body["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .contains(&read)
    );
    assert_eq!(
        reader
            .send(Method::POST, rules, &json!({"spec": {}}))
            .await
            .code,
        400
    );

    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = reader.send(Method::POST, whoami, &json!({})).await;
    assert_eq!(
        answer.body["status"]["userInfo"],
        json!({"username": "reader", "uid": "4", "groups": ["system:authenticated"]})
    );
    server.running.shutdown().await;
}

#[tokio::test]
async fn anonymous_requests_are_let_in_if_told_to_and_may_little() {
    let server = Server::start(|options, _| options.security.anonymous_auth = true).await;
    let nobody = server.client(&Credentials::Nothing).await;
    let answer = nobody.get("/api/v1/namespaces/shop/events").await;
    assert_eq!(answer.body, forbidden("system:anonymous", "list", "", ""));
    assert_eq!(nobody.get("/version").await.code, 200);
    let wrong = server.client(&token("t-wrong")).await;
    assert_eq!(wrong.get("/version").await.code, 401);
    server.running.shutdown().await;
}
