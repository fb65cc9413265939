//! Lanes of captured and invented events.

use proptest::prelude::*;

use super::super::cases::{Case, seen};
use super::*;

const PLAIN: (Sort, Group) = (Sort::Trouble, Group::Owner);

fn drawn(lanes: &Lanes<'_>) -> Vec<String> {
    let text = |lane: &Lane<'_>| {
        let gone = if lane.gone { " gone" } else { "" };
        let Object { kind, name, .. } = lane.object;
        let indent = "  ".repeat(lane.depth);
        format!(
            "{indent}{kind}/{name}{gone} {}/{}",
            lane.own.warnings, lane.own.events
        )
    };
    lanes.drawn.iter().map(text).collect()
}

#[test]
fn the_order_is_by_trouble_or_as_it_is_chosen() {
    let mut cases = vec![
        Case::new("Pod", "loop-9", "BackOff", 900)
            .times(10_000, 50)
            .warning(),
        Case::new("Pod", "two", "Unhealthy", 100).warning(),
        Case::new("Pod", "two", "Unhealthy", 101).warning(),
        Case::new("Node", "node-1", "NodeNotReady", 200).times(2, 150),
    ];
    for at in 0..50 {
        cases.push(Case::new("Pod", "calm", "Completed", 300 + at));
    }
    let events = seen(&cases);
    for (sort, expected) in [
        (Sort::Trouble, ["loop-9", "node-1", "two", "calm"]),
        (Sort::First, ["loop-9", "two", "node-1", "calm"]),
        (Sort::Latest, ["loop-9", "calm", "node-1", "two"]),
        (Sort::Name, ["calm", "loop-9", "node-1", "two"]),
    ] {
        let found = lanes(&events, (sort, Group::Owner), 0, 300);
        let names = found.drawn.iter().map(|lane| lane.object.name);
        assert_eq!(names.collect::<Vec<_>>(), expected, "{sort:?}");
        // What comes first is drawn if there is no room for all.
        let found = lanes(&events, (sort, Group::Owner), 0, 2);
        let names = found.drawn.iter().map(|lane| lane.object.name);
        assert_eq!(names.collect::<Vec<_>>(), expected[..2], "{sort:?}");
    }
}

#[test]
fn lanes_are_put_together_by_namespace_or_node() {
    let mut cases = rollout();
    cases.push(Case::new("Pod", "px-5d567cc74c-s4ckh", "Pulled", 103).host("node-1"));
    cases.push(Case::new("Pod", "px-779d9c594d-bghfk", "Pulled", 302).host("node-2"));
    cases.push(Case::new("Pod", "etcd-0", "Pulled", 302).namespace("kube-system"));
    let events = seen(&cases);
    let owners = drawn(&lanes(&events, PLAIN, 0, 300));
    let by_namespace = lanes(&events, (Sort::Name, Group::Namespace), 0, 300);
    assert_eq!(by_namespace.drawn.len(), owners.len() + 2);
    let roots = by_namespace.drawn.iter().filter(|lane| lane.depth == 0);
    let roots: Vec<_> = roots
        .map(|lane| (lane.object.kind, lane.object.name, lane.own.events))
        .collect();
    assert_eq!(
        roots,
        [
            ("Namespace", "kube-system", 0),
            ("Node", "node-1", 1),
            ("Namespace", "shop", 0)
        ]
    );
    let by_node = lanes(&events, (Sort::Name, Group::Node), 0, 300);
    let text = drawn(&by_node);
    for (pod, node) in [("s4ckh", "Node/node-1 0/1"), ("bghfk", "Node/node-2 0/0")] {
        let pod = text.iter().position(|line| line.contains(pod)).unwrap();
        assert!(text[pod].starts_with("  Pod/"), "{text:?}");
        assert_eq!(text[pod - 1], node, "{text:?}");
    }
    for lanes in [by_namespace, by_node] {
        let sums = lanes.drawn.iter().filter(|lane| lane.depth == 0);
        let sums = sums.map(|lane| lane.family.events);
        assert_eq!(sums.sum::<u64>(), cases.len() as u64);
    }
}

