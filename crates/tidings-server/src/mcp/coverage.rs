//! What is covered, and what may be missing: one line of every answer, and the tools `clusters` and
//! `coverage`.

use std::cmp::Reverse;

use tidings_api::table::human_duration;

use super::answers::{Coverage, Covered, Gap, Unasked};
use super::page::LINE_MAX;
use super::text::{clean, moment, name, time};

/// Maximum namespaces that are named.
const NAMED_MAX: usize = 3;
/// Maximum bytes of a name, of a list of namespaces, and of a cluster's problem.
const SHORT_MAX: usize = 63;
const NAMES_MAX: usize = 100;
const WHY_MAX: usize = 160;

impl Unasked {
    /// Whether no other cluster than this one is left out, which may be so in part.
    pub(super) fn is_of_only(&self, cluster: &str) -> bool {
        self.others == 0 && self.clusters.iter().all(|name| name == cluster)
    }

    /// Which clusters these are, in few words.
    pub(super) fn which(&self) -> Option<String> {
        let number = self.clusters.len() + self.others;
        let names = self.clusters.iter().take(NAMED_MAX).map(|it| short(it));
        let names = names.collect::<Vec<_>>().join(", ");
        let is_named = !names.is_empty() && names.len() <= SHORT_MAX;
        Some(match (number, self.clusters.len()) {
            (0, _) => return None,
            (all, named) if is_named && all == named && named <= NAMED_MAX => names,
            (all, named) if is_named => format!("{names} and {} more", all - named.min(NAMED_MAX)),
            (1, _) => "1 cluster".to_owned(),
            (all, _) => format!("{all} clusters"),
        })
    }

    /// What to say before the coverage of the other clusters.
    fn words(&self) -> String {
        let Some(which) = self.which() else {
            return String::new();
        };
        format!(
            "MISSING: what you may read of {which} could not be asked, and is left out, in whole or \
             in part; "
        )
    }
}

/// What is known of one cluster, in a time range.
struct Part {
    cluster: String,
    gaps: usize,
    has_problem: bool,
    /// Whether the caller may read some namespaces only.
    is_limited: bool,
    has_expired: bool,
    /// What to say of it, the most important first. Each of these is short.
    facts: Vec<String>,
}

impl Part {
    /// The facts that fit, but at least one.
    fn within(&self, bytes: usize) -> String {
        const MORE: &str = ", more by `coverage`";
        let whole = format!("{}: {}", self.cluster, self.facts.join(", "));
        if whole.len() <= bytes {
            return whole;
        }
        let mut line = format!("{}: ", self.cluster);
        for (at, fact) in self.facts.iter().enumerate() {
            if at > 0 && line.len() + 2 + fact.len() + MORE.len() > bytes {
                return line + MORE;
            }
            line = line + if at > 0 { ", " } else { "" } + fact;
        }
        line
    }
}

impl Coverage {
    /// What may be missing from an answer about a range, in one line: the numbers first, and then
    /// the clusters of which most is missing.
    pub(super) fn line(&self, range: (i64, Option<i64>)) -> String {
        let parts = self.clusters.iter().map(|it| self.part(it, range));
        let mut parts: Vec<Part> = parts.collect();
        let unasked = self.unasked.words();
        if let [only] = parts.as_slice() {
            let room = LINE_MAX.saturating_sub(unasked.len());
            return unasked + &only.within(room);
        }
        let mut line = unasked + &summary(&parts);
        parts.sort_by_key(|part| {
            let what = (part.has_problem, part.is_limited, part.has_expired);
            Reverse((part.gaps > 0, what))
        });
        for (at, part) in parts.iter().enumerate() {
            let more = format!("; {} more clusters (call `clusters`)", parts.len() - at);
            let room = LINE_MAX.saturating_sub(line.len() + 2 + more.len());
            let text = part.within(room);
            if text.len() > room {
                return line + &more;
            }
            line = line + "; " + &text;
        }
        line
    }

