//! Hostile input for an archive.

use http::Method;

use super::kind::{Kind, kind};
use super::script::{Ask, JSON, MERGE, Script, one};

/// Makes a kind that is sent to an archive.
const fn archived(name: &'static str, largest: usize, make: fn(usize, &str) -> Script) -> Kind {
    Kind {
        archive: true,
        ..kind(name, largest, make)
    }
}

/// Paths below that of a followed cluster.
const OF_CLUSTER: [&str; 10] = [
    "/api/v1/events",
    "/apis/events.k8s.io/v1/namespaces/shop/events/web/versions",
    "/apis",
    "/counts",
    "/coverage",
    "/export",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/waiting",
];

fn of_cluster(method: &Method, query: &str) -> Vec<Ask> {
    let ask = |path| Ask::new(method.clone(), format!("/clusters/judge{path}?{query}"));
    OF_CLUSTER.map(ask).to_vec()
}

pub(super) const ARCHIVED: &[Kind] = &[
    archived(
        "archive: unknown parameters of a cluster's paths",
        15_000,
        |n, _| of_cluster(&Method::GET, &"a=b&".repeat(n)).into(),
    ),
    archived(
        "archive: long parameters of a cluster's paths",
        60_000,
        |n, _| {
            let parameters = ["continue", "from", "since", "to", "until"].map(|name| {
                let query = format!("{name}={}", "1".repeat(n));
                of_cluster(&Method::GET, &query)
            });
            parameters.concat().into()
        },
    ),
    archived("archive: long paths below a cluster", 60_000, |n, _| {
        let ask = |path| Ask::get(format!("/clusters/judge{path}/{}", "a".repeat(n)));
        OF_CLUSTER.map(ask).to_vec().into()
    }),
    archived("archive: bodies to a cluster's paths", 3_000_000, |n, _| {
        let asks = of_cluster(&Method::POST, "").into_iter();
        let asks = asks.map(|ask| ask.body(JSON, "a".repeat(n)));
        asks.collect::<Vec<_>>().into()
    }),
    Kind {
        // The namespaces of other rounds would be counted too.
        alone: true,
        ..archived("archive: events in as many namespaces", 800, |n, ns| {
            let events = (0..n).map(|i| Ask::event(&format!("{ns}-{i}"), "", ""));
            let mut asks = of_cluster(&Method::GET, "");
            asks.extend(
                ["view", "events"]
                    .map(|answer| Ask::get(format!("/timeline/api/{answer}?cluster=judge"))),
            );
            Script::from(asks).after(events)
        })
    },
    Kind {
        // Versions of other rounds that wait would be counted too.
        alone: true,
        ..archived("archive: events that wait to be sealed", 800, |n, ns| {
            let events = (0..n).map(|i| Ask::event(&format!("{ns}-{i}"), "", ""));
            Script::from(Ask::get("/clusters/judge/waiting?from=0")).after(events)
        })
    },
    Kind {
        alone: true,
        parts: &[16, 4, 1],
        ..archived(
            "archive: large events that wait to be sealed",
            80,
            |n, ns| {
                let message = format!(",\"message\":\"{}\"", "m".repeat(600_000));
                let events = (0..n).map(move |i| Ask::event(&format!("{ns}-{i}"), "", &message));
                Script::from(Ask::get("/clusters/judge/waiting?from=0")).after(events)
            },
        )
    },
    archived("archive: a cluster with a long name", 60_000, |n, _| {
        Ask::get(format!("/clusters/{}/api", "a".repeat(n))).into()
    }),
    archived("archive: segments of a cluster's path", 30_000, |n, _| {
        Ask::get(format!("/clusters/{}", "/..".repeat(n / 2))).into()
    }),
    archived(
        "archive: the place of a page of versions",
        60_000,
        |n, ns| {
            let target = format!("{}/versions?continue={}", one(ns), "QUFB".repeat(n / 4));
            Script::from(Ask::get(target)).after_event(ns)
        },
    ),
    archived("archive: versions of an event", 800, |n, ns| {
        let versions = Ask::get(format!("{}/versions", one(ns)));
        Script::from(versions).after_event(ns).after(changed(ns, n))
    }),
    Kind {
        parts: &[16, 4, 1],
        ..archived("archive: versions of a large event", 80, |n, ns| {
            let message = format!(",\"message\":\"{}\"", "m".repeat(600_000));
            let versions = Ask::get(format!("{}/versions", one(ns)));
            let large = [Ask::event(ns, "", &message)];
            Script::from(versions).after(large).after(changed(ns, n))
        })
    },
    archived(
        "archive: deletion of an event of many versions",
        800,
        |n, ns| {
            let delete = Ask::new(Method::DELETE, one(ns));
            Script::from(delete).after_event(ns).after(changed(ns, n))
        },
    ),
];

/// Requests that change an existing event a number of times.
fn changed(namespace: &str, times: usize) -> impl Iterator<Item = Ask> {
    let namespace = namespace.to_owned();
    (1..=times).map(move |count| Ask::patch(&namespace, MERGE, format!("{{\"count\":{count}}}")))
}
