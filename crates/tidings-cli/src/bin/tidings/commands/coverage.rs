//! `tidings coverage`: from when to when an archive has a cluster's events, and where some may be
//! missing.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;
use tidings_cli::text::{Cell, Layout, Look, Screen};

use super::archived;
use super::cluster::{ClusterFlags, CommandError, DONE, EXIT_CODES, finish, tell};
use super::terminal::ColorFlag;

/// Show from when to when an archive has the events of its clusters, and the gaps in which versions
/// may be missing.
///
/// An archive that was stopped or cut off continues where it was, as long as the cluster remembers
/// what came meanwhile (five minutes by default). If it does not, the last version of every event
/// that still lives is fetched, and a gap says from when to when versions may be missing, and why.
///
/// Gaps do not show what ended by retention or was deleted to keep a quota. How long events are
/// kept, and what the quota took, is printed below them.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings coverage --kubeconfig ./archive/kubeconfig
  tidings coverage --kubeconfig ./archive/kubeconfig --cluster prod -o json

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Form of the output
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    output: Form,
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
    let mut all = Vec::new();
    for (name, cluster) in clusters(&args.cluster).await? {
        all.push((name, archived::coverage(&cluster).await));
    }
    let (found, notes) = readable(all)?;
    for note in notes {
        tell(&note);
    }
    let mut out = io::BufWriter::new(io::stdout());
    match args.output {
        Form::Json => {
            for coverage in &found {
                writeln!(out, "{coverage}")?;
            }
        }
        Form::Table => {
            let screen = args.color.screen();
            print(&found, screen, &mut out)?;
        }
    }
    out.flush()?;
    Ok(DONE)
}

/// The clusters that are meant: the one that is named, or all of the archive, which have names if
/// they need not all be readable. A user who may not list them, since only one cluster knows the
/// user, is shown that of the context.
async fn clusters(
    flags: &ClusterFlags,
) -> Result<Vec<(Option<String>, ClusterFlags)>, CommandError> {
    if flags.names_cluster() && !flags.is_of_all() {
        return Ok(vec![(None, flags.clone())]);
    }
    match archived::clusters(flags).await {
        Ok(all) => {
            let all = all.into_iter();
            let named = all.map(|(name, one)| ((!flags.is_of_all()).then_some(name), one));
            Ok(named.collect())
        }
        Err(error) if !flags.is_of_all() && is_refusal(&error) => Ok(vec![(None, flags.clone())]),
        Err(error) => Err(error),
    }
}

fn is_refusal(error: &CommandError) -> bool {
    error.is_forbidden() || matches!(error, CommandError::Unauthorized(_))
}

/// What was found, and notes about clusters that the user may not read: an archive may follow
/// clusters that do not know each other's users.
///
/// # Errors
/// Any other error, and a refusal if no cluster is readable or this one has to be.
fn readable(
    all: Vec<(Option<String>, Result<Value, CommandError>)>,
) -> Result<(Vec<Value>, Vec<String>), CommandError> {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for (name, coverage) in all {
        match (name, coverage) {
            (_, Ok(coverage)) => found.push(coverage),
            (Some(name), Err(error)) if is_refusal(&error) => refused.push((name, error)),
            (_, Err(error)) => return Err(error),
        }
    }
    if found.is_empty() && !refused.is_empty() {
        return Err(refused.swap_remove(0).1);
    }
    let notes = refused.iter();
    let notes =
        notes.map(|(name, error)| format!("cluster {name} is not shown: failed to {error}"));
    Ok((found, notes.collect()))
}

fn print(found: &[Value], screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let clusters = found.iter().flat_map(|coverage| {
        followed(coverage).map(move |followed| {
            vec![
                text(&coverage["cluster"]),
                or(&followed["namespace"], "<all>"),
                text(&followed["since"]),
                text(&followed["completeUntil"]),
                text(&coverage["keptSince"]),
                number(&coverage["events"]),
                number(&followed["versions"]),
                bytes(coverage["diskBytes"].as_u64().unwrap_or(0)),
            ]
        })
    });
    table(
        &[
            "CLUSTER",
            "NAMESPACE",
            "SINCE",
            "COMPLETE UNTIL",
            "KEPT SINCE",
            "EVENTS",
            "VERSIONS",
            "DISK",
        ],
        &clusters.collect::<Vec<_>>(),
        screen,
        out,
    )?;
    let gaps = found.iter().flat_map(|coverage| {
        let gaps = coverage["gaps"].as_array().into_iter().flatten();
        gaps.map(move |gap| {
            vec![
                text(&coverage["cluster"]),
                or(&gap["namespace"], "<all>"),
                text(&gap["from"]),
                text(&gap["to"]),
                cause(gap),
            ]
        })
    });
    let gaps: Vec<_> = gaps.collect();
    writeln!(out)?;
    if gaps.is_empty() {
        // A gap is stated when the list that ends it is complete.
        let mut all = found.iter().flat_map(followed);
        let is_open = all.any(|one| one.is_null() || one["listing"] == true);
        let said = if is_open {
            "No gaps yet: some clusters are not read to the end, or did not answer so far."
        } else {
            "No gaps: nothing was missed since then."
        };
        writeln!(out, "{said}")?;
    } else {
        let headings = ["CLUSTER", "NAMESPACE", "GAP FROM", "TO", "CAUSE"];
        table(&headings, &gaps, screen, out)?;
    }
    let taken: Vec<_> = found.iter().flat_map(taken).collect();
    if !taken.is_empty() {
        writeln!(out)?;
    }
    taken.iter().try_for_each(|said| writeln!(out, "{said}"))
}