    /// What may be missing of one cluster.
    fn part(&self, covered: &Covered, range: (i64, Option<i64>)) -> Part {
        let gaps = self.gaps_of(covered, range);
        let latest = gaps.iter().max_by_key(|gap| gap.to);
        let number = gaps.len() + covered.gaps_more;
        let mut facts = vec![match (latest, covered.state.is_some()) {
            (Some(gap), _) => format!(
                "MISSING: {} in this time, the latest from {}",
                gaps_in_words(number),
                gap_of(gap)
            ),
            (None, true) => "no gap in this time".to_owned(),
            (None, false) if covered.is_capture => {
                "a capture: only what the cluster still had when \
                it was taken, often of one hour; now is when the newest event was seen"
                    .to_owned()
            }
            (None, false) => "no gap: events are written to this server itself".to_owned(),
        }];
        if covered.why.is_some() {
            facts.push("PROBLEM (`clusters` has its words)".to_owned());
        }
        match (&covered.state, covered.complete_until) {
            (_, Some(until)) => facts.push(format!("complete until {}", time(until, self.now))),
            (Some(state), None) => facts.push(format!("not complete yet ({})", short(state))),
            (None, None) => {}
        }
        let namespaces = covered.namespaces.as_deref();
        facts.extend(namespaces.map(|it| format!("you may read only {}", named(it))));
        let expired = self.expired(covered, range.0);
        let has_expired = expired.is_some();
        facts.extend(expired);
        for (number, why) in [
            (covered.over_quota, "to keep the quota"),
            (covered.ended_by_rules, "when rules of retention changed"),
        ] {
            if number > 0 {
                facts.push(format!("{number} events were deleted early {why}"));
            }
        }
        if let Some(since) = covered.since.filter(|since| *since > range.0) {
            let since = moment(since);
            facts.push(format!(
                "followed since {since}, before that only what the cluster still had"
            ));
        }
        Part {
            cluster: cluster(covered),
            gaps: number,
            has_problem: covered.why.is_some(),
            is_limited: namespaces.is_some(),
            has_expired,
            facts,
        }
    }

    /// What may have expired since `from`.
    fn expired(&self, covered: &Covered, from: i64) -> Option<String> {
        let longest = covered.retention?;
        let shortest = covered.retention_shortest.unwrap_or(longest);
        let begin = self.now.saturating_sub(shortest);
        (from < begin).then(|| {
            let rules = if shortest < longest {
                format!(" (rules keep some for {} only)", human(shortest))
            } else {
                String::new()
            };
            let begin = moment(begin);
            format!("events from before {begin} may have expired{rules}")
        })
    }

    fn gaps_of(&self, covered: &Covered, (from, to): (i64, Option<i64>)) -> Vec<&Gap> {
        let to = to.unwrap_or(i64::MAX);
        let gaps = self
            .gaps
            .iter()
            .filter(|gap| gap.cluster == covered.cluster);
        gaps.filter(|gap| gap.from < to && gap.to >= from).collect()
    }

    /// The number of gaps that this coverage leaves out: the earliest of their clusters.
    pub(super) fn left_out(&self) -> usize {
        self.clusters.iter().map(|covered| covered.gaps_more).sum()
    }

    /// A line for each cluster.
    pub(super) fn clusters(&self) -> Vec<String> {
        let whole = (i64::MIN, None);
        let line = |covered| {
            let part = self.part(covered, whole);
            let oldest = covered_oldest(covered, self.now);
            let why = covered.why.as_ref();
            let why = why.map(|why| format!(", PROBLEM: {}", clean(why, WHY_MAX)));
            let said = part.facts.join(", ");
            let kept = kept(covered);
            format!(
                "{}: {said}{oldest}{kept}{}",
                part.cluster,
                why.unwrap_or_default()
            )
        };
        self.clusters.iter().map(line).collect()
    }

