//! The clusters of an archive, as its readers find them: by its list, by a kubeconfig, and by the
//! API server of its home cluster.

use serde_json::json;

use super::connection::{Asked, Stub, json_answer, kubeconfig, status};
use super::support::{ago, event, run};

/// A kubeconfig with a context for each of these clusters of an archive at this address.
fn of_archive(address: &str, names: &[&str]) -> String {
    let clusters = names.iter().map(|name| {
        let server = format!("{address}/clusters/{name}");
        json!({"name": name, "cluster": {"server": server}})
    });
    let contexts = names
        .iter()
        .map(|name| json!({"name": name, "context": {"cluster": name, "user": "ann"}}));
    let kubeconfig = json!({
        "current-context": names[0],
        "clusters": clusters.collect::<Vec<_>>(),
        "contexts": contexts.collect::<Vec<_>>(),
        "users": [{"name": "ann", "user": {"token": "t"}}],
    });
    kubeconfig.to_string()
}

/// An archive lists its clusters to its own users. Users of a cluster name them by a kubeconfig,
/// and those of the cluster whose API server serves the archive ask that API server.
#[test]
fn all_clusters_are_found_by_whoever_may_read_one() {
    const GROUP: &str = "/apis/archive.tidings.internal/v1";
    for (what, listed, code, shown, said) in [
        (
            "a kubeconfig of an archive",
            "",
            0,
            &["prod"] as &[&str],
            &[
                "the clusters of the kubeconfig are read",
                "cluster edge is not shown",
            ] as &[&str],
        ),
        (
            "an API server that lists the clusters",
            r#"{"items": [{"metadata": {"name": "prod"}, "isHome": true}, {"metadata": {"name": "test"}}, {"metadata": {"name": "edge"}}]}"#,
            0,
            &["prod", "test"],
            &["cluster edge is not shown"],
        ),
        (
            "an API server that does not list them",
            "",
            0,
            &["prod"],
            &["other clusters than this one are not shown: failed to list the clusters"],
        ),
        (
            "an address alone",
            "",
            3,
            &[],
            &[
                "list the clusters of the archive",
                "name it with --cluster NAME",
            ],
        ),
    ] {
        let of_api_server = what.contains("API server");
        let stub = Stub::start(move |asked: &Asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            let events = |cluster: &str| {
                let list = json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [
                    event(&format!("in-{cluster}"), ("Pod", "web"), "Pulled", 5)
                ]});
                json_answer("200 OK", &list)
            };
            if of_api_server {
                return match path.strip_prefix(GROUP) {
                    Some("") => json_answer("200 OK", &json!({"kind": "APIResourceList"})),
                    Some("/clusters") if !listed.is_empty() => {
                        json_answer("200 OK", &serde_json::from_str(listed).unwrap())
                    }
                    Some("/namespaces/default/coverage") => {
                        let coverage = json!({"cluster": "prod", "events": 1, "following": []});
                        json_answer("200 OK", &coverage)
                    }
                    Some("/pastevents") => events("prod"),
                    Some("/clusters/test/proxy/api/v1/events") => events("test"),
                    _ => status("403 Forbidden", 403),
                };
            }
            match path {
                "/clusters/prod/version" => {
                    let version = "v1.34.0+tidings-0.1.0";
                    json_answer(
                        "200 OK",
                        &json!({"gitVersion": version, "major": "1", "minor": "34"}),
                    )
                }
                "/clusters/prod/api/v1/events" => events("prod"),
                _ => status("401 Unauthorized", 401),
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        let address = format!("http://{}", stub.address);
        let text = match what {
            "a kubeconfig of an archive" => of_archive(&address, &["prod", "edge"]),
            _ => kubeconfig(&address, &json!({}), &json!({"token": "t"})),
        };
        std::fs::write(&config, text).unwrap();
        let ran = run(&[
            "events",
            "-A",
            "-o",
            "name",
            "--cluster",
            "all",
            "--kubeconfig",
            config.to_str().unwrap(),
        ]);
        assert_eq!(ran.code, Some(code), "{what}: {ran:?}");
        let mut names: Vec<&str> = ran.stdout.lines().collect();
        names.sort_unstable();
        let expected: Vec<String> = shown.iter().map(|it| format!("event/in-{it}")).collect();
        assert_eq!(names, expected, "{what}: {ran:?}");
        for said in said {
            assert!(ran.stderr.contains(said), "{what}: {said}: {ran:?}");
        }
    }
}

