//! `tidings coverage`: for which periods an archive has a cluster's events, and where versions may
//! be missing.

mod cells;
mod outlook;
mod plan;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use jiff::Timestamp;
use tidings_cli::table::{Cell, Screen};
use tidings_cli::times::duration_of_seconds;
use tidings_history::{Answer, Counted, Coverage, Followed, Gap, Retention, timestamp};
use tidings_store::UnixMillis;

use super::all_clusters;
use super::archived::{self, Trouble};
use super::cluster::{
    ClusterFlags, CommandError, DONE, EXIT_CODES, FAILED, finish, namespace, one_line, tell,
};
use super::gaps;
use super::past;
use super::terminal::{self, ColorFlag};
use crate::clock;
use cells::{UNKNOWN, bytes, life, number, said_bytes, table, text};
use outlook::CheckedRules;

/// Show from when to when an archive has the events of its clusters, and the gaps in which versions
/// may be missing.
///
/// An archive that was stopped or cut off continues where it was, as long as the cluster still has
/// the changes since then (five minutes by default). If it does not, the last version of every
/// event that still exists is fetched, and a gap says from when to when versions may be missing,
/// and why.
///
/// Gaps do not show events that ended by retention or were deleted to keep a quota. How long events
/// are kept, and what the quota deleted, is printed below them.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings coverage --kubeconfig ./archive/kubeconfig
  tidings coverage --kubeconfig ./archive/kubeconfig --cluster prod -o json
  tidings coverage --kubeconfig ./archive/kubeconfig --cluster prod -n shop
  tidings coverage --kubeconfig ./archive/kubeconfig --plan 90d
  tidings coverage --kubeconfig ./archive/kubeconfig --check-retention new-rules.yaml

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Form of the output
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    output: Form,
    /// Only the gaps of this namespace, and those of the whole cluster. A user who may list the
    /// events of the namespace needs no other permission for this
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new().try_map(namespace))]
    namespace: Option<String>,
    /// Show what each cluster will take if its events are kept for this long, by what was seen
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["output", "namespace"], value_parser = duration_of_seconds)]
    plan: Option<Duration>,
    /// Show what these rules of retention would end at once, by rule, before they are in force.
    /// Takes a few seconds for each million events
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "namespace", "plan"])]
    check_retention: Option<PathBuf>,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// Rows
    Table,
    /// One JSON object per cluster and line
    Json,
}

/// Shows the coverage.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(args: Args) -> Result<u8, CommandError> {
    let rules = args.check_retention.as_deref().map(CheckedRules::read);
    let rules = rules.transpose();
    let rules = rules.map_err(|error| CommandError::Failed(format!("read rules: {error}")))?;
    let mut all = Vec::new();
    for (name, cluster) in clusters(&args.cluster).await? {
        let coverage = match &rules {
            Some(rules) => archived::outlook(&cluster, &rules.text).await,
            None => archived::coverage(&cluster, args.namespace.as_deref()).await,
        };
        all.push((name, coverage));
    }
    let (found, notes, code) = readable(all)?;
    for note in notes {
        tell(&note);
    }
    if let Some(rules) = rules {
        let (screen, mut out) = args.color.output();
        outlook::print(&found, &rules, screen, &mut out)?;
        out.flush()?;
        return Ok(code);
    }
    if let Some(kept_for) = args.plan {
        let (screen, mut out) = args.color.output();
        plan::print(&found, kept_for, screen, &mut out)?;
        out.flush()?;
        return Ok(code);
    }
    match args.output {
        Form::Json => {
            let mut out = terminal::output();
            for coverage in found {
                let answer = serde_json::to_value(Answer::Coverage(coverage));
                writeln!(out, "{}", answer.map_err(io::Error::from)?)?;
            }
        }
        Form::Table => {
            let (screen, mut out) = args.color.output();
            let mut troubles = archived::troubles(&args.cluster).await;
            // A cluster that could not be started is not among the found ones.
            let is_one = args.cluster.names_cluster() && !args.cluster.is_of_all();
            let is_found = |cluster: &str| found.iter().any(|one| one.cluster == cluster);
            troubles.retain(|it| !is_one || it.cluster.as_deref().is_some_and(is_found));
            add_problems(&mut troubles, &found);
            let is_well = troubles.is_empty();
            print(&found, (clock::now(), is_well), screen, &mut out)?;
            print_troubles(&troubles, &mut out)?;
            out.flush()?;
        }
    }
    Ok(code)
}

