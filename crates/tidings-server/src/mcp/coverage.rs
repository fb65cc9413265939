//! What is covered, and what may be missing: one line of every answer, and the tools `clusters` and
//! `coverage`.

use super::answers::{Coverage, Covered, Gap};
use super::text::{clean, moment, name, time};

/// Maximum clusters, gaps and namespaces named in the line.
const NAMED_MAX: usize = 3;
/// Maximum bytes of a cluster's problem.
const WHY_MAX: usize = 160;

impl Coverage {
    /// What may be missing from an answer about a range, in one line.
    pub(super) fn line(&self, range: (i64, Option<i64>)) -> String {
        let mut parts: Vec<String> = self
            .clusters
            .iter()
            .map(|it| self.part(it, range))
            .collect();
        let more = parts.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            parts.truncate(NAMED_MAX);
            parts.push(format!("{more} more clusters (call `coverage`)"));
        }
        parts.join("; ")
    }

    /// What may be missing of one cluster.
    fn part(&self, covered: &Covered, (from, to): (i64, Option<i64>)) -> String {
        let mut said = Vec::new();
        match (&covered.state, covered.complete_until) {
            (None, _) => said.push("every event written to this server is here".to_owned()),
            (Some(_), Some(until)) => {
                said.push(format!("complete until {}", time(until, self.now)));
            }
            (Some(state), None) => said.push(format!("not complete yet ({})", name(state))),
        }
        if let Some(why) = &covered.why {
            said.push(format!("PROBLEM: {}", clean(why, WHY_MAX)));
        }
        let gaps = self.gaps_of(covered, (from, to));
        if covered.state.is_some() && gaps.is_empty() {
            said.push("no gap in this time".to_owned());
        } else if !gaps.is_empty() {
            let named: Vec<String> = gaps.iter().take(NAMED_MAX).map(|gap| gap_of(gap)).collect();
            let more = gaps.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            said.push(format!("MISSING in gaps: {}{more}", named.join(", ")));
        }
        if let Some(since) = covered.since.filter(|since| *since > from) {
            let since = moment(since);
            said.push(format!(
                "followed since {since}, before that only what the cluster still had"
            ));
        }
        if let Some(retention) = covered.retention
            && from < self.now.saturating_sub(retention)
        {
            let begin = moment(self.now.saturating_sub(retention));
            said.push(format!("events from before {begin} may have expired"));
        }
        if let Some(namespaces) = &covered.namespaces {
            said.push(format!("you may read {}", named(namespaces)));
        }
        format!("{}: {}", cluster(covered), said.join(", "))
    }

    fn gaps_of(&self, covered: &Covered, (from, to): (i64, Option<i64>)) -> Vec<&Gap> {
        let to = to.unwrap_or(i64::MAX);
        let gaps = self
            .gaps
            .iter()
            .filter(|gap| gap.cluster == covered.cluster);
        gaps.filter(|gap| gap.from < to && gap.to >= from).collect()
    }

    /// A line for each cluster.
    pub(super) fn clusters(&self) -> Vec<String> {
        let whole = (i64::MIN, None);
        let line = |covered| {
            let oldest = covered_oldest(covered, self.now);
            format!("{}{oldest}{}", self.part(covered, whole), kept(covered))
        };
        self.clusters.iter().map(line).collect()
    }

    /// A line for each gap of a range, the latest first.
    pub(super) fn gaps(&self, range: (i64, Option<i64>)) -> Vec<String> {
        let mut found: Vec<(&Covered, &Gap)> = Vec::new();
        for covered in &self.clusters {
            let gaps = self.gaps_of(covered, range).into_iter();
            found.extend(gaps.map(|gap| (covered, gap)));
        }
        found.sort_by_key(|(_, gap)| std::cmp::Reverse(gap.to));
        let line = |(covered, gap): &(&Covered, &Gap)| {
            let ended = time(gap.to, self.now);
            format!(
                "gap of {}: {}; it ended {ended}",
                cluster(covered),
                gap_of(gap)
            )
        };
        found.iter().map(line).collect()
    }
}

fn cluster(covered: &Covered) -> String {
    match covered.cluster.as_str() {
        "" => "this server".to_owned(),
        cluster => name(cluster),
    }
}

fn covered_oldest(covered: &Covered, now: i64) -> String {
    let oldest = covered.oldest.map(|oldest| time(oldest, now));
    oldest.map_or_else(String::new, |oldest| format!(", oldest event {oldest}"))
}

fn kept(covered: &Covered) -> String {
    let kept = covered.retention.map(|millis| {
        let kept = tidings_api::table::human_duration(i128::from(millis));
        format!(", events are kept for {kept}")
    });
    kept.unwrap_or_default()
}

/// A gap with its cause.
fn gap_of(gap: &Gap) -> String {
    let of = match gap.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" of namespace {}", name(namespace)),
    };
    let (from, to) = (moment(gap.from), moment(gap.to));
    format!("{from} to {to}{of} ({})", name(&gap.cause))
}

fn named(namespaces: &[String]) -> String {
    let first = namespaces.iter().take(NAMED_MAX).map(|it| name(it));
    let first: Vec<String> = first.collect();
    match namespaces.len().saturating_sub(NAMED_MAX) {
        0 => format!("only the namespaces {}", first.join(", ")),
        more => format!("only {more} more namespaces and {}", first.join(", ")),
    }
}
