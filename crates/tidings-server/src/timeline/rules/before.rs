//! Ranks what changed before an event: its neighbours in time and among objects, one row for each
//! object.
//!
//! The weight of an object's event depends on its relation to the event's object, on whether it is
//! a warning or reports a change (an image, a scale, a placement, a configuration), on whether the
//! message names the object, and on the distance in time: the weight halves every ten minutes, and
//! every twenty if the message names the object. An object's row has the rank of its heaviest
//! event.
//!
//! What every new pod reports ranks nothing: the event's own birth comes last. Other objects with
//! the same reason are its fellow victims, and have one row together ([`Same`]).

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use tidings_api::codec::stored::Brief;
use tidings_core::{floor_char_boundary, possible_owners, told_of};

use super::changes::{change, is_birth, is_noise};
use super::seen::{Object, Seen};
use super::words;

#[cfg(test)]
mod incidents;

/// Maximum objects in an answer.
pub(crate) const BEFORE_MAX: usize = 20;
/// Maximum rows of the event's own birth.
const BIRTHS_MAX: usize = 5;
/// Maximum reasons of an object.
const REASONS_MAX: usize = 6;
/// Maximum objects with the same reason that are named.
const SAME_MAX: usize = 5;
/// Maximum distance of a near change, in milliseconds.
const NEAR: i64 = 900_000;
/// Distance at which a neighbour's weight is halved, in milliseconds.
const HALF: f64 = 600_000.0;
/// Time within which client-go combines similar events, in milliseconds: what is further apart is
/// not one event.
const COMBINED: i64 = 600_000;
/// Maximum bytes of messages in which objects are named.
const MESSAGES_MAX: usize = 4096;
/// Minimum letters of a name that is looked for in messages.
const NAME_MIN: usize = 3;
/// Words of messages, and of the names or kinds of objects that they mean.
const HINTS: [(&str, &str); 6] = [
    ("lookup ", "dns"),
    ("metrics.k8s.io", "metrics"),
    ("csi", "csi"),
    ("cni", "cni"),
    ("x509", "cert"),
    ("certificate", "cert"),
];

/// An object beside an event, and why it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// The index of its heaviest event.
    pub(crate) event: usize,
    pub(crate) why: String,
    /// When that event last happened before the event began, as far as that is known.
    pub(crate) at: i64,
    /// Its events by reason, the heaviest first.
    pub(crate) reasons: Vec<OfReason>,
    /// Whether it is likely the cause: a change shortly before, of the object itself, its owner or
    /// its node, or a warning of an object that the message names.
    pub(crate) near: bool,
    /// Whether it says only that the event's object is new.
    pub(crate) birth: bool,
}

/// An object's events of one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OfReason {
    /// The index of the latest one.
    pub(crate) event: usize,
    pub(crate) warning: bool,
    pub(crate) count: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// The other objects with the same reason at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Same {
    pub(crate) objects: usize,
    /// The indices of events of a few of them, those that began first.
    pub(crate) events: Vec<usize>,
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
    /// In a namespace that the message names.
    Named,
    Elsewhere,
}

/// When an event truly began. Of similar events client-go combines the further ones into one that
/// begins where it began to combine them: then the first of the similar ones before it is the
/// beginning. Warnings of an object with one reason are one story, too.
pub(crate) fn began<'a>(event: &Seen<'a>, others: impl Iterator<Item = Seen<'a>>) -> i64 {
    let mut began = event.brief.first;
    if !event.is_warning()
        && !event
            .brief
            .message
            .starts_with("(combined from similar events)")
    {
        return began;
    }
    let similar = others.filter(|other| {
        other.object() == event.object()
            && other.brief.reason == event.brief.reason
            && other.brief.event_type == event.brief.event_type
            && (other.object_uid() == event.object_uid()
                || other.object_uid().is_empty()
                || event.object_uid().is_empty())
    });
    let mut spans: Vec<_> = similar
        .map(|one| (one.brief.last, one.brief.first))
        .collect();
    spans.sort_unstable_by_key(|span| Reverse(*span));
    for (last, first) in spans {
        if first < began && began.saturating_sub(last) <= COMBINED {
            began = first;
        }
    }
    began
}