/// The selected clusters: the named one, or all of the archive. They have names if it is enough
/// that some are readable. A user who may not list the clusters, because only one of them knows the
/// user, gets that of the context.
async fn clusters(
    flags: &ClusterFlags,
) -> Result<Vec<(Option<String>, ClusterFlags)>, CommandError> {
    let is_one = flags.names_cluster() || all_clusters::is_proxied(flags)?;
    if is_one && !flags.is_of_all() {
        return Ok(vec![(None, flags.clone())]);
    }
    match all_clusters::clusters(flags).await {
        Err(error) if !flags.is_of_all() && !matches!(error, CommandError::Unreachable(_)) => {
            // The cluster may have an archive of its own.
            let own = past::archive_of(flags).await?;
            match own {
                Some(own) => Ok(vec![(None, own)]),
                None if error.is_refusal() => Ok(vec![(None, flags.clone())]),
                None => Err(error),
            }
        }
        Ok(all) => {
            let named = all.into_iter().map(|(name, one)| (Some(name), one));
            Ok(named.collect())
        }
        Err(error) => Err(error),
    }
}

/// Whether the server says that it cannot answer now, as while the cluster that must be asked about
/// the user is away, or while a cluster is reconnected.
fn is_unavailable(error: &CommandError) -> bool {
    matches!(error, CommandError::Refused { status, .. } if status.code == 503)
}

/// The readable coverages, and notes about clusters that the user may not read, or that cannot be
/// read now. An archive may follow clusters that do not know each other's users. The exit code is
/// that of a failure if a cluster cannot be read now: another try may show it.
///
/// # Errors
/// Returns any other error, and a refusal if no cluster is readable or the refused one was
/// selected.
fn readable(
    all: Vec<(Option<String>, Result<Coverage, CommandError>)>,
) -> Result<(Vec<Coverage>, Vec<String>, u8), CommandError> {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for (name, coverage) in all {
        match (name, coverage) {
            (_, Ok(coverage)) => found.push(coverage),
            (Some(name), Err(error)) if error.is_refusal() || is_unavailable(&error) => {
                refused.push((name, error));
            }
            (_, Err(error)) => return Err(error),
        }
    }
    if found.is_empty() && !refused.is_empty() {
        return Err(refused.swap_remove(0).1);
    }
    let notes = refused.iter();
    let notes =
        notes.map(|(name, error)| format!("cluster {name} is not shown: failed to {error}"));
    let is_whole = !refused.iter().any(|(_, error)| is_unavailable(error));
    let code = if is_whole { DONE } else { FAILED };
    Ok((found, notes.collect(), code))
}

/// The headings of the table of clusters.
const HEADINGS: [&str; 8] = [
    "CLUSTER",
    "NAMESPACE",
    "SINCE",
    "COMPLETE UNTIL",
    "KEPT SINCE",
    "EVENTS",
    "VERSIONS",
    "DISK",
];
/// The number of headings that apply to a namespace.
const OF_NAMESPACE: usize = 4;

