//! Hostile input against a real server: all input costs time and memory in proportion to its size,
//! within bounds, and does not delay answers to other clients.
//!
//! Each kind of input is sent in sizes that grow four-fold up to the server's limits. The server is
//! a separate process, new for each kind, or for each round if events of earlier rounds would
//! count. Some kinds are for an archive: their preparation is written to a server that it follows.
//! Some kinds are requests at once; their bound is the server's resident memory.
//! Processor time and memory are read from the system, so other work on the machine has little
//! effect. Bytes that are not requests are sent at once, without pauses. The minimum time of
//! several rounds counts, and the maximum memory.

mod act;
mod archived;
mod at_once;
mod bucket;
mod error;
mod frames;
mod kind;
mod kinds;
mod script;
mod table;
mod timeline;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act::{Outcome, carry_out};
pub(crate) use error::HostileError;
use kind::Kind;
use kinds::KINDS;
use script::Script;
use table::{bytes, columns, millis};

use crate::process::Process;
use crate::servers::ApiServer;

/// The factor from one size to the next.
const STEP: usize = 4;
/// Maximum bytes of an error answer, with its headers.
const ERROR_MAX: u64 = 64 * 1024;
/// Maximum additional memory: a little more than fifty times the longest body. A list of empty
/// objects takes that much.
const MEMORY_MAX: u64 = 160 << 20;

/// The arguments of this suite.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    tidings: PathBuf,
    /// Smaller sizes without bounds in seconds: for any build, on any machine.
    #[arg(long)]
    short: bool,
    /// Only kinds with this in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// How strict the judgement is.
struct Measure {
    /// The largest size that is sent, as a part of the kind's largest.
    part_min: usize,
    rounds: usize,
    /// Number of damaged files of each kind in the bucket that is read.
    files: usize,
    /// Factor by which processor time may grow beyond the bound of its kind.
    growth_room: f64,
    /// Processor times below this are not compared.
    grain: Duration,
    /// Maximum processor time of a script, and maximum wait of a neighbour.
    seconds: Option<(Duration, Duration)>,
}

const LONG: Measure = Measure {
    part_min: 1,
    rounds: 3,
    files: 40,
    growth_room: 1.0,
    grain: Duration::from_millis(4),
    seconds: Some((Duration::from_millis(500), Duration::from_millis(100))),
};

const SHORT: Measure = Measure {
    part_min: 16,
    rounds: 1,
    files: 4,
    growth_room: 1.3,
    grain: Duration::from_millis(10),
    seconds: None,
};

/// Sends every kind. Returns whether all stayed within their bounds.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool, HostileError> {
    let measure = if args.short { &SHORT } else { &LONG };
    // Some kinds take minutes. The short form has only one of these.
    let is_long = |name: &str| name.starts_with("at once") && !name.ends_with(": views");
    let is_wanted = |kind: &&Kind| match &args.only {
        Some(text) => kind.name.contains(text.as_str()),
        None => !(args.short && is_long(kind.name)),
    };
    let kinds: Vec<&Kind> = KINDS.iter().copied().flatten().filter(is_wanted).collect();
    let is_asked = |name: &str| (args.only.as_ref()).map_or(!args.short, |it| name.contains(it));
    let buckets = [bucket::NAME, bucket::NAME_OF_MANY].map(is_asked);
    if kinds.is_empty() && !buckets.contains(&true) {
        return Err(HostileError::NoKind);
    }
    writeln!(out, "{}", heading())?;
    let mut faults = Vec::new();
    for kind in kinds {
        faults.extend(judge(kind, measure, &args.tidings, out).await?);
    }
    let [is_forged, is_many] = buckets;
    if is_forged {
        faults.extend(bucket::judge(&args.tidings, measure.files, out).await?);
    }
    if is_many {
        faults.extend(bucket::judge_many(&args.tidings, out).await?);
    }
    writeln!(out)?;
    for fault in &faults {
        writeln!(out, "wrong: {fault}")?;
    }
    Ok(faults.is_empty())
}

