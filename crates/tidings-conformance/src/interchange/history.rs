//! What two servers on one etcd show of many events: lists, watches, leases and compaction.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::server::{Server, Watching};
use super::world::{GROUPS, World, event, events, same, version};
use crate::error::{Result, fail};

/// Maximum time to wait for an expected change.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

const MERGE: &str = "merge-patch+json";

/// Lists at one revision are the same from both servers, and a page of one server continues at the
/// other.
pub(super) async fn listed(world: &World<'_>) -> Result<()> {
    let all = events(GROUPS[0], "lists");
    let mut last = String::new();
    for number in 0..8 {
        last = create(world.servers()[number % 2], "lists", &format!("e{number}")).await?;
    }
    for group in GROUPS {
        for query in [
            format!("resourceVersion={last}&resourceVersionMatch=Exact"),
            format!("resourceVersion={last}&limit=3"),
            format!(
                "resourceVersion={last}&resourceVersionMatch=Exact&labelSelector=by%3Dcore&limit=5"
            ),
        ] {
            let path = format!("{}?{query}", events(group, "lists"));
            world.both(&path).await?;
        }
    }
    for (one, other) in world.pairs() {
        let before = names(&one.get(&all).await?);
        let first = one.get(&format!("{all}?limit=3")).await?;
        // By its name the event belongs into a later page. But it was created after the list that
        // the pages are parts of.
        create(one, "lists", &format!("e3-{}", one.name)).await?;
        let second = page(other, &all, &first).await?;
        let third = page(one, &all, &second).await?;
        let found: Vec<_> = [&first, &second, &third]
            .into_iter()
            .flat_map(names)
            .collect();
        if found != before {
            return fail(format!(
                "pages by {} and {}: {found:?} instead of {before:?}",
                one.name, other.name
            ));
        }
        if version(&first) != version(&third) {
            return fail("pages are of different versions");
        }
    }
    // Events that one server deleted as a collection are gone at both.
    let path = format!("{all}?labelSelector=by%3Dcore");
    let deleted = world.tidings.delete(&path, &Value::Null, 200).await?;
    if names(&deleted).len() != 10 {
        return fail(format!("deleted: {:?}", names(&deleted)));
    }
    nothing_is_left(world, &all).await
}

async fn nothing_is_left(world: &World<'_>, all: &str) -> Result<()> {
    for server in world.servers() {
        let rest = names(&server.get(all).await?);
        if !rest.is_empty() {
            return fail(format!("{} still lists {rest:?}", server.name));
        }
    }
    Ok(())
}

async fn page(server: &Server, all: &str, before: &Value) -> Result<Value> {
    let Some(token) = before["metadata"]["continue"].as_str() else {
        return fail("a page that is not the last names no next one");
    };
    server.get(&format!("{all}?limit=4&continue={token}")).await
}

/// A watch at either server shows the other's writes, in the order of versions and with the same
/// content.
pub(super) async fn watched(world: &World<'_>) -> Result<()> {
    let all = events(GROUPS[0], "watched");
    let list = world.kube.get(&all).await?;
    let start = version(&list);
    let mut watches = Vec::new();
    for group in GROUPS {
        let path = events(group, "watched");
        let path = format!("{path}?watch=true&resourceVersion={start}");
        watches.push(world.watches(&path).await?);
    }
    let mut written = Vec::new();
    for round in 0..10 {
        for (number, (one, other)) in world.pairs().into_iter().enumerate() {
            let name = format!("e{round}.{number}");
            let path = format!("{all}/{name}");
            written.push(("ADDED", name.clone(), create(one, "watched", &name).await?));
            let patch = json!({"count": 8});
            let kind = "strategic-merge-patch+json";
            let patched = other.patch(kind, &path, &patch, 200).await?;
            written.push(("MODIFIED", name.clone(), version(&patched)));
            let deleter = if round % 2 == 0 { one } else { other };
            deleter.delete(&path, &Value::Null, 200).await?;
            written.push(("DELETED", name, String::new()));
        }
    }
    for [theirs, ours] in &mut watches {
        let mut latest = 0;
        for (kind, name, wrote) in &written {
            let (theirs, ours) = (theirs.next().await?, ours.next().await?);
            let what = format!("{kind} {name}");
            same(&what, ("kube-apiserver", &theirs), ("tidings", &ours))?;
            let seen = version(&ours["object"]);
            let number = seen.parse::<u64>().unwrap_or(0);
            if said(&ours) != (Some(kind), Some(name))
                || number <= latest
                || !wrote.is_empty() && *wrote != seen
            {
                return fail(format!("instead of {kind} {name} {wrote}: {ours}"));
            }
            latest = number;
        }
    }
    Ok(())
}

