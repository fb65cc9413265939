//! Ranks what changed before an event: its neighbours in time and among objects.
//!
//! A neighbour's weight depends on its relation to the event's object, on whether its reason
//! reports a change (an image, a scale, a placement, a configuration) or trouble, and on its
//! distance in time: the weight halves every ten minutes. Of an object's events with one reason,
//! only the last before the event counts.

use std::cmp::Reverse;
use std::collections::HashMap;

use tidings_api::codec::stored::Brief;
use tidings_core::{possible_owners, told_of};

use super::seen::{Object, Seen};
use super::words;

/// Maximum neighbours in an answer.
pub(crate) const BEFORE_MAX: usize = 20;
/// Maximum distance of a near change, in milliseconds.
const NEAR: i64 = 900_000;
/// Reasons of changes that are few in any cluster: those of nodes and of scale, and evictions.
pub(crate) const CHANGES: [&str; 14] = [
    "NodeNotReady",
    "NodeReady",
    "NodeNotSchedulable",
    "Rebooted",
    "Starting",
    "NodeHasDiskPressure",
    "RemovingNode",
    "SystemOOM",
    "OOMKilling",
    "Evicted",
    "TaintManagerEviction",
    "Preempted",
    "ScalingReplicaSet",
    "SuccessfulRescale",
];
/// Distance at which a neighbour's weight is halved, in milliseconds.
const HALF: f64 = 600_000.0;

/// A neighbour of an event, and why it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// The neighbour's index among the events.
    pub(crate) event: usize,
    pub(crate) why: String,
    /// When it last happened before the event began, as far as that is known.
    pub(crate) at: i64,
    /// Whether it is likely the cause: a change shortly before, of the object itself, its owner or
    /// its node.
    pub(crate) near: bool,
}

/// How an object is related to the event's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    Owner,
    Owned,
    Node,
    Sibling,
    SameNode,
    Namespace,
}

/// The change that an event with this reason reports.
fn change(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "Pulled" | "Pulling" => "an image",
        "ScalingReplicaSet" | "SuccessfulRescale" | "SuccessfulCreate" | "SuccessfulDelete" => {
            "a change of scale"
        }
        "Scheduled" | "Preempted" | "TriggeredScaleUp" | "ScaleDown" => "a placement",
        "Killing" | "Evicted" | "TaintManagerEviction" | "Drain" | "SandboxChanged" => "an end",
        "NodeNotReady"
        | "NodeReady"
        | "NodeNotSchedulable"
        | "NodeSchedulable"
        | "Rebooted"
        | "Starting"
        | "NodeHasDiskPressure"
        | "NodeHasInsufficientMemory"
        | "RemovingNode"
        | "SystemOOM"
        | "OOMKilling" => "a node's state",
        "ConfigMapCreated"
        | "ConfigMapUpdated"
        | "SecretCreated"
        | "SecretUpdated"
        | "ObservedConfigChanged"
        | "DeploymentUpdated"
        | "DeploymentRollback" => "a configuration",
        "FailedMount"
        | "FailedAttachVolume"
        | "SuccessfulAttachVolume"
        | "ProvisioningSucceeded"
        | "ProvisioningFailed" => "a volume",
        "LeaderElection" => "a new leader",
        "Started" | "Created" => "a start",
        _ => return None,
    })
}

