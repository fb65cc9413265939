//! Runs a kubeconfig's credential program (`exec`, a credential plugin of client-go), as
//! `plugin/pkg/client/auth/exec` does.
//!
//! kube's own code is not used: it waits for the program without a timeout, passes it the command's
//! input, and shows its output if it fails.
//!
//! Where a person can answer it on a terminal, a program is waited for as long as it runs, as by
//! kubectl: it may wait for a login in a browser. In a server, and without a terminal, it has a
//! timeout.
//!
//! Invariants: no thread waits for a program. A program is killed after its timeout or when the
//! wait is cancelled; without a person, with its children. Its output and arguments are in no
//! error, because both may contain secrets.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use serde_saphyr::DuplicateKeyPolicy;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::super::text::{one_line, tell};
use group::Group;

/// Timeout of a program that no person can answer.
const TIME: Duration = Duration::from_secs(60);

/// How long a person waits for a program without a word.
const SILENCE: Duration = Duration::from_secs(20);

/// Maximum bytes of a program's output.
const PRINTED_MAX: u64 = 1 << 20;

/// Maximum programs of all clusters that start at the same time.
const BEGUN_AT_ONCE: usize = 8;

/// A program that runs for longer no longer counts as starting, so that hanging programs do not
/// prevent others from starting. Each cluster has at most one.
const BEGINNING: Duration = Duration::from_secs(5);

static BEGINNERS: Semaphore = Semaphore::const_new(BEGUN_AT_ONCE);

/// Whether the command itself reads standard input.
static IS_INPUT_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether this process is a server, whose programs no person answers.
static IS_SERVER: AtomicBool = AtomicBool::new(false);

/// Gives every program a timeout and its own process group, also where the server has a terminal.
pub(crate) fn run_in_server() {
    IS_SERVER.store(true, Ordering::Relaxed);
}

/// Whether a person can answer programs, also where standard input is something else.
fn is_attended() -> bool {
    !IS_SERVER.load(Ordering::Relaxed) && File::open("/dev/tty").is_ok()
}

/// Withholds standard input from all programs, because the command reads it.
pub(crate) fn take_input() {
    IS_INPUT_TAKEN.store(true, Ordering::Relaxed);
}

/// Why a program returned no credentials.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("the program {name:?} that returns credentials must be answered, and {why}")]
    NobodyThere { name: String, why: &'static str },
    #[error("the program {name:?} that returns credentials cannot be run: {source}{hint}")]
    Run {
        name: String,
        source: io::Error,
        /// The kubeconfig's hint how to install the program, if it is missing.
        hint: String,
    },
    #[error(
        "the program {name:?} returned no credentials within {} s, and was killed",
        time.as_secs_f64()
    )]
    Late { name: String, time: Duration },
    #[error(
        "the program {name:?} returned no credentials: {status}; standard error has what it said"
    )]
    Failed { name: String, status: ExitStatus },
    #[error("the program {name:?} printed something else than credentials (ExecCredential)")]
    Unreadable { name: String },
    #[error(
        "the program {name:?} printed credentials of {printed:?}, and the kubeconfig says {expected}"
    )]
    Version {
        name: String,
        printed: String,
        expected: String,
    },
    #[error("the program {name:?} returned neither a token nor a certificate with its key")]
    Nothing { name: String },
    #[error("the program {name:?} returned a token that cannot be sent: {source}")]
    Token {
        name: String,
        source: InvalidHeaderValue,
    },
}

/// The credentials that a program returned.
pub(super) struct Given {
    /// The token as a header.
    pub(super) header: Option<HeaderValue>,
    pub(super) certificate: Option<Certificate>,
    /// When the credentials expire, in milliseconds since 1970, if they do.
    pub(super) ends: Option<i64>,
}

/// A client certificate and its key, in PEM.
pub(super) struct Certificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The header for a token.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// The parts of a program's output that are used.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
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

/// A credential program and its arguments.
#[derive(Clone)]
pub(super) struct Program {
    exec: ExecConfig,
    /// The timeout, unless a person attends.
    time: Duration,
    is_attended: bool,
}

impl Program {
    /// Makes the program of a kubeconfig, which has been checked.
    pub(super) fn new(exec: ExecConfig) -> Self {
        Self {
            exec,
            time: TIME,
            is_attended: is_attended(),
        }
    }

    /// A key of the program and its arguments. Programs with equal keys share their credentials.
    pub(super) fn call(&self) -> String {
        json!([self.exec, self.exec.cluster]).to_string()
    }