/// What is in no gap and not here, either: what retention, the quota and sealing took of a cluster,
/// as far as the archive says it.
fn taken(coverage: &Value) -> Vec<String> {
    let cluster = coverage["cluster"].as_str().unwrap_or("<unknown>");
    let retention = retention(&coverage["retention"]);
    let quota = &coverage["overQuota"];
    let trimmed = quota["events"].as_u64().filter(|number| *number > 0);
    // A sealed archive, which alone says what it could not seal, counts versions.
    let is_sealed = !coverage["gone"].is_null();
    let what = if is_sealed { "version" } else { "event" };
    let trimmed = trimmed.map(|number| {
        let up_to = quota["lastSeenBefore"].as_str();
        let up_to = up_to.map(|before| format!(", up to {before}"));
        format!(
            "{} deleted, the oldest first{}",
            were(number, what),
            up_to.unwrap_or_default()
        )
    });
    let gone = coverage["gone"].as_u64().filter(|gone| *gone > 0);
    let gone = gone.map(|gone| {
        let versions = were(gone, "version");
        format!("{versions} not sealed, as they ended or were deleted before, or cannot be read")
    });
    let said = [
        ("Retention", retention),
        ("Quota", trimmed),
        ("Sealing", gone),
    ];
    let said = said.into_iter().filter_map(|(what, said)| {
        let said = said?;
        Some(format!("{what} of {cluster}: {said}."))
    });
    said.collect()
}

/// How long events are kept, if it is known.
fn retention(retention: &Value) -> Option<String> {
    let seconds = |name: &str| retention[name].as_u64().map(life);
    let (shortest, longest) = (seconds("shortestSeconds")?, seconds("longestSeconds")?);
    let lives = if shortest == longest {
        longest
    } else {
        format!("{shortest} to {longest}")
    };
    let rules = match retention["rules"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => ", by 1 rule".to_owned(),
        Some(rules) => format!(", by {rules} rules"),
    };
    let deleted = match retention["mirrorsDeletions"].as_bool() {
        Some(true) => ", or until it ends at its source",
        _ => "",
    };
    let since = retention["since"].as_str();
    let since = match (retention["applied"].as_bool(), since) {
        (Some(false), _) => "; not yet applied to all that is kept".to_owned(),
        (_, Some(since)) => format!("; in force since {since}"),
        _ => String::new(),
    };
    Some(format!(
        "{lives} after an event was last observed{rules}{deleted}{since}"
    ))
}

/// A time as flags take it.
fn life(seconds: u64) -> String {
    if seconds == 0 {
        return "0s".to_owned();
    }
    let mut left = seconds;
    let parts = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')].map(|(unit, letter)| {
        let number = left / unit;
        left %= unit;
        (number > 0).then(|| format!("{number}{letter}"))
    });
    parts.into_iter().flatten().collect()
}

/// A number of things to which something was done.
fn were(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what} was"),
        _ => format!("{number} {what}s were"),
    }
}

/// What is followed of a cluster; one that did not answer so far has nothing, which is shown, too.
fn followed(coverage: &Value) -> impl Iterator<Item = &Value> {
    static NOTHING: Value = Value::Null;
    let all = coverage["followed"].as_array();
    let all = all.map(Vec::as_slice).unwrap_or_default();
    let nothing = all.is_empty().then_some(&NOTHING);
    all.iter().chain(nothing)
}

fn table(
    headings: &[&str],
    rows: &[Vec<Cell>],
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let headings = headings
        .iter()
        .map(|name| Cell::new(name).look(Look::Heading));
    let headings: Vec<_> = headings.collect();
    let mut layout = Layout::default();
    layout.grow(&headings);
    for row in rows {
        layout.grow(row);
    }
    writeln!(out, "{}", layout.line(&headings, screen))?;
    for row in rows {
        writeln!(out, "{}", layout.line(row, screen))?;
    }
    Ok(())
}

