//! `cargo xtask bench import`: events of files into one `tidings serve`, by `tidings import` and by
//! `kubectl create`, one after the other.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::figure::Built;
use super::server::Running;
use super::table;
use crate::command::{Result, find, named};

/// Events about one object.
const OBJECT_EVENTS: usize = 20;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the table into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Events in JSON Lines
    #[arg(long, default_value_t = 100_000)]
    lines: usize,
    /// Events in a JSON list
    #[arg(long, default_value_t = 25_000)]
    list: usize,
    /// Events for kubectl, which sends 50 requests a second at most
    #[arg(long, default_value_t = 2_000)]
    kubectl: usize,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let tidings = args.built.program(root, "tidings-cli", "tidings")?;
    let kubectl = match named("KUBECTL") {
        Some(path) => Some(path?),
        None => find("kubectl"),
    };
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for files: {error}"))?;
    let server = Running::start(&tidings, &["serve", "--secure-port=0"])?;
    let lines = Measured {
        what: "`tidings import`, JSON Lines",
        pods: "lines",
        events: args.lines,
        is_list: false,
        command: import(&tidings),
    };
    let list = Measured {
        what: "`tidings import`, a JSON list",
        pods: "list",
        events: args.list,
        is_list: true,
        command: import(&tidings),
    };
    let kubectl = kubectl.map(|kubectl| {
        let mut command = Command::new(kubectl);
        command.arg("--cache-dir").arg(folder.path());
        command.args(["create", "-f"]);
        Measured {
            what: "`kubectl create -f`, a JSON list",
            pods: "kubectl",
            events: args.kubectl,
            is_list: true,
            command,
        }
    });
    let is_beside = kubectl.is_some();
    let mut rates = Vec::new();
    for measured in [Some(lines), Some(list), kubectl].into_iter().flatten() {
        let file = folder.path().join("events.json");
        let what = measured.what;
        let events = measured.events;
        write_events(&file, &measured)
            .map_err(|error| format!("write {}: {error}", file.display()))?;
        let seconds = measured.seconds(&file, server.kubeconfig())?;
        println!("{what}: {events} events in {seconds:.1} s");
        rates.push((what, events, seconds));
    }
    let machine = args.built.machine();
    let table = format!("{machine}\n{}", rows(&rates));
    println!("\n{table}");
    if !is_beside {
        println!("skipped kubectl create: there is no kubectl");
    }
    if args.write {
        if !is_beside {
            return Err("not written: docs/benchmarks.md has every figure or none".to_owned());
        }
        table::write(&root.join("docs/benchmarks.md"), "import", &table)?;
    }
    Ok(())
}

/// One measurement: a command that is given a file of so many events.
struct Measured {
    what: &'static str,
    /// The beginning of the names of its pods, which no other measurement has.
    pods: &'static str,
    events: usize,
    is_list: bool,
    command: Command,
}

impl Measured {
    /// Runs the command, which must create all events.
    fn seconds(mut self, file: &Path, kubeconfig: &Path) -> Result<f64> {
        let command = self.command.arg(file).env("KUBECONFIG", kubeconfig);
        let started = now();
        let status = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("{}: {error}", self.what))?;
        if !status.success() {
            return Err(format!("{}: {status}", self.what));
        }
        Ok(started.elapsed().as_secs_f64())
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn import(tidings: &Path) -> Command {
    let mut command = Command::new(tidings);
    command.arg("import");
    command
}

fn rows(rates: &[(&str, usize, f64)]) -> String {
    let rate = |(_, events, seconds): &(&str, usize, f64)| *events as f64 / seconds;
    let kubectls = rates.iter().find(|it| it.0.contains("kubectl")).map(rate);
    let mut rows =
        "| | events | time | events/s | to kubectl |\n|---|--:|--:|--:|--:|\n".to_owned();
    for measured in rates {
        let (what, events, seconds) = measured;
        let rate = rate(measured);
        let ratio = table::or_empty(table::ratio(Some(rate), kubectls), |ratio| {
            format!("{ratio:.1} ×")
        });
        // Writing to a String cannot fail.
        let _ = writeln!(
            rows,
            "| {what} | {events} | {seconds:.1} s | {rate:.0} | {ratio} |"
        );
    }
    rows
}

/// Writes the file of a measurement.
fn write_events(file: &Path, measured: &Measured) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(file)?);
    let (begin, between, end) = if measured.is_list {
        (
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n",
            ",\n",
            "\n]}\n",
        )
    } else {
        ("", "\n", "\n")
    };
    file.write_all(begin.as_bytes())?;
    for number in 0..measured.events {
        if number > 0 {
            file.write_all(between.as_bytes())?;
        }
        serde_json::to_writer(&mut file, &event(measured.pods, number))?;
    }
    file.write_all(end.as_bytes())?;
    file.flush()
}

/// An event like the kubelet's, with a name like client-go's.
fn event(pods: &str, number: usize) -> Value {
    let pod = format!("{pods}-{}", number / OBJECT_EVENTS);
    let time = "2026-01-01T00:00:00Z";
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{pod}.{number:016x}"), "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": pod,
            "fieldPath": "spec.containers{web}",
        },
        "type": "Warning", "reason": "BackOff", "count": 1 + number % 7,
        "message": format!("Back-off restarting failed container web in pod {pod} ({number})"),
        "source": {"component": "kubelet", "host": format!("node-{}", number % 9)},
        "firstTimestamp": time, "lastTimestamp": time,
    })
}