/// The namespaces that a message names by their services (`NAME.NAMESPACE.svc`), at most two.
pub(crate) fn namespaces(message: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for (at, _) in head(message, MESSAGES_MAX).match_indices(".svc") {
        let before = message.get(..at).unwrap_or_default();
        let is_label = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let namespace = before.rsplit(|letter| !is_label(letter)).next();
        let namespace = namespace.filter(|name| !name.is_empty());
        if let Some(namespace) = namespace.filter(|name| !found.contains(name)) {
            found.push(namespace);
        }
        if found.len() == 2 {
            break;
        }
    }
    found
}

/// The neighbours of an event that happened before it began, the most likely cause first.
pub(crate) fn before(event: &Seen<'_>, began: i64, others: &[Seen<'_>]) -> Vec<Neighbour> {
    let messages = Messages::of(event, began, others);
    let context = Context {
        event,
        began,
        above: possible_owners(event.brief.kind, event.brief.object).collect(),
        node: node_of(event, others),
        namespaces: namespaces(event.brief.message),
        messages: &messages,
    };
    let mut rows: HashMap<Object<'_>, Row<'_>> = HashMap::new();
    let mut known = HashSet::new();
    for (at, other) in others.iter().enumerate() {
        if known.insert((other.cluster, other.brief.namespace, other.brief.name)) {
            context.add(&mut rows, at, other);
        }
    }
    let mut ranked: Vec<_> = rows.into_values().collect();
    // Positive floats sort like their bits.
    ranked.sort_unstable_by_key(|row| {
        let best = &row.best;
        (
            row.is_birth,
            Reverse(best.score.to_bits()),
            best.distance,
            best.event,
        )
    });
    let births = ranked.split_off(ranked.partition_point(|row| !row.is_birth));
    ranked.truncate(BEFORE_MAX);
    ranked.extend(births.into_iter().take(BIRTHS_MAX));
    ranked.into_iter().map(|row| context.told(row)).collect()
}

/// The other objects of one kind and reason, of which `others` are events.
pub(crate) fn same(event: &Seen<'_>, others: &[Seen<'_>]) -> Same {
    let mut firsts: HashMap<Object<'_>, (i64, usize)> = HashMap::new();
    for (at, other) in others.iter().enumerate() {
        let brief = &other.brief;
        let is_same = brief.reason == event.brief.reason && brief.kind == event.brief.kind;
        if !is_same || other.object() == event.object() || other.cluster != event.cluster {
            continue;
        }
        let first = firsts.entry(other.object()).or_insert((brief.first, at));
        *first = (*first).min((brief.first, at));
    }
    let sorted: BTreeSet<_> = firsts.values().copied().collect();
    Same {
        objects: firsts.len(),
        events: sorted
            .into_iter()
            .take(SAME_MAX)
            .map(|(_, at)| at)
            .collect(),
    }
}

/// What is known of the event.
struct Context<'a, 'b> {
    event: &'b Seen<'a>,
    began: i64,
    above: Vec<(&'static str, &'a str)>,
    node: &'b str,
    namespaces: Vec<&'a str>,
    messages: &'b Messages,
}

/// An object's events, while they are collected.
struct Row<'a> {
    relation: Relation,
    is_named: bool,
    is_birth: bool,
    best: Weighed,
    reasons: HashMap<&'a str, (f64, OfReason)>,
}

/// An event with its weight.
#[derive(Clone, Copy)]
struct Weighed {
    event: usize,
    score: f64,
    distance: i64,
    change: Option<&'static str>,
    is_warning: bool,
}