#[test]
fn owners_without_events_name_their_families() {
    let cases = [
        Case::new("Pod", "px-5d567cc74c-s4ckh", "BackOff", 200).warning(),
        Case::new("Pod", "px-779d9c594d-bghfk", "Pulled", 302),
        Case::new("ReplicaSet", "px-779d9c594d", "SuccessfulCreate", 301),
        Case::new("HorizontalPodAutoscaler", "px", "Rescaled", 300),
        Case::new("Pod", "nightly-29388960-x7k2p", "Pulled", 10),
        Case::new("Pod", "cilium-sqmvj", "Pulled", 11),
        Case::new("Pod", "cilium-x7k2p", "Pulled", 12),
        // One alone may be anything.
        Case::new("Pod", "tiller-x7k2p", "Pulled", 13),
        Case::new("Pod", "db-0", "Pulled", 14),
    ];
    let events = seen(&cases);
    let found = lanes(&events, (Sort::Name, Group::Owner), 0, 300);
    assert_eq!(
        drawn(&found),
        [
            "/cilium 0/0",
            "  Pod/cilium-sqmvj 0/1",
            "  Pod/cilium-x7k2p 0/1",
            "Pod/db-0 0/1",
            "CronJob/nightly 0/0",
            "  Pod/nightly-29388960-x7k2p 0/1",
            "Deployment/px 0/0",
            "  HorizontalPodAutoscaler/px 0/1",
            "  Pod/px-5d567cc74c-s4ckh 1/1",
            "  ReplicaSet/px-779d9c594d 0/1",
            "    Pod/px-779d9c594d-bghfk 0/1",
            "Pod/tiller-x7k2p 0/1",
        ]
    );
    let px = &found.drawn[6];
    assert_eq!(
        (px.own.objects, px.family.objects, px.family.events),
        (0, 4, 4)
    );
    // By node, pods are below nothing else.
    let by_node = lanes(&events, (Sort::Name, Group::Node), 0, 300);
    assert!(by_node.drawn.iter().all(|lane| lane.own.events > 0));
    // Pages are of what has events.
    assert_eq!((found.next, found.more), (9, 0));
    let first = lanes(&events, (Sort::Name, Group::Owner), 0, 2);
    assert_eq!(drawn(&first), drawn(&found)[..3]);
    let next = lanes(&events, (Sort::Name, Group::Owner), 2, 2);
    assert_eq!(drawn(&next), drawn(&found)[3..6]);
    assert_eq!((next.next, next.more), (4, 5));
}

#[test]
fn an_object_without_a_kind_is_no_owner_of_pods_with_its_name() {
    let cases = [
        Case::new("", "cilium", "Checked", 10),
        Case::new("Pod", "cilium-sqmvj", "Pulled", 11),
        Case::new("Pod", "cilium-x7k2p", "Pulled", 12),
    ];
    let events = seen(&cases);
    for group in [Group::Owner, Group::Namespace] {
        let found = lanes(&events, (Sort::Name, group), 0, 300);
        let text = drawn(&found);
        assert_eq!(
            text.iter()
                .filter(|lane| lane.trim() == "/cilium 0/1")
                .count(),
            1
        );
        let family = text.iter().position(|lane| lane.trim() == "/cilium 0/0");
        let family = family.unwrap_or_else(|| panic!("{text:?}"));
        assert_eq!(found.drawn[family].own.objects, 0);
        assert_eq!(found.drawn[family].family.objects, 2);
        assert_eq!(found.drawn[family + 1].parent, Some(family));
        assert_eq!(found.drawn[family + 2].parent, Some(family));
    }
}

/// A roll-out from the project's captured events, and a job and a node beside it.
fn rollout() -> Vec<Case> {
    vec![
        Case::new("Deployment", "px", "ScalingReplicaSet", 100)
            .message("Scaled up replica set px-5d567cc74c to 1"),
        Case::new("ReplicaSet", "px-5d567cc74c", "SuccessfulCreate", 101)
            .message("Created pod: px-5d567cc74c-s4ckh"),
        Case::new("Pod", "px-5d567cc74c-s4ckh", "Scheduled", 102),
        Case::new("Pod", "px-5d567cc74c-s4ckh", "BackOff", 200).warning(),
        Case::new("Deployment", "px", "ScalingReplicaSet", 300)
            .message("Scaled up replica set px-779d9c594d to 1"),
        Case::new("Pod", "px-779d9c594d-bghfk", "Scheduled", 301),
        Case::new("ReplicaSet", "px-5d567cc74c", "SuccessfulDelete", 310)
            .message("Deleted pod: px-5d567cc74c-s4ckh"),
        Case::new("Pod", "px-5d567cc74c-s4ckh", "Killing", 311).message("Stopping container web"),
        Case::new("Node", "node-1", "NodeReady", 90),
        Case::new("Job", "nightly-29388960", "Completed", 95),
        Case::new("CronJob", "nightly", "SawCompletedJob", 96),
    ]
}

