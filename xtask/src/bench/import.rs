//! `cargo xtask bench import`: events of files into one `tidings serve`, by `tidings import` and by
//! `kubectl create`, one after the other.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::figure::{Built, Figure, Output, seconds};
use super::server::Running;
use super::tables;
use crate::command::{Result, find, named};

/// Events about one object.
const OBJECT_EVENTS: usize = 20;

/// The measurements: the row's title, the program, the number of events, and whether they are in a
/// JSON list instead of JSON Lines. kubectl sends 50 requests a second at most.
const MEASURED: [(&str, &str, usize, bool); 3] = [
    ("`tidings import`, JSON Lines", "tidings", 100_000, false),
    ("`tidings import`, a JSON list", "tidings", 25_000, true),
    ("`kubectl create -f`, a JSON list", "kubectl", 2_000, true),
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    args.output.check(root, "import")?;
    let tidings = args.built.tidings(root)?;
    let kubectl = named("KUBECTL").transpose()?.or_else(|| find("kubectl"));
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for files: {error}"))?;
    let server = Running::start(&tidings, &["serve", "--secure-port=0"])?;
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    for (name, peer, events, is_list) in MEASURED {
        let file = folder.path().join("events.json");
        let mut command = match (&kubectl, peer) {
            (_, "tidings") => {
                let mut command = Command::new(&tidings);
                command.arg("import");
                command
            }
            (Some(kubectl), _) => {
                let mut command = Command::new(kubectl);
                command
                    .arg("--cache-dir")
                    .arg(folder.path())
                    .args(["create", "-f"]);
                command
            }
            (None, _) => {
                skipped.push("kubectl create: there is no kubectl".to_owned());
                continue;
            }
        };
        // No other measurement has pods of this name.
        write_events(&file, &format!("pods-{events}"), events, is_list)
            .map_err(|error| format!("write {}: {error}", file.display()))?;
        let command = command.arg(file).env("KUBECONFIG", &server.kubeconfig);
        let seconds = seconds(command, name)?;
        println!("{name}: {events} events in {seconds:.1} s");
        let rate = events as f64 / seconds;
        figures.push(Figure(json!({
            "name": name, "peer": peer, "events": events, "seconds": seconds, "per_second": rate,
        })));
    }
    let table = format!("{}\n{}", args.built.machine(), tables::import(&figures));
    args.output.put(root, "import", &table, &skipped)
}

/// Writes the file of a measurement.
fn write_events(file: &Path, pods: &str, events: usize, is_list: bool) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(file)?);
    let (begin, between, end) = if is_list {
        (
            r#"{"apiVersion":"v1","kind":"List","items":["#,
            ",\n",
            "\n]}\n",
        )
    } else {
        ("", "\n", "\n")
    };
    file.write_all(begin.as_bytes())?;
    for number in 0..events {
        if number > 0 {
            file.write_all(between.as_bytes())?;
        }
        serde_json::to_writer(&mut file, &event(pods, number))?;
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
