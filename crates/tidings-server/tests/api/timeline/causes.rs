//! What changed before an event, over HTTP.

use super::*;

#[tokio::test]
async fn an_event_is_shown_with_what_changed_before_it() {
    let server = Server::new();
    create(
        &server,
        &about("web-0", "pulled", "Pulled", "Normal", -11 * MINUTE),
    )
    .await;
    let mut scheduled = about("web-0", "scheduled", "Scheduled", "Normal", -12 * MINUTE);
    scheduled["message"] = "Successfully assigned shop/web-0 to node-1".into();
    create(&server, &scheduled).await;
    create(
        &server,
        &about("web-0", "backoff", "BackOff", "Warning", -10 * MINUTE),
    )
    .await;
    let found = get(&server, "event?namespace=shop&name=backoff").await;
    // One row for the object.
    let before = found["before"].as_array().unwrap();
    assert_eq!(before.len(), 1);
    assert_eq!(before[0]["why"], "same pod, an image, 1 min before");
    assert_eq!(before[0]["birth"], true);
    let reasons: Vec<_> = before[0]["reasons"].as_array().unwrap().iter().collect();
    assert_eq!(reasons[0]["reason"], "Pulled");
    assert_eq!(reasons[1]["reason"], "Scheduled");
    assert_eq!(reasons[1]["first"], START - 12 * MINUTE);
    assert_eq!(found["raw"]["metadata"]["name"], "backoff");
    assert_eq!(found["versions"].as_array().unwrap().len(), 1);
    assert_eq!(
        found["sentence"],
        "BackOff of pod web-0: 10 min ago, began 1 min after an image of web-0 was pulled"
    );
    let found = get(&server, "object?kind=Pod&namespace=shop&name=web-0").await;
    assert_eq!(found["items"].as_array().unwrap().len(), 3);
    for (path, code) in [
        ("event?namespace=shop&name=nothing", 404),
        ("event?namespace=shop", 400),
        ("object?kind=Pod", 400),
        ("view?from=x", 400),
        ("view?by=color", 400),
        ("view?reason=BackOff", 400),
        ("view?filter=raeson:BackOff", 400),
        ("top?by=reasons", 400),
        ("top?against=yesterday", 400),
        ("events?continue=x", 400),
        ("export?format=svg", 400),
        ("nothing", 404),
    ] {
        let headers = [("authorization", "Bearer s3cret")];
        let request = request(Method::GET, &format!("{API}/{path}"), &headers, "");
        assert_eq!(send(&server, request).await.code, code, "{path}");
    }
}

/// Other namespaces are searched for what the message names and for the system's warnings; other
/// objects with the same reason have one row, and combined events begin with the first of them.
#[tokio::test]
async fn causes_are_found_in_other_namespaces_and_fellow_victims_are_counted() {
    let server = Server::new();
    let warning = |namespace: &str, object: &str, name: &str, reason: &str, after: i64| {
        let mut event = about(object, name, reason, "Warning", after);
        event["metadata"]["namespace"] = namespace.into();
        event["involvedObject"]["namespace"] = namespace.into();
        event["source"] = json!({ "component": "kubelet", "host": format!("node-of-{namespace}") });
        event
    };
    let dns = "coredns-75fc8f8fff-qbkdn";
    create(
        &server,
        &warning("kube-system", dns, "dns", "BackOff", -22 * MINUTE),
    )
    .await;
    let hook = "gate-6d4cf56db6-m9qpl";
    create(
        &server,
        &warning("policy", hook, "hook", "BackOff", -21 * MINUTE),
    )
    .await;
    create(
        &server,
        &warning("other", "db-0", "other", "Unhealthy", -21 * MINUTE),
    )
    .await;
    // Kubelets write about nodes in this namespace.
    let mut node = about(
        "node-of-shop",
        "node",
        "NodeNotReady",
        "Normal",
        -23 * MINUTE,
    );
    node["metadata"]["namespace"] = "default".into();
    node["involvedObject"]["kind"] = "Node".into();
    node["involvedObject"]["namespace"] = Value::Null;
    create(&server, &node).await;
    for at in 0..7 {
        let pod = format!("web-{at}");
        for (name, after) in [("a", -20), ("b", -15)] {
            let name = format!("{name}{at}");
            create(
                &server,
                &warning("shop", &pod, &name, "Unhealthy", after * MINUTE),
            )
            .await;
        }
    }
    let mut combined = warning("shop", "web-0", "combined", "Unhealthy", -10 * MINUTE);
    combined["message"] = "(combined from similar events): Readiness probe failed: lookup db on \
        10.96.0.10:53: i/o timeout; https://gate-svc.policy.svc:443 answers 500"
        .into();
    create(&server, &combined).await;
    let found = get(&server, "event?namespace=shop&name=combined").await;
    assert_eq!(found["began"], START - 20 * MINUTE);
    let rows = found["before"].as_array().unwrap().iter();
    let rows: Vec<_> = rows
        .map(|row| {
            (
                row["item"]["object"]["name"].as_str().unwrap(),
                row["why"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (
                hook,
                "namespace in the message, named in the message, 1 min before"
            ),
            ("node-of-shop", "its node, a node's state, 3 min before"),
            (dns, "another namespace, named in the message, 2 min before"),
        ]
    );
    assert_eq!(found["same"]["objects"], 7);
    assert_eq!(found["same"]["more"], false);
    assert_eq!(found["same"]["items"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_roll_out_is_found_behind_any_number_of_other_events() {
    let server = Server::new();
    let mut scaled = about("web", "scale", "ScalingReplicaSet", "Normal", -12 * MINUTE);
    scaled["involvedObject"]["kind"] = "Deployment".into();
    scaled["message"] = "Scaled up replica set web-5d4f8c7b9 from 0 to 3".into();
    create(&server, &scaled).await;
    for at in 0..1500 {
        let after = -10 * MINUTE + at * 400;
        let other = about("db-0", &format!("other{at}"), "Pulled", "Normal", after);
        create(&server, &other).await;
    }
    let pod = "web-5d4f8c7b9-x7k2p";
    create(&server, &about(pod, "backoff", "BackOff", "Warning", 0)).await;
    let found = get(&server, "event?namespace=shop&name=backoff").await;
    assert_eq!(
        found["before"][0]["why"],
        "its owner, a change of scale, 12 min before"
    );
    let sentence = found["sentence"].as_str().unwrap();
    let cause = "began 12 min after scaled up replica set web-5d4f8c7b9";
    assert!(sentence.contains(cause), "{sentence}");
}