/// The neighbours of an event that happened before it began, the most likely cause first.
pub(crate) fn before(event: &Seen<'_>, others: &[Seen<'_>]) -> Vec<Neighbour> {
    let object = event.object();
    let above: Vec<_> = possible_owners(object.kind, object.name).collect();
    let node = node_of(event, others);
    let began = event.brief.first;
    // The last event of each object and reason.
    let mut nearest: HashMap<(Object<'_>, &str), (usize, i64)> = HashMap::new();
    for (at, other) in others.iter().enumerate() {
        let is_itself = other.cluster == event.cluster
            && other.brief.namespace == event.brief.namespace
            && other.brief.name == event.brief.name;
        let is_again = other.object() == object && other.brief.reason == event.brief.reason;
        let happened = last_before(other, began);
        let Some(happened) = happened.filter(|_| !is_itself && !is_again) else {
            continue;
        };
        let nearest = nearest
            .entry((other.object(), other.brief.reason))
            .or_insert((at, happened));
        if happened > nearest.1 {
            *nearest = (at, happened);
        }
    }
    let mut ranked = Vec::new();
    for (at, happened) in nearest.into_values() {
        let Some(other) = others.get(at) else {
            continue;
        };
        let Some(relation) = relation(event, other, &above, node) else {
            continue;
        };
        let change = change(other.brief.reason);
        let distance = began.saturating_sub(happened);
        let weight = weight(relation)
            * if change.is_some() { 2.0 } else { 1.0 }
            * if other.is_warning() { 1.5 } else { 1.0 };
        let score = weight * (-(distance as f64) / HALF).exp2();
        // Positive floats sort like their bits.
        ranked.push((Reverse(score.to_bits()), distance, at, relation, change));
    }
    ranked.sort_unstable_by_key(|(score, distance, at, ..)| (*score, *distance, *at));
    ranked.truncate(BEFORE_MAX);
    let told = ranked
        .into_iter()
        .map(|(_, distance, at, relation, change)| {
            let is_close = matches!(relation, Relation::Same | Relation::Owner | Relation::Node);
            let near = is_close && change.is_some() && distance <= NEAR;
            let relation = relation.words(object.kind);
            let change = change.map(|what| format!(", {what}")).unwrap_or_default();
            Neighbour {
                event: at,
                why: format!("{relation}{change}, {} before", words::long(distance)),
                at: began.saturating_sub(distance),
                near,
            }
        });
    told.collect()
}

/// When an event last happened before a moment, as far as that is known.
fn last_before(event: &Seen<'_>, moment: i64) -> Option<i64> {
    let brief = &event.brief;
    if brief.last <= moment {
        Some(brief.last)
    } else {
        (brief.first <= moment).then_some(brief.first)
    }
}

/// The node of an event's object, by the events of kubelets and schedulers.
fn node_of<'a>(event: &Seen<'a>, others: &[Seen<'a>]) -> &'a str {
    if event.brief.kind == "Node" {
        return event.brief.object;
    }
    let object = event.object();
    let of_object = others.iter().filter(|other| other.object() == object);
    let mut hosts = std::iter::once(event).chain(of_object);
    let host = hosts.find_map(|seen| host(&seen.brief));
    host.unwrap_or_default()
}

/// The node named in an event.
pub(crate) fn host<'a>(brief: &Brief<'a>) -> Option<&'a str> {
    if brief.component == "kubelet" && !brief.host.is_empty() {
        return Some(brief.host);
    }
    let (_, node) = brief
        .message
        .strip_prefix("Successfully assigned ")?
        .split_once(" to ")?;
    Some(node).filter(|_| brief.reason == "Scheduled")
}

fn relation(
    event: &Seen<'_>,
    other: &Seen<'_>,
    above: &[(&str, &str)],
    node: &str,
) -> Option<Relation> {
    let (object, its) = (event.object(), other.object());
    if object.cluster != its.cluster {
        return None;
    }
    if object == its {
        return Some(Relation::Same);
    }
    if !node.is_empty() && its.kind == "Node" && its.name == node {
        return Some(Relation::Node);
    }
    if object.namespace == its.namespace {
        let told = told_of(its.kind, other.brief.reason, other.brief.message);
        if above.contains(&(its.kind, its.name))
            || told.is_some_and(|told| told.kind == object.kind && told.name == object.name)
        {
            return Some(Relation::Owner);
        }
        let mut owners = possible_owners(its.kind, its.name);
        if owners.any(|owner| owner == (object.kind, object.name)) {
            return Some(Relation::Owned);
        }
        let mut owners = possible_owners(its.kind, its.name);
        if its.kind == object.kind && owners.any(|owner| above.contains(&owner)) {
            return Some(Relation::Sibling);
        }
    }
    if !node.is_empty() && host(&other.brief) == Some(node) {
        return Some(Relation::SameNode);
    }
    (object.namespace == its.namespace && !object.namespace.is_empty())
        .then_some(Relation::Namespace)
}

