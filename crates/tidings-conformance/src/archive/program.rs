//! A program that is killed and started again, on the same port and folder each time.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::error::ArchiveError;
use crate::http::Client;

/// Maximum time until a program is ready, for slow machines.
const PATIENCE: Duration = Duration::from_secs(120);
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// A program that can be killed and started again. It is killed when this is dropped.
pub(super) struct Program {
    file: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, PathBuf)>,
    folder: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    /// Whether it was killed, and its end has not been awaited yet.
    is_dying: bool,
    pub(super) kills: u64,
}

impl Program {
    /// Prepares a program that runs in `folder`, with a log of this name there. It is not started
    /// yet.
    pub(super) fn new(file: &Path, arguments: Vec<String>, folder: &Path, name: &str) -> Self {
        Self {
            // The program runs in another folder, so its path must be absolute.
            file: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
            arguments,
            environment: Vec::new(),
            folder: folder.to_owned(),
            log: folder.join(format!("{name}.log")),
            child: None,
            is_dying: false,
            kills: 0,
        }
    }

    /// Adds an environment variable with the path of a file.
    pub(super) fn with(mut self, variable: &'static str, file: &Path) -> Self {
        self.environment.push((variable, file.to_owned()));
        self
    }

    fn log(&self) -> std::io::Result<File> {
        OpenOptions::new().create(true).append(true).open(&self.log)
    }

    pub(super) fn start(&mut self) -> Result<(), ArchiveError> {
        let child = Command::new(&self.file)
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(self.log()?)
            .kill_on_drop(true)
            .spawn();
        let started = child.map_err(|source| ArchiveError::Run {
            program: self.file.clone(),
            source,
        });
        self.child = Some(started?);
        Ok(())
    }

    /// Kills the program. Cancel-safe.
    ///
    /// # Errors
    /// Fails if the program has ended by itself.
    pub(super) async fn kill(&mut self) -> Result<(), ArchiveError> {
        self.check()?;
        if let Some(child) = &mut self.child {
            child.start_kill()?;
            self.is_dying = true;
            self.kills += 1;
        }
        self.settle().await
    }

    /// Notes that the program was killed from outside, and waits until it has ended. Cancel-safe.
    pub(super) async fn note_kill(&mut self) -> Result<(), ArchiveError> {
        if !self.is_dying {
            self.is_dying = self.child.is_some();
            self.kills += 1;
        }
        self.settle().await
    }

    /// Asks the program to end, and waits until it has ended. Cancel-safe.
    pub(super) async fn end(&mut self) -> Result<(), ArchiveError> {
        self.check()?;
        if let Some(id) = self.id() {
            self.is_dying = true;
            let id = id.to_string();
            Command::new("kill").args(["-TERM", &id]).status().await?;
        }
        self.settle().await
    }

    /// Waits until a killed process has ended.
    async fn settle(&mut self) -> Result<(), ArchiveError> {
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
    pub(super) async fn be_started(&mut self) -> Result<(), ArchiveError> {
        self.settle().await?;
        if self.child.is_none() {
            self.start()?;
        }
        Ok(())
    }

    /// Fails if the program has ended by itself.
    pub(super) fn check(&mut self) -> Result<(), ArchiveError> {
        let ended = self.child.as_mut().map(Child::try_wait).transpose()?;
        match ended.flatten() {
            None => Ok(()),
            Some(_) => Err(ArchiveError::Ended {
                program: self.file.clone(),
                last: self.last_words(),
            }),
        }
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().last().unwrap_or("nothing").to_owned()
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.child.as_ref()?.id()
    }

    /// Waits until the server of the program says that it is ready.
    pub(super) async fn ready(
        &mut self,
        address: &str,
        certificate: &Path,
    ) -> Result<Client, ArchiveError> {
        let until = super::clock::steady() + PATIENCE;
        while super::clock::steady() < until {
            self.check()?;
            if let Ok(trusted) = std::fs::read(certificate)
                && let Ok(client) = Client::new(address, &trusted)
                && client.is_ready().await
            {
                return Ok(client);
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        Err(ArchiveError::NotReady {
            program: self.file.clone(),
            last: self.last_words(),
        })
    }
}