/// Every write restarts an event's TTL, and both servers see its end.
pub(super) async fn leased(world: &World<'_>) -> Result<()> {
    let all = events(GROUPS[0], "leased");
    for (one, other) in world.pairs() {
        let name = format!("by-{}", one.name);
        create(one, "leased", &name).await?;
        an_hour_is_left(world, &name).await?;
        let patch = json!({"count": 8});
        let path = format!("{all}/{name}");
        other.patch(MERGE, &path, &patch, 200).await?;
        an_hour_is_left(world, &name).await?;
    }

    let list = world.kube.get(&all).await?;
    let path = format!("{all}?watch=true&resourceVersion={}", version(&list));
    let mut watches = world.watches(&path).await?;
    // The lease is now as a kube-apiserver with another `--event-ttl` would write it.
    let kept = kept(world, "by-kube-apiserver").await?;
    let granted = world.etcd.call("lease/grant", &json!({"TTL": "2"})).await?;
    let put = json!({"key": kept["key"], "value": kept["value"], "lease": granted["ID"]});
    world.etcd.call("kv/put", &put).await?;
    let brief = world.another_tidings(&["--event-ttl", "2s"]).await?;
    let path = format!("{all}/by-tidings");
    let patch = json!({"count": 9});
    brief.patch(MERGE, &path, &patch, 200).await?;
    for watch in &mut watches {
        let mut ended = Vec::new();
        while ended.len() < 2 {
            let Ok(event) = tokio::time::timeout(PATIENCE, watch.next()).await else {
                return fail(format!("only {ended:?} came to an end"));
            };
            let event = event?;
            if let (Some("DELETED"), Some(name)) = said(&event) {
                ended.push(name.to_owned());
            }
        }
        ended.sort();
        if ended != ["by-kube-apiserver", "by-tidings"] {
            return fail(format!("{ended:?} came to an end"));
        }
    }
    nothing_is_left(world, &all).await
}

/// The key of an event in etcd, with its value and lease.
async fn kept(world: &World<'_>, name: &str) -> Result<Value> {
    let key = BASE64_STANDARD.encode(format!("/registry/events/leased/{name}"));
    let mut found = world.etcd.call("kv/range", &json!({"key": key})).await?;
    match found.pointer_mut("/kvs/0") {
        Some(kept) => Ok(kept.take()),
        None => fail(format!("etcd has no leased/{name}")),
    }
}

async fn an_hour_is_left(world: &World<'_>, name: &str) -> Result<()> {
    let lease = json!({"ID": kept(world, name).await?["lease"]});
    let life = world.etcd.call("lease/timetolive", &lease).await?;
    let [granted, left] = ["grantedTTL", "TTL"].map(|name| {
        let seconds = life[name].as_str().and_then(|text| text.parse().ok());
        seconds.unwrap_or(0_u64)
    });
    // Both servers ask for leases of an hour and a minute, and share each between the writes of a
    // minute. etcd may round up.
    if (3660..=3661).contains(&granted) && (3600..=granted).contains(&left) {
        return Ok(());
    }
    fail(format!("{name} has {left} s left of {granted} s"))
}

/// History that one server compacted is gone at both, and nothing else changes.
pub(super) async fn compacted(world: &World<'_>) -> Result<()> {
    let all = events(GROUPS[0], "history");
    let (mut old, mut last) = (String::new(), String::new());
    for number in 0..4 {
        old = std::mem::take(&mut last);
        last = create(
            world.servers()[number % 2],
            "history",
            &format!("e{number}"),
        )
        .await?;
    }
    let first = world.tidings.get(&format!("{all}?limit=1")).await?;
    let live = format!("{all}?watch=true&resourceVersion={last}");
    let mut watches = world.watches(&live).await?;

    let now = create(&world.kube, "history", "later").await?;
    world.etcd.compact(&now.into()).await?;
    both_have_forgotten(world, &old, &last).await?;
    let token = first["metadata"]["continue"].as_str();
    for server in world.servers() {
        let path = format!("{all}?limit=1&continue={}", token.unwrap_or_default());
        let gone = server.get_fails(&path, 410).await?;
        let resumed = page(server, &all, &gone).await?;
        if names(&resumed).first().map(String::as_str) != Some("e1") {
            return fail(format!(
                "{} resumes with {:?}",
                server.name,
                names(&resumed)
            ));
        }
    }
    undisturbed(world, &mut watches, &["later"]).await?;

    let compacting = ["--etcd-compaction-interval", "1s"];
    let another = world.another_tidings(&compacting).await?;
    until_forgotten(world).await?;
    drop(another);
    undisturbed(world, &mut watches, &[]).await?;
    let another = world.another_kube(&compacting).await?;
    until_forgotten(world).await?;
    drop(another);
    undisturbed(world, &mut watches, &[]).await
}