fn weight(relation: Relation) -> f64 {
    match relation {
        Relation::Same => 10.0,
        Relation::Owner => 8.0,
        Relation::Node | Relation::Owned => 6.0,
        Relation::Sibling => 3.0,
        Relation::SameNode => 2.0,
        Relation::Namespace => 1.0,
    }
}

impl Relation {
    fn words(self, kind: &str) -> String {
        match self {
            Self::Same if kind.is_empty() => "same object".to_owned(),
            Self::Same => format!("same {}", kind.to_lowercase()),
            Self::Owner => "its owner".to_owned(),
            Self::Owned => "owned by it".to_owned(),
            Self::Node => "its node".to_owned(),
            Self::Sibling => "same owner".to_owned(),
            Self::SameNode => "same node".to_owned(),
            Self::Namespace => "same namespace".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Case, seen};
    use super::*;

    fn told(cases: &[Case]) -> Vec<String> {
        let events = seen(cases);
        let (event, others) = events.split_first().unwrap();
        let found = before(event, &events);
        let text = |neighbour: Neighbour| {
            let brief = &events[neighbour.event].brief;
            assert!(others.len() >= neighbour.event);
            format!("{} {}: {}", brief.reason, brief.object, neighbour.why)
        };
        found.into_iter().map(text).collect()
    }

    #[test]
    fn what_is_nearer_and_more_closely_related_comes_first() {
        let pod = "web-5d4f8c7b9-x7k2p";
        let cases = [
            Case::new("Pod", pod, "BackOff", 1000)
                .warning()
                .host("node-1"),
            Case::new("Pod", pod, "Pulled", 960).host("node-1"),
            Case::new("Pod", pod, "Pulled", 900).host("node-1"),
            Case::new("Deployment", "web", "ScalingReplicaSet", 950),
            Case::new("Pod", "web-5d4f8c7b9-c2c2c", "Started", 990).host("node-2"),
            Case::new("Pod", "db-0", "Unhealthy", 990)
                .warning()
                .host("node-1"),
            Case::new("Node", "node-1", "NodeHasDiskPressure", 940),
            Case::new("Node", "node-2", "NodeHasDiskPressure", 999),
            Case::new("Pod", "cron-0", "Completed", 999).host("node-2"),
            // The event itself, and later events.
            Case::new("Pod", pod, "BackOff", 980).warning(),
            Case::new("Pod", pod, "Killing", 1001),
        ];
        assert_eq!(
            told(&cases),
            [
                "Pulled web-5d4f8c7b9-x7k2p: same pod, an image, 40 s before",
                "ScalingReplicaSet web: its owner, a change of scale, 50 s before",
                "NodeHasDiskPressure node-1: its node, a node's state, 1 min before",
                "Started web-5d4f8c7b9-c2c2c: same owner, a start, 10 s before",
                "Unhealthy db-0: same node, 10 s before",
                "Completed cron-0: same namespace, 1 s before",
            ]
        );
    }

    #[test]
    fn what_goes_on_since_before_counts_from_its_beginning() {
        let cases = [
            Case::new("Pod", "web-0", "Unhealthy", 1000).warning(),
            Case::new("Pod", "web-0", "Pulled", 2000).times(9, 400),
        ];
        assert_eq!(
            told(&cases),
            ["Pulled web-0: same pod, an image, 10 min before"]
        );
        let events = seen(&cases);
        assert_eq!(before(&events[0], &events)[0].at, 400_000);
    }

    #[test]
    fn changes_are_changes() {
        assert!(CHANGES.iter().all(|reason| change(reason).is_some()));
    }

    #[test]
    fn neighbours_are_bounded_and_of_one_cluster() {
        let mut cases = vec![Case::new("Pod", "web-0", "BackOff", 10_000)];
        for at in 0..200 {
            cases.push(Case::new("Pod", &format!("db-{at}"), "Started", 9000 + at));
        }
        assert_eq!(told(&cases).len(), BEFORE_MAX);
        for case in cases.iter_mut().skip(1) {
            case.cluster = 1;
        }
        assert_eq!(told(&cases), [""; 0]);
    }
}
