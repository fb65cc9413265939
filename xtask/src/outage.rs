//! `cargo xtask outage`: tests with real processes in real time. Our server is killed under a
//! steady stream of events and started again; a recording process is killed and started again; a
//! token is replaced while it is in use. Then the recorded events, their outcomes and the server's
//! events are compared.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tidings_testing::free_port;
use tidings_testing::process::Process;

use crate::command::{self, Result, cannot, folder, output, read};

/// The time without faults before a fault, and after it.
const WELL: Duration = Duration::from_secs(3);
/// Downtime of the server. A replaced token is read meanwhile: clients read it again within a
/// minute, and the server within ten seconds.
const AWAY: Duration = Duration::from_secs(60);
const AWAY_SHORT: Duration = Duration::from_secs(3);
const PER_SECOND: u64 = 200;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A downtime of seconds instead of a minute, without the replaced token
    #[arg(long)]
    short: bool,
}

/// The programs and the downtime of every scenario.
#[derive(Clone)]
struct Stage {
    tidings: PathBuf,
    recorder: PathBuf,
    away: Duration,
}

/// A scenario, which returns its report.
type Story = fn(&Stage) -> Result<String>;

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    // Built like the tests, so that nothing is compiled again.
    let stage = Stage {
        tidings: command::build(root, "dev", "tidings-cli", "tidings")?,
        recorder: command::build(root, "dev", "tidings-bench", "record-load")?,
        away: if args.short { AWAY_SHORT } else { AWAY },
    };
    let mut stories: Vec<(&str, Story)> = vec![
        ("the server dies; events wait in memory", |stage| {
            server_dies(stage, false)
        }),
        ("the server dies; events wait on disk", |stage| {
            server_dies(stage, true)
        }),
        ("the server dies, and then the recorder", recorder_dies),
    ];
    if !args.short {
        stories.push(("the token is replaced", token_is_replaced));
    }
    // The scenarios run at the same time, because they mostly wait.
    let running = stories.into_iter().map(|(name, story)| {
        let stage = stage.clone();
        (name, std::thread::spawn(move || story(&stage)))
    });
    let mut wrong = 0;
    for (name, story) in running.collect::<Vec<_>>() {
        let panicked = |_| Err("it panicked".to_owned());
        match story.join().unwrap_or_else(panicked) {
            Ok(figures) => println!("ok: {name}: {figures}"),
            Err(error) => {
                println!("wrong: {name}: {error}");
                wrong += 1;
            }
        }
    }
    match wrong {
        0 => Ok(()),
        _ => Err(format!("{wrong} outages lost or doubled events")),
    }
}

fn server_dies(stage: &Stage, is_on_disk: bool) -> Result<String> {
    let folder = folder()?;
    let spill = ["--spill", &*folder.path().to_string_lossy()];
    let more = if is_on_disk { &spill[..] } else { &[] };
    let mut server = Server::start(stage, &[])?;
    let mut recorder = Recorder::start(stage, &server, WELL + stage.away + WELL, more)?;
    pass(WELL);
    server.process = None;
    pass(stage.away);
    server.run()?;
    recorder.end()?;
    recorder.agrees(server.count(stage, &[])?, None)
}

fn recorder_dies(stage: &Stage) -> Result<String> {
    let folder = folder()?;
    let spill = ["--spill", &*folder.path().to_string_lossy()];
    let mut server = Server::start(stage, &[])?;
    let mut first = Recorder::start(stage, &server, WELL + stage.away, &spill)?;
    pass(WELL);
    server.process = None;
    pass(stage.away / 2);
    first.process = None;
    server.run()?;
    let mut second = Recorder::start(stage, &server, Duration::ZERO, &spill)?;
    second.end()?;
    second.agrees(server.count(stage, &[])?, Some(&first))
}