fn print(
    found: &[Coverage],
    (now, is_well): (Timestamp, bool),
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    // A namespace has no counts.
    let columns = if found.iter().all(|coverage| coverage.namespace.is_some()) {
        OF_NAMESPACE
    } else {
        HEADINGS.len()
    };
    let clusters = found.iter().flat_map(|coverage| {
        followed(coverage).map(move |followed| {
            let totals = coverage.totals;
            let progress = followed.and_then(|it| it.progress);
            // A sealed archive counts versions, and no events.
            let (events, versions) = match coverage.counted() {
                Counted::Versions => (None, totals.map(|it| it.events)),
                Counted::Events => (totals.map(|it| it.events), progress.map(|it| it.versions)),
            };
            let mut row = vec![
                text(&coverage.cluster),
                namespace_of(followed.map_or("", |it| &it.namespace)),
                moment(followed.map(|it| it.since)),
                moment(followed.map(|it| it.complete_until)),
                moment(totals.and_then(|it| it.kept_since)),
                number(events),
                number(versions),
                bytes(totals.map_or(0, |it| it.disk_bytes)),
            ];
            row.truncate(columns);
            row
        })
    });
    let clusters: Vec<_> = clusters.collect();
    table(&HEADINGS[..columns], &clusters, screen, out)?;
    let gaps = found.iter().flat_map(|coverage| {
        coverage.gaps.iter().map(move |gap| {
            vec![
                text(&coverage.cluster),
                namespace_of(&gap.namespace),
                moment(Some(gap.from)),
                moment(Some(gap.to)),
                cause(gap),
            ]
        })
    });
    let gaps: Vec<_> = gaps.collect();
    let behind: Vec<_> = found
        .iter()
        .filter(|one| gaps::is_behind(one, now))
        .collect();
    writeln!(out)?;
    if gaps.is_empty() {
        // A gap is recorded when the list that ends it is complete.
        let mut all = found.iter().flat_map(followed);
        let is_open = all.any(|one| one.is_none_or(|one| one.listing));
        let said = if is_open {
            "No gaps yet: some clusters are not read to the end, or did not answer so far."
        } else if !behind.is_empty() {
            "No gaps up to COMPLETE UNTIL."
        } else if !is_well {
            "No gaps so far."
        } else {
            "No gaps: nothing was missed since then."
        };
        writeln!(out, "{said}")?;
    } else {
        let headings = ["CLUSTER", "NAMESPACE", "GAP FROM", "TO", "CAUSE"];
        table(&headings, &gaps, screen, out)?;
    }
    if !behind.is_empty() {
        let minutes = gaps::BEHIND.as_mins();
        writeln!(
            out,
            "\nBehind by {minutes} minutes or more: {}. What came after COMPLETE UNTIL is not known.",
            one_line(&names(behind))
        )?;
    }
    let same = same(found);
    if !same.is_empty() {
        writeln!(out)?;
    }
    for said in same {
        writeln!(out, "{}", one_line(&said))?;
    }
    let taken = taken(found);
    if !taken.is_empty() {
        writeln!(out)?;
    }
    taken
        .iter()
        .try_for_each(|said| writeln!(out, "{}", one_line(said)))
}

/// Adds what the clusters' own answers say is wrong: whoever reads an archive through the API
/// server of its home cluster does not see the archive's health check.
fn add_problems(troubles: &mut Vec<Trouble>, found: &[Coverage]) {
    for coverage in found {
        let cluster = Some(coverage.cluster.clone());
        let is_known = troubles.iter().any(|it| it.cluster == cluster);
        if let Some(what) = coverage.problem.clone().filter(|_| !is_known) {
            troubles.push(Trouble { cluster, what });
        }
    }
}

/// Prints the clusters that are not followed as configured, and why.
fn print_troubles(troubles: &[Trouble], out: &mut dyn Write) -> io::Result<()> {
    if troubles.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nNot followed or sealed as they should be:")?;
    for Trouble { cluster, what } in troubles {
        let of = cluster.as_deref().unwrap_or("clusters");
        writeln!(out, "{}", one_line(&format!("{of}: {what}")))?;
    }
    Ok(())
}

/// Finds clusters that are in truth the same one, because a kubeconfig may lead to another cluster
/// than its name says. One cluster may have several names for different namespaces.
fn same(found: &[Coverage]) -> Vec<String> {
    let mut all: BTreeMap<[&str; 3], Vec<&Coverage>> = BTreeMap::new();
    for coverage in found {
        for one in &coverage.followed {
            if let Some(identity) = one.identity.as_deref().filter(|it| !it.is_empty()) {
                let source = [identity, &one.namespace, &one.selection];
                all.entry(source).or_default().push(coverage);
            }
        }
    }
    let several = all.into_values().filter(|clusters| clusters.len() > 1);
    let said = several.map(|clusters| {
        let names = names(clusters);
        format!("One cluster by several names: {names}. Does each kubeconfig lead to its own?")
    });
    let mut said: Vec<_> = said.collect();
    said.dedup();
    said
}