/// Sends one kind in growing sizes until a bound is exceeded.
async fn judge(
    kind: &Kind,
    measure: &Measure,
    tidings: &Path,
    out: &mut impl Write,
) -> Result<Vec<String>, HostileError> {
    let mut servers = Servers::new(tidings, kind);
    let mut smaller = None;
    let mut sizes: Vec<usize> = (kind.parts.iter())
        .filter(|of| **of >= measure.part_min)
        .map(|of| kind.largest / of)
        .filter(|size| *size > 0)
        .collect();
    if sizes.is_empty() && kind.resident_max.is_some() {
        sizes.push(kind.largest);
    } else if sizes.is_empty() {
        sizes.push(kind.largest / STEP);
    }
    for (place, size) in (1..).zip(sizes.iter().copied()) {
        let is_last = place == sizes.len();
        let size_and_end = (size, is_last);
        let faults = |outcome: &_| faults(kind, size, smaller.as_ref(), outcome, measure);
        let mut outcome = measured(kind, size_and_end, 0, measure, &mut servers).await?;
        let mut wrong = faults(&outcome);
        if !wrong.is_empty() {
            // The excess may come from other work on the machine, so the size is measured again.
            let first = 2 * measure.rounds;
            let again = measured(kind, size_and_end, first, measure, &mut servers).await?;
            outcome = outcome.and(again);
            wrong = faults(&outcome);
        }
        writeln!(out, "{}", row(kind, size, &outcome))?;
        out.flush()?;
        if !wrong.is_empty() {
            return Ok(wrong);
        }
        if outcome.unprepared {
            break;
        }
        smaller = Some((size, outcome));
    }
    Ok(Vec::new())
}

/// The servers that one kind is sent to.
struct Servers<'a> {
    tidings: &'a Path,
    kind: &'a Kind,
    running: Option<Running>,
}

/// A running server with its process. `source` is the server that it follows, if it is an archive.
struct Running {
    server: ApiServer,
    process: Process,
    source: Option<ApiServer>,
}

impl<'a> Servers<'a> {
    fn new(tidings: &'a Path, kind: &'a Kind) -> Self {
        Self {
            tidings,
            kind,
            running: None,
        }
    }

    /// Sends one round.
    async fn round(
        &mut self,
        script: &Script,
        with_neighbours: bool,
    ) -> Result<Outcome, HostileError> {
        if self.kind.alone {
            // The old server ends before the next one starts.
            self.running = None;
        }
        if self.running.is_none() {
            let mut server = ApiServer::start_tidings(self.tidings, &[]).await?;
            let mut source = None;
            if self.kind.archive {
                let archive = ApiServer::start_sealing(self.tidings, &server).await?;
                source = Some(std::mem::replace(&mut server, archive));
            }
            let process = Process::new(server.process().ok_or(HostileError::Ended)?);
            self.running = Some(Running {
                server,
                process,
                source,
            });
        }
        let Some(running) = &self.running else {
            return Err(HostileError::Ended);
        };
        let (server, source) = (&running.server, running.source.as_ref());
        let outcome = carry_out(server, source, &running.process, script, with_neighbours).await;
        outcome.map_err(|source| HostileError::Act {
            kind: self.kind.name,
            source,
        })
    }
}

/// Measures rounds of one size, numbered from `first` on. For the largest size, as many rounds
/// again can follow with neighbours, until their wait is within its bound.
async fn measured(
    kind: &Kind,
    (size, is_last): (usize, bool),
    first: usize,
    measure: &Measure,
    servers: &mut Servers<'_>,
) -> Result<Outcome, HostileError> {
    let script = |round| (kind.make)(size, &format!("n{size}-{}", first + round));
    let mut all = servers.round(&script(0), false).await?;
    if kind.resident_max.is_some() {
        // Other clients ask in every round, and no time is judged.
        return Ok(all);
    }
    for round in 1..measure.rounds {
        all = all.and(servers.round(&script(round), false).await?);
    }
    let Some((_, wait_max)) = measure.seconds.filter(|_| is_last) else {
        return Ok(all);
    };
    for round in measure.rounds..2 * measure.rounds {
        let waited = servers.round(&script(round), true).await?;
        all.neighbours = all.neighbours.into_iter().chain(waited.neighbours).min();
        if all.neighbours <= Some(wait_max) {
            break;
        }
    }
    Ok(all)
}

/// The bounds that a round exceeded, in words.
fn faults(
    kind: &Kind,
    size: usize,
    smaller: Option<&(usize, Outcome)>,
    outcome: &Outcome,
    measure: &Measure,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut wrong = |what: String| faults.push(format!("{}: {size}: {what}", kind.name));
    // The server may refuse the preparation of larger sizes, but not that of every size.
    if outcome.unprepared && smaller.is_none() {
        wrong(format!("what is sent first is answered {}", outcome.said));
    }
    if let Some(why) = outcome.unanswered.as_ref().filter(|_| !outcome.unprepared) {
        wrong(why.clone());
    }
    let over = |what: &str, is: u64, bound: u64| {
        (is > bound).then(|| format!("{what} of {}, bound {}", bytes(is), bytes(bound)))
    };
    if let Some(bound) = kind.resident_max {
        let over = over("resident memory", outcome.resident, bound);
        over.into_iter().for_each(&mut wrong);
        return faults;
    }
    let spent_ms = millis(outcome.spent);
    if let Some((smaller, before)) = smaller {
        let times = size as f64 / *smaller as f64;
        let growth = outcome.spent.as_secs_f64() / before.spent.max(measure.grain).as_secs_f64();
        let growth_max = kind.growth_max * measure.growth_room * times / STEP as f64;
        if growth > growth_max {
            wrong(format!(
                "{spent_ms} ms of processor time, {growth:.1} times as much as {smaller}, bound {growth_max:.1}"
            ));
        }
    }
    let over = [
        over("an error", outcome.error, ERROR_MAX),
        over("an answer", outcome.answer, kind.answer_max),
        over("memory", outcome.memory, MEMORY_MAX),
    ];
    over.into_iter().flatten().for_each(&mut wrong);
    if let Some((spent_max, wait_max)) = measure.seconds {
        if outcome.spent > spent_max {
            let bound = millis(spent_max);
            wrong(format!("{spent_ms} ms of processor time, bound {bound} ms"));
        }
        if let Some(waited) = outcome.neighbours.filter(|waited| *waited > wait_max) {
            let (waited, bound) = (millis(waited), millis(wait_max));
            wrong(format!("a neighbour waited {waited} ms, bound {bound} ms"));
        }
    }
    faults
}