fn text(value: &Value) -> Cell {
    or(value, "<unknown>")
}

fn or(value: &Value, otherwise: &str) -> Cell {
    let text = value.as_str().filter(|text| !text.is_empty());
    Cell::new(text.unwrap_or(otherwise))
}

/// Why versions may be missing, and of how many gaps in one, and how long these were together.
fn cause(gap: &Value) -> Cell {
    let cause = gap["cause"].as_str().unwrap_or("<unknown>");
    match (gap["gaps"].as_u64(), gap["missingSeconds"].as_u64()) {
        (Some(gaps @ 2..), Some(seconds)) => {
            Cell::new(&format!("{cause} ({gaps} gaps, together {seconds} s)"))
        }
        _ => Cell::new(cause),
    }
}

fn number(value: &Value) -> Cell {
    if value.is_null() {
        return Cell::new("<unknown>");
    }
    Cell::new(&value.to_string())
}

/// A number of bytes for people.
fn bytes(bytes: u64) -> Cell {
    let text = match bytes {
        0..=9_999 => format!("{bytes} B"),
        10_000..=9_999_999 => format!("{} kB", bytes / 1_000),
        10_000_000..=9_999_999_999 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    };
    Cell::new(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn coverage_is_printed_with_its_gaps() {
        let followed = json!([{
            "namespace": "", "since": "2026-01-01T00:00:00Z",
            "completeUntil": "2026-03-04T05:06:07Z", "versions": 12_345,
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
        let printed = |coverage: Value| {
            let mut out = Vec::new();
            print(&[coverage], Screen::default(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
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
        // One is stated when the list that ends it is complete.
        let mut listing = coverage(json!([]));
        listing["followed"][0]["listing"] = true.into();
        assert!(printed(listing).contains("No gaps yet:"));
        // One that did not answer so far is there, too.
        let mut unknown = coverage(json!([]));
        unknown["followed"] = json!([]);
        let unknown = printed(unknown);
        assert!(unknown.contains("No gaps yet:"), "{unknown}");
        let row = unknown.lines().nth(1).unwrap();
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells[..4], ["prod", "<all>", "<unknown>", "<unknown>"]);
        assert_eq!(cells[5..7], ["678", "<unknown>"]);
    }

    /// It is in no gap.
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
        for (took, said) in [
            (json!({}), ""),
            // Of an archive on object storage, or of one that follows nothing.
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
                json!({"retention": mirrored, "overQuota": {"events": 1, "lastSeenBefore": since}}),
                "Retention of prod: 7d30m to 90d after an event was last observed, by 1 rule, \
                 or until it ends at its source.\n\
                 Quota of prod: 1 event was deleted, the oldest first, \
                 up to 2026-01-01T00:00:00Z.",
            ),
            (
                json!({"gone": 0, "overQuota": {"events": 80, "lastSeenBefore": since}}),
                "Quota of prod: 80 versions were deleted, the oldest first, \
                 up to 2026-01-01T00:00:00Z.",
            ),
            (
                json!({"gone": 3}),
                "Sealing of prod: 3 versions were not sealed, as they ended or were deleted \
                 before, or cannot be read.",
            ),
        ] {
            let mut coverage = took;
            coverage["cluster"] = "prod".into();
            assert_eq!(taken(&coverage).join("\n"), said, "{coverage}");
            let mut out = Vec::new();
            print(&[coverage], Screen::default(), &mut out).unwrap();
            let printed = String::from_utf8(out).unwrap();
            let below = printed.split_once("so far.\n").unwrap().1;
            assert_eq!(below.trim(), said, "{printed}");
        }
        assert_eq!(life(0), "0s");
    }

    #[test]
    fn clusters_that_do_not_know_the_user_are_left_out_and_named() {
        let status = |code| {
            let status = kube::core::Status::failure("no", "Unauthorized").with_code(code);
            kube::Error::Api(Box::new(status))
        };
        let refused = |code| Err(CommandError::request("read it", "events", status(code)));
        let named = |name: &str| Some(name.to_owned());
        let home = || (named("home"), Ok(json!({"cluster": "home"})));
        for code in [401, 403] {
            let (found, notes) = readable(vec![home(), (named("edge"), refused(code))]).unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(notes.len(), 1);
            assert!(
                notes[0].starts_with("cluster edge is not shown: failed to "),
                "{notes:?}"
            );
            // If no other is readable, or it is asked for.
            assert!(readable(vec![(named("edge"), refused(code))]).is_err());
            assert!(readable(vec![home(), (None, refused(code))]).is_err());
        }
        assert!(readable(vec![home(), (named("edge"), refused(500))]).is_err());
        assert!(readable(Vec::new()).unwrap().0.is_empty());
    }
}
