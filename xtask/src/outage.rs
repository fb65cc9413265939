//! `cargo xtask outage`: tests with real processes in real time. Our server is killed under a
//! steady stream of events and started again; a recording process is killed and started again; a
//! token is replaced while it is in use. Then the recorded events, their outcomes and the server's
//! events are compared.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tidings_testing::free_port;

use crate::command::{self, Result, cargo, output};

/// The time without faults before a fault, and after it.
const WELL: Duration = Duration::from_secs(3);

/// Maximum seconds until a replaced token is read: clients read it again within a minute, and the
/// server within ten seconds.
const ROTATION: u64 = 60;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Downtime of the server, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// A few seconds instead, without the replaced token, which takes a minute
    #[arg(long)]
    short: bool,
    /// Events per second
    #[arg(long, default_value_t = 200)]
    per_second: u64,
}

/// The files and numbers that every scenario needs.
#[derive(Clone)]
struct Stage {
    tidings: PathBuf,
    recorder: PathBuf,
    away: Duration,
    per_second: u64,
}

/// A scenario, which returns its report.
type Story = fn(&Stage) -> Result<String>;

pub(crate) fn run(root: &Path, args: &Args) -> Result {
    // Built like the tests, so that nothing is compiled again.
    let names = ["tidings", "record-load"];
    let bins = names.iter().flat_map(|name| ["--bin", name]);
    let words: Vec<&str> = ["build", "-q", "--workspace"]
        .into_iter()
        .chain(bins)
        .collect();
    command::run(&mut cargo(root, &words))?;
    let built = |name: &str| {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        command::target(root).join("debug").join(file)
    };
    let seconds = if args.short { 3 } else { args.seconds };
    let stage = Stage {
        tidings: built(names[0]),
        recorder: built(names[1]),
        away: Duration::from_secs(seconds),
        per_second: args.per_second,
    };
    let mut stories: Vec<(&str, Story)> = vec![
        ("the server dies; events wait in memory", in_memory),
        ("the server dies; events wait on disk", on_disk),
        ("the server dies, and then the recorder", recorder_dies),
    ];
    if seconds >= ROTATION {
        stories.push(("the token is replaced", token_is_replaced));
    } else {
        println!("left out: the token is replaced, which takes {ROTATION} s");
    }
    // The scenarios run at the same time, because they mostly wait.
    let running = stories.into_iter().map(|(name, story)| {
        let stage = stage.clone();
        (name, std::thread::spawn(move || story(&stage)))
    });
    let running: Vec<_> = running.collect();
    let mut wrong = 0;
    for (name, story) in running {
        let told = story
            .join()
            .unwrap_or_else(|_| Err("it panicked".to_owned()));
        wrong += usize::from(told.is_err());
        match told {
            Ok(figures) => println!("ok: {name}: {figures}"),
            Err(error) => println!("wrong: {name}: {error}"),
        }
    }
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} outages lost or doubled events"))
    }
}

fn in_memory(stage: &Stage) -> Result<String> {
    server_dies(stage, &[])
}

fn on_disk(stage: &Stage) -> Result<String> {
    let folder = folder()?;
    let spill = folder.path().to_string_lossy().into_owned();
    server_dies(stage, &["--spill", &spill])
}

fn server_dies(stage: &Stage, more: &[&str]) -> Result<String> {
    let mut server = Server::start(stage, &[])?;
    let mut recorder = Recorder::start(stage, &server, WELL + stage.away + WELL, more)?;
    recorder.watch_for(WELL);
    server.kill();
    recorder.watch_for(stage.away);
    server.run()?;
    recorder.end()?;
    recorder.agrees(&server.count(stage, &[])?, None)
}

fn recorder_dies(stage: &Stage) -> Result<String> {
    let folder = folder()?;
    let spill = folder.path().to_string_lossy().into_owned();
    let mut server = Server::start(stage, &[])?;
    let mut first = Recorder::start(stage, &server, WELL + stage.away, &["--spill", &spill])?;
    first.watch_for(WELL);
    server.kill();
    first.watch_for(stage.away / 2);
    first.kill();
    server.run()?;
    let mut second = Recorder::start(stage, &server, Duration::ZERO, &["--spill", &spill])?;
    second.end()?;
    second.agrees(&server.count(stage, &[])?, Some(&first))
}

