//! Lanes of a view: one for each object, with the members of a family together.
//!
//! The lanes with the most trouble come first. Trouble is the number of occurrences of warnings,
//! and of changes of nodes that end what runs on them; a family has the sum. It counts as its
//! logarithm, three times for a node, which carries many pods.
//!
//! Owned objects are found by what events say and by names ([`tidings_core::possible_owners`]).
//! Owners are always of another kind than what they own, and these kinds have an order, so there
//! are no circles.

use foldhash::{HashMap, HashSet};
use serde::Serialize;
use std::cmp::Reverse;
use tidings_core::{possible_owners, told_of};

use super::before::host;
use super::changes::is_trouble;
use super::seen::{Object, Seen};

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    #[default]
    Trouble,
    /// By when an object was first seen.
    First,
    /// The object last seen comes first.
    Latest,
    Name,
}

/// What lanes are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Group {
    #[default]
    Owner,
    /// Families below their namespace.
    Namespace,
    /// Pods below their node, and not below their owners.
    Node,
}

impl Sort {
    /// The order with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "trouble" => Self::Trouble,
            "first" => Self::First,
            "latest" => Self::Latest,
            "name" => Self::Name,
            _ => return None,
        })
    }

    /// The place of an object that has these sums: least first.
    fn key(
        self,
        object: &Object<'_>,
        sums: &Sums,
    ) -> (Reverse<u64>, i64, Reverse<u64>, Reverse<i64>) {
        let plain = (Reverse(0), 0, Reverse(0), Reverse(0));
        let score = || score(object, sums.trouble);
        match self {
            Self::Trouble => (
                Reverse(score()),
                0,
                Reverse(sums.events),
                Reverse(sums.last),
            ),
            Self::First => (plain.0, sums.first, plain.2, plain.3),
            Self::Latest => (plain.0, 0, plain.2, Reverse(sums.last)),
            Self::Name => plain,
        }
    }
}

impl Group {
    /// The group with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "owner" => Self::Owner,
            "namespace" => Self::Namespace,
            "node" => Self::Node,
            _ => return None,
        })
    }
}

/// One object with its events.
#[derive(Clone, Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) object: Object<'a>,
    /// The uid in the latest event that has one.
    pub(crate) uid: &'a str,
    /// Whether another lane's object has the same name and another uid.
    pub(crate) has_namesake: bool,
    /// The index of the owner's lane.
    pub(crate) parent: Option<usize>,
    /// The number of owners above it.
    pub(crate) depth: usize,
    /// Whether events say that the object was deleted, and no event is later.
    pub(crate) gone: bool,
    pub(crate) own: Sums,
    /// Of the object and everything below it, whether drawn or not.
    pub(crate) family: Sums,
}

/// What some events say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sums {
    /// The objects that they are about.
    pub(crate) objects: u64,
    pub(crate) events: u64,
    pub(crate) warnings: u64,
    /// The occurrences of all events, as their counts say.
    pub(crate) occurrences: u64,
    /// The occurrences of what troubles something.
    #[serde(skip)]
    pub(crate) trouble: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

impl Sums {
    /// One object without events.
    const NONE: Self = Self {
        objects: 1,
        events: 0,
        warnings: 0,
        occurrences: 0,
        trouble: 0,
        first: i64::MAX,
        last: i64::MIN,
    };

    fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.events += other.events;
        self.warnings += other.warnings;
        self.occurrences = self.occurrences.saturating_add(other.occurrences);
        self.trouble = self.trouble.saturating_add(other.trouble);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// The lanes in the order in which they are drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes<'a> {
    pub(crate) drawn: Vec<Lane<'a>>,
    /// The lane of each event; `None` if it is not drawn.
    pub(crate) of_events: Vec<Option<usize>>,
    /// The number of lanes that are drawn or were skipped.
    pub(crate) next: usize,
    /// The number of lanes after these.
    pub(crate) more: usize,
}

