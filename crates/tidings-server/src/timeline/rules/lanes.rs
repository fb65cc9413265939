//! Lanes of a view: one for each object, with the members of a family together.
//!
//! The lanes with the most trouble come first. Trouble is the number of occurrences of warnings,
//! and of changes of nodes that end what runs on them; a family has the sum. It counts as its
//! logarithm, three times for a node, which carries many pods.
//!
//! Owned objects are found by what events say and by names ([`tidings_core::possible_owners`]).
//! Owners are always of another kind than what they own, and these kinds have an order, so there
//! are no circles. An owner without events in the range has a lane, too, if the names of what it
//! owns [show](tidings_core::owner_by_name) it, or if several pods have the beginning of their
//! names in common; of these the owner's kind is not known. An autoscaler is below the deployment
//! of its name.

use foldhash::{HashMap, HashSet};
use serde::Serialize;
use std::cmp::Reverse;
use tidings_core::{generated_from, owner_by_name, possible_owners, told_of};

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
    /// Without events.
    const NONE: Self = Self {
        objects: 0,
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
    /// The number of lanes with events that are drawn or were skipped.
    pub(crate) next: usize,
    /// The number of such lanes after these.
    pub(crate) more: usize,
}

/// Makes the lanes in which events are drawn, one for each object. The first `skip` lanes are those
/// of earlier answers: of the lanes after them, at most `max` that have events are returned, each
/// with the lanes of its object's owners, even if an earlier answer had these. Lanes of a family
/// follow each other, an owned object below its owner. If families are sorted by trouble, the
/// objects of an owner are in the order in which they were first seen.
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
            let mut lane = Lane::of(object);
            lane.has_namesake = has_namesake;
            lane.own.objects = 1;
            found.push(lane);
            by_object.entry(object).or_default().push(found.len() - 1);
            found.len() - 1
        });
        of_events.push(lane);
        if let Some(lane) = found.get_mut(lane) {
            add(lane, event);
        }
    }
    find_owners(events, &of_events, &by_object, &mut found);
    if group != Group::Node {
        put_below_names(&mut by_object, &mut found);
    }
    match group {
        Group::Owner => {}
        Group::Namespace => put_into_namespaces(&mut by_object, &mut found),
        Group::Node => put_on_nodes(events, &of_events, &mut by_object, &mut found),
    }
    add_up(&mut found);
    let (drawn, next) = choose(&found, sort, skip, max);
    let objects = found.iter().filter(|lane| lane.own.events > 0).count();
    Lanes {
        next,
        more: objects - next,
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

/// Puts what has no owner in the range below an owner that its name shows.
fn put_below_names<'a>(by_object: &mut Objects<'a>, lanes: &mut Vec<Lane<'a>>) {
    let mut siblings: HashMap<Object<'a>, HashSet<&str>> = HashMap::default();
    // Objects without a kind are others, even if they have the name of a family.
    let mut families = Objects::default();
    let generated = |object: Object<'a>| {
        let name = generated_from(object.kind, object.name)?;
        Some(Object {
            kind: "",
            name,
            ..object
        })
    };
    for lane in lanes.iter().filter(|lane| lane.parent.is_none()) {
        if let Some(family) = generated(lane.object) {
            siblings.entry(family).or_default().insert(lane.object.name);
        }
    }
    for at in 0..lanes.len() {
        let Some(lane) = lanes.get(at).filter(|lane| lane.parent.is_none()) else {
            continue;
        };
        let object = lane.object;
        let shown = owner_by_name(object.kind, object.name).map(|(kind, name)| Object {
            kind,
            name,
            ..object
        });
        let is_family = |family: &Object<'a>| siblings.get(family).is_some_and(|it| it.len() > 1);
        let family = || generated(object).filter(is_family);
        let parent = match shown {
            Some(owner) => Some(lane_of_group(owner, by_object, lanes)),
            None => family().map(|family| lane_of_group(family, &mut families, lanes)),
        };
        if let Some(lane) = lanes.get_mut(at) {
            lane.parent = parent;
        }
    }
    for lane in lanes.iter_mut().filter(|lane| lane.parent.is_none()) {
        if lane.object.kind == "HorizontalPodAutoscaler" {
            let scaled = Object {
                kind: "Deployment",
                ..lane.object
            };
            lane.parent = by_object.get(&scaled).and_then(|of| of.first()).copied();
        }
    }
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

/// The lanes to draw, by index, unordered, and the number of these and the skipped ones. Lanes
/// without events come with those below them, and are not counted.
fn choose(lanes: &[Lane<'_>], sort: Sort, skip: usize, max: usize) -> (Vec<usize>, usize) {
    let has_events = |at: &usize| lanes.get(*at).is_some_and(|lane| lane.own.events > 0);
    let mut ranked: Vec<usize> = (0..lanes.len()).filter(has_events).collect();
    let rank = |at: &usize| {
        let lane = lanes.get(*at)?;
        Some((sort.key(&lane.object, &lane.own), name_of(lane)))
    };
    ranked.sort_by_cached_key(rank);
    let mut places = vec![Place::Later; lanes.len()];
    let mut drawn = Vec::new();
    let (mut next, mut left) = (0, max);
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
        if !is_skipped {
            let objects = line.iter().filter(|at| has_events(at)).count();
            let Some(rest) = left.checked_sub(objects) else {
                break;
            };
            left = rest;
        }
        for at in line {
            if let Some(place) = places.get_mut(at) {
                next += usize::from(*place == Place::Later && has_events(&at));
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
mod tests;