fn names<'a>(found: impl IntoIterator<Item = &'a Coverage>) -> String {
    let names: Vec<_> = found.into_iter().map(|it| it.cluster.as_str()).collect();
    names.join(", ")
}

/// Lines about events that are missing here without a gap: those sealed earlier, and those removed
/// by retention, the quota and sealing, as far as the archive reports them.
fn taken(found: &[Coverage]) -> Vec<String> {
    let mut said: Vec<String> = found.iter().filter_map(sealed_before).collect();
    said.extend(retentions(found));
    said.extend(found.iter().filter_map(held_rules));
    said.extend(found.iter().filter_map(quota));
    said.extend(found.iter().flat_map(taken_of));
    said
}

/// The changed rules of a cluster that are not in force yet.
fn held_rules(coverage: &Coverage) -> Option<String> {
    let held = coverage.retention?.held?;
    Some(format!(
        "Changed rules of {}: not in force yet. From {} on they end {} of {} events, unless the rules \
         change again.",
        coverage.cluster,
        timestamp(held.until),
        held.ended,
        held.events
    ))
}

/// The bytes that a cluster may take.
fn quota(coverage: &Coverage) -> Option<String> {
    let bytes = said_bytes(coverage.quota_bytes?);
    Some(format!(
        "Quota of {}: up to {bytes} on disk now.",
        coverage.cluster
    ))
}

/// The period that a cluster has only in object storage.
fn sealed_before(coverage: &Coverage) -> Option<String> {
    let begun = coverage
        .followed
        .iter()
        .map(|followed| followed.since)
        .min();
    let sealed = coverage.sealed_before?;
    if begun.is_some_and(|begun| begun <= sealed.since) {
        return None;
    }
    let (since, until) = (timestamp(sealed.since), timestamp(sealed.until));
    Some(format!(
        "Sealed of {} before SINCE: from {since} to {until}, read with tidings serve --archive.",
        coverage.cluster
    ))
}

/// Lines about the retention of events, one for all clusters with the same retention.
fn retentions(found: &[Coverage]) -> Vec<String> {
    let mut all: Vec<(String, Option<UnixMillis>, Vec<&Coverage>)> = Vec::new();
    for coverage in found {
        let Some(retention) = &coverage.retention else {
            continue;
        };
        let said = self::retention(retention);
        // Since when all stored events expire by the rules, if they do and the time is known.
        let since = retention.since.filter(|_| retention.applied);
        let same = all
            .iter_mut()
            .find(|(of, former, _)| *of == said && former.is_some() == since.is_some());
        match same {
            Some((_, latest, clusters)) => {
                *latest = since.max(*latest);
                clusters.push(coverage);
            }
            None => all.push((said, since, vec![coverage])),
        }
    }
    let said = all.into_iter().map(|(said, since, clusters)| {
        let since = since.map(|since| format!("; in force since {}", timestamp(since)));
        let (of, since) = (names(clusters), since.unwrap_or_default());
        format!("Retention of {of}: {said}{since}.")
    });
    said.collect()
}

/// Lines about versions that the quota and sealing removed from a cluster.
fn taken_of(coverage: &Coverage) -> Vec<String> {
    let cluster = &coverage.cluster;
    let totals = coverage.totals.unwrap_or_default();
    let quota = coverage.over_quota;
    let trimmed = Some(quota.events).filter(|number| *number > 0);
    let trimmed = trimmed.map(|number| {
        let (what, which, until) = match coverage.counted() {
            Counted::Versions => ("version", "the oldest first", "up to"),
            Counted::Events => (
                "event",
                "the oldest of the namespaces that took most",
                "observed before",
            ),
        };
        let before = quota.observed_before;
        let before = before.map(|before| format!(", {until} {}", timestamp(before)));
        let before = before.unwrap_or_default();
        format!("{} deleted, {which}{before}", were(number, what))
    });
    let gone = totals.gone.filter(|gone| *gone > 0);
    let gone = gone.map(|gone| {
        let versions = were(gone, "version");
        format!("{versions} not sealed, as they ended or were deleted before, or cannot be read")
    });
    let ended = Some(totals.ended_by_rules).filter(|ended| *ended > 0);
    let ended = ended.map(|ended| {
        let events = were(ended, "event");
        let by_rule = coverage.ended_by_rule.iter();
        let by_rule: Vec<_> = by_rule
            .map(|(rule, number)| format!("{number} by {rule}"))
            .collect();
        let by_rule = match by_rule.as_slice() {
            [] => String::new(),
            rules => format!(": {}", rules.join(", ")),
        };
        format!("{events} ended at once by rules of retention that were new then{by_rule}")
    });
    let said = [("Rules", ended), ("Quota", trimmed), ("Sealing", gone)];
    let said = said.into_iter().filter_map(|(what, said)| {
        let said = said?;
        Some(format!("{what} of {cluster}: {said}."))
    });
    said.collect()
}