impl Context<'_, '_> {
    fn add<'o>(&self, rows: &mut HashMap<Object<'o>, Row<'o>>, at: usize, other: &Seen<'o>) {
        let (event, brief) = (self.event, &other.brief);
        let Some(happened) = last_before(other, self.began) else {
            return;
        };
        let Some(relation) = self.relation(other) else {
            return;
        };
        // A family shares its name.
        let is_family = matches!(
            relation,
            Relation::Same | Relation::Owner | Relation::Owned | Relation::Sibling
        );
        let is_named = !is_family && self.messages.name(other);
        let is_again = brief.reason == event.brief.reason && brief.kind == event.brief.kind;
        // Fellow victims are no causes, unless the message says so.
        if is_again && (relation == Relation::Same || !is_named) {
            return;
        }
        let birth = is_birth(brief.reason);
        let change = change(brief.reason).filter(|_| !birth || relation == Relation::Same);
        let is_warning = other.is_warning();
        let is_far = matches!(relation, Relation::Named | Relation::Elsewhere);
        if is_far && !is_warning && (birth || change.is_none()) {
            return;
        }
        let weight = weight(relation)
            * match (is_warning, change.is_some()) {
                (true, true) => 3.0,
                // What goes wrong elsewhere matters more than what is done there.
                (true, false) => 2.5,
                (false, true) => 2.0,
                (false, false) => 1.0,
            }
            * if is_named { 3.0 } else { 1.0 }
            * if is_noise(brief.reason) { 0.1 } else { 1.0 }
            // Pods are born all the time.
            * if birth && relation != Relation::Same { 0.5 } else { 1.0 };
        // What the event needs may have failed long before.
        let half = if is_named { HALF * 2.0 } else { HALF };
        let distance = self.began.saturating_sub(happened);
        let weighed = Weighed {
            event: at,
            score: weight * (-(distance as f64) / half).exp2(),
            distance,
            change,
            is_warning,
        };
        // Only the event's own family is born with it.
        let is_birth = birth && matches!(relation, Relation::Same | Relation::Owner);
        let row = rows.entry(other.object()).or_insert_with(|| Row {
            relation,
            is_named,
            is_birth,
            best: weighed,
            reasons: HashMap::new(),
        });
        let is_better = weighed.score > row.best.score
            || (weighed.score.to_bits() == row.best.score.to_bits() && at < row.best.event);
        // A birth ranks nothing in the row of an object that has more to say.
        if (row.is_birth && !is_birth) || (row.is_birth == is_birth && is_better) {
            row.best = weighed;
            row.relation = relation;
        }
        row.is_birth &= is_birth;
        row.is_named |= is_named;
        let reason = OfReason {
            event: at,
            warning: is_warning,
            count: brief.count,
            first: brief.first,
            last: brief.last,
        };
        let score = if is_birth { 0.0 } else { weighed.score };
        match row.reasons.get_mut(brief.reason) {
            None => {
                row.reasons.insert(brief.reason, (score, reason));
            }
            Some((best, known)) => {
                *best = best.max(score);
                known.warning |= is_warning;
                known.count = known.count.saturating_add(brief.count);
                known.first = known.first.min(brief.first);
                if brief.last > known.last {
                    (known.event, known.last) = (at, brief.last);
                }
            }
        }
    }

    fn told(&self, row: Row<'_>) -> Neighbour {
        let Weighed {
            event,
            distance,
            change,
            is_warning,
            ..
        } = row.best;
        let is_close = matches!(
            row.relation,
            Relation::Same | Relation::Owner | Relation::Node
        );
        let near = (is_close && change.is_some()) || (row.is_named && is_warning);
        let relation = row.relation.words(self.event.brief.kind);
        let named = if row.is_named {
            ", named in the message"
        } else {
            ""
        };
        let change = change.map(|what| format!(", {what}")).unwrap_or_default();
        let mut reasons: Vec<_> = row.reasons.into_values().collect();
        reasons.sort_by_key(|(score, reason)| {
            let is_best = reason.event == event;
            (Reverse(is_best), Reverse(score.to_bits()), reason.event)
        });
        reasons.truncate(REASONS_MAX);
        Neighbour {
            event,
            why: format!(
                "{relation}{named}{change}, {} before",
                words::long(distance)
            ),
            at: self.began.saturating_sub(distance),
            reasons: reasons.into_iter().map(|(_, reason)| reason).collect(),
            near: near && distance <= NEAR,
            birth: row.is_birth,
        }
    }

    fn relation(&self, other: &Seen<'_>) -> Option<Relation> {
        let (object, its) = (self.event.object(), other.object());
        if object.cluster != its.cluster {
            return None;
        }
        if object == its {
            return Some(Relation::Same);
        }
        let node = self.node;
        if !node.is_empty() && its.kind == "Node" && its.name == node {
            return Some(Relation::Node);
        }
        if object.namespace == its.namespace {
            let told = told_of(its.kind, other.brief.reason, other.brief.message);
            if self.above.contains(&(its.kind, its.name))
                || told.is_some_and(|told| told.kind == object.kind && told.name == object.name)
            {
                return Some(Relation::Owner);
            }
            let mut owners = possible_owners(its.kind, its.name);
            if owners.any(|owner| owner == (object.kind, object.name)) {
                return Some(Relation::Owned);
            }
            let mut owners = possible_owners(its.kind, its.name);
            if its.kind == object.kind && owners.any(|owner| self.above.contains(&owner)) {
                return Some(Relation::Sibling);
            }
        }
        if !node.is_empty() && host(&other.brief) == Some(node) {
            return Some(Relation::SameNode);
        }
        if its.namespace.is_empty() {
            return None;
        }
        Some(if object.namespace == its.namespace {
            Relation::Namespace
        } else if self.namespaces.contains(&its.namespace) {
            Relation::Named
        } else {
            Relation::Elsewhere
        })
    }
}

