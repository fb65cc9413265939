//! Single events that one server writes, and the other reads and changes.

use serde_json::{Value, json};

use super::error::{InterchangeError, different};
use super::server::Server;
use super::world::{GROUPS, World, event, events};

/// One server creates events. The other patches them in every way, replaces and deletes them, and
/// the first sees that.
pub(super) async fn changed(world: &World<'_>) -> Result<(), InterchangeError> {
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
) -> Result<(), InterchangeError> {
    let mut given = event(group, name);
    let about = if group == GROUPS[0] {
        "involvedObject"
    } else {
        "regarding"
    };
    set(&mut given, &[about, "namespace"], "objects".into());
    let all = events(group, "objects");
    let path = format!("{all}/{name}");
    let created = one.post(&all, &given).await?.expect(201)?;
    let mut latest = agreed(world, "objects", name, group, &created).await?;
    let taken = other.post(&all, &given).await?.expect(409)?;
    if taken.get("reason") != Some(&"AlreadyExists".into()) {
        return Err(different(format!("{name} created again: {taken}")));
    }

    // A change without effect writes nothing, whichever server wrote the event before. There is one
    // exception: kube-apiserver writes bytes that it would have encoded differently.
    let same = json!({"metadata": {"name": name}});
    let patched = world.tidings.patch("merge-patch+json", &path, &same);
    let patched = patched.await?.expect(200)?;
    if patched != latest {
        return Err(different(format!(
            "what changes nothing is written:\n    before: {latest}\n    after:  {patched}"
        )));
    }
    let series = |count: i32| json!({"series": {"count": count, "lastObservedTime": "2026-03-04T05:07:00.000001Z"}});
    let steps = [
        (other, "strategic-merge-patch+json", series(3)),
        (one, "merge-patch+json", series(4)),
        (
            other,
            "json-patch+json",
            json!([
                {"op": "test", "path": "/series/count", "value": 4},
                {"op": "replace", "path": "/series/count", "value": 5},
            ]),
        ),
        (
            one,
            "strategic-merge-patch+json",
            json!({"metadata": {"labels": {"step": "four"}, "finalizers": ["example.com/held"]}}),
        ),
        (
            other,
            "merge-patch+json",
            json!({"metadata": {"finalizers": null}}),
        ),
    ];
    for (server, kind, patch) in steps {
        let patched = server.patch(kind, &path, &patch).await?.expect(200)?;
        later(&latest, &patched)?;
        latest = agreed(world, "objects", name, group, &patched).await?;
    }
    if latest.pointer("/series/count") != Some(&5.into()) {
        return Err(different(format!("after three patches: {latest}")));
    }

    let mut new = latest.clone();
    set(
        &mut new,
        &["metadata", "labels"],
        json!({"step": "replaced"}),
    );
    let replaced = other.put(&path, &new).await?.expect(200)?;
    later(&latest, &replaced)?;
    latest = agreed(world, "objects", name, group, &replaced).await?;
    let stale = one.put(&path, &created).await?.expect(409)?;
    if stale.get("reason") != Some(&"Conflict".into()) {
        return Err(different(format!(
            "{name} replaced by an old version: {stale}"
        )));
    }

    let uid = |uid: &Value| json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
    one.delete(&path, Some(&uid(&"another".into())))
        .await?
        .expect(409)?;
    let known = latest.pointer("/metadata/uid").unwrap_or(&Value::Null);
    other.delete(&path, Some(&uid(known))).await?.expect(200)?;
    for server in world.servers() {
        for group in GROUPS {
            let path = format!("{}/{name}", events(group, "objects"));
            server.get(&path).await?.expect(404)?;
        }
        // `kubectl apply` and recorders get `NotFound`, and create the event again.
        let patch = series(9);
        let patched = server.patch("strategic-merge-patch+json", &path, &patch);
        patched.await?.expect(404)?;
    }
    Ok(())
}