    /// A line for each gap of a range, the latest first, with its distance from `now`.
    pub(super) fn gaps(&self, range: (i64, Option<i64>), now: i64) -> Vec<String> {
        let mut found: Vec<(&Covered, &Gap)> = Vec::new();
        for covered in &self.clusters {
            let gaps = self.gaps_of(covered, range).into_iter();
            found.extend(gaps.map(|gap| (covered, gap)));
        }
        found.sort_by_key(|(_, gap)| std::cmp::Reverse(gap.to));
        let line = |(covered, gap): &(&Covered, &Gap)| {
            let ended = time(gap.to, now);
            format!(
                "gap of {}: {}; it ended {ended}",
                cluster(covered),
                gap_of(gap)
            )
        };
        found.iter().map(line).collect()
    }
}

/// How many of the clusters have what.
fn summary(parts: &[Part]) -> String {
    let count = |has: fn(&Part) -> bool| parts.iter().filter(|part| has(part)).count();
    let all = parts.len();
    let mut said = Vec::new();
    for (number, what) in [
        (count(|it| it.gaps > 0), "have gaps in this time"),
        (count(|it| it.has_problem), "have a problem"),
        (count(|it| it.is_limited), "show you some namespaces only"),
        (count(|it| it.has_expired), "may lack expired events"),
    ] {
        if number > 0 {
            said.push(format!("{number} of {all} clusters {what}"));
        }
    }
    if said.is_empty() {
        return format!("no gap of {all} clusters is in this time");
    }
    said.join(", ")
}

fn gaps_in_words(number: usize) -> String {
    match number {
        1 => "1 gap".to_owned(),
        number => format!("{number} gaps"),
    }
}

fn short(text: &str) -> String {
    clean(text, SHORT_MAX)
}

fn human(millis: i64) -> String {
    human_duration(i128::from(millis))
}

fn cluster(covered: &Covered) -> String {
    match covered.cluster.as_str() {
        "" => "this server".to_owned(),
        cluster => short(cluster),
    }
}

fn covered_oldest(covered: &Covered, now: i64) -> String {
    let oldest = covered.oldest.map(|oldest| time(oldest, now));
    oldest.map_or_else(String::new, |oldest| format!(", oldest event {oldest}"))
}

fn kept(covered: &Covered) -> String {
    let kept = covered.retention.map(|longest| {
        let rules = covered.retention_shortest.filter(|it| *it < longest);
        let rules = rules.map(|it| format!(", some by rules for {}", human(it)));
        let rules = rules.unwrap_or_default();
        format!(", events are kept for {}{rules}", human(longest))
    });
    kept.unwrap_or_default()
}

/// A gap with its cause.
fn gap_of(gap: &Gap) -> String {
    let of = match gap.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" of namespace {}", short(namespace)),
    };
    let (from, to) = (moment(gap.from), moment(gap.to));
    format!("{from} to {to}{of} ({})", short(&gap.cause))
}