fn token_is_replaced(stage: &Stage) -> Result<String> {
    let folder = folder()?;
    let path = |name: &str| folder.path().join(name);
    let (users, token) = (path("tokens.csv"), path("token"));
    let replace = |secret: &str| {
        let user = format!("{secret},recorder,1,system:masters\n");
        // Each report is printed as a whole.
        for (file, content) in [(&users, user.as_str()), (&token, secret)] {
            let new = file.with_extension("new");
            std::fs::write(&new, content)
                .and_then(|()| std::fs::rename(&new, file))
                .map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok::<_, String>(())
    };
    replace("first-of-all-tokens")?;
    let (users, token) = (users.to_string_lossy(), token.to_string_lossy());
    let server = Server::start(stage, &["--token-auth-file", &users])?;
    let time = WELL + stage.away + WELL;
    let by_token = ["--token-file", &*token];
    let mut recorder = Recorder::start(stage, &server, time, &by_token)?;
    recorder.watch_for(WELL);
    replace("second-of-all-tokens")?;
    recorder.end()?;
    recorder.agrees(&server.count(stage, &by_token)?, None)
}

fn folder() -> Result<TempDir> {
    tempfile::tempdir().map_err(|error| format!("a folder: {error}"))
}

/// Our server, with the same port and folder across restarts.
struct Server {
    program: PathBuf,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    child: Option<Child>,
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
            kubeconfig: PathBuf::new(),
            child: None,
            _folder: folder,
        };
        server.run()?;
        Ok(server)
    }

    /// Starts the server, and waits until it is ready.
    fn run(&mut self) -> Result {
        let mut command = Command::new(&self.program);
        let (child, lines) = start(command.args(&self.arguments))?;
        self.child = Some(child);
        let line = lines.recv().map_err(|_| "the server did not become ready");
        self.kubeconfig = PathBuf::from(line?.trim());
        Ok(())
    }

    /// Kills the server.
    fn kill(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }

    /// The number of recorded events that the server's events stand for.
    fn count(&self, stage: &Stage, more: &[&str]) -> Result<Value> {
        let mut command = Command::new(&stage.recorder);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        parse(&output(command.arg("--count").args(more))?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A recording process, and its output.
struct Recorder {
    child: Option<Child>,
    lines: Receiver<String>,
    /// The last two counts of recorded events.
    recorded: [u64; 2],
    /// Minimum number of recorded events: half of what was asked for.
    least: u64,
    said: Value,
}

impl Recorder {
    fn start(stage: &Stage, server: &Server, time: Duration, more: &[&str]) -> Result<Self> {
        let mut command = Command::new(&stage.recorder);
        command.arg("--kubeconfig").arg(&server.kubeconfig);
        for (flag, value) in [
            ("--seconds", time.as_secs()),
            ("--per-second", stage.per_second),
        ] {
            command.arg(flag).arg(value.to_string());
        }
        let (child, lines) = start(command.args(more))?;
        Ok(Self {
            child: Some(child),
            lines,
            recorded: [0; 2],
            least: stage.per_second * time.as_secs() / 2,
            said: Value::Null,
        })
    }

    /// Reads the recorder's output for some time.
    #[expect(
        clippy::disallowed_methods,
        reason = "what happens here happens in real time"
    )]
    fn watch_for(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some(left) = until.checked_duration_since(Instant::now())
            && let Ok(line) = self.lines.recv_timeout(left)
        {
            self.hear(&line);
        }
    }

    fn hear(&mut self, line: &str) {
        self.said = parse(line).unwrap_or_default();
        if let Some(recorded) = number(&self.said, "recorded") {
            self.recorded = [recorded, self.recorded[0]];
        }
    }

    /// Waits until the recorder ends by itself.
    fn end(&mut self) -> Result {
        while let Ok(line) = self.lines.recv() {
            self.hear(&line);
        }
        let status = self.child.take().map(|mut child| child.wait());
        match status {
            Some(Ok(status)) if status.success() => Ok(()),
            other => Err(format!("the recorder ended with {other:?}")),
        }
    }

    fn kill(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }

    /// Checks that events were recorded, that each has one outcome, and that the server has all of
    /// them. A `killed` process may lose the events of its last tenths of a second, but none may be
    /// counted twice. Returns the report.
    fn agrees(&self, server: &Value, killed: Option<&Self>) -> Result<String> {
        let of = |field| number(&self.said, field).ok_or(format!("no {field} in {}", self.said));
        let [offered, delivered, aggregated] =
            [of("offered")?, of("delivered")?, of("aggregated")?];
        let [dropped, pending] = [of("dropped")?, of("pending")?];
        let counted = number(server, "counted").unwrap_or_default();
        let figures = format!(
            "offered {offered} = delivered {delivered} + aggregated {aggregated} + dropped {dropped} + pending {pending}; the server has {counted}"
        );
        let adds_up = offered == delivered + aggregated && dropped == 0 && pending == 0;
        let (figures, is_there) = match killed {
            None => (figures, counted == offered && offered >= self.least),
            Some(killed) => {
                let [last, before] = killed.recorded;
                // The process recorded more events after its last report.
                let most = last + (last - before);
                let figures =
                    format!("recorded {before} to {most} before its death; then {figures}");
                (figures, before > 0 && (before..=most).contains(&counted))
            }
        };
        if adds_up && is_there {
            Ok(figures)
        } else {
            Err(figures)
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.kill();
    }
}

fn number(said: &Value, field: &str) -> Option<u64> {
    // Numbers in figures are floating point.
    said[field].as_f64().map(|number| number as u64)
}

fn parse(line: &str) -> Result<Value> {
    serde_json::from_str(line).map_err(|error| format!("{error} in {line:?}"))
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Starts a program whose lines of output can be awaited.
fn start(command: &mut Command) -> Result<(Child, Receiver<String>)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("could not run {}: {error}", command.get_program().display()))?;
    let (line, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            for read in BufReader::new(output)
                .lines()
                .map_while(std::result::Result::ok)
            {
                if line.send(read).is_err() {
                    return;
                }
            }
        });
    }
    Ok((child, lines))
}