/// Server-side apply: both servers know which manager has which field.
pub(super) async fn applied(world: &World<'_>) -> Result<(), InterchangeError> {
    const APPLY: &str = "apply-patch+yaml";
    let group = GROUPS[0];
    for (number, (one, other)) in world.pairs().into_iter().enumerate() {
        let name = format!("web.{number}");
        let path = format!("{}/{name}", events(group, "applied"));
        let by = |manager: &str, more: &str| format!("{path}?fieldManager={manager}{more}");
        let configuration = |fields: Value| {
            let mut applied =
                json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}});
            if let (Value::Object(applied), Value::Object(fields)) = (&mut applied, fields) {
                applied.extend(fields);
            }
            applied
        };
        let object = json!({"kind": "Pod", "namespace": "applied", "name": "web"});
        let first = configuration(
            json!({"involvedObject": object, "message": "one", "reason": "Applied", "count": 1}),
        );
        let created = one
            .patch(APPLY, &by("one", ""), &first)
            .await?
            .expect(201)?;
        agreed(world, "applied", &name, group, &created).await?;
        let by_one = by("one", "");
        let again = world.tidings.patch(APPLY, &by_one, &first);
        let again = again.await?.expect(200)?;
        if again != created {
            return Err(different(format!(
                "what is applied already is written:\n    before: {created}\n    after:  {again}"
            )));
        }

        let second = configuration(json!({"message": "two", "action": "Apply"}));
        let refused = other
            .patch(APPLY, &by("two", ""), &second)
            .await?
            .expect(409)?;
        if refused.pointer("/details/causes/0/reason") != Some(&"FieldManagerConflict".into()) {
            return Err(different(format!("no conflict over {name}: {refused}")));
        }
        let forced = other
            .patch(APPLY, &by("two", "&force=true"), &second)
            .await?
            .expect(200)?;
        agreed(world, "applied", &name, group, &forced).await?;
        let refused = one
            .patch(APPLY, &by("one", ""), &first)
            .await?
            .expect(409)?;
        if refused.get("reason") != Some(&"Conflict".into()) {
            return Err(different(format!("no conflict over {name}: {refused}")));
        }

        // The servers remove fields that no manager applies any more.
        let less = configuration(json!({"involvedObject": object, "reason": "Applied"}));
        let applied = one.patch(APPLY, &by("one", ""), &less).await?.expect(200)?;
        let latest = agreed(world, "applied", &name, group, &applied).await?;
        if latest.get("count").is_some() || latest.get("message") != Some(&"two".into()) {
            return Err(different(format!("after applying less: {latest}")));
        }
        let patch = json!({"message": "patched"});
        let patched = one
            .patch("merge-patch+json", &by("editor", ""), &patch)
            .await?;
        agreed(world, "applied", &name, group, &patched.expect(200)?).await?;
        let refused = other.patch(APPLY, &by("two", ""), &second).await?;
        refused.expect(409)?;
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
) -> Result<Value, InterchangeError> {
    for seen_in in GROUPS {
        let path = format!("{}/{name}", events(seen_in, namespace));
        let theirs = world.kube.get(&path).await?.expect(200)?;
        let ours = world.tidings.get(&path).await?.expect(200)?;
        if theirs != ours {
            return Err(different(format!(
                "{path}:\n    kube-apiserver: {theirs}\n    tidings:        {ours}"
            )));
        }
        if seen_in == group && theirs != *answer {
            return Err(different(format!(
                "{path}:\n    when written: {answer}\n    when read:    {theirs}"
            )));
        }
    }
    // The other server must not refuse this version as one from the future.
    let version = answer.pointer("/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).unwrap_or_default();
    for server in world.servers() {
        let path = format!(
            "{}/{name}?resourceVersion={version}",
            events(group, namespace)
        );
        server.get(&path).await?.expect(200)?;
    }
    Ok(answer.clone())
}

/// Requires that a version is later than another.
fn later(before: &Value, after: &Value) -> Result<(), InterchangeError> {
    let version = |object: &Value| {
        let version = object.pointer("/metadata/resourceVersion");
        version.and_then(Value::as_str)?.parse::<u64>().ok()
    };
    if version(before) < version(after) {
        return Ok(());
    }
    Err(different(format!(
        "version {:?} was followed by {:?}",
        version(before),
        version(after)
    )))
}

fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for name in path {
        let Value::Object(fields) = place else { return };
        place = fields.entry(*name).or_insert(Value::Null);
    }
    *place = value;
}