    #[cfg(test)]
    pub(super) fn of_shell(script: &str, time: Duration) -> Self {
        let exec = ExecConfig {
            api_version: Some("v".to_owned()),
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script.to_owned()]),
            interactive_mode: Some(ExecInteractiveMode::Never),
            ..ExecConfig::default()
        };
        Self {
            exec,
            time,
            is_attended: false,
        }
    }

    /// Runs the program, and waits for its credentials.
    pub(super) async fn run(&self) -> Result<Given, ProgramError> {
        let name = self.exec.command.as_deref().unwrap_or_default();
        let is_answered = self.is_answered(name)?;
        let command = self.command(name, is_answered);
        let has_group = !(is_answered || self.is_attended);
        let mut printing = pin!(printed(command, has_group));
        let beginner = BEGINNERS.acquire().await;
        let begun = timeout(self.time.min(BEGINNING), &mut printing).await;
        drop(beginner);
        let rest = self.time.saturating_sub(BEGINNING);
        let done = match begun {
            Ok(done) => Ok(done),
            Err(_) if self.is_attended => {
                if let Ok(done) = timeout(SILENCE, &mut printing).await {
                    Ok(done)
                } else {
                    tell(&format!(
                        "waiting for the program {name:?}, which gives out credentials"
                    ));
                    Ok(printing.await)
                }
            }
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
        self.given(name, &text)
    }

    /// Whether a person can answer the program's questions. As in client-go, only if standard input
    /// is a terminal.
    fn is_answered(&self, name: &str) -> Result<bool, ProgramError> {
        let nobody = if !io::stdin().is_terminal() {
            Some("standard input is no terminal")
        } else if IS_INPUT_TAKEN.load(Ordering::Relaxed) {
            Some("standard input is read for something else")
        } else {
            None
        };
        match (self.exec.interactive_mode.as_ref(), nobody) {
            (Some(ExecInteractiveMode::Never), _) => Ok(false),
            (Some(ExecInteractiveMode::Always), Some(why)) => Err(ProgramError::NobodyThere {
                name: name.to_owned(),
                why,
            }),
            _ => Ok(nobody.is_none()),
        }
    }

    /// The kubeconfig's installation hint, if the program was not found.
    fn hint(&self, error: &io::Error) -> String {
        let hint = self.exec.install_hint.as_deref().map(str::trim);
        match hint.filter(|hint| !hint.is_empty()) {
            Some(hint) if error.kind() == io::ErrorKind::NotFound => {
                format!(" ({})", one_line(hint))
            }
            _ => String::new(),
        }
    }

    /// The command line of the program. Unless a person attends, it gets its own process group:
    /// then all of it can be killed, and it cannot read from a terminal.
    fn command(&self, name: &str, is_answered: bool) -> Command {
        let mut spec = json!({"interactive": is_answered});
        if let Some(cluster) = &self.exec.cluster {
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
            if let Some(name) = variable.get("name") {
                command.env(name, variable.get("value").map_or("", String::as_str));
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
        if !(is_answered || self.is_attended) {
            command.process_group(0);
        }
        command
    }

    /// Parses the program's output.
    fn given(&self, name: &str, text: &[u8]) -> Result<Given, ProgramError> {
        let name = || name.to_owned();
        let unreadable = || ProgramError::Unreadable { name: name() };
        // Some programs print YAML, which client-go accepts.
        let text = std::str::from_utf8(text).map_err(|_| unreadable())?;
        let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
        let printed = serde_saphyr::from_multiple_with_options::<Printed>(text, options);
        let printed = printed.map_err(|_| unreadable())?.into_iter().next();
        let printed = printed.ok_or_else(unreadable)?;
        if printed.kind != "ExecCredential" {
            return Err(unreadable());
        }
        let expected = self.exec.api_version.clone().unwrap_or_default();
        if printed.api_version != expected {
            return Err(ProgramError::Version {
                name: name(),
                printed: one_line(&printed.api_version).chars().take(60).collect(),
                expected,
            });
        }
        let status = printed.status.unwrap_or_default();
        let ends = status.expiration_timestamp;
        let ends = ends.map(|text| text.parse::<Timestamp>()).transpose();
        let ends = ends.map_err(|_| unreadable())?;
        // Some programs print all fields, and leave unused ones empty.
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = filled(status.token);
        let certificate = filled(status.client_certificate_data);
        let certificate = match (certificate, filled(status.client_key_data)) {
            (Some(certificate), Some(key)) => Some(Certificate { certificate, key }),
            (None, None) if token.is_some() => None,
            _ => return Err(ProgramError::Nothing { name: name() }),
        };
        let header = token.map(|token| bearer(&token)).transpose();
        Ok(Given {
            header: header.map_err(|source| ProgramError::Token {
                name: name(),
                source,
            })?,
            certificate,
            ends: ends.map(Timestamp::as_millisecond),
        })
    }
}

/// Runs a program; returns its exit status and output. If this is dropped, the program is killed,
/// and its children too, if it has its own process group.
async fn printed(mut command: Command, has_group: bool) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = command.spawn()?;
    let group = Group::of(child.id().filter(|_| has_group));
    let mut text = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = stdout.take(PRINTED_MAX + 1);
        stdout.read_to_end(&mut text).await?;
    }
    let status = child.wait().await?;
    // Children that are still running may serve the next program, so they are not killed.
    group.leave();
    Ok((status, text))
}