/// The roll-out's pod that has a warning, below its owners.
const TROUBLED: [&str; 3] = [
    "Deployment/px 0/2",
    "  ReplicaSet/px-5d567cc74c 0/2",
    "    Pod/px-5d567cc74c-s4ckh gone 1/3",
];

#[test]
fn families_are_together_and_the_most_troubled_one_is_first() {
    let cases = rollout();
    let found = lanes(&seen(&cases), PLAIN, 0, 300);
    let others = [
        // The job's replica set has no events.
        "  Pod/px-779d9c594d-bghfk 0/1",
        "CronJob/nightly 0/1",
        "  Job/nightly-29388960 0/1",
        "Node/node-1 0/1",
    ];
    assert_eq!(drawn(&found), [&TROUBLED[..], &others[..]].concat());
    assert_eq!((found.next, found.more), (7, 0));
    let lane = |at: usize| found.of_events.get(at).copied().flatten();
    assert_eq!((lane(0), lane(3), lane(8)), (Some(0), Some(2), Some(6)));
    assert_eq!(found.drawn[2].parent, Some(1));
}

proptest! {
    /// What a lane says of its family is what a scan of the family's events says, whichever of
    /// them are drawn.
    #[test]
    fn a_family_has_the_sums_of_all_below_it(
        events in prop::collection::vec((0_usize..12, 0_i64..500, 1_i32..50, any::<bool>()), 1..60),
        max in 1_usize..14,
    ) {
        let objects = [
            ("Deployment", "px"), ("ReplicaSet", "px-5d567cc74c"), ("ReplicaSet", "px-779d9c594d"),
            ("Pod", "px-5d567cc74c-s4ckh"), ("Pod", "px-5d567cc74c-c2c2c"),
            ("Pod", "px-779d9c594d-bghfk"), ("CronJob", "nightly"),
            ("Job", "nightly-29388960"), ("Pod", "nightly-29388960-x7k2p"), ("Node", "node-1"),
            ("StatefulSet", "db"), ("Pod", "db-0"),
        ];
        let cases: Vec<Case> = events
            .iter()
            .map(|(object, at, count, is_warning)| {
                let (kind, name) = objects[*object];
                let case = Case::new(kind, name, "BackOff", 1000 + at).times(*count, 1000);
                if *is_warning { case.warning() } else { case }
            })
            .collect();
        let events = seen(&cases);
        let all = lanes(&events, PLAIN, 0, 300);
        let drawn = lanes(&events, PLAIN, 0, max).drawn;
        for lane in &drawn {
            let whole = all.drawn.iter().position(|one| one.object == lane.object);
            let is_below = |at: &Option<usize>| {
                let mut at = *at;
                while at.is_some() && at != whole {
                    at = at.and_then(|at| all.drawn[at].parent);
                }
                at.is_some()
            };
            let of_family = events.iter().zip(&all.of_events);
            let of_family: Vec<_> = of_family.filter(|(_, at)| is_below(at)).collect();
            let names: HashSet<_> = of_family.iter().map(|(event, _)| event.object()).collect();
            let briefs = || of_family.iter().map(|(event, _)| &event.brief);
            let scanned = Sums {
                objects: names.len() as u64,
                events: of_family.len() as u64,
                warnings: of_family.iter().filter(|(event, _)| event.is_warning()).count() as u64,
                occurrences: briefs().map(|brief| brief.count).sum(),
                trouble: of_family
                    .iter()
                    .filter(|(event, _)| {
                        event.is_warning() || is_trouble(event.brief.kind, event.brief.reason)
                    })
                    .map(|(event, _)| event.brief.count)
                    .sum(),
                first: briefs().map(|brief| brief.first).min().unwrap(),
                last: briefs().map(|brief| brief.last).max().unwrap(),
            };
            prop_assert_eq!(lane.family, scanned);
        }
    }
}

#[test]
fn warnings_are_drawn_first_and_with_their_owners() {
    let cases = rollout();
    let found = lanes(&seen(&cases), PLAIN, 0, 3);
    assert_eq!(drawn(&found), TROUBLED);
    assert_eq!(found.more, 4);
    assert_eq!(found.of_events.iter().flatten().count(), 7);
    assert_eq!(lanes(&seen(&cases), PLAIN, 0, 0).more, 7);
    assert!(lanes(&[], PLAIN, 0, 300).drawn.is_empty());
}

