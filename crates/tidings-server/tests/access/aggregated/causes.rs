//! What changed before an event, for users of the home cluster.

use std::time::Duration;

use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{ANN, ROOT, World, ask, cluster, create, event, past};

/// A path without a namespace finds the causes of an event in all namespaces. A path with a
/// namespace finds only those in this namespace.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "events of the present")]
async fn causes_in_another_namespace_are_shown_to_whoever_reads_all() {
    let home = cluster("home", &[]).await;
    let now = jiff::Timestamp::now();
    for (namespace, name, object, reason, ago) in [
        ("kube-system", "dns.1", "coredns-0", "Unhealthy", 120),
        ("shop", "web.1", "web", "BackOff", 60),
    ] {
        let mut event = event(name);
        event.involved_object.namespace = Some(namespace.to_owned());
        event.involved_object.name = Some(object.to_owned());
        event.type_ = Some("Warning".to_owned());
        event.reason = Some(reason.to_owned());
        let seen = now - Duration::from_secs(ago);
        event.first_timestamp = Some(Time(seen));
        event.last_timestamp = Some(Time(seen));
        create(&home, event).await;
    }
    let world = World::start_of(home, |_, _| {}).await;
    let proxy = world.proxy().await;
    let query = "timeline/event?namespace=shop&name=web.1";
    for (user, uri, expected) in [
        (ROOT, past(&format!("/{query}")), ["dns.1"].as_slice()),
        (ROOT, past(&format!("/namespaces/shop/{query}")), &[]),
        (ANN, past(&format!("/namespaces/shop/{query}")), &[]),
    ] {
        let answer = ask(&proxy, Method::GET, &uri, user.0, user.1).await;
        assert_eq!(answer.code, 200, "{uri}: {}", answer.body);
        let rows = answer.body["before"].as_array().unwrap().iter();
        let found: Vec<_> = rows
            .map(|row| row["item"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(found, expected, "{} {uri}", user.0);
    }
    world.archive.running.shutdown().await;
}
