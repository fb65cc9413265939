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
mod bucket;
mod report;
mod script;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act::{Outcome, carry_out};
use report::{bytes, columns, millis};
use table::{Kind, RESIDENT_MAX, Table};

use crate::error::{Result, fail};
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
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let measure = if args.short { &SHORT } else { &LONG };
    // Some kinds take minutes. The short form has only one of these.
    let is_long = |name: &str| name.starts_with("at once") && !name.ends_with(": views");
    let is_wanted = |kind: &&Kind| match &args.only {
        Some(text) => kind.name.contains(text.as_str()),
        None => !(args.short && is_long(&kind.name)),
    };
    let table = Table::read()?;
    let kinds: Vec<&Kind> = table.kinds.iter().filter(is_wanted).collect();
    let is_asked = |name: &str| (args.only.as_ref()).map_or(!args.short, |it| name.contains(it));
    let buckets = bucket::KINDS.iter().filter(|kind| is_asked(kind.name));
    let buckets: Vec<_> = buckets.collect();
    if kinds.is_empty() && buckets.is_empty() {
        return fail("no kind has this in its name");
    }
    let heading = "size answer processor error answer memory resident neighbour";
    writeln!(out, "{}", columns("kind", heading.split(' ')))?;
    let mut faults = Vec::new();
    for kind in kinds {
        let servers = Servers {
            tidings: &args.tidings,
            table: &table,
            kind,
            running: None,
        };
        faults.extend(judge(kind, measure, servers, out).await?);
    }
    for kind in buckets {
        faults.extend(kind.judge(&args.tidings, measure.files, out).await?);
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
    mut servers: Servers<'_>,
    out: &mut impl Write,
) -> Result<Vec<String>> {
    let mut smaller = None;
    let mut sizes: Vec<usize> = (kind.parts().iter())
        .filter(|of| **of >= measure.part_min)
        .map(|of| kind.largest() / of)
        .filter(|size| *size > 0)
        .collect();
    if sizes.is_empty() {
        let part = if kind.is_at_once() { 1 } else { STEP };
        sizes.push(kind.largest() / part);
    }
    for (place, size) in (1..).zip(sizes.iter().copied()) {
        let is_last = place == sizes.len();
        let size_and_end = (size, is_last);
        let faults = |outcome: &_| faults(kind, size, smaller.as_ref(), outcome, measure);
        let mut outcome = measured(size_and_end, 0, measure, &mut servers).await?;
        let mut wrong = faults(&outcome);
        if !wrong.is_empty() {
            // The excess may come from other work on the machine, so the size is measured again.
            let first = 2 * measure.rounds;
            let again = measured(size_and_end, first, measure, &mut servers).await?;
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

/// The server that one kind is sent to, and the one that it follows, if it is an archive.
struct Servers<'a> {
    tidings: &'a Path,
    table: &'a Table,
    kind: &'a Kind,
    running: Option<(ApiServer, Option<ApiServer>)>,
}

impl Servers<'_> {
    /// Sends one round of this size, whose number no other has.
    async fn round(
        &mut self,
        size: usize,
        number: usize,
        with_neighbours: bool,
    ) -> Result<Outcome> {
        let (tidings, kind) = (self.tidings, self.kind);
        // The old server ends before the next one starts.
        let running = self.running.take().filter(|_| !kind.is_alone());
        let running = match running {
            Some(running) => running,
            None if kind.archive => {
                let source = ApiServer::tidings(tidings, &[]).await?;
                // What is observed is sealed only after a day, so that it waits during the test.
                let objects = source.kubeconfig.with_file_name("objects");
                let objects = format!("file://{}", objects.display());
                let more = ["--objects", &*objects, "--seal-after=24h"];
                let archive = ApiServer::mirror(tidings, &source, &["judge"], &more).await?;
                (archive, Some(source))
            }
            None => (ApiServer::tidings(tidings, &[]).await?, None),
        };
        let (server, source) = self.running.insert(running);
        let script = kind.script(self.table, size, &format!("n{size}-{number}"));
        match carry_out(server, source.as_ref(), &script, with_neighbours).await {
            Err(error) => fail(format!("{}: {error}", kind.name)),
            outcome => outcome,
        }
    }
}

/// Measures rounds of one size, numbered from `first` on. For the largest size, as many rounds
/// again can follow with neighbours, until their wait is within its bound.
async fn measured(
    (size, is_last): (usize, bool),
    first: usize,
    measure: &Measure,
    servers: &mut Servers<'_>,
) -> Result<Outcome> {
    let mut all = servers.round(size, first, false).await?;
    if servers.kind.is_at_once() {
        // Other clients ask in every round, and no time is judged.
        return Ok(all);
    }
    for round in 1..measure.rounds {
        all = all.and(servers.round(size, first + round, false).await?);
    }
    let Some((_, wait_max)) = measure.seconds.filter(|_| is_last) else {
        return Ok(all);
    };
    for round in measure.rounds..2 * measure.rounds {
        let waited = servers.round(size, first + round, true).await?;
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
    if kind.is_at_once() {
        let over = over("resident memory", outcome.resident, RESIDENT_MAX);
        over.into_iter().for_each(&mut wrong);
        return faults;
    }
    let spent_ms = millis(outcome.spent);
    if let Some((smaller, before)) = smaller {
        let times = size as f64 / *smaller as f64;
        let growth = outcome.spent.as_secs_f64() / before.spent.max(measure.grain).as_secs_f64();
        let growth_max = kind.growth_max() * measure.growth_room * times / STEP as f64;
        if growth > growth_max {
            wrong(format!(
                "{spent_ms} ms of processor time, {growth:.1} times as much as {smaller}, bound {growth_max:.1}"
            ));
        }
    }
    let over = [
        over("an error", outcome.error, ERROR_MAX),
        over("an answer", outcome.answer, kind.answer_max()),
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
    columns(&kind.name, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of an ordinary kind in a size of four, after a size of one took that long.
    fn found(change: impl Fn(&mut Outcome), before: u64, measure: &Measure) -> Vec<String> {
        let good = Outcome {
            spent: Duration::from_millis(40),
            answer: 10 << 20,
            neighbours: Some(Duration::from_millis(100)),
            ..Outcome::default()
        };
        let mut outcome = good.clone();
        change(&mut outcome);
        let spent = Duration::from_millis(before);
        let smaller = (1, Outcome { spent, ..good });
        faults(&Kind::default(), 4, Some(&smaller), &outcome, measure)
    }

    #[test]
    fn what_is_out_of_bounds_is_told_and_nothing_else() {
        type Change = fn(&mut Outcome);
        assert_eq!(found(|_| (), 40, &LONG), [""; 0]);
        assert_eq!(found(|_| (), 7, &LONG), [""; 0]);
        let cases: [(Change, u64); 8] = [
            (|_| (), 6),
            // Times below the grain are not compared.
            (|_| (), 0),
            (|it| it.unanswered = Some("late".to_owned()), 40),
            (|it| it.error = ERROR_MAX + 1, 40),
            (|it| it.answer += 1, 40),
            (|it| it.memory = MEMORY_MAX + 1, 40),
            (|it| it.neighbours = Some(Duration::from_millis(101)), 40),
            (|it| it.spent = Duration::from_millis(501), 400),
        ];
        for (number, (change, before)) in cases.into_iter().enumerate() {
            assert_eq!(found(change, before, &LONG).len(), 1, "{number}");
        }
        let slow = |it: &mut Outcome| it.spent = Duration::from_secs(9);
        let found = found(slow, 9_000, &SHORT);
        assert_eq!(found, [""; 0], "the short form has no bound in seconds");
    }

    #[test]
    fn requests_at_once_are_judged_by_resident_memory() {
        let table = Table::read().expect("the table can be read");
        let kind = table.kinds.iter().find(|kind| kind.is_at_once());
        let judged = |resident| {
            let outcome = Outcome {
                spent: Duration::from_secs(9),
                memory: MEMORY_MAX + 1,
                resident,
                ..Outcome::default()
            };
            kind.map(|kind| faults(kind, 4, None, &outcome, &LONG).len())
        };
        assert_eq!(judged(RESIDENT_MAX), Some(0));
        assert_eq!(judged(RESIDENT_MAX + 1), Some(1));
    }
}