#[test]
fn pages_of_lanes_have_every_lane() {
    let cases = rollout();
    let events = seen(&cases);
    let mut pages = Vec::new();
    let mut skip = 0;
    loop {
        let page = lanes(&events, PLAIN, skip, 3);
        pages.push(drawn(&page));
        assert_eq!(page.next + page.more, 7);
        skip = page.next;
        if page.more == 0 {
            break;
        }
    }
    #[rustfmt::skip]
    let expected = [
        TROUBLED,
        // The next page draws the owners of its lanes again.
        ["Deployment/px 0/2", "  Pod/px-779d9c594d-bghfk 0/1", "CronJob/nightly 0/1"],
        ["CronJob/nightly 0/1", "  Job/nightly-29388960 0/1", "Node/node-1 0/1"],
    ];
    assert_eq!(pages, expected);
    // Skips more lanes than there are.
    let found = lanes(&events, PLAIN, 100, 3);
    assert_eq!((found.drawn.len(), found.next, found.more), (0, 7, 0));
}

#[test]
fn objects_of_two_clusters_or_namespaces_are_no_family() {
    let mut cases = rollout();
    for case in &mut cases {
        case.cluster = 1;
    }
    cases.extend(rollout());
    let found = lanes(&seen(&cases), PLAIN, 0, 300);
    assert_eq!(found.drawn.len(), 14);
    for lane in &found.drawn {
        let parent = lane.parent.map(|at| found.drawn[at].object.cluster);
        assert!(parent.is_none_or(|cluster| cluster == lane.object.cluster));
    }
}

/// Objects are distinguished as in `tidings top`.
#[test]
fn a_pod_that_was_created_anew_has_a_lane_of_its_own() {
    let cases = [
        Case::new("StatefulSet", "redis", "SuccessfulCreate", 90)
            .message("create Pod redis-0 in StatefulSet redis successful"),
        Case::new("Pod", "redis-0", "OOMKilling", 100)
            .uid("aaaa")
            .warning(),
        Case::new("Pod", "redis-0", "Killing", 101)
            .uid("aaaa")
            .message("Stopping container redis"),
        Case::new("Pod", "redis-0", "Started", 200).uid("bbbb"),
        Case::new("Pod", "redis-0", "Probed", 201),
        // Events with one uid and events without it belong to the same pod. For a node, the
        // kubelet writes the node's name as the uid.
        Case::new("Pod", "web-0", "Started", 200).uid("cccc"),
        Case::new("Pod", "web-0", "Probed", 201),
        Case::new("Node", "node-1", "NodeReady", 10).uid("node-1"),
        Case::new("Node", "node-1", "Starting", 11).uid("dddd"),
    ];
    let found = lanes(&seen(&cases), PLAIN, 0, 300);
    let shown = found.drawn.iter().map(|lane| {
        let gone = if lane.gone { " gone" } else { "" };
        let apart = if lane.has_namesake { " apart" } else { "" };
        format!(
            "{} {:?} {}{gone}{apart}",
            lane.object.name, lane.uid, lane.own.events
        )
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "node-1 \"dddd\" 2",
            "redis \"\" 1",
            "redis-0 \"aaaa\" 2 gone apart",
            "redis-0 \"bbbb\" 1 apart",
            "redis-0 \"\" 1 apart",
            "web-0 \"cccc\" 2",
        ]
    );
    assert!(found.drawn[2..5].iter().all(|lane| lane.parent == Some(1)));
}

#[test]
fn a_pod_whose_container_is_started_again_is_not_gone() {
    let cases = [
        Case::new("Pod", "web-0", "Killing", 10)
            .message("Container web failed liveness probe, will be restarted"),
        Case::new("Pod", "web-1", "Killing", 10).message("Stopping container web"),
        Case::new("Pod", "web-1", "Started", 20),
        Case::new("Pod", "web-2", "Killing", 10).message("Stopping container web"),
    ];
    let found = lanes(&seen(&cases), PLAIN, 0, 300);
    let gone = found.drawn.iter().filter(|lane| lane.gone);
    let gone: Vec<_> = gone.map(|lane| lane.object.name).collect();
    assert_eq!(gone, ["web-2"]);
}