/// What the event and its object's warnings say: the names in it are those of objects that they
/// need.
struct Messages(String);

impl Messages {
    fn of(event: &Seen<'_>, began: i64, others: &[Seen<'_>]) -> Self {
        let own = others.iter().filter(|other| {
            other.object() == event.object() && other.is_warning() && other.brief.first <= began
        });
        let mut text = String::new();
        for one in std::iter::once(event).chain(own) {
            let room = MESSAGES_MAX - text.len();
            text.push_str(head(one.brief.message, room));
            text.push('\n');
            if text.len() >= MESSAGES_MAX {
                break;
            }
        }
        // The object is no cause of itself.
        if !event.brief.object.is_empty() {
            text = text.replace(event.brief.object, "");
        }
        text.make_ascii_lowercase();
        Self(text)
    }

    /// Whether an event's object is named: it, an owner by its name, or what a hint means.
    fn name(&self, other: &Seen<'_>) -> bool {
        let brief = &other.brief;
        let owners = possible_owners(brief.kind, brief.object).map(|(_, name)| name);
        let mut names = std::iter::once(brief.object).chain(owners);
        let object = format!("{}/{}", brief.kind, brief.object).to_ascii_lowercase();
        let mut hints = HINTS.iter();
        names.any(|name| self.has(&name.to_ascii_lowercase()))
            || hints.any(|(said, meant)| self.0.contains(said) && object.contains(meant))
    }

    /// Whether a name is in the messages, not as a part of a longer word.
    fn has(&self, name: &str) -> bool {
        let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        name.len() >= NAME_MIN
            && self.0.match_indices(name).any(|(at, _)| {
                let before = self.0.get(..at).and_then(|text| text.chars().next_back());
                let after = self.0.get(at + name.len()..);
                let after = after.and_then(|text| text.chars().next());
                !is_letter(before) && !is_letter(after)
            })
    }
}