/// Makes the lanes of events: at most `max` after the skipped ones, each with its owners, even if
/// these were skipped. Families are together. An owned object comes below its owner; by trouble,
/// owned objects are in the order in which they were first seen.
pub(crate) fn lanes<'a>(
    events: &[Seen<'a>],
    (sort, group): (Sort, Group),
    skip: usize,
    max: usize,
) -> Lanes<'a> {
    let mut found: Vec<Lane<'a>> = Vec::new();
    let mut by_object = Objects::default();
    let several = of_several_uids(events);
    let mut by_uid: HashMap<(Object<'a>, &str), usize> = HashMap::default();
    let mut of_events = Vec::with_capacity(events.len());
    for event in events {
        let object = event.object();
        // An object that was created again has another uid. Some of several events may have none.
        let has_namesake = several.contains(&object);
        let uid = if has_namesake { event.object_uid() } else { "" };
        let lane = *by_uid.entry((object, uid)).or_insert_with(|| {
            found.push(Lane {
                has_namesake,
                ..Lane::of(object)
            });
            by_object.entry(object).or_default().push(found.len() - 1);
            found.len() - 1
        });
        of_events.push(lane);
        if let Some(lane) = found.get_mut(lane) {
            add(lane, event);
        }
    }
    find_owners(events, &of_events, &by_object, &mut found);
    match group {
        Group::Owner => {}
        Group::Namespace => put_into_namespaces(&mut by_object, &mut found),
        Group::Node => put_on_nodes(events, &of_events, &mut by_object, &mut found),
    }
    add_up(&mut found);
    let (drawn, next) = choose(&found, sort, skip, max);
    Lanes {
        next,
        more: found.len() - next,
        ..arrange(&found, sort, drawn, &of_events)
    }
}

/// The weight of trouble, in thousandths of a power of two.
fn score(object: &Object<'_>, trouble: u64) -> u64 {
    let weight = if object.kind == "Node" { 3.0 } else { 1.0 };
    // A logarithm of 64 bits is at most 64.
    ((trouble as f64 + 1.0).log2() * weight * 1000.0) as u64
}

/// The lane of a group: of the object itself if that has events, or one without.
fn lane_of_group<'a>(
    object: Object<'a>,
    by_object: &mut Objects<'a>,
    lanes: &mut Vec<Lane<'a>>,
) -> usize {
    let of_object = by_object.entry(object).or_default();
    if let Some(lane) = of_object.first() {
        return *lane;
    }
    of_object.push(lanes.len());
    lanes.push(Lane::of(object));
    lanes.len() - 1
}

fn put_into_namespaces<'a>(by_object: &mut Objects<'a>, lanes: &mut Vec<Lane<'a>>) {
    for at in 0..lanes.len() {
        let Some(lane) = lanes.get(at).filter(|lane| lane.parent.is_none()) else {
            continue;
        };
        let object = lane.object;
        if object.namespace.is_empty() || object.kind == "Namespace" {
            continue;
        }
        let namespace = Object {
            namespace: "",
            kind: "Namespace",
            name: object.namespace,
            ..object
        };
        let parent = lane_of_group(namespace, by_object, lanes);
        if let Some(lane) = lanes.get_mut(at) {
            lane.parent = Some(parent);
        }
    }
}

fn put_on_nodes<'a>(
    events: &[Seen<'a>],
    of_events: &[usize],
    by_object: &mut Objects<'a>,
    lanes: &mut Vec<Lane<'a>>,
) {
    for (event, lane) in events.iter().zip(of_events) {
        let Some(node) = host(&event.brief).filter(|_| event.brief.kind == "Pod") else {
            continue;
        };
        let node = Object {
            namespace: "",
            kind: "Node",
            name: node,
            ..event.object()
        };
        let parent = lane_of_group(node, by_object, lanes);
        if let Some(lane) = lanes.get_mut(*lane) {
            lane.parent = Some(parent);
        }
    }
}

/// The lanes of each object; an object that was created again has several.
type Objects<'a> = HashMap<Object<'a>, Vec<usize>>;

/// The objects whose events have several uids.
fn of_several_uids<'a>(events: &[Seen<'a>]) -> HashSet<Object<'a>> {
    let mut uids: HashMap<Object<'a>, &str> = HashMap::default();
    let mut several = HashSet::default();
    for event in events {
        let uid = event.object_uid();
        if !uid.is_empty() && *uids.entry(event.object()).or_insert(uid) != uid {
            several.insert(event.object());
        }
    }
    several
}