/// What is wrong is said, and what to give instead.
#[test]
fn what_an_archive_does_not_answer_is_explained() {
    const NOWHERE: &str = "the API of each cluster of this archive is below /clusters/NAME";
    const UNKNOWN: &str = "Unauthorized: the archive has no cluster of this name, or";
    let said = |code: &'static str, number: u16, message: &str| {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": number, "message": message,
            "details": {"kind": if [UNKNOWN, NOWHERE].contains(&message) { "clusters" } else { "" }},
        });
        json_answer(code, &status)
    };
    for (arguments, path, code, expected) in [
        // An unrelated cluster of the kubeconfig has the name of one of the archive's.
        (
            &["--cluster", "c"] as &[&str],
            "",
            1,
            &[NOWHERE, "--server ADDRESS/clusters/NAME"] as &[&str],
        ),
        (
            &[],
            "/clusters/edgee",
            3,
            &[UNKNOWN, "is the name of the cluster right?"],
        ),
        (
            &["--archive"],
            "/down",
            1,
            &["read the archive: the archive of this cluster does not answer: no endpoints"],
        ),
        (
            &["--archive"],
            "/none",
            1,
            &["read the archive: the API server serves none"],
        ),
        (
            &["--archive"],
            "/unknown",
            3,
            &[
                "authenticate to the server",
                "the credentials are wrong or have expired",
            ],
        ),
    ] {
        let stub = Stub::start(move |asked: &Asked| {
            let place = asked.path.split('/').nth(1).unwrap_or_default();
            match place {
                "down" => said("503 Service Unavailable", 503, "no endpoints"),
                "none" => said("404 Not Found", 404, "not found"),
                "unknown" => said("401 Unauthorized", 401, "Unauthorized"),
                "clusters" => said("401 Unauthorized", 401, UNKNOWN),
                _ => said("404 Not Found", 404, NOWHERE),
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        let text = kubeconfig("http://other.invalid", &json!({}), &json!({}));
        std::fs::write(&config, text).unwrap();
        let config = config.to_str().unwrap();
        let server = stub.server(path);
        let all = ["events", "-A", &server, "--kubeconfig", config];
        let ran = run(&[&all[..], arguments].concat());
        assert_eq!(ran.code, Some(code), "{path} {arguments:?}: {ran:?}");
        for expected in expected {
            assert!(ran.stderr.contains(expected), "{expected}: {ran:?}");
        }
    }
}

/// Everything that an archive serves is below the API server of its home cluster.
#[test]
fn versions_are_exported_through_the_api_server() {
    const GROUP: &str = "/apis/archive.tidings.internal/v1";
    for (has_archive, code) in [(true, 0), (false, 1)] {
        let stub = Stub::start(move |asked: &Asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            match path.strip_prefix(GROUP).filter(|_| has_archive) {
                Some("") => json_answer("200 OK", &json!({"kind": "APIResourceList"})),
                Some("/namespaces/shop/coverage") => {
                    let coverage = json!({"cluster": "prod", "events": 1, "following": []});
                    json_answer("200 OK", &coverage)
                }
                Some("/clusters/prod/proxy/export") => {
                    let lines = "{\"kind\":\"Complete\"}\n".to_owned();
                    (
                        "200 OK",
                        "Content-Type: application/jsonl\r\n".to_owned(),
                        lines,
                    )
                }
                _ => status("404 Not Found", 404),
            }
        });
        let ran = run(&["export", "--versions", "-n", "shop", &stub.server(""), "-"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(ran.stdout.contains("Complete"), has_archive, "{ran:?}");
    }
}

/// A reader of a cluster with an archive is told what the archive cannot answer: a time before it
/// began, a gap, a refusal, and a time that it has not reached yet.
#[test]
fn what_the_archive_of_a_cluster_does_not_have_is_told() {
    const GROUP: &str = "/apis/archive.tidings.internal/v1";
    for (arguments, is_allowed, minutes_behind, expected) in [
        (
            &["events", "--since", "2h"] as &[&str],
            true,
            0,
            &["the archive begins at 2", "a gap of 1m in this time"] as &[&str],
        ),
        (
            &["export", "--since", "2h", "-"],
            false,
            0,
            &["only what the cluster has is shown"],
        ),
        (
            &["top", "--since", "2h"],
            false,
            0,
            &["only what the cluster has is shown"],
        ),
        (
            &["top", "--since", "2h"],
            true,
            10,
            &["the archive is complete only until 2"],
        ),
    ] {
        let stub = Stub::start(move |asked: &Asked| {
            let path = asked.path.split('?').next().unwrap_or_default();
            let list =
                json!({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []});
            match path.strip_prefix(GROUP) {
                Some("") => json_answer("200 OK", &json!({"kind": "APIResourceList"})),
                Some(_) if !is_allowed => status("403 Forbidden", 403),
                Some(path) if path.ends_with("/coverage") => {
                    let of_an_hour = json!({
                        "cluster": "prod",
                        "events": 1,
                        "followed": [{
                            "namespace": "",
                            "since": ago(3_600),
                            "completeUntil": ago(60 * minutes_behind),
                        }],
                        "gaps": [{"from": ago(1_800), "to": ago(1_740), "cause": "absent"}],
                        "retention": {
                            "eventTTLSeconds": 86_400,
                            "applied": true,
                            "shortestSeconds": 86_400,
                            "longestSeconds": 86_400,
                        },
                    });
                    json_answer("200 OK", &of_an_hour)
                }
                None | Some(_) => json_answer("200 OK", &list),
            }
        });
        let ran = run(&[arguments, &["-n", "shop", &stub.server("")]].concat());
        for expected in expected {
            assert!(ran.stderr.contains(expected), "{arguments:?}: {ran:?}");
        }
    }
}
