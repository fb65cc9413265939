//! The program of a kubeconfig that gives out credentials (`exec`, a credential plugin of
//! client-go).
//!
//! It is run here and not by the client, which would wait for it without an end, and would tell
//! what it printed if it failed.
//!
//! Invariants: no thread waits for it. It is killed, with what it started, once its time is over
//! or it is not waited for any more. What it prints, and with what it is called, is in no error:
//! there are secrets in both.

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use jiff::Timestamp;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::commands::cluster::one_line;
use group::Group;

/// Timeout of a program. There is time for a person to answer it.
const TIME: Duration = Duration::from_secs(60);

/// Maximum bytes that it may print.
const PRINTED_MAX: u64 = 1 << 20;

/// Maximum programs that are begun at the same time, of all clusters together.
const BEGUN_AT_ONCE: usize = 8;

/// One that takes longer does not count among them any more: those that hang keep no other from
/// being begun. There is one of each cluster at most.
const BEGINNING: Duration = Duration::from_secs(5);

static BEGINNERS: Semaphore = Semaphore::const_new(BEGUN_AT_ONCE);

/// Why a program gave out no credentials.
#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum ProgramError {
    #[error("the kubeconfig names no program that gives out credentials (exec.command)")]
    Unnamed,
    #[error("the kubeconfig has no cluster that its program could be told (provideClusterInfo)")]
    NoCluster,
    #[error("the program {name:?} that gives out credentials cannot be run: {source}{hint}")]
    Run {
        name: String,
        source: io::Error,
        /// What the kubeconfig says of its installation, if it is not there.
        hint: String,
    },
    #[error(
        "the program {name:?} gave out no credentials within {} s, and was killed",
        time.as_secs_f64()
    )]
    Late { name: String, time: Duration },
    #[error(
        "the program {name:?} gave out no credentials: {status}; standard error has what it said"
    )]
    Failed { name: String, status: ExitStatus },
    #[error("the program {name:?} printed something else than credentials (ExecCredential)")]
    Unreadable { name: String },
    #[error("the program {name:?} gave out neither a token nor a certificate with its key")]
    Nothing { name: String },
    #[error("a program gave out a token that cannot be sent: {0}")]
    Token(#[source] InvalidHeaderValue),
    #[error("a program gave out a certificate where it gave out a token before")]
    NoToken,
}

/// What a program gave out.
pub(super) struct Given {
    pub(super) credential: Credential,
    /// When it ends, in milliseconds since 1970, if it does.
    pub(super) ends: Option<i64>,
}

pub(super) enum Credential {
    Token(String),
    /// In PEM.
    Certificate {
        certificate: String,
        key: String,
    },
}

