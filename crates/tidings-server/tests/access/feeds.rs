//! The feeds of an archive: who may see them, who may act on them, and that each act is audited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidings_server::{AuditOptions, ServedFeeds};
use tidings_store::BoxFuture;

use crate::clusters::{Archive, cluster};
use crate::support::{Credentials, PERMISSIONS, token, write};

/// Roles as the documentation has them.
const ROLES: &str = "
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: see-feeds}
rules: [{nonResourceURLs: [/feeds, /feeds/*], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: see-feeds}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: see-feeds}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
";

/// Feeds that count their requests.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl ServedFeeds for Counted {
    fn answer<'a>(&'a self, _: &'a Method, _: &'a str) -> BoxFuture<'a, (StatusCode, Vec<u8>)> {
        self.0.fetch_add(1, Ordering::Relaxed);
        async { (StatusCode::OK, b"{}".to_vec()) }.boxed()
    }

    fn metrics(&self) -> BoxFuture<'_, String> {
        async { String::new() }.boxed()
    }

    fn event_metrics(&self) -> BoxFuture<'_, Option<String>> {
        async { None }.boxed()
    }
}

#[tokio::test]
async fn seeing_and_acting_need_permissions_and_acts_are_audited() {
    let feeds = Arc::new(Counted::default());
    let mut log = None;
    let archive = Archive::start_with(vec![cluster("prod", &["a.1"]).await], |options| {
        options.feeds = Some(feeds.clone());
        let path = options.data_dir.with_file_name("audit.log");
        options.audit = Some(AuditOptions::new(&path));
        log = Some(path);
        let folder = options.data_dir.parent().unwrap();
        write(folder, "rbac.yaml", &format!("{PERMISSIONS}{ROLES}"));
    })
    .await
    .unwrap();
    let mut served = 0;
    for (who, get, post) in [
        (Credentials::Nothing, 401, 401),
        (token("t-ann"), 403, 403),
        (token("t-reader"), 200, 403),
        (token("t-admin"), 200, 200),
    ] {
        let caller = archive.to_root(&who).await;
        for (method, uri, expected) in [
            (Method::GET, "/feeds", get),
            (Method::GET, "/feeds/hook/dead-letters", get),
            (Method::POST, "/feeds/hook/skip", post),
            (Method::POST, "/feeds/hook/drop", post),
            (Method::POST, "/feeds/check", post),
        ] {
            let answer = caller.send(method.clone(), uri, &Value::Null).await;
            assert_eq!(answer.code, expected, "{method} {uri}: {}", answer.body);
            served += usize::from(expected == 200);
        }
    }
    assert_eq!(feeds.0.load(Ordering::Relaxed), served);
    archive.running.shutdown().await;
    let lines = std::fs::read_to_string(log.unwrap()).unwrap();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found: Vec<_> = lines
        .map(|line| {
            assert_eq!(line["verb"], "post");
            assert_eq!(line["objectRef"], Value::Null);
            let of = [
                &line["user"]["username"],
                &line["requestURI"],
                &line["responseStatus"]["code"],
            ];
            of.map(Value::to_string).join(" ")
        })
        .collect();
    let acts = ["/feeds/hook/skip", "/feeds/hook/drop", "/feeds/check"];
    let expected = [("ann", 403), ("reader", 403), ("admin", 200)].into_iter();
    let expected: Vec<_> = expected
        .flat_map(|(user, code)| acts.map(|uri| format!("{} {} {code}", json!(user), json!(uri))))
        .collect();
    assert_eq!(found, expected);
}
