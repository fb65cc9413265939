//! Tests with answers of kube-apiserver 1.36, and tests of laws.

use k8s_pb::apimachinery::pkg::apis::meta::v1::{FieldsV1, Time};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::codec::json::Reading;
use crate::codec::tests::event as any_event;
use crate::codec::{self, Api};

fn at(seconds: i64) -> Time {
    Time {
        seconds: Some(seconds),
        nanos: Some(0),
    }
}

fn writer(manager: &str, now: i64) -> Writer<'_> {
    Writer {
        manager,
        api: Api::Core,
        now: at(now),
    }
}

fn event(value: Value) -> Event {
    codec::read_event(Api::Core, value, &mut Reading::default())
        .unwrap()
        .1
}

fn json_of(event: &Event) -> Value {
    let mut json = Vec::new();
    codec::write_event(Api::Core, event, true, &mut json);
    serde_json::from_slice(&json).unwrap()
}

/// The managers of an event, each as `name operation version time fields`.
fn managers(event: &Event) -> Vec<String> {
    let entries = managed_fields(Some(event)).iter().map(|entry| {
        let (manager, operation) = (entry.manager(), entry.operation());
        let version = entry.api_version();
        let time = entry.time.and_then(|time| time.seconds);
        let time = time.map_or("never".into(), |time| time.to_string());
        let fields = entry.fields_v1.as_ref().unwrap().raw.clone().unwrap();
        let fields = String::from_utf8(fields).unwrap();
        format!("{manager} {operation} {version} {time} {fields}")
    });
    entries.collect()
}

/// The fields of other managers that a configuration would change.
fn conflicts(live: &Event, config: &Value, writer: Writer<'_>) -> Vec<String> {
    match apply(Some(live), config, writer, false) {
        Err(ApplyError::Conflicts(found)) => found.into_iter().map(|it| it.field).collect(),
        other => panic!("no conflict: {other:?}"),
    }
}

/// The event after a write that changes it.
fn written(live: &Event, writer: Writer<'_>, change: impl FnOnce(&mut Event)) -> Event {
    let mut new = live.clone();
    change(&mut new);
    track(Some(live), &mut new, writer, false);
    new
}

fn created(value: Value) -> Event {
    let mut event = event(value);
    track(None, &mut event, writer("probe", 1), true);
    event
}

/// An event that was created with every kind of list and map.
fn full() -> Event {
    created(json!({
        "metadata": {
            "name": "a", "labels": {"x": "y"}, "annotations": {},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"}],
            "finalizers": ["b.com/z", "a.com/y"],
        },
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web"},
        "reason": "R", "source": {"component": "k"}, "count": 1, "type": "Normal",
        "firstTimestamp": "2026-03-04T05:00:00Z", "eventTime": null, "related": {"kind": "Node"},
    }))
}

fn config(value: &Value) -> Value {
    let mut config = json!({"apiVersion": "v1", "kind": "Event"});
    let members = config.as_object_mut().unwrap();
    members.extend(value.as_object().unwrap().clone());
    config
}

