//! What two servers on one etcd show of many events: lists, watches, leases and compaction.

use std::time::Duration;

use serde_json::{Value, json};

use super::error::{InterchangeError, different};
use super::server::{Server, Watching};
use super::world::{GROUPS, World, event, events};

/// Maximum time to wait for an expected change.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// Lists at one revision are the same from both servers, and a page of one server continues at the
/// other.
pub(super) async fn listed(world: &World<'_>) -> Result<(), InterchangeError> {
    let all = events(GROUPS[0], "lists");
    let mut last = String::new();
    for number in 0..8 {
        last = create(world.in_turn(number), "lists", &format!("e{number}")).await?;
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
            let theirs = world.kube.get(&path).await?.expect(200)?;
            let ours = world.tidings.get(&path).await?.expect(200)?;
            if theirs != ours {
                return Err(different(format!(
                    "{path}:\n    kube-apiserver: {theirs}\n    tidings:        {ours}"
                )));
            }
        }
    }
    for (one, other) in world.pairs() {
        let before = names(&one.get(&all).await?.expect(200)?);
        let first = one.get(&format!("{all}?limit=3")).await?.expect(200)?;
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
            return Err(different(format!(
                "pages by {} and {}: {found:?} instead of {before:?}",
                one.name, other.name
            )));
        }
        if version(&first) != version(&third) {
            return Err(different("pages are of different versions".to_owned()));
        }
    }
    // Events that one server deleted as a collection are gone at both.
    let deleted = world
        .tidings
        .delete(&format!("{all}?labelSelector=by%3Dcore"), None)
        .await?
        .expect(200)?;
    if names(&deleted).len() != 10 {
        return Err(different(format!("deleted: {:?}", names(&deleted))));
    }
    for server in world.servers() {
        let rest = server.get(&all).await?.expect(200)?;
        if !names(&rest).is_empty() {
            return Err(different(format!(
                "{} still lists {:?}",
                server.name,
                names(&rest)
            )));
        }
    }
    Ok(())
}

async fn page(server: &Server, all: &str, before: &Value) -> Result<Value, InterchangeError> {
    let token = before.pointer("/metadata/continue").and_then(Value::as_str);
    let token = token.ok_or_else(|| different("a page that is not the last names no next one"))?;
    server
        .get(&format!("{all}?limit=4&continue={token}"))
        .await?
        .expect(200)
}

/// A watch at either server shows the other's writes, in the order of versions and with the same
/// content.
pub(super) async fn watched(world: &World<'_>) -> Result<(), InterchangeError> {
    let all = events(GROUPS[0], "watched");
    let list = world.kube.get(&all).await?.expect(200)?;
    let start = version(&list);
    let mut watches = Vec::new();
    for group in GROUPS {
        let path = format!(
            "{}?watch=true&resourceVersion={start}",
            events(group, "watched")
        );
        watches.push((
            world.kube.watch(&path).await?,
            world.tidings.watch(&path).await?,
        ));
    }
    let mut written = Vec::new();
    for round in 0..10 {
        for (number, (one, other)) in world.pairs().into_iter().enumerate() {
            let name = format!("e{round}.{number}");
            let path = format!("{all}/{name}");
            written.push(("ADDED", name.clone(), create(one, "watched", &name).await?));
            let patch = json!({"count": 8});
            let patched = other
                .patch("strategic-merge-patch+json", &path, &patch)
                .await?;
            written.push(("MODIFIED", name.clone(), version(&patched.expect(200)?)));
            let deleter = if round % 2 == 0 { one } else { other };
            deleter.delete(&path, None).await?.expect(200)?;
            written.push(("DELETED", name, String::new()));
        }
    }
    for (theirs, ours) in &mut watches {
        let mut latest = 0;
        for (kind, name, wrote) in &written {
            let (their_event, our_event) = (theirs.next().await?, ours.next().await?);
            if their_event != our_event {
                return Err(different(format!(
                    "{kind} {name}:\n    kube-apiserver: {their_event}\n    tidings:        {our_event}"
                )));
            }
            let seen = version(our_event.get("object").unwrap_or(&Value::Null));
            let is_next = seen.parse::<u64>().is_ok_and(|seen| seen > latest);
            if said(&our_event) != (Some(kind), Some(name))
                || !is_next
                || !wrote.is_empty() && *wrote != seen
            {
                return Err(different(format!(
                    "instead of {kind} {name} {wrote}: {our_event}"
                )));
            }
            latest = seen.parse().unwrap_or(0);
        }
    }
    Ok(())
}

