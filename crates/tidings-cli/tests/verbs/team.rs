//! `tidings archive` for a team: rules that change while it runs, clusters under other names, and
//! incidents that are handed on.

use super::archive::{Archive, replace, text};
use super::support::{Cluster, event};

fn events() -> Vec<serde_json::Value> {
    let of = |name: &str, reason| event(name, ("Pod", "web"), reason, 100);
    vec![
        of("web.1", "BackOff"),
        of("web.2", "BackOff"),
        of("web.3", "Pulled"),
    ]
}

/// Edit, check, apply: nothing is restarted.
#[tokio::test(flavor = "multi_thread")]
async fn rules_of_retention_are_examined_and_then_read_again() {
    let cluster = Cluster::with(&events()).await;
    let folder = tempfile::tempdir().unwrap();
    let [rules, new] = ["rules.yaml", "new.yaml"].map(|name| folder.path().join(name));
    std::fs::write(&rules, "rules: []\n").unwrap();
    let archive = Archive::start_with(&[("prod", &cluster)], &["--retention-file", text(&rules)]);
    let all = ["events", "-A", "--cluster", "prod", "--no-headers"];
    archive.until_lines(&all, 3);
    std::fs::write(
        &new,
        "rules:\n- {reason: BackOff, ttl: 1s}\n- {cluster: prdo, ttl: 1d}\n",
    )
    .unwrap();
    let check = [
        "coverage",
        "--cluster",
        "prod",
        "--check-retention",
        text(&new),
    ];
    let said = archive.until(&check, |ran| ran.stdout.contains("2 of 3 events would end"));
    let rows: Vec<Vec<&str>> = said
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(rows[1], ["prod", "{reason: BackOff, ttl: 1s}", "2", "2"]);
    assert_eq!(rows[2], ["prod", "{cluster: prdo, ttl: 1d}", "0", "0"]);
    assert_eq!(rows[3], ["prod", "event TTL", "1", "0"]);
    // Nothing has ended.
    archive.until_lines(&all, 3);
    std::fs::copy(&new, &rules).unwrap();
    archive.until_lines(&all, 1);
    let coverage = ["coverage", "--cluster", "prod"];
    archive.until(&coverage, |ran| {
        ran.stdout.contains("2 by {reason: BackOff, ttl: 1s}.")
    });
    archive.end();
}

/// Otherwise a second archive of the cluster would begin in silence, and the first would be served
/// no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_under_another_name_is_recognised() {
    let cluster = Cluster::with(&events()).await;
    let other = Cluster::with(&[event("api.1", ("Pod", "api"), "BackOff", 200)]).await;
    let archive = Archive::start(&[("other", &other), ("t", &cluster)]);
    let all = ["events", "-A", "--cluster", "all", "--no-headers"];
    archive.until_lines(&all, 4);
    let file = archive.folder.path().join("clusters.yaml");
    let former = std::fs::read_to_string(&file).unwrap();
    let renamed = former.replace("name: t", "name: prod");
    replace(&file, &renamed);
    archive.until(&["coverage"], |ran| {
        ran.stdout.contains("prod: ") && ran.stdout.contains("by the name \"t\"")
    });
    // Both were chosen: the former one is read beside the new one.
    replace(&file, &format!("{renamed}- {{name: t, follow: false}}\n"));
    archive.until_lines(&all, 7);
    archive.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_is_exported_with_its_versions() {
    let cluster = Cluster::with(&events()).await;
    let archive = Archive::start(&[("prod", &cluster)]);
    archive.until_lines(&["events", "-A", "--cluster", "prod", "--no-headers"], 3);
    let export = ["export", "--versions", "-q", "--cluster", "prod", "-n"];
    let count = |further: &[&str]| {
        let ran = archive.run(&[&export[..], further].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.ends_with("{\"kind\":\"Complete\"}\n"), "{ran:?}");
        ran.stdout.matches("\"kind\":\"Version\"").count()
    };
    assert_eq!(count(&["shop"]), 3);
    assert_eq!(count(&["shop", "--since", "1h"]), 3);
    assert_eq!(count(&["shop", "--until", "1h"]), 0);
    assert_eq!(count(&["bank"]), 0);
    let wrong = archive.run(&["export", "--versions", "--types", "Warning"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    archive.end();
}