/// The retention of events, without its start.
fn retention(retention: &Retention) -> String {
    let [shortest, longest] = [retention.shortest, retention.longest].map(|it| life(it.as_secs()));
    let lives = if shortest == longest {
        longest
    } else {
        format!("{shortest} to {longest}")
    };
    let rules = match retention.rules {
        0 => String::new(),
        1 => ", by 1 rule".to_owned(),
        rules => format!(", by {rules} rules"),
    };
    let deleted = if retention.mirrors_deletions {
        ", or until it ends at its source"
    } else {
        ""
    };
    let applied = if retention.applied {
        ""
    } else {
        "; not yet applied to all that is kept"
    };
    format!("{lives} after an event was last observed{rules}{deleted}{applied}")
}

/// A number of things and a verb: `1 event was`, `2 events were`.
fn were(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what} was"),
        _ => format!("{number} {what}s were"),
    }
}

/// The followed parts of a cluster. A cluster that has not answered yet has none, which is shown,
/// too.
fn followed(coverage: &Coverage) -> impl Iterator<Item = Option<&Followed>> {
    let nothing = coverage.followed.is_empty().then_some(None);
    coverage.followed.iter().map(Some).chain(nothing)
}

fn namespace_of(namespace: &str) -> Cell {
    text(if namespace.is_empty() {
        "<all>"
    } else {
        namespace
    })
}

fn moment(at: Option<UnixMillis>) -> Cell {
    at.map_or_else(|| text(UNKNOWN), |at| text(&timestamp(at).to_string()))
}