/// Every write restarts an event's TTL, and both servers see its end.
pub(super) async fn leased(world: &World<'_>) -> Result<(), InterchangeError> {
    let all = events(GROUPS[0], "leased");
    for (one, other) in world.pairs() {
        let name = format!("by-{}", one.name);
        create(one, "leased", &name).await?;
        an_hour_is_left(world, &name).await?;
        let patch = json!({"count": 8});
        let patched = other
            .patch("merge-patch+json", &format!("{all}/{name}"), &patch)
            .await?;
        patched.expect(200)?;
        an_hour_is_left(world, &name).await?;
    }

    let list = world.kube.get(&all).await?.expect(200)?;
    let path = format!("{all}?watch=true&resourceVersion={}", version(&list));
    let mut watches = [
        world.kube.watch(&path).await?,
        world.tidings.watch(&path).await?,
    ];
    // The lease is now as a kube-apiserver with another `--event-ttl` would write it.
    world
        .etcd
        .lease_anew("leased", "by-kube-apiserver", 2)
        .await?;
    let brief = world.another_tidings(&["--event-ttl", "2s"]).await?;
    let path = format!("{all}/by-tidings");
    let patched = brief
        .patch("merge-patch+json", &path, &json!({"count": 9}))
        .await?;
    patched.expect(200)?;
    for watch in &mut watches {
        let mut ended = Vec::new();
        while ended.len() < 2 {
            let event = tokio::time::timeout(PATIENCE, watch.next()).await;
            let event =
                event.map_err(|_| different(format!("only {ended:?} came to an end")))??;
            if let (Some("DELETED"), Some(name)) = said(&event) {
                ended.push(name.to_owned());
            }
        }
        ended.sort();
        if ended != ["by-kube-apiserver", "by-tidings"] {
            return Err(different(format!("{ended:?} came to an end")));
        }
    }
    for server in world.servers() {
        let list = server.get(&all).await?.expect(200)?;
        if !names(&list).is_empty() {
            return Err(different(format!(
                "{} still lists {:?}",
                server.name,
                names(&list)
            )));
        }
    }
    Ok(())
}

async fn an_hour_is_left(world: &World<'_>, name: &str) -> Result<(), InterchangeError> {
    let kept = world.etcd.read("leased", name).await?;
    let (granted, left) = world.etcd.life(&kept.lease).await?;
    // Both servers ask for leases of an hour and a minute, and share each between the writes of a
    // minute. etcd may round up.
    if (3660..=3661).contains(&granted) && (3600..=granted).contains(&left) {
        return Ok(());
    }
    Err(different(format!(
        "{name} has {left} s left of {granted} s"
    )))
}