impl Credential {
    /// How a token is sent.
    pub(super) fn header(&self) -> Result<HeaderValue, ProgramError> {
        let Self::Token(token) = self else {
            return Err(ProgramError::NoToken);
        };
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        let mut header = header.map_err(ProgramError::Token)?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// What a program prints, as far as it matters.
#[derive(Deserialize)]
struct Printed {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// See the module documentation.
#[derive(Clone)]
pub(super) struct Program {
    exec: ExecConfig,
    time: Duration,
}

impl Program {
    /// Takes the program of a user, so that no client runs it. `None`: there is no program, or
    /// other credentials come before it.
    pub(super) fn take(user: &mut AuthInfo) -> Option<Self> {
        let exec = user.exec.take()?;
        let has_others = user.auth_provider.is_some()
            || user.token.is_some()
            || user.token_file.is_some()
            || user.username.is_some() && user.password.is_some();
        (!has_others).then_some(Self { exec, time: TIME })
    }

    #[cfg(test)]
    pub(super) fn of_shell(script: &str, time: Duration) -> Self {
        let exec = ExecConfig {
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        Self { exec, time }
    }

    /// Runs it, and waits for what it gives out.
    pub(super) async fn run(&self) -> Result<Given, ProgramError> {
        let name = self.exec.command.as_deref().unwrap_or_default();
        if name.is_empty() {
            return Err(ProgramError::Unnamed);
        }
        // As for client-go, only a terminal has a person who could answer.
        let is_answered = self.exec.interactive_mode != Some(ExecInteractiveMode::Never)
            && io::stdin().is_terminal();
        let command = self.command(name, is_answered)?;
        let mut printing = pin!(printed(command, !is_answered));
        let beginner = BEGINNERS.acquire().await;
        let begun = timeout(self.time.min(BEGINNING), &mut printing).await;
        drop(beginner);
        let rest = self.time.saturating_sub(BEGINNING);
        let done = match begun {
            Ok(done) => Ok(done),
            Err(_) => timeout(rest, printing).await,
        };
        let done = done.map_err(|_| ProgramError::Late {
            name: name.to_owned(),
            time: self.time,
        })?;
        let (status, text) = done.map_err(|source| ProgramError::Run {
            name: name.to_owned(),
            hint: self.hint(&source),
            source,
        })?;
        let name_of = || name.to_owned();
        if text.len() as u64 > PRINTED_MAX {
            return Err(ProgramError::Unreadable { name: name_of() });
        }
        if !status.success() {
            let name = name_of();
            return Err(ProgramError::Failed { name, status });
        }
        given(name, &text)
    }

    /// How it is installed, as the kubeconfig says it, if it was not found.
    fn hint(&self, error: &io::Error) -> String {
        let hint = self.exec.install_hint.as_deref().map(str::trim);
        match hint.filter(|hint| !hint.is_empty()) {
            Some(hint) if error.kind() == io::ErrorKind::NotFound => {
                format!(" ({})", one_line(hint))
            }
            _ => String::new(),
        }
    }

    /// How it is called. Unless a person answers it, it is in a group of its own: all of it can be
    /// killed, and it cannot read from a terminal.
    fn command(&self, name: &str, is_answered: bool) -> Result<Command, ProgramError> {
        let mut spec = json!({"interactive": is_answered});
        if self.exec.provide_cluster_info {
            let cluster = self.exec.cluster.as_ref().ok_or(ProgramError::NoCluster)?;
            spec["cluster"] = serde_json::to_value(cluster).unwrap_or_default();
        }
        let told = json!({
            "apiVersion": self.exec.api_version,
            "kind": "ExecCredential",
            "spec": spec,
        });
        let mut command = Command::new(name);
        command.args(self.exec.args.iter().flatten());
        for variable in self.exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        command
            .env("KUBERNETES_EXEC_INFO", told.to_string())
            .stdin(if is_answered {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true);
        #[cfg(unix)]
        if !is_answered {
            command.process_group(0);
        }
        Ok(command)
    }
}

/// How a program ends, and what it prints until then. It is killed when this is dropped, and what
/// it started, too, if it is in a group of its own.
async fn printed(mut command: Command, has_group: bool) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = command.spawn()?;
    let group = Group::of(child.id().filter(|_| has_group));
    let mut text = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = stdout.take(PRINTED_MAX + 1);
        stdout.read_to_end(&mut text).await?;
    }
    let status = child.wait().await?;
    // What it left behind may serve the next one.
    group.leave();
    Ok((status, text))
}

/// What a program gives out by printing this.
fn given(name: &str, text: &[u8]) -> Result<Given, ProgramError> {
    let unreadable = || ProgramError::Unreadable {
        name: name.to_owned(),
    };
    // Some print YAML, which client-go accepts.
    let text = std::str::from_utf8(text).map_err(|_| unreadable())?;
    let printed: Printed = serde_saphyr::from_str(text).map_err(|_| unreadable())?;
    let status = printed.status.unwrap_or_default();
    let ends = status.expiration_timestamp;
    let ends = ends.map(|text| text.parse::<Timestamp>()).transpose();
    let ends = ends.map_err(|_| unreadable())?;
    // Some print all fields, of which the others are empty.
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let certificate = filled(status.client_certificate_data);
    let certificate = certificate.zip(filled(status.client_key_data));
    let credential = match (certificate, filled(status.token)) {
        (Some((certificate, key)), _) => Credential::Certificate { certificate, key },
        (None, Some(token)) => Credential::Token(token),
        (None, None) => {
            let name = name.to_owned();
            return Err(ProgramError::Nothing { name });
        }
    };
    Ok(Given {
        credential,
        ends: ends.map(Timestamp::as_millisecond),
    })
}

#[cfg(unix)]
mod group {
    use rustix::process::{Pid, Signal, kill_process_group};

    /// A group of processes, which is killed when this is dropped.
    pub(super) struct Group(Option<Pid>);

    impl Group {
        /// The group that a process leads.
        pub(super) fn of(leader: Option<u32>) -> Self {
            let leader = leader.and_then(|leader| i32::try_from(leader).ok());
            Self(leader.and_then(Pid::from_raw))
        }

        pub(super) fn leave(mut self) {
            self.0 = None;
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            if let Some(group) = self.0 {
                // Its leader was not waited for yet: the number is still its own.
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

#[cfg(not(unix))]
mod group {
    /// Processes have no groups here: the program itself is killed.
    pub(super) struct Group;

    impl Group {
        pub(super) fn of(_: Option<u32>) -> Self {
            Self
        }

        pub(super) fn leave(self) {}
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Read;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn run(script: &str) -> Result<Given, ProgramError> {
        Program::of_shell(script, PATIENCE).run().await
    }

    #[tokio::test]
    async fn a_program_gives_out_a_token_or_a_certificate_with_its_key() {
        let printed = r#"{"status":{"token":"t","expirationTimestamp":"2026-01-01T00:00:00Z"}}"#;
        let given = run(&format!("echo '{printed}'")).await.unwrap();
        assert_eq!(given.ends, Some(1_767_225_600_000));
        let header = given.credential.header().unwrap();
        assert!(header.is_sensitive());
        assert_eq!(header.to_str().unwrap(), "Bearer t");
        // In YAML, and with a token that does not count.
        let printed = "{status: {token: t, clientCertificateData: c, clientKeyData: k}}";
        let given = run(&format!("echo '{printed}'")).await.unwrap();
        assert_eq!(given.ends, None);
        let Credential::Certificate { certificate, key } = given.credential else {
            panic!("a certificate comes before a token");
        };
        assert_eq!((certificate.as_str(), key.as_str()), ("c", "k"));
        // Empty texts are not there.
        let printed = r#"{"status":{"token":"t","clientCertificateData":"","clientKeyData":""}}"#;
        let given = run(&format!("echo '{printed}'")).await.unwrap();
        let header = given.credential.header().unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer t");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_told_with_how_it_is_installed() {
        let exec = ExecConfig {
            command: Some("/not/there".to_owned()),
            install_hint: Some("Install it:\n  apt install it\n".to_owned()),
            ..ExecConfig::default()
        };
        let time = PATIENCE;
        let error = Program { exec, time }.run().await.err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("the program \"/not/there\""), "{text}");
        assert!(text.ends_with(" (Install it:   apt install it)"), "{text}");
    }

    #[tokio::test]
    async fn what_went_wrong_is_told_without_what_was_printed() {
        for (script, why) in [
            ("echo secret; exit 3", "exit status: 3"),
            ("echo secret", "something else than credentials"),
            (
                r#"echo '{"status": {"token": "secret", "expirationTimestamp": "soon"}}'"#,
                "something else than credentials",
            ),
            ("echo '{\"status\": {}}' # secret", "neither a token nor"),
            (
                "echo 'status: {token: \"\"}' # secret",
                "neither a token nor",
            ),
            (
                "head -c 2000000 /dev/zero # secret",
                "something else than credentials",
            ),
        ] {
            let error = run(script).await.err().unwrap();
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("secret"), "{text}");
            }
            let text = error.to_string();
            assert!(text.contains(why), "{script}: {text}");
        }
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_given_up() {
        let program = Program::of_shell("sleep 60", Duration::from_millis(100));
        let error = program.run().await.err().unwrap().to_string();
        assert!(error.contains("within 0.1 s, and was killed"), "{error}");
    }

    /// A pipe ends when all that hold it have ended.
    #[tokio::test]
    async fn a_program_that_is_given_up_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let script = format!("(exec 9> '{}'; sleep 60) & wait", pipe.display());
        let program = Program::of_shell(&script, PATIENCE);
        let running = tokio::spawn(async move { program.run().await.err() });
        // It is opened once what the program started has opened it.
        let opened = tokio::task::spawn_blocking(move || std::fs::File::open(pipe));
        let mut opened = opened.await.unwrap().unwrap();
        running.abort();
        let ended = tokio::task::spawn_blocking(move || opened.read_to_end(&mut Vec::new()));
        let ended = timeout(PATIENCE / 2, ended).await;
        assert_eq!(ended.unwrap().unwrap().unwrap(), 0);
    }

    #[tokio::test]
    async fn programs_that_hang_keep_no_other_from_being_begun() {
        let hanging = Program::of_shell("sleep 60", PATIENCE);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..=BEGUN_AT_ONCE {
            let hanging = hanging.clone();
            tasks.spawn(async move { hanging.run().await.err() });
        }
        while BEGINNERS.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let given = run("echo '{\"status\": {\"token\": \"t\"}}'");
        let given = timeout(PATIENCE / 2, given).await;
        assert!(given.unwrap().is_ok());
        tasks.shutdown().await;
    }

    #[test]
    fn a_program_is_taken_unless_other_credentials_come_before_it() {
        let user = || AuthInfo {
            exec: Some(ExecConfig::default()),
            ..AuthInfo::default()
        };
        assert!(Program::take(&mut AuthInfo::default()).is_none());
        let mut own = user();
        assert!(Program::take(&mut own).is_some());
        assert!(own.exec.is_none());
        let mut other = AuthInfo {
            token_file: Some("/token".to_owned()),
            ..user()
        };
        assert!(Program::take(&mut other).is_none());
        assert!(other.exec.is_none());
    }
}