/// The beginning of a text, of at most so many bytes.
fn head(text: &str, max: usize) -> &str {
    text.get(..floor_char_boundary(text, max)).unwrap_or(text)
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

fn weight(relation: Relation) -> f64 {
    match relation {
        Relation::Same => 10.0,
        Relation::Owner => 8.0,
        Relation::Node | Relation::Owned => 6.0,
        Relation::Sibling => 3.0,
        Relation::SameNode | Relation::Named => 2.0,
        Relation::Namespace => 1.0,
        Relation::Elsewhere => 0.5,
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
            Self::Named => "namespace in the message".to_owned(),
            Self::Elsewhere => "another namespace".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{Case, seen};
    use super::*;

    fn told(cases: &[Case]) -> Vec<String> {
        let events = seen(cases);
        let (event, _) = events.split_first().unwrap();
        let began = began(event, events.iter().copied());
        let found = before(event, began, &events);
        let text = |neighbour: Neighbour| {
            let brief = &events[neighbour.event].brief;
            let reasons = neighbour.reasons.iter().map(|reason| {
                let times = if reason.count > 1 {
                    format!(" ×{}", reason.count)
                } else {
                    String::new()
                };
                format!("{}{times}", events[reason.event].brief.reason)
            });
            let reasons: Vec<_> = reasons.collect();
            let birth = if neighbour.birth { "birth " } else { "" };
            format!(
                "{birth}{} {}: {}",
                reasons.join(", "),
                brief.object,
                neighbour.why
            )
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
            Case::new("Pod", "db-0", "Started", 980).host("node-1"),
            Case::new("Node", "node-1", "NodeHasDiskPressure", 940),
            Case::new("Node", "node-2", "NodeHasDiskPressure", 999),
            Case::new("Pod", "cron-0", "Completed", 999).host("node-2"),
            // Fellow victims, later events, and the event itself.
            Case::new("Pod", "db-1", "BackOff", 980).warning(),
            Case::new("Pod", pod, "Killing", 1001),
        ];
        assert_eq!(
            told(&cases),
            [
                "ScalingReplicaSet web: its owner, a change of scale, 50 s before",
                "NodeHasDiskPressure node-1: its node, a node's state, 1 min before",
                "Unhealthy, Started db-0: same node, 10 s before",
                "Started web-5d4f8c7b9-c2c2c: same owner, 10 s before",
                "Completed cron-0: same namespace, 1 s before",
                "birth Pulled ×2 web-5d4f8c7b9-x7k2p: same pod, an image, 40 s before",
            ]
        );
    }

    #[test]
    fn what_goes_on_since_before_counts_from_its_beginning() {
        let cases = [
            Case::new("Pod", "web-0", "Unhealthy", 1000).warning(),
            Case::new("Pod", "web-0", "Killing", 2000).times(9, 400),
        ];
        assert_eq!(
            told(&cases),
            ["Killing ×9 web-0: same pod, an end, 10 min before"]
        );
        let events = seen(&cases);
        assert_eq!(before(&events[0], 1_000_000, &events)[0].at, 400_000);
    }

    #[test]
    fn objects_that_the_message_names_come_first_unless_they_share_its_name() {
        let pod = "web-5d4f8c7b9-x7k2p";
        let back_off = Case::new("Pod", pod, "BackOff", 1000)
            .message("Back-off restarting failed container web in pod web-5d4f8c7b9-x7k2p: cache")
            .warning();
        let cases = [
            back_off,
            Case::new("Pod", "web-5d4f8c7b9-c2c2c", "Completed", 1000),
            Case::new("Pod", "webs-0", "Completed", 1000),
            Case::new("Pod", "cache-0", "Completed", 1000),
        ];
        assert_eq!(
            told(&cases),
            [
                "Completed web-5d4f8c7b9-c2c2c: same owner, less than 1 s before",
                "Completed cache-0: same namespace, named in the message, less than 1 s before",
                "Completed webs-0: same namespace, less than 1 s before",
            ]
        );
    }

    #[test]
    fn combined_events_began_with_the_first_of_the_similar_ones() {
        let failed = |first, last| {
            Case::new("Pod", "web-0", "FailedCreatePodSandBox", last)
                .times(9, first)
                .warning()
        };
        let combined =
            failed(2000, 4000).message("(combined from similar events): Failed to create");
        for (before, expected) in [
            (vec![], 2000),
            (vec![failed(1500, 1500), failed(1000, 1001)], 1000),
            // More than ten minutes without one end the story.
            (vec![failed(1500, 1500), failed(800, 900)], 800),
            (vec![failed(1500, 1500), failed(800, 899)], 1500),
            // Of another object that was named so, kind of event or reason.
            (vec![failed(1500, 1500).uid("1")], 2000),
            (
                vec![Case::new("Pod", "web-0", "FailedCreatePodSandBox", 1500)],
                2000,
            ),
            (
                vec![Case::new("Pod", "web-0", "Unhealthy", 1500).warning()],
                2000,
            ),
            (
                vec![Case::new("Pod", "web-1", "FailedCreatePodSandBox", 1500).warning()],
                2000,
            ),
        ] {
            let first = std::iter::once(combined.clone().uid("0"));
            let cases: Vec<_> = first.chain(before).collect();
            let events = seen(&cases);
            let found = began(&events[0], events.iter().copied());
            assert_eq!(found, expected * 1000, "{:?}", told(&cases));
        }
    }

    #[test]
    fn fellow_victims_have_one_row() {
        let mut cases = vec![Case::new("Pod", "web-0", "BackOff", 1000).warning()];
        for at in 0..9 {
            let name = format!("db-{at}");
            cases.push(Case::new("Pod", &name, "BackOff", 1100 - at).warning());
            cases.push(Case::new("Pod", &name, "BackOff", 1200).warning());
        }
        cases.push(Case::new("Node", "node-1", "BackOff", 1000).warning());
        let events = seen(&cases);
        let found = same(&events[0], &events);
        let names = found.events.iter().map(|at| events[*at].brief.object);
        assert_eq!(found.objects, 9);
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["db-8", "db-7", "db-6", "db-5", "db-4"]
        );
    }

    #[test]
    fn namespaces_are_those_of_services() {
        for (message, expected) in [
            ("no service", vec![]),
            (
                "Post \"https://hook.policy.svc:443/validate\": refused",
                vec!["policy"],
            ),
            (
                "lookup db.shop.svc.cluster.local, db.shop.svc and a.b.svc",
                vec!["shop", "b"],
            ),
            (".svc", vec![]),
        ] {
            assert_eq!(namespaces(message), expected, "{message}");
        }
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