/// History that one server compacted is gone at both, and nothing else changes.
pub(super) async fn compacted(world: &World<'_>) -> Result<(), InterchangeError> {
    let all = events(GROUPS[0], "history");
    let (mut old, mut last) = (String::new(), String::new());
    for number in 0..4 {
        old = std::mem::take(&mut last);
        last = create(world.in_turn(number), "history", &format!("e{number}")).await?;
    }
    let first = world
        .tidings
        .get(&format!("{all}?limit=1"))
        .await?
        .expect(200)?;
    let live = format!("{all}?watch=true&resourceVersion={last}");
    let mut watches = [
        world.kube.watch(&live).await?,
        world.tidings.watch(&live).await?,
    ];

    let now = create(&world.kube, "history", "later").await?;
    world.etcd.compact(&now).await?;
    both_have_forgotten(world, &old, &last).await?;
    let token = first.pointer("/metadata/continue").and_then(Value::as_str);
    for server in world.servers() {
        let path = format!("{all}?limit=1&continue={}", token.unwrap_or_default());
        let gone = server.get(&path).await?.expect(410)?;
        let resumed = page(server, &all, &gone).await?;
        if names(&resumed).first().map(String::as_str) != Some("e1") {
            return Err(different(format!(
                "{} resumes with {:?}",
                server.name,
                names(&resumed)
            )));
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
async fn both_have_forgotten(
    world: &World<'_>,
    old: &str,
    next: &str,
) -> Result<(), InterchangeError> {
    for server in world.servers() {
        for group in GROUPS {
            let all = events(group, "history");
            let exact = format!("{all}?resourceVersion={old}&resourceVersionMatch=Exact");
            let gone = server.get(&exact).await?.expect(410)?;
            let mut watch = server
                .watch(&format!("{all}?watch=true&resourceVersion={old}"))
                .await?;
            let first = watch.next().await?;
            // kube-apiserver reads a watch of events from etcd, which refuses this one. tidings may
            // instead serve the history from memory, without a gap.
            let told = first.pointer("/object/code") == Some(&410.into())
                || server.name == world.tidings.name
                    && version(first.get("object").unwrap_or(&Value::Null)) == next;
            if gone.get("reason") != Some(&"Expired".into()) || !told {
                return Err(different(format!("{}: {gone}, {first}", server.name)));
            }
        }
    }
    Ok(())
}

/// Waits until one of them has compacted the current history.
async fn until_forgotten(world: &World<'_>) -> Result<(), InterchangeError> {
    let all = events(GROUPS[0], "history");
    let old = version(&world.kube.get(&all).await?.expect(200)?);
    // The history from a version on can be served until the version after it is compacted too.
    let mut next = None;
    let wait = async {
        loop {
            // This write makes sure that there are later revisions.
            let patch = json!({"count": 8});
            let path = format!("{all}/later");
            let patched = world
                .kube
                .patch("merge-patch+json", &path, &patch)
                .await?
                .expect(200)?;
            next.get_or_insert_with(|| version(&patched));
            let patch = json!({"count": 9});
            world
                .tidings
                .patch("merge-patch+json", &path, &patch)
                .await?
                .expect(200)?;
            let exact = format!("{all}?resourceVersion={old}&resourceVersionMatch=Exact");
            if world.kube.get(&exact).await?.is(410) {
                return Ok::<_, InterchangeError>(());
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.map_err(|_| different("nobody compacts"))??;
    both_have_forgotten(world, &old, &next.unwrap_or_default()).await
}

/// Requires that the open watches continue, and that both servers still serve the same.
async fn undisturbed(
    world: &World<'_>,
    watches: &mut [Watching; 2],
    before: &[&str],
) -> Result<(), InterchangeError> {
    let mut expected: Vec<String> = before.iter().map(ToString::to_string).collect();
    let all = events(GROUPS[0], "history");
    for server in world.servers() {
        let name = format!("live-{}", server.name);
        create(server, "history", &name).await?;
        server
            .delete(&format!("{all}/{name}"), None)
            .await?
            .expect(200)?;
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
            return Err(different(format!("{added:?} instead of {expected:?}")));
        }
    }
    let theirs = world.kube.get(&all).await?.expect(200)?;
    let ours = world.tidings.get(&all).await?.expect(200)?;
    if theirs.get("items") != ours.get("items") {
        return Err(different(format!(
            "{:?} and {:?}",
            names(&theirs),
            names(&ours)
        )));
    }
    Ok(())
}

/// Creates an event and returns its version.
async fn create(server: &Server, namespace: &str, name: &str) -> Result<String, InterchangeError> {
    let mut event = event(GROUPS[0], name);
    if let Some(place) = event.pointer_mut("/involvedObject/namespace") {
        *place = namespace.into();
    }
    let created = server.post(&events(GROUPS[0], namespace), &event).await?;
    Ok(version(&created.expect(201)?))
}

fn version(object: &Value) -> String {
    let version = object.pointer("/metadata/resourceVersion");
    version
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn names(list: &Value) -> Vec<String> {
    let items = list
        .get("items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    items
        .filter_map(|item| item.pointer("/metadata/name")?.as_str())
        .map(str::to_owned)
        .collect()
}

/// The type of a watch event, and the name of its object.
fn said(event: &Value) -> (Option<&str>, Option<&str>) {
    (
        event.get("type").and_then(Value::as_str),
        event
            .pointer("/object/metadata/name")
            .and_then(Value::as_str),
    )
}