#[cfg(unix)]
mod group {
    use rustix::process::{Pid, Signal, kill_process_group};

    /// A process group, which is killed when this is dropped.
    pub(super) struct Group(Option<Pid>);

    impl Group {
        /// The process group that a process leads.
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
                // The leader was not waited for yet, so its number is not reused.
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

#[cfg(not(unix))]
mod group {
    /// On systems without process groups, only the program itself is killed.
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

    /// The program's output for this `status`.
    fn printed_of(status: &str) -> String {
        format!(r#"echo '{{"apiVersion": "v", "kind": "ExecCredential", "status": {status}}}'"#)
    }

    #[tokio::test]
    async fn a_program_gives_out_a_token_or_a_certificate_with_its_key() {
        let header = |given: &Given| {
            let header = given.header.as_ref()?;
            assert!(header.is_sensitive());
            Some(header.to_str().unwrap().to_owned())
        };
        let certificate = |given: &Given| {
            let given = given.certificate.as_ref()?;
            Some(format!("{} {}", given.certificate, given.key))
        };
        for (status, token, pair, ends) in [
            (
                r#"{"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}"#,
                Some("Bearer t"),
                None,
                Some(1_767_225_600_000),
            ),
            // The output is YAML.
            ("{token: t}", Some("Bearer t"), None, None),
            (
                r#"{"token": "s", "token": "t"}"#,
                Some("Bearer t"),
                None,
                None,
            ),
            (
                "{token: t, clientCertificateData: c, clientKeyData: k}",
                Some("Bearer t"),
                Some("c k"),
                None,
            ),
            (
                r#"{"clientCertificateData": "c", "clientKeyData": "k"}"#,
                None,
                Some("c k"),
                None,
            ),
            // Empty texts count as missing.
            (
                r#"{"token": "t", "clientCertificateData": "", "clientKeyData": ""}"#,
                Some("Bearer t"),
                None,
                None,
            ),
        ] {
            let given = run(&printed_of(status)).await.unwrap();
            assert_eq!(header(&given).as_deref(), token, "{status}");
            assert_eq!(certificate(&given).as_deref(), pair, "{status}");
            assert_eq!(given.ends, ends, "{status}");
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_told_with_how_it_is_installed() {
        let exec = ExecConfig {
            command: Some("/not/there".to_owned()),
            install_hint: Some("Install it:\n  apt install it\n".to_owned()),
            ..ExecConfig::default()
        };
        let program = Program {
            exec,
            time: PATIENCE,
            is_attended: false,
        };
        let error = program.run().await.err().unwrap();
        let text = error.to_string();
        assert!(text.starts_with("the program \"/not/there\""), "{text}");
        assert!(text.ends_with(" (Install it:   apt install it)"), "{text}");
    }

    #[tokio::test]
    async fn what_went_wrong_is_told_without_what_was_printed() {
        let unknown = "something else than credentials";
        for (script, why) in [
            ("echo secret; exit 3".to_owned(), "exit status: 3"),
            ("echo secret".to_owned(), unknown),
            (
                printed_of(r#"{"token": "secret", "expirationTimestamp": "soon"}"#),
                unknown,
            ),
            (
                "echo '{\"apiVersion\": \"v\", \"status\": {\"token\": \"secret\"}}'".to_owned(),
                unknown,
            ),
            (
                printed_of(r#"{"token": "secret"}"#).replace("\"v\"", "\"w\""),
                "credentials of \"w\", and the kubeconfig says v",
            ),
            (printed_of("{}"), "neither a token nor"),
            (printed_of(r#"{"token": ""}"#), "neither a token nor"),
            (
                printed_of(r#"{"token": "secret", "clientKeyData": "k"}"#),
                "neither a token nor",
            ),
            ("head -c 2000000 /dev/zero # secret".to_owned(), unknown),
        ] {
            let error = run(&script).await.err().unwrap();
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

    /// A person may take long to answer, on the terminal: there only the process group of the
    /// command can read.
    #[tokio::test]
    async fn a_program_that_is_attended_has_the_terminal_and_no_timeout() {
        let token = printed_of("{token: t}");
        let script = format!("kill -0 -$$ 2>/dev/null && exit 1; sleep 0.2; {token}");
        let mut program = Program::of_shell(&script, Duration::from_millis(10));
        program.is_attended = true;
        assert!(program.run().await.is_ok());
    }

    /// A pipe is at its end when all processes that hold it have ended.
    #[tokio::test]
    async fn a_program_that_is_given_up_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let script = format!("(exec 9> '{}'; sleep 60) & wait", pipe.display());
        let program = Program::of_shell(&script, PATIENCE);
        let running = tokio::spawn(async move { program.run().await.err() });
        // Opening returns once the program's child has opened the pipe.
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
        let script = printed_of(r#"{"token": "t"}"#);
        let given = run(&script);
        let given = timeout(PATIENCE / 2, given).await;
        assert!(given.unwrap().is_ok());
        tasks.shutdown().await;
    }
}