/// Why versions may be missing. If several gaps are merged into one, also their number and total
/// length.
fn cause(gap: &Gap) -> Cell {
    let cause = gap.cause.name();
    match gap.gaps {
        0 | 1 => text(cause),
        gaps => {
            let seconds = gap.missing_millis() / 1000;
            text(&format!("{cause} ({gaps} gaps, together {seconds} s)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidings_history::Cause;

    use super::*;

    /// What an archive says, with some of what it always says.
    fn coverage(mut said: Value) -> Coverage {
        let followed = said.get_mut("followed").and_then(Value::as_array_mut);
        for followed in followed.into_iter().flatten() {
            for time in ["since", "completeUntil"] {
                if followed[time].is_null() {
                    followed[time] = "2026-01-01T00:00:00Z".into();
                }
            }
        }
        let retention = said.get_mut("retention").and_then(Value::as_object_mut);
        if let Some(retention) = retention {
            retention.entry("eventTTLSeconds").or_insert(json!(60));
            retention.entry("applied").or_insert(json!(true));
        }
        for number in ["events", "diskBytes"] {
            if said["namespace"].is_null() && said[number].is_null() {
                said[number] = 0.into();
            }
        }
        serde_json::from_value(said).unwrap()
    }

    fn printed(found: &[Coverage], now: &str) -> String {
        let mut out = Vec::new();
        let now = (now.parse().unwrap(), true);
        print(found, now, Screen::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// A gap is recorded when the cluster is followed again. Until then, the absence of gaps says
    /// nothing about the time since it was last followed.
    #[test]
    fn a_cluster_that_is_not_followed_any_more_is_named() {
        let coverage = |cluster: &str, until: &str, retention: Value| {
            coverage(json!({
                "cluster": cluster, "gaps": [], "retention": retention,
                "followed": [{"namespace": "", "completeUntil": until, "listing": false}],
            }))
        };
        let rules = || json!({"shortestSeconds": 60, "longestSeconds": 60});
        let well = coverage("well", "2026-01-01T00:59:00Z", rules());
        let away = coverage("away", "2026-01-01T00:55:00Z", rules());
        // The cluster follows nothing.
        let sealed = coverage("sealed", "2025-01-01T00:00:00Z", Value::Null);
        let now = "2026-01-01T01:00:00Z";
        let said = printed(&[well.clone(), sealed.clone()], now);
        assert!(
            said.contains("\nNo gaps: nothing was missed since then.\n"),
            "{said}"
        );
        assert!(!said.contains("Behind by"), "{said}");
        let mut with_gap = away.clone();
        let at = UnixMillis(0);
        with_gap.gaps = vec![Gap::new(at, at, Cause::Absent)];
        for away in [away, with_gap] {
            let said = printed(&[well.clone(), away, sealed.clone()], now);
            assert!(!said.contains("nothing was missed"), "{said}");
            assert!(
                said.contains("\n\nBehind by 5 minutes or more: away. What came after"),
                "{said}"
            );
        }
    }

    #[test]
    fn clusters_that_are_one_and_the_same_are_named() {
        let coverage = |cluster: &str, identity: Value, namespaces: &[&str]| {
            let followed = namespaces.iter();
            let followed = followed.map(|name| json!({"namespace": name, "identity": identity}));
            coverage(json!({"cluster": cluster, "followed": followed.collect::<Vec<_>>()}))
        };
        let found = [
            coverage("east", "one".into(), &["", "shop"]),
            coverage("west", "one".into(), &["", "shop"]),
            coverage("part", "one".into(), &["bank"]),
            coverage("other", "two".into(), &[""]),
            // Their identities are unknown.
            coverage("a", Value::Null, &[""]),
            coverage("b", Value::Null, &[""]),
        ];
        let said =
            "One cluster by several names: east, west. Does each kubeconfig lead to its own?";
        assert_eq!(same(&found), [said]);
        let printed = printed(&found, "2026-01-01T00:00:00Z");
        assert!(printed.contains(&format!("\n\n{said}\n")), "{printed}");
        assert!(same(&found[1..]).is_empty());
    }

    #[test]
    fn what_is_wrong_with_clusters_is_printed_below_all_if_something_is() {
        let printed = |troubles: &[Trouble]| {
            let mut out = Vec::new();
            print_troubles(troubles, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(&[]), "");
        let what = "not started: \u{1b}[1mno file";
        assert_eq!(
            printed(&[Trouble {
                cluster: Some("away".to_owned()),
                what: what.to_owned(),
            }]),
            "\nNot followed or sealed as they should be:\naway: not started: \\u{1b}[1mno file\n"
        );
    }

    #[test]
    fn what_is_only_sealed_is_told() {
        let times = json!({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"});
        let found = [
            coverage(json!({"cluster": "a", "sealedBefore": times})),
            coverage(json!({"cluster": "b"})),
        ];
        let said = "Sealed of a before SINCE: from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z, \
                    read with tidings serve --archive.";
        assert_eq!(taken(&found), [said]);
    }

    /// The clusters of one archive usually have the same rules.
    #[test]
    fn the_same_retention_of_several_clusters_is_told_once() {
        let coverage = |cluster: &str, days: u64, applied: bool, since: Value| {
            let seconds = days * 86_400;
            coverage(json!({"cluster": cluster, "retention": {
                "shortestSeconds": seconds, "longestSeconds": seconds,
                "applied": applied, "since": since,
            }}))
        };
        let found = [
            coverage("a", 90, true, "2026-01-01T00:00:00.5Z".into()),
            coverage("b", 30, true, "2026-01-01T00:00:00Z".into()),
            coverage("c", 90, true, "2026-01-01T00:00:00.25Z".into()),
            coverage("d", 90, true, Value::Null),
            coverage("e", 90, false, Value::Null),
        ];
        let lasts = "d after an event was last observed";
        assert_eq!(
            taken(&found),
            [
                format!("Retention of a, c: 90{lasts}; in force since 2026-01-01T00:00:00.5Z."),
                format!("Retention of b: 30{lasts}; in force since 2026-01-01T00:00:00Z."),
                format!("Retention of d: 90{lasts}."),
                format!("Retention of e: 90{lasts}; not yet applied to all that is kept."),
            ]
        );
    }

    #[test]
    fn coverage_is_printed_with_its_gaps() {
        let followed = json!([{
            "namespace": "", "since": "2026-01-01T00:00:00Z",
            "completeUntil": "2026-03-04T05:06:07Z", "versions": 12_345,
            "latestResourceVersion": "7",
        }]);
        let gap = json!({
            "from": "2026-02-01T00:00:00Z", "to": "2026-02-01T00:10:00Z",
            "cause": "absent", "namespace": "",
        });
        let coverage = |gaps: Value| {
            json!({
                "cluster": "prod", "followed": followed, "gaps": gaps,
                "keptSince": "2026-01-02T00:00:00Z",
                "events": 678, "diskBytes": 12_000_000,
            })
        };
        let printed = |said: Value| printed(&[self::coverage(said)], "2026-03-04T05:11:00Z");
        let with = printed(coverage(json!([gap])));
        let lines: Vec<_> = with.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "CLUSTER   NAMESPACE   SINCE                  COMPLETE UNTIL         KEPT SINCE             EVENTS   VERSIONS   DISK",
                "prod      <all>       2026-01-01T00:00:00Z   2026-03-04T05:06:07Z   2026-01-02T00:00:00Z   678      12345      12 MB",
                "",
                "CLUSTER   NAMESPACE   GAP FROM               TO                     CAUSE",
                "prod      <all>       2026-02-01T00:00:00Z   2026-02-01T00:10:00Z   absent",
            ]
        );
        let without = printed(coverage(json!([])));
        assert!(without.ends_with("\nNo gaps: nothing was missed since then.\n"));
        // If the archive is failing, it is not said that no versions are missing.
        let mut out = Vec::new();
        let now = ("2026-03-04T05:11:00Z".parse().unwrap(), false);
        let found = self::coverage(coverage(json!([])));
        print(&[found], now, Screen::default(), &mut out).unwrap();
        assert!(out.ends_with(b"\nNo gaps so far.\n"));
        // A namespace has no counts of the whole cluster.
        let mut of_namespace = coverage(json!([gap]));
        of_namespace["namespace"] = "shop".into();
        let with = printed(of_namespace);
        let first = with.lines().next().unwrap().split_whitespace();
        let expected = ["CLUSTER", "NAMESPACE", "SINCE", "COMPLETE", "UNTIL"];
        assert_eq!(first.collect::<Vec<_>>(), expected);
        // A gap is recorded when the list that ends it is complete.
        let mut listing = coverage(json!([]));
        listing["followed"][0]["listing"] = true.into();
        assert!(printed(listing).contains("No gaps yet:"));
        // A cluster that has not answered yet is shown, too.
        let mut unknown = coverage(json!([]));
        unknown["followed"] = json!([]);
        let unknown = printed(unknown);
        assert!(unknown.contains("No gaps yet:"), "{unknown}");
        let row = unknown.lines().nth(1).unwrap();
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells[..4], ["prod", "<all>", "<unknown>", "<unknown>"]);
        assert_eq!(cells[5..7], ["678", "<unknown>"]);
    }

    /// These events are missing without a gap.
    #[test]
    fn what_retention_quota_and_sealing_took_is_told_as_far_as_it_is_known() {
        let since = "2026-01-01T00:00:00Z";
        let retention = |shortest: u64, rules: u64, applied: bool, since: Value| {
            json!({
                "shortestSeconds": shortest, "longestSeconds": 90 * 86_400, "rules": rules,
                "applied": applied, "since": since, "mirrorsDeletions": false,
            })
        };
        let mut mirrored = retention(7 * 86_400 + 1800, 1, true, Value::Null);
        mirrored["mirrorsDeletions"] = true.into();
        let mut held = retention(90 * 86_400, 0, true, Value::Null);
        held["held"] = json!({"until": since, "ended": 7, "events": 9});
        for (took, said) in [
            (json!({}), ""),
            // An archive on object storage, or one that follows nothing.
            (
                json!({"retention": null, "gone": 0, "overQuota": {"events": 0}}),
                "",
            ),
            (
                json!({"retention": retention(90 * 86_400, 0, true, since.into())}),
                "Retention of prod: 90d after an event was last observed; \
                 in force since 2026-01-01T00:00:00Z.",
            ),
            (
                json!({"retention": retention(5400, 2, false, Value::Null)}),
                "Retention of prod: 1h30m to 90d after an event was last observed, by 2 rules; \
                 not yet applied to all that is kept.",
            ),
            (
                json!({"retention": mirrored, "overQuota": {"events": 1, "observedBefore": since}}),
                "Retention of prod: 7d30m to 90d after an event was last observed, by 1 rule, \
                 or until it ends at its source.\n\
                 Quota of prod: 1 event was deleted, the oldest of the namespaces that took most, \
                 observed before 2026-01-01T00:00:00Z.",
            ),
            (
                json!({"gone": 0, "overQuota": {"events": 80, "observedBefore": since}}),
                "Quota of prod: 80 versions were deleted, the oldest first, \
                 up to 2026-01-01T00:00:00Z.",
            ),
            (
                json!({"retention": held}),
                "Retention of prod: 90d after an event was last observed.\n\
                 Changed rules of prod: not in force yet. From 2026-01-01T00:00:00Z on they end \
                 7 of 9 events, unless the rules change again.",
            ),
            (
                json!({"quotaBytes": 42_000_000_000_u64}),
                "Quota of prod: up to 42 GB on disk now.",
            ),
            (
                json!({"endedByRules": 1000}),
                "Rules of prod: 1000 events were ended at once by rules of retention that were new then.",
            ),
            (
                json!({"gone": 3}),
                "Sealing of prod: 3 versions were not sealed, as they ended or were deleted \
                 before, or cannot be read.",
            ),
        ] {
            let mut took = took;
            took["cluster"] = "prod".into();
            let found = [coverage(took)];
            assert_eq!(taken(&found).join("\n"), said, "{found:?}");
            let printed = printed(&found, since);
            let below = printed.split_once("so far.\n").unwrap().1;
            assert_eq!(below.trim(), said, "{printed}");
        }
        assert_eq!(life(0), "0s");
    }

    #[test]
    fn what_is_wrong_with_a_cluster_is_named_once() {
        let found = [
            coverage(json!({"cluster": "prod", "problem": "not sealed: taken"})),
            coverage(json!({"cluster": "edge", "problem": "not sealed: taken"})),
            coverage(json!({"cluster": "well"})),
        ];
        let mut troubles = vec![Trouble {
            cluster: Some("prod".to_owned()),
            what: "3 s since progress: taken".to_owned(),
        }];
        add_problems(&mut troubles, &found);
        let mut out = Vec::new();
        print_troubles(&troubles, &mut out).unwrap();
        let expected = "\nNot followed or sealed as they should be:\n\
            prod: 3 s since progress: taken\nedge: not sealed: taken\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn clusters_that_do_not_know_the_user_are_left_out_and_named() {
        let status = |code| {
            let status = kube::core::Status::failure("no", "Unauthorized").with_code(code);
            kube::Error::Api(Box::new(status))
        };
        let refused = |code| Err(CommandError::request("read it", "events", status(code)));
        let named = |name: &str| Some(name.to_owned());
        let home = || (named("home"), Ok(coverage(json!({"cluster": "home"}))));
        for code in [401, 403, 503] {
            let read = readable(vec![home(), (named("edge"), refused(code))]);
            let (found, notes, exit) = read.unwrap();
            assert_eq!(exit, if code == 503 { FAILED } else { DONE });
            assert_eq!(found.len(), 1);
            assert_eq!(notes.len(), 1);
            assert!(
                notes[0].starts_with("cluster edge is not shown: failed to "),
                "{notes:?}"
            );
            // If no other cluster is readable, or the cluster was selected, it is an error.
            assert!(readable(vec![(named("edge"), refused(code))]).is_err());
            assert!(readable(vec![home(), (None, refused(code))]).is_err());
        }
        assert!(readable(vec![home(), (named("edge"), refused(500))]).is_err());
        assert!(readable(Vec::new()).unwrap().0.is_empty());
    }
}
