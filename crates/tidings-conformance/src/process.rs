//! Programs that are killed and started again, on the same port and folder each time; and processor
//! time and maximum memory of a process, from Linux's `/proc`.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tidings_testing::process::{peak_resident_bytes, processor_seconds, resident_bytes};
use tokio::process::{Child, Command};

use crate::clock;
use crate::error::{Result, fail};
use crate::http::Client;

/// Maximum time until a program is ready, for slow machines.
const PATIENCE: Duration = Duration::from_secs(180);
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// A program that can be killed and started again. It is killed when this is dropped.
pub(crate) struct Program {
    file: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    folder: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    /// Whether it was killed, and its end has not been awaited yet.
    is_dying: bool,
    pub(crate) kills: u64,
}

impl Program {
    /// Prepares a program that runs in `folder`, with a log of this name there. It is not started
    /// yet.
    pub(crate) fn new(
        file: &Path,
        arguments: impl IntoIterator<Item: Into<String>>,
        folder: &Path,
        name: &str,
    ) -> Self {
        Self {
            // The program runs in another folder, so its path must be absolute.
            file: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            folder: folder.to_owned(),
            log: folder.join(format!("{name}.log")),
            child: None,
            is_dying: false,
            kills: 0,
        }
    }

    /// Adds an environment variable with the path of a file.
    pub(crate) fn with(mut self, variable: &'static str, file: &Path) -> Self {
        self.environment.push((variable, file.to_owned()));
        self
    }

    fn output(&self) -> PathBuf {
        self.log.with_extension("out")
    }

    pub(crate) fn start(&mut self) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let child = Command::new(&self.file)
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(File::create(self.output())?)
            .stderr(log?)
            .kill_on_drop(true)
            .spawn();
        match child {
            Ok(child) => self.child = Some(child),
            Err(error) => return fail(format!("could not run {}: {error}", self.file.display())),
        }
        Ok(())
    }

    /// Kills the program, which must not have ended by itself. Cancel-safe.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.check()?;
        if let Some(child) = &mut self.child {
            child.start_kill()?;
            self.is_dying = true;
            self.kills += 1;
        }
        self.settle().await
    }

    /// Notes that the program was killed from outside, and waits until it has ended. Cancel-safe.
    pub(crate) async fn note_kill(&mut self) -> Result<()> {
        if !self.is_dying {
            self.is_dying = self.child.is_some();
            self.kills += 1;
        }
        self.settle().await
    }

    /// Sends the program a signal, by its name.
    pub(crate) async fn signal(&self, name: &str) -> Result<()> {
        if let Some(id) = self.child.as_ref().and_then(Child::id) {
            let mut kill = Command::new("kill");
            kill.args([name, &id.to_string()]).status().await?;
        }
        Ok(())
    }

    /// Asks the program to end, and waits until it has ended. Cancel-safe.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.check()?;
        if self.child.is_some() {
            self.is_dying = true;
            self.signal("-TERM").await?;
        }
        self.settle().await
    }

    /// Waits until a killed process has ended.
    async fn settle(&mut self) -> Result<()> {
        if self.is_dying {
            if let Some(child) = &mut self.child {
                child.wait().await?;
            }
            self.child = None;
            self.is_dying = false;
        }
        Ok(())
    }

    /// Starts the program if it does not run.
    pub(crate) async fn be_started(&mut self) -> Result<()> {
        self.settle().await?;
        if self.child.is_none() {
            self.start()?;
        }
        Ok(())
    }

    /// Fails if the program has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        let ended = self.child.as_mut().map(Child::try_wait).transpose()?;
        match ended.flatten() {
            None => Ok(()),
            Some(_) => self.fail("ended by itself"),
        }
    }

    /// Fails with what the program did, and the last line of its log.
    fn fail<T>(&self, what: &str) -> Result<T> {
        let (file, log) = (self.file.display(), fs::read_to_string(&self.log));
        let log = log.unwrap_or_default();
        let last = log.lines().last().unwrap_or("nothing");
        fail(format!("{file} {what}; it said: {last}"))
    }

    /// The number of the process; 0 if it does not run.
    pub(crate) fn id(&self) -> u32 {
        let id = self.child.as_ref().and_then(Child::id);
        id.unwrap_or_default()
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.id())
    }

    /// Waits until the program is in this state.
    pub(crate) async fn until<T>(&mut self, state: impl AsyncFn() -> Option<T>) -> Result<T> {
        let until = clock::steady() + PATIENCE;
        while clock::steady() < until {
            self.check()?;
            if let Some(reached) = state().await {
                return Ok(reached);
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        self.fail("did not become ready")
    }

    /// Waits until the server of the program says that it is ready.
    pub(crate) async fn ready(&mut self, address: &str, certificate: &Path) -> Result<Client> {
        let client = async || {
            let trusted = fs::read(certificate).ok()?;
            let client = Client::new(address, &trusted).ok()?;
            client.is_ready().await.then_some(client)
        };
        self.until(client).await
    }

    /// Waits for the first line that the program prints.
    pub(crate) async fn line(&mut self) -> Result<String> {
        let output = self.output();
        let line = async || {
            let text = fs::read_to_string(&output).ok()?;
            text.split_once('\n').map(|(line, _)| line.to_owned())
        };
        self.until(line).await
    }
}

/// Ticks per second in `/proc/PID/stat`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// A process that is measured, by its number.
pub(crate) struct Process(u32);

/// The processor time that a process has used up to some moment.
pub(crate) struct Spent {
    /// The time of each current thread, by its number.
    threads: HashMap<String, Duration>,
    /// The time of all threads since the process began, ended threads included.
    all: Duration,
}

impl Process {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }

    pub(crate) fn spent(&self) -> Result<Spent> {
        let mut threads = HashMap::new();
        for thread in fs::read_dir(self.path("task"))? {
            let thread = thread?;
            // The thread may have ended since its name was read.
            let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else {
                continue;
            };
            let nanos = text
                .split_whitespace()
                .next()
                .and_then(|it| it.parse().ok());
            let name = thread.file_name().to_string_lossy().into_owned();
            threads.insert(name, Duration::from_nanos(nanos.unwrap_or_default()));
        }
        let all = processor_seconds(self.0).ok_or("the process has ended")?;
        let all = Duration::from_secs_f64(all);
        Ok(Spent { threads, all })
    }

    /// Resident memory now, and its maximum since [`forget_peak`](Self::forget_peak), in bytes.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let memory = resident_bytes(self.0).zip(peak_resident_bytes(self.0));
        Ok(memory.ok_or("the process has ended")?)
    }

    /// Resets the maximum to the current memory.
    pub(crate) fn forget_peak(&self) -> io::Result<()> {
        fs::write(self.path("clear_refs"), "5")
    }
}

impl Spent {
    /// The processor time that was used since an earlier moment.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let threads = self.threads.iter().map(|(thread, spent)| {
            spent.saturating_sub(earlier.threads.get(thread).copied().unwrap_or_default())
        });
        // The time of threads that have ended is only in the ticks, which may be two too few or too
        // many.
        let all = self.all.saturating_sub(earlier.all);
        threads.sum::<Duration>().max(all.saturating_sub(2 * TICK))
    }
}