/// Requires that both servers refuse lists and watches of this version as expired. `next` is the
/// version of the change after it.
async fn both_have_forgotten(world: &World<'_>, old: &str, next: &str) -> Result<()> {
    for server in world.servers() {
        for group in GROUPS {
            let all = events(group, "history");
            let exact = format!("{all}?resourceVersion={old}&resourceVersionMatch=Exact");
            let gone = server.get_fails(&exact, 410).await?;
            let mut watch = server
                .watch(&format!("{all}?watch=true&resourceVersion={old}"))
                .await?;
            let first = watch.next().await?;
            // kube-apiserver reads a watch of events from etcd, which refuses this one. tidings may
            // instead serve the history from memory, without a gap.
            let object = &first["object"];
            let told = object["code"] == 410
                || server.name == world.tidings.name && version(object) == next;
            if gone["reason"] != "Expired" || !told {
                return fail(format!("{}: {gone}, {first}", server.name));
            }
        }
    }
    Ok(())
}

/// Waits until one of them has compacted the current history.
async fn until_forgotten(world: &World<'_>) -> Result<()> {
    let all = events(GROUPS[0], "history");
    let old = version(&world.kube.get(&all).await?);
    // The history from a version on can be served until the version after it is compacted too.
    let mut next = None;
    let wait = async {
        loop {
            // These writes make sure that there are later revisions.
            let path = format!("{all}/later");
            let patch = json!({"count": 8});
            let patched = world.kube.patch(MERGE, &path, &patch, 200).await?;
            next.get_or_insert_with(|| version(&patched));
            let patch = json!({"count": 9});
            world.tidings.patch(MERGE, &path, &patch, 200).await?;
            let exact = format!("{all}?resourceVersion={old}&resourceVersionMatch=Exact");
            if world.kube.try_get(&exact).await?.status == 410 {
                return Result::Ok(());
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(waited) => waited?,
        Err(_) => return fail("nobody compacts"),
    }
    both_have_forgotten(world, &old, &next.unwrap_or_default()).await
}

/// Requires that the open watches continue, and that both servers still serve the same.
async fn undisturbed(
    world: &World<'_>,
    watches: &mut [Watching; 2],
    before: &[&str],
) -> Result<()> {
    let mut expected: Vec<String> = before.iter().map(ToString::to_string).collect();
    let all = events(GROUPS[0], "history");
    for server in world.servers() {
        let name = format!("live-{}", server.name);
        create(server, "history", &name).await?;
        let path = format!("{all}/{name}");
        server.delete(&path, &Value::Null, 200).await?;
        expected.push(name);
    }
    for watch in watches {
        let mut added = Vec::new();
        while added.len() < expected.len() {
            let event = watch.next().await?;
            if let (Some("ADDED"), Some(name)) = said(&event) {
                added.push(name.to_owned());
            }
        }
        if added != expected {
            return fail(format!("{added:?} instead of {expected:?}"));
        }
    }
    let theirs = world.kube.get(&all).await?;
    let ours = world.tidings.get(&all).await?;
    if theirs.get("items") != ours.get("items") {
        return fail(format!("{:?} and {:?}", names(&theirs), names(&ours)));
    }
    Ok(())
}

/// Creates an event and returns its version.
async fn create(server: &Server, namespace: &str, name: &str) -> Result<String> {
    let event = event(GROUPS[0], namespace, name);
    let all = events(GROUPS[0], namespace);
    Ok(version(&server.post(&all, &event, 201).await?))
}

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    names.map(str::to_owned).collect()
}

/// The type of a watch event, and the name of its object.
fn said(event: &Value) -> (Option<&str>, Option<&str>) {
    let name = &event["object"]["metadata"]["name"];
    (event["type"].as_str(), name.as_str())
}