fn heading() -> String {
    let row = [
        "size",
        "answer",
        "processor",
        "error",
        "answer",
        "memory",
        "resident",
        "neighbour",
    ];
    columns("kind", row.map(str::to_owned))
}

fn row(kind: &Kind, size: usize, outcome: &Outcome) -> String {
    let said = if outcome.unprepared {
        format!("first {}", outcome.said)
    } else {
        outcome.said.clone()
    };
    let waited = outcome.neighbours;
    let row = [
        size.to_string(),
        said,
        format!("{} ms", millis(outcome.spent)),
        bytes(outcome.error),
        bytes(outcome.answer),
        bytes(outcome.memory),
        bytes(outcome.resident),
        waited.map_or_else(String::new, |waited| format!("{} ms", millis(waited))),
    ];
    columns(kind.name, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind {
        name: "kind",
        largest: 4,
        parts: &[4, 1],
        growth_max: 6.0,
        make: |_, _| act_of_none(),
        answer_max: 100,
        alone: false,
        resident_max: None,
        archive: false,
    };

    fn act_of_none() -> Script {
        script::Act::Handshakes(0).into()
    }

    fn good() -> Outcome {
        Outcome {
            said: "200".to_owned(),
            unanswered: None,
            unprepared: false,
            spent: Duration::from_millis(40),
            error: 0,
            answer: 100,
            memory: 0,
            resident: 0,
            neighbours: Some(Duration::from_millis(100)),
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_told_and_nothing_else() {
        let smaller = |spent| {
            let spent = Duration::from_millis(spent);
            (1, Outcome { spent, ..good() })
        };
        let at_once = Kind {
            resident_max: Some(1000),
            ..KIND
        };
        for (resident, expected) in [(1000, 0), (1001, 1)] {
            let outcome = Outcome {
                resident,
                spent: Duration::from_secs(9),
                memory: MEMORY_MAX + 1,
                ..good()
            };
            assert_eq!(faults(&at_once, 4, None, &outcome, &LONG).len(), expected);
        }
        let cases = [
            (good(), smaller(40), 0),
            (good(), smaller(7), 0),
            (good(), smaller(6), 1),
            // Times below the grain are not compared.
            (good(), smaller(0), 1),
            (
                Outcome {
                    unanswered: Some("late".to_owned()),
                    ..good()
                },
                smaller(40),
                1,
            ),
            (
                Outcome {
                    error: ERROR_MAX + 1,
                    ..good()
                },
                smaller(40),
                1,
            ),
            (
                Outcome {
                    answer: 101,
                    ..good()
                },
                smaller(40),
                1,
            ),
            (
                Outcome {
                    memory: MEMORY_MAX + 1,
                    ..good()
                },
                smaller(40),
                1,
            ),
            (
                Outcome {
                    neighbours: Some(Duration::from_millis(101)),
                    ..good()
                },
                smaller(40),
                1,
            ),
            (
                Outcome {
                    spent: Duration::from_millis(501),
                    ..good()
                },
                smaller(400),
                1,
            ),
        ];
        for (outcome, smaller, expected) in cases {
            let found = faults(&KIND, 4, Some(&smaller), &outcome, &LONG);
            assert_eq!(found.len(), expected, "{found:?}");
        }
        let slow = Outcome {
            spent: Duration::from_secs(9),
            neighbours: None,
            ..good()
        };
        let found = faults(&KIND, 4, None, &slow, &SHORT);
        assert_eq!(found, [""; 0], "the short form has no bound in seconds");
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut names: Vec<_> = KINDS
            .iter()
            .copied()
            .flatten()
            .map(|kind| kind.name)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