/// The object's lane that existed at a moment: the last one that began before it.
fn lane_at(lanes: &[Lane<'_>], of_object: &[usize], at: i64) -> Option<usize> {
    let first = |lane: &usize| lanes.get(*lane).map_or(i64::MAX, |lane| lane.own.first);
    let begun = of_object.iter().filter(|lane| first(lane) <= at);
    let begun = begun.max_by_key(|lane| first(lane));
    begun
        .or_else(|| of_object.iter().min_by_key(|lane| first(lane)))
        .copied()
}

impl<'a> Lane<'a> {
    /// The lane of an object without events.
    fn of(object: Object<'a>) -> Self {
        Self {
            object,
            uid: "",
            has_namesake: false,
            parent: None,
            depth: 0,
            gone: false,
            own: Sums::NONE,
            family: Sums::NONE,
        }
    }
}

fn add<'a>(lane: &mut Lane<'a>, event: &Seen<'a>) {
    let brief = &event.brief;
    let is_latest = brief.last >= lane.own.last;
    lane.own.add(&Sums {
        objects: 0,
        events: event.events,
        warnings: if event.is_warning() { event.events } else { 0 },
        occurrences: brief.count,
        trouble: if event.is_warning() || is_trouble(brief.kind, brief.reason) {
            brief.count
        } else {
            0
        },
        first: brief.first,
        last: brief.last,
    });
    if is_latest {
        if !event.object_uid().is_empty() {
            lane.uid = event.object_uid();
        }
        // When a container is restarted, Killing has another message.
        lane.gone = brief.kind == "Pod"
            && brief.reason == "Killing"
            && brief.message.starts_with("Stopping container");
    }
}