fn token_is_replaced(stage: &Stage) -> Result<String> {
    let folder = folder()?;
    let [users, token] = ["tokens.csv", "token"].map(|name| folder.path().join(name));
    let replace = |secret: &str| {
        let user = format!("{secret},recorder,1,system:masters\n");
        for (file, content) in [(&users, user.as_str()), (&token, secret)] {
            let new = file.with_extension("new");
            std::fs::write(&new, content)
                .and_then(|()| std::fs::rename(&new, file))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok::<_, String>(())
    };
    replace("first-of-all-tokens")?;
    let by_token = ["--token-file", &*token.to_string_lossy()];
    let server = Server::start(stage, &["--token-auth-file", &users.to_string_lossy()])?;
    let mut recorder = Recorder::start(stage, &server, WELL + stage.away + WELL, &by_token)?;
    pass(WELL);
    replace("second-of-all-tokens")?;
    recorder.end()?;
    recorder.agrees(server.count(stage, &by_token)?, None)
}

#[expect(clippy::disallowed_methods, reason = "faults in real time")]
fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// Our server, with the same port and folder across restarts.
struct Server {
    program: PathBuf,
    arguments: Vec<String>,
    kubeconfig: String,
    /// It is killed when this is dropped.
    process: Option<Process>,
    _folder: TempDir,
}

impl Server {
    fn start(stage: &Stage, more: &[&str]) -> Result<Self> {
        let folder = folder()?;
        let data = folder.path().to_string_lossy().into_owned();
        let port = free_port().to_string();
        let own = ["serve", "--secure-port", &port, "--data-dir", &data];
        let arguments = own.iter().chain(more).map(|word| (*word).to_owned());
        let mut server = Self {
            program: stage.tidings.clone(),
            arguments: arguments.collect(),
            kubeconfig: String::new(),
            process: None,
            _folder: folder,
        };
        server.run()?;
        Ok(server)
    }

    /// Starts the server, and waits until it is ready.
    fn run(&mut self) -> Result {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stderr(Stdio::null());
        let started = Process::start_and_hear(&mut command);
        let (process, line) = started.map_err(|error| format!("the server: {error}"))?;
        if line.is_empty() {
            return Err("the server did not become ready".to_owned());
        }
        self.kubeconfig = line;
        self.process = Some(process);
        Ok(())
    }

    /// The number of recorded events that the server's events stand for.
    fn count(&self, stage: &Stage, more: &[&str]) -> Result<u64> {
        let mut command = Command::new(&stage.recorder);
        command.args(["--kubeconfig", &self.kubeconfig, "--count"]);
        let printed = output(command.args(more))?;
        let counted = numbers(&printed, "counted").pop();
        counted.ok_or(format!("no number in {printed:?}"))
    }
}

/// A recording process.
struct Recorder {
    /// It is killed when this is dropped.
    process: Option<Process>,
    /// The folder with the process's output.
    folder: TempDir,
    /// Minimum number of recorded events: half of what was asked for.
    least: u64,
}

impl Recorder {
    fn start(stage: &Stage, server: &Server, time: Duration, more: &[&str]) -> Result<Self> {
        let folder = folder()?;
        let printed = folder.path().join("printed");
        let printed = File::create(&printed).map_err(cannot("write", &printed))?;
        let seconds = time.as_secs();
        let mut command = Command::new(&stage.recorder);
        command.args(["--kubeconfig", &server.kubeconfig]);
        command.args(["--seconds", &seconds.to_string()]);
        command.args(["--per-second", &PER_SECOND.to_string()]);
        command.args(more).stdout(printed).stderr(Stdio::null());
        let process = Process::start(&mut command);
        Ok(Self {
            process: Some(process.map_err(|error| error.to_string())?),
            folder,
            least: PER_SECOND * seconds / 2,
        })
    }

    /// Waits until the recorder ends by itself.
    fn end(&mut self) -> Result {
        match self.process.take().map(|mut process| process.wait()) {
            Some(status) if status.success() => Ok(()),
            other => Err(format!("the recorder ended with {other:?}")),
        }
    }

    fn printed(&self) -> Result<String> {
        read(&self.folder.path().join("printed"))
    }

    /// Checks that events were recorded, that each has one outcome, and that the server, which
    /// `counted` them, has all of them. A `killed` process may lose the events of its last tenths
    /// of a second, but none may be counted twice. Returns the report.
    fn agrees(&self, counted: u64, killed: Option<&Self>) -> Result<String> {
        let printed = self.printed()?;
        let missing = |field| format!("no {field} in {printed}");
        let of = |field| numbers(&printed, field).pop().ok_or_else(|| missing(field));
        let (offered, delivered, aggregated) =
            (of("offered")?, of("delivered")?, of("aggregated")?);
        let (dropped, pending) = (of("dropped")?, of("pending")?);
        let mut figures = format!(
            "offered {offered} = delivered {delivered} + aggregated {aggregated} + dropped {dropped} + pending {pending}; the server has {counted}"
        );
        let adds_up = offered == delivered + aggregated && dropped == 0 && pending == 0;
        let is_there = if let Some(killed) = killed {
            let recorded = numbers(&killed.printed()?, "recorded");
            let [.., before, last] = recorded[..] else {
                return Err("the recorder died before it recorded".to_owned());
            };
            // The process recorded more events after its last report.
            let most = last + (last - before);
            figures = format!("recorded {before} to {most} before its death; then {figures}");
            before > 0 && (before..=most).contains(&counted)
        } else {
            counted == offered && offered >= self.least
        };
        if adds_up && is_there {
            Ok(figures)
        } else {
            Err(figures)
        }
    }
}

/// The numbers of this field in lines of JSON. A line without one is ignored.
fn numbers(printed: &str, field: &str) -> Vec<u64> {
    let parsed = |line| serde_json::from_str::<Value>(line).ok();
    let figures = printed.lines().filter_map(parsed);
    // Numbers in figures are floating point.
    let numbers = figures.filter_map(|figure| figure[field].as_f64());
    numbers.map(|number| number as u64).collect()
}
