//! Single events that one server writes, and the other reads and changes.

use serde_json::{Value, json};

use super::server::Server;
use super::world::{GROUPS, World, event, events, same, version};
use crate::error::{Result, fail};

const MERGE: &str = "merge-patch+json";
const STRATEGIC: &str = "strategic-merge-patch+json";
const APPLY: &str = "apply-patch+yaml";

/// One server creates events. The other patches them in every way, replaces and deletes them, and
/// the first sees that.
pub(super) async fn changed(world: &World<'_>) -> Result<()> {
    for (number, (one, other)) in world.pairs().into_iter().enumerate() {
        for (kind, group) in GROUPS.into_iter().enumerate() {
            let name = format!("web.{number}{kind}");
            change(world, one, other, group, &name).await?;
        }
    }
    Ok(())
}

async fn change(
    world: &World<'_>,
    one: &Server,
    other: &Server,
    group: &str,
    name: &str,
) -> Result<()> {
    let given = event(group, "objects", name);
    let all = events(group, "objects");
    let path = format!("{all}/{name}");
    let created = one.post(&all, &given, 201).await?;
    let mut latest = agreed(world, "objects", name, group, &created).await?;
    let taken = other.post(&all, &given, 409).await?;
    if taken["reason"] != "AlreadyExists" {
        return fail(format!("{name} created again: {taken}"));
    }

    // A change without effect writes nothing, whichever server wrote the event before. There is one
    // exception: kube-apiserver writes bytes that it would have encoded differently.
    let no_change = json!({"metadata": {"name": name}});
    let patched = world.tidings.patch(MERGE, &path, &no_change, 200).await?;
    let what = "what changes nothing is written";
    same(what, ("before", &latest), ("after", &patched))?;
    let series = |count: i32| json!({"series": {"count": count, "lastObservedTime": "2026-03-04T05:07:00.000001Z"}});
    let operations = json!([
        {"op": "test", "path": "/series/count", "value": 4},
        {"op": "replace", "path": "/series/count", "value": 5},
    ]);
    let held =
        json!({"metadata": {"labels": {"step": "four"}, "finalizers": ["example.com/held"]}});
    let steps = [
        (other, STRATEGIC, series(3)),
        (one, MERGE, series(4)),
        (other, "json-patch+json", operations),
        (one, STRATEGIC, held),
        (other, MERGE, json!({"metadata": {"finalizers": null}})),
    ];
    for (server, kind, patch) in steps {
        let patched = server.patch(kind, &path, &patch, 200).await?;
        later(&latest, &patched)?;
        latest = agreed(world, "objects", name, group, &patched).await?;
    }
    if latest["series"]["count"] != 5 {
        return fail(format!("after three patches: {latest}"));
    }

    let mut new = latest.clone();
    new["metadata"]["labels"] = json!({"step": "replaced"});
    let replaced = other.put(&path, &new, 200).await?;
    later(&latest, &replaced)?;
    latest = agreed(world, "objects", name, group, &replaced).await?;
    let stale = one.put(&path, &created, 409).await?;
    if stale["reason"] != "Conflict" {
        return fail(format!("{name} replaced by an old version: {stale}"));
    }

    let uid = |uid: &Value| json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    one.delete(&path, &uid(&"another".into()), 409).await?;
    let known = uid(&latest["metadata"]["uid"]);
    other.delete(&path, &known, 200).await?;
    for server in world.servers() {
        for group in GROUPS {
            let path = format!("{}/{name}", events(group, "objects"));
            server.get_fails(&path, 404).await?;
        }
        // `kubectl apply` and recorders get `NotFound`, and create the event again.
        server.patch(STRATEGIC, &path, &series(9), 404).await?;
    }
    Ok(())
}

/// Server-side apply: both servers know which manager has which field.
pub(super) async fn applied(world: &World<'_>) -> Result<()> {
    let group = GROUPS[0];
    for (number, (one, other)) in world.pairs().into_iter().enumerate() {
        let name = &*format!("web.{number}");
        let path = format!("{}/{name}", events(group, "applied"));
        let by = |manager: &str| format!("{path}?fieldManager={manager}");
        let (by_one, by_two) = (&*by("one"), &*by("two"));
        let agreed = async |answer: Value| agreed(world, "applied", name, group, &answer).await;
        let object = json!({"kind": "Pod", "namespace": "applied", "name": "web"});
        let configuration = |fields: Value| {
            let mut applied = fields;
            applied["apiVersion"] = "v1".into();
            applied["kind"] = "Event".into();
            applied["metadata"] = json!({"name": name});
            applied
        };
        let first = configuration(
            json!({"involvedObject": object, "message": "one", "reason": "Applied", "count": 1}),
        );
        let created = agreed(one.patch(APPLY, by_one, &first, 201).await?).await?;
        let again = world.tidings.patch(APPLY, by_one, &first, 200).await?;
        let what = "what is applied already is written";
        same(what, ("before", &created), ("after", &again))?;

        let second = configuration(json!({"message": "two", "action": "Apply"}));
        let refused = other.patch(APPLY, by_two, &second, 409).await?;
        if refused["details"]["causes"][0]["reason"] != "FieldManagerConflict" {
            return fail(format!("no conflict over {name}: {refused}"));
        }
        let force = format!("{by_two}&force=true");
        agreed(other.patch(APPLY, &force, &second, 200).await?).await?;
        let refused = one.patch(APPLY, by_one, &first, 409).await?;
        if refused["reason"] != "Conflict" {
            return fail(format!("no conflict over {name}: {refused}"));
        }

        // The servers remove fields that no manager applies any more.
        let less = configuration(json!({"involvedObject": object, "reason": "Applied"}));
        let latest = agreed(one.patch(APPLY, by_one, &less, 200).await?).await?;
        if latest.get("count").is_some() || latest["message"] != "two" {
            return fail(format!("after applying less: {latest}"));
        }
        let patch = json!({"message": "patched"});
        agreed(one.patch(MERGE, &by("editor"), &patch, 200).await?).await?;
        other.patch(APPLY, by_two, &second, 409).await?;
    }
    Ok(())
}

/// Requires that both servers return the same event in each group, and the event of `answer` in
/// `group`. Returns it.
async fn agreed(
    world: &World<'_>,
    namespace: &str,
    name: &str,
    group: &str,
    answer: &Value,
) -> Result<Value> {
    for seen_in in GROUPS {
        let path = format!("{}/{name}", events(seen_in, namespace));
        let seen = world.both(&path).await?;
        if seen_in == group {
            same(&path, ("when written", answer), ("when read", &seen))?;
        }
    }
    // The other server must not refuse this version as one from the future.
    for server in world.servers() {
        let path = format!("{}/{name}", events(group, namespace));
        let version = version(answer);
        server
            .get(&format!("{path}?resourceVersion={version}"))
            .await?;
    }
    Ok(answer.clone())
}

/// Requires that a version is later than another.
fn later(before: &Value, after: &Value) -> Result<()> {
    let [before, after] = [before, after].map(version);
    if before.parse::<u64>().ok() < after.parse::<u64>().ok() {
        return Ok(());
    }
    fail(format!("version {before:?} was followed by {after:?}"))
}