#[test]
fn a_create_gives_its_manager_what_it_sets() {
    assert_eq!(
        managers(&full()),
        [concat!(
            r#"probe Update v1 1 {"f:count":{},"f:firstTimestamp":{},"f:involvedObject":{},"f:metadata":{"f:finalizers":{".":{},"#,
            r#""v:\"a.com/y\"":{},"v:\"b.com/z\"":{}},"f:labels":{".":{},"f:x":{}},"f:ownerReferences":{".":{},"#,
            r#""k:{\"uid\":\"u1\"}":{}}},"f:reason":{},"f:related":{},"f:source":{"f:component":{}},"f:type":{}}"#
        )]
    );
    let strict = json!({
        "metadata": {"name": "b", "generateName": "z"}, "regarding": {"kind": "Pod"}, "reason": "R", "action": "A",
        "reportingController": "k.io/c", "reportingInstance": "i", "type": "Normal", "note": "n",
        "eventTime": "2026-03-04T05:00:00.000000Z",
        "series": {"count": 2, "lastObservedTime": "2026-03-04T05:00:00.000000Z"},
    });
    let (_, mut strict) = codec::read_event(Api::Events, strict, &mut Reading::default()).unwrap();
    let by_events = Writer {
        api: Api::Events,
        ..writer("probe", 1)
    };
    track(None, &mut strict, by_events, true);
    assert_eq!(
        managers(&strict),
        [concat!(
            r#"probe Update events.k8s.io/v1 1 {"f:action":{},"f:eventTime":{},"f:metadata":{"f:generateName":{}},"#,
            r#""f:note":{},"f:reason":{},"f:regarding":{},"f:reportingController":{},"f:reportingInstance":{},"#,
            r#""f:series":{".":{},"f:count":{},"f:lastObservedTime":{}},"f:type":{}}"#
        )]
    );
    // A write through the other API group forgets the managers of this one.
    let change = |event: &mut Event| event.message = Some("other".into());
    let other = written(&strict, writer("m2", 2), change);
    assert_eq!(managers(&other), [r#"m2 Update v1 2 {"f:message":{}}"#]);
}

#[test]
fn without_tracking_an_event_has_managers_from_the_first_apply_on() {
    let mut live = event(json!({"metadata": {"name": "a", "uid": "u"}, "reason": "R", "count": 1}));
    track(None, &mut live, writer("probe", 1), false);
    assert!(managers(&live).is_empty());
    let changed = written(&live, writer("probe", 2), |event| event.count = Some(2));
    assert!(managers(&changed).is_empty());
    let wanted = config(&json!({"message": "m", "count": 2}));
    let applied = apply(Some(&changed), &wanted, writer("app", 3), false).unwrap();
    assert_eq!(
        managers(&applied),
        [
            r#"app Apply v1 3 {"f:count":{},"f:message":{}}"#,
            r#"before-first-apply Update v1 3 {"f:count":{},"f:reason":{}}"#,
        ]
    );
    let changed = written(&applied, writer("probe", 4), |event| {
        event.message = None;
        event.count = Some(3);
    });
    assert_eq!(
        managers(&changed),
        [
            r#"before-first-apply Update v1 3 {"f:reason":{}}"#,
            r#"probe Update v1 4 {"f:count":{}}"#,
        ]
    );
}

#[test]
fn what_others_manage_is_taken_only_by_force() {
    let live = full();
    let wanted = config(&json!({
        "metadata": {"name": "a", "labels": {"x": "other", "n": "1"}}, "count": 5, "type": "Warning", "series": {"count": 3},
    }));
    let conflict = |field: &str| Conflict {
        manager: "\"probe\" using v1".into(),
        field: field.into(),
    };
    assert_eq!(
        apply(Some(&live), &wanted, writer("app", 2), false).unwrap_err(),
        ApplyError::Conflicts(vec![
            conflict(".count"),
            conflict(".type"),
            conflict(".metadata.labels.x")
        ])
    );
    let applied = apply(Some(&live), &wanted, writer("app", 2), true).unwrap();
    assert_eq!(
        managers(&applied),
        [
            r#"app Apply v1 2 {"f:count":{},"f:metadata":{"f:labels":{"f:n":{},"f:x":{}}},"f:series":{"f:count":{}},"f:type":{}}"#,
            concat!(
                r#"probe Update v1 1 {"f:firstTimestamp":{},"f:involvedObject":{},"f:metadata":{"f:finalizers":{".":{},"#,
                r#""v:\"a.com/y\"":{},"v:\"b.com/z\"":{}},"f:labels":{},"f:ownerReferences":{".":{},"k:{\"uid\":\"u1\"}":{}}},"#,
                r#""f:reason":{},"f:related":{},"f:source":{"f:component":{}}}"#
            ),
        ]
    );
    // Fields that the manager no longer applies are removed, unless another manager has them.
    let less = config(&json!({"metadata": {"name": "a", "labels": {"x": "other"}}, "count": 5}));
    let less = apply(Some(&applied), &less, writer("app", 3), false).unwrap();
    let json = json_of(&less);
    assert_eq!(json["metadata"]["labels"], json!({"x": "other"}));
    assert_eq!(
        (&json["count"], json.get("type"), json.get("series")),
        (&json!(5), None, None)
    );
    let nothing = apply(Some(&less), &config(&json!({})), writer("app", 4), false).unwrap();
    assert_eq!(json_of(&nothing).get("count"), None);
    assert!(
        managers(&nothing)
            .iter()
            .all(|manager| manager.starts_with("probe"))
    );
}

#[test]
fn lists_merge_by_key_and_in_the_applied_order() {
    let finalizers = |live: &[&str], applied: &[&str]| -> Vec<String> {
        let live = created(json!({"metadata": {"name": "a", "uid": "u", "finalizers": live}}));
        let wanted = config(&json!({"metadata": {"finalizers": applied}}));
        let applied = apply(Some(&live), &wanted, writer("app", 2), true).unwrap();
        applied.metadata.unwrap().finalizers
    };
    for (live, applied, merged) in [
        (&["a", "b"][..], &["c"][..], &["a", "b", "c"][..]),
        (&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]),
        (
            &["a", "b", "c"],
            &["x", "b", "y"],
            &["a", "x", "b", "c", "y"],
        ),
        (&["a"], &["b", "a"], &["b", "a"]),
        (&[], &["b", "a"], &["b", "a"]),
    ] {
        assert_eq!(finalizers(live, applied), merged, "{live:?} {applied:?}");
    }
    let owner = |uid: &str, name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid});
    let wanted = config(
        &json!({"metadata": {"ownerReferences": [owner("u2", "new"), owner("u1", "renamed")]}}),
    );
    let found = conflicts(&full(), &wanted, writer("app", 2));
    assert_eq!(found, [".metadata.ownerReferences[uid=\"u1\"]"]);
}