fn named(namespaces: &[String]) -> String {
    let first = namespaces.iter().take(NAMED_MAX).map(|it| name(it));
    let first = first.collect::<Vec<_>>().join(", ");
    match namespaces.len().saturating_sub(NAMED_MAX) {
        0 if first.len() <= NAMES_MAX => format!("the namespaces {first}"),
        _ => format!("{} namespaces", namespaces.len()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_772_625_600_000;
    const HOUR: i64 = 3_600_000;

    fn cluster(name: &str, more: &Value) -> Value {
        let mut cluster = json!({"cluster": name, "state": "watching", "completeUntil": NOW});
        let more = more.as_object().cloned().unwrap_or_default();
        cluster.as_object_mut().unwrap().extend(more);
        cluster
    }

    fn line(clusters: &[Value], gaps: &[&str], unasked: &Value) -> String {
        let gap = |name: &&str| {
            json!({"cluster": name, "from": NOW - HOUR, "to": NOW - HOUR / 2, "namespace": "",
                   "cause": "unreachable"})
        };
        let gaps: Vec<Value> = gaps.iter().map(gap).collect();
        let coverage = json!({"now": NOW, "clusters": clusters, "gaps": gaps, "unasked": unasked});
        let coverage: Coverage = serde_json::from_value(coverage).unwrap();
        coverage.line((NOW - 24 * HOUR, None))
    }

    /// However much there is to say, what is missing is not cut.
    #[test]
    fn a_line_begins_with_what_is_missing() {
        let bad = "what a proxy says ".repeat(40);
        let limited: Vec<String> = (0..3).map(|at| format!("{at:063}")).collect();
        let all = json!({
            "why": bad, "namespaces": limited, "since": NOW - HOUR, "retention": 9 * HOUR,
            "retentionShortest": HOUR, "overQuota": 7_000_000, "endedByRules": 8_000_000,
        });
        let none = json!({});
        let long = "c".repeat(63);
        for (clusters, gaps, expected) in [
            (
                vec![cluster("prod", &none)],
                vec![],
                vec!["prod: no gap in this time, complete until "],
            ),
            (
                vec![cluster(&long, &all)],
                vec![&*long, &long, &long],
                vec![
                    ": MISSING: 3 gaps in this time, the latest from 2026-03-04T11:00:00Z to ",
                    "PROBLEM",
                    "you may read only 3 namespaces",
                    "may have expired (rules keep some for 60m only)",
                    ", more by `coverage`",
                ],
            ),
            (
                ["a", "b", "c", "d"].map(|it| cluster(it, &none)).to_vec(),
                vec!["d"],
                vec!["1 of 4 clusters have gaps in this time; d: MISSING: 1 gap"],
            ),
            (
                vec![cluster("a", &none), cluster("b", &all)],
                vec![],
                vec![
                    "1 of 2 clusters have a problem",
                    "1 of 2 clusters show you some namespaces only",
                    "1 of 2 clusters may lack expired events; b: ",
                ],
            ),
            (
                (0..100)
                    .map(|it| cluster(&format!("{long}{it}"), &all))
                    .collect(),
                vec![&*long],
                vec![
                    "100 of 100 clusters have a problem",
                    " more clusters (call `clusters`)",
                ],
            ),
            (
                vec![json!({"cluster": "", "isCapture": true})],
                vec![],
                vec!["this server: a capture: only what the cluster still had"],
            ),
            (
                vec![cluster("a", &json!({"overQuota": 3, "endedByRules": 4}))],
                vec![],
                vec![
                    "3 events were deleted early to keep the quota",
                    "4 events were deleted early when rules of retention changed",
                ],
            ),
        ] {
            for (unasked, words) in [
                (json!({"clusters": [], "others": 0}), ""),
                (
                    json!({"clusters": ["edge"], "others": 0}),
                    "read of edge could not",
                ),
                (
                    json!({"clusters": [], "others": 1}),
                    "read of 1 cluster could not",
                ),
                (
                    json!({"clusters": ["x"], "others": 2}),
                    "read of x and 2 more could not",
                ),
                (
                    json!({"clusters": [long, long, "x", "y"], "others": 70}),
                    "read of 74 clusters could not",
                ),
            ] {
                let line = line(&clusters, &gaps, &unasked);
                assert!(line.len() <= LINE_MAX, "{}: {line}", line.len());
                assert!(!line.contains("proxy"), "{line}");
                assert!(line.contains(words), "{words}: {line}");
                // Behind other words, some of these are left out, but never that versions miss.
                let is_cut = line.contains("more by") || line.contains("more clusters");
                for part in &expected {
                    let may_miss = !words.is_empty() && is_cut && !part.contains("MISSING");
                    assert!(may_miss || line.contains(part), "{part}: {line}");
                }
            }
        }
    }
}