fn find_owners<'a>(
    events: &[Seen<'a>],
    of_events: &[usize],
    by_object: &Objects<'a>,
    lanes: &mut [Lane<'a>],
) {
    for (event, of_event) in events.iter().zip(of_events) {
        let brief = &event.brief;
        let Some(told) = told_of(brief.kind, brief.reason, brief.message) else {
            continue;
        };
        let owned = Object {
            kind: told.kind,
            name: told.name,
            ..event.object()
        };
        let owned = by_object.get(&owned);
        // An owner reports a pod before the pod's own first event, or soon after its end.
        let owned = owned.and_then(|of_object| lane_at(lanes, of_object, brief.last + TOLD_EARLY));
        if let Some(lane) = owned.and_then(|at| lanes.get_mut(at)) {
            lane.parent = Some(*of_event);
            lane.gone |= told.deleted && lane.own.last <= brief.last + TOLD_LATE;
        }
    }
    for at in 0..lanes.len() {
        let Some(lane) = lanes.get(at).filter(|lane| lane.parent.is_none()) else {
            continue;
        };
        let owners = possible_owners(lane.object.kind, lane.object.name);
        let mut owners = owners.map(|(kind, name)| Object {
            kind,
            name,
            ..lane.object
        });
        let owner = owners.find_map(|owner| lane_at(lanes, by_object.get(&owner)?, lane.own.first));
        if let Some(lane) = lanes.get_mut(at) {
            lane.parent = owner;
        }
    }
}

/// Adds the sums of each lane to those of its owners.
fn add_up(lanes: &mut [Lane<'_>]) {
    for lane in &mut *lanes {
        lane.family = lane.own;
    }
    for at in 0..lanes.len() {
        let Some(lane) = lanes.get(at) else { continue };
        let (own, mut owner) = (lane.own, lane.parent);
        while let Some(lane) = owner.and_then(|at| lanes.get_mut(at)) {
            lane.family.add(&own);
            owner = lane.parent;
        }
    }
}

/// How long before an object's first event its owner may report its creation, in milliseconds: the
/// kubelet's times are in seconds.
const TOLD_EARLY: i64 = 2_000;

/// How long events may follow a deletion, in milliseconds: a pod has half a minute to end.
const TOLD_LATE: i64 = 60_000;

/// The lanes to draw, by index, unordered, and the number of these and the skipped ones.
fn choose(lanes: &[Lane<'_>], sort: Sort, skip: usize, max: usize) -> (Vec<usize>, usize) {
    let mut ranked: Vec<usize> = (0..lanes.len()).collect();
    let rank = |at: &usize| {
        let lane = lanes.get(*at)?;
        Some((sort.key(&lane.object, &lane.own), name_of(lane)))
    };
    ranked.sort_by_cached_key(rank);
    let mut places = vec![Place::Later; lanes.len()];
    let mut drawn = Vec::new();
    let mut next = 0;
    for at in ranked {
        let place = |at: usize| places.get(at).copied().unwrap_or(Place::Drawn);
        if place(at) != Place::Later {
            continue;
        }
        let is_skipped = next < skip;
        let mut line = Vec::new();
        let mut owner = Some(at);
        while let Some(at) = owner {
            match place(at) {
                Place::Drawn => break,
                Place::Skipped if is_skipped => break,
                Place::Skipped | Place::Later => line.push(at),
            }
            owner = lanes.get(at).and_then(|lane| lane.parent);
        }
        // The lanes of the next pages follow in this order.
        if !is_skipped && drawn.len() + line.len() > max {
            break;
        }
        for at in line {
            if let Some(place) = places.get_mut(at) {
                next += usize::from(*place == Place::Later);
                *place = if is_skipped {
                    Place::Skipped
                } else {
                    Place::Drawn
                };
            }
            if !is_skipped {
                drawn.push(at);
            }
        }
    }
    (drawn, next)
}

/// The position at which a lane is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Skipped,
    Drawn,
    Later,
}

/// What decides between lanes, and in the order by name.
fn name_of<'a>(lane: &Lane<'a>) -> (&'a str, Object<'a>, &'a str) {
    (lane.object.name, lane.object, lane.uid)
}

/// Sorts the lanes to draw.
fn arrange<'a>(
    found: &[Lane<'a>],
    sort: Sort,
    drawn: Vec<usize>,
    of_events: &[usize],
) -> Lanes<'a> {
    let mut owned: HashMap<Option<usize>, Vec<usize>> = HashMap::default();
    for at in drawn {
        let Some(lane) = found.get(at) else { continue };
        owned.entry(lane.parent).or_default().push(at);
    }
    for (parent, lanes) in &mut owned {
        lanes.sort_by_cached_key(|at| {
            let lane = found.get(*at)?;
            let order = match (parent, sort) {
                (Some(_), Sort::Trouble) => Sort::First,
                _ => sort,
            };
            Some((order.key(&lane.object, &lane.family), name_of(lane)))
        });
    }
    let mut places = vec![None; found.len()];
    let mut order = Vec::new();
    // The next lane is at the end of the stack.
    let mut waiting: Vec<(usize, usize, Option<usize>)> = Vec::new();
    let mut put = |parent, depth, place, waiting: &mut Vec<_>| {
        let lanes = owned.remove(&parent).unwrap_or_default();
        waiting.extend(lanes.into_iter().rev().map(|at| (at, depth, place)));
    };
    put(None, 0, None, &mut waiting);
    while let Some((at, depth, parent)) = waiting.pop() {
        let place = order.len();
        order.push((at, depth, parent));
        if let Some(there) = places.get_mut(at) {
            *there = Some(place);
        }
        put(Some(at), depth + 1, Some(place), &mut waiting);
    }
    let lanes = order.into_iter().filter_map(|(at, depth, parent)| {
        let lane = found.get(at)?;
        Some(Lane {
            parent,
            depth,
            ..lane.clone()
        })
    });
    Lanes {
        drawn: lanes.collect(),
        of_events: of_events
            .iter()
            .map(|at| places.get(*at).copied().flatten())
            .collect(),
        ..Lanes::default()
    }
}

#[cfg(test)]
mod tests {
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
            Case::new("Pod", "px-5d567cc74c-s4ckh", "Killing", 311)
                .message("Stopping container web"),
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
}