#[test]
fn an_apply_that_changes_nothing_changes_no_time() {
    let live = created(json!({"metadata": {"name": "a", "uid": "u"}, "count": 5}));
    let wanted = config(&json!({"count": 5}));
    let second = apply(Some(&live), &wanted, writer("app", 2), false).unwrap();
    assert_eq!(
        managers(&second),
        [
            r#"app Apply v1 never {"f:count":{}}"#,
            r#"probe Update v1 1 {"f:count":{}}"#
        ]
    );
    let third = apply(Some(&second), &wanted, writer("app", 3), false).unwrap();
    assert_eq!(third, second);
}

#[test]
fn what_cannot_be_applied() {
    let unfit = |why: &str| {
        let what = "failed to create typed patch object (/; /v1, Kind=Event)";
        ApplyError::Unfit(format!("{what}: {why}"))
    };
    let unacceptable = |why: &str| ApplyError::Unacceptable(why.into());
    #[rustfmt::skip]
    let table = [
        (json!({}), unacceptable("invalid object type: /, Kind=")),
        (json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"}),
            unacceptable("invalid object type: events.k8s.io/v1, Kind=Event")),
        (config(&json!({"metadata": {"managedFields": []}})),
            unacceptable("metadata.managedFields must be nil")),
        (config(&json!({"foo": 1})), unfit(".foo: field not declared in schema")),
        (config(&json!({"involvedObject": {"zzz": 1}, "count": "x", "series": []})),
            unfit("errors:\n  .count: expected numeric (int or float), got string\n  \
                .involvedObject.zzz: field not declared in schema\n  \
                .series: expected map, got &{[]}")),
        (config(&json!({"metadata": {"finalizers": ["a", "a"]}})),
            unfit(".metadata.finalizers: duplicate entries for key [=\"a\"]")),
    ];
    for (wanted, refused) in table {
        let error = apply(None, &wanted, writer("x", 1), true).unwrap_err();
        assert_eq!(error, refused);
    }
}

#[test]
fn kubectl_goes_on_from_its_client_side_apply() {
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let last = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "A", "count": 1});
    let mut live = event(json!({
        "metadata": {"name": "a", "uid": "u", "annotations": {key: last.to_string()}}, "reason": "A", "count": 1,
    }));
    let kubectl = writer("kubectl-client-side-apply", 1);
    track(None, &mut live, kubectl, true);
    let wanted =
        config(&json!({"metadata": {"name": "a"}, "reason": "B", "count": 1, "message": "a<b"}));
    let found = conflicts(&live, &wanted, writer("other", 2));
    assert_eq!(found, [".reason"]);
    let applied = apply(Some(&live), &wanted, writer("kubectl", 2), false).unwrap();
    assert_eq!(
        applied.metadata.as_ref().unwrap().annotations[key],
        "{\"apiVersion\":\"v1\",\"count\":1,\"kind\":\"Event\",\"message\":\"a\\u003cb\",\"metadata\":{\"name\":\"a\"},\"reason\":\"B\"}\n"
    );
    // kubectl must not take over fields that were changed since.
    let changed = written(&applied, writer("other", 3), |event| event.count = Some(7));
    let wanted = config(&json!({"metadata": {"name": "a"}, "reason": "C", "count": 9}));
    let found = conflicts(&changed, &wanted, writer("kubectl", 4));
    assert_eq!(found, [".count"]);
}

#[test]
fn the_oldest_of_many_managers_become_one() {
    let mut live = created(json!({"metadata": {"name": "c", "uid": "u"}, "reason": "R"}));
    for n in 1..=13 {
        let manager = format!("m{n:02}");
        live = written(&live, writer(&manager, n + 1), |event| {
            let labels = &mut event.metadata.as_mut().unwrap().labels;
            labels.insert(format!("m{n}"), "2".into());
        });
    }
    let managers = managers(&live);
    assert_eq!(managers.len(), 10);
    assert_eq!(
        managers[0],
        r#"ancient-changes Update v1 5 {"f:metadata":{"f:labels":{".":{},"f:m1":{},"f:m2":{},"f:m3":{},"f:m4":{}}},"f:reason":{}}"#
    );
}

#[test]
fn what_clients_send_as_managed_fields() {
    let live = created(json!({"metadata": {"name": "a", "uid": "u"}, "reason": "R", "count": 1}));
    let after = |sent: Value| {
        let mut changed = json_of(&live);
        changed["metadata"]["managedFields"] = sent;
        changed["count"] = json!(2);
        let mut changed = event(changed);
        track(Some(&live), &mut changed, writer("me", 2), true);
        managers(&changed)
    };
    let kept = [
        r#"probe Update v1 1 {"f:reason":{}}"#,
        r#"me Update v1 2 {"f:count":{}}"#,
    ];
    for untold in [
        json!(null),
        json!([{"manager": "z"}]),
        json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": 3}]),
    ] {
        assert_eq!(after(untold.clone()), kept, "{untold}");
    }
    for reset in [json!([]), json!([{}])] {
        assert!(after(reset).is_empty());
    }
    let own = json!([{"manager": "z", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:foo": {}}}]);
    assert_eq!(
        after(own),
        [
            r#"z Update v1 never {"f:foo":{}}"#,
            r#"me Update v1 2 {"f:count":{}}"#
        ]
    );
}

#[test]
fn times_alone_are_no_change() {
    let entry = |seconds: i64, fields: &str| ManagedFieldsEntry {
        manager: Some("x".into()),
        time: Some(at(seconds)),
        fields_v1: Some(FieldsV1 {
            raw: Some(fields.into()),
        }),
        ..ManagedFieldsEntry::default()
    };
    let metadata = |entry| ObjectMeta {
        managed_fields: vec![entry],
        ..ObjectMeta::default()
    };
    let old = metadata(entry(1, "{}"));
    let mut new = metadata(entry(2, "{}"));
    keep_times(&mut new, &old);
    assert_eq!(new, old);
    let mut other = metadata(entry(2, r#"{"f:a":{}}"#));
    keep_times(&mut other, &old);
    assert_eq!(other.managed_fields[0].time, Some(at(2)));
}

#[test]
fn managers_are_named_after_programs() {
    for (user_agent, manager) in [
        ("kubectl/v1.32.4 (linux/amd64) kubernetes/abc", "kubectl"),
        ("curl", "curl"),
        ("", ""),
        ("a\u{7}b/1", "ab"),
    ] {
        assert_eq!(manager_of(user_agent), manager);
    }
    assert_eq!(manager_of(&"x".repeat(200)).len(), 128);
}

proptest! {
    /// Comparing typed events finds the same differences as comparing their JSON.
    #[test]
    fn both_walks_agree(old in any_event(), new in any_event(), api in prop_oneof![Just(Api::Core), Just(Api::Events)]) {
        let value = |event: &Event| -> Value {
            let mut json = Vec::new();
            codec::write_event(api, event, true, &mut json);
            serde_json::from_slice(&json).unwrap()
        };
        let typed = compare(api, &old, &new);
        let untyped = schema::compare(schema::Schema::of(api), &value(&old), &value(&new));
        prop_assert_eq!(typed.written, untyped.written);
        prop_assert_eq!(typed.removed, untyped.removed);
    }

    /// After an apply by force the event has what was applied, and its manager owns exactly that. A
    /// second apply changes nothing.
    #[test]
    fn what_is_applied_is_there(live in any_event(), wanted in any_event()) {
        let mut live = live;
        live.metadata.get_or_insert_default().uid = Some("u".into());
        track(None, &mut live, writer("probe", 1), true);
        let mut config = json_of(&wanted);
        config["metadata"].as_object_mut().unwrap().remove("uid");
        let Ok(applied) = apply(Some(&live), &config, writer("app", 2), true) else {
            return Err(TestCaseError::reject("not applicable"));
        };
        let schema = schema::Schema::of(Api::Core);
        let mut got = json_of(&applied);
        got["metadata"].as_object_mut().unwrap().remove("managedFields");
        let laid_over = merge::merge(schema, &got, &config);
        prop_assert_eq!(&laid_over, &got);
        prop_assert_eq!(apply(Some(&applied), &config, writer("app", 3), false).unwrap(), applied);
    }
}
