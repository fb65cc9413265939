//! `tidings record`: records one event, for scripts and jobs, through the library.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use parking_lot::Mutex;
use serde_json::Value;
use tidings::advanced::{DeliveryOptions, RetryPolicy};
use tidings::{
    Broadcaster, DropCause, EventSource, EventType, FlushReport, KubeSink, Occurrence, Reference,
    ReferenceFields, Sink, SinkOptions, WriteError,
};
use tidings_cli::kinds::{Kind, Named};
use tidings_cli::times;
use tidings_core::validate::check_qualified_name;
use tokio::time::Instant;

use super::cluster::{
    ClusterFlags, CommandError, DONE, FAILED, Server, UNREACHABLE, finish, one_line,
    permissions_hint, tell,
};
use super::objects;
use super::terminal::output;
use crate::clock;

/// Wait after a failed attempt to find the object.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Quarters of the time in which uids are requested. The rest is reserved for the event, which can
/// be recorded without them.
const UID_QUARTERS: u32 = 3;

/// Record an event about an object, from a script or a job.
///
/// The event is written through the tidings library, with retries until --wait is over; the exit
/// code says whether it arrived. The object is looked up for its uid, which kubectl describe uses
/// to find events. If it does not exist or cannot be read in three quarters of the time, the event
/// is recorded without the uid.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings record job/backup --reason BackupStarted --message 'to s3://backups/nightly'
  tidings record pvc/data --type=Warning --reason BackupFailed --message \"exit code $?\" --component backup --wait 2m
  tidings record widget/left --api-version example.com/v1 --reason Turned --message 'half way' --related node/worker-1

Exit codes:
  0    the event was written
  1    the event was refused
  2    a wrong command line or kubeconfig
  3    the event was not written in time: the server cannot be reached or rejects the credentials"))]
pub(crate) struct Args {
    /// Object, such as job/backup or deployments.apps/web; also as job backup
    #[arg(value_name = "KIND/NAME", required = true)]
    object: Vec<String>,
    /// Reason: one word in UpperCamelCase, for programs
    #[arg(long, value_name = "WORD", value_parser = NonEmptyStringValueParser::new())]
    reason: String,
    /// Message, for people
    // The output of another program may begin with a hyphen.
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    message: String,
    /// Normal or Warning
    #[arg(long = "type", value_name = "TYPE", default_value = "Normal", value_parser = event_type)]
    event_type: EventType,
    /// Action that was taken or failed, in one word
    #[arg(long, value_name = "WORD", default_value = "")]
    action: String,
    /// Second object that is involved
    #[arg(long, value_name = "KIND/NAME")]
    related: Option<Named>,
    /// Reporting component
    #[arg(long, value_name = "NAME", default_value = "tidings")]
    component: String,
    /// Reporting host, such as a node's name
    #[arg(long, value_name = "NAME", default_value = "")]
    host: String,
    /// Annotation of the event; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    annotation: Vec<(String, String)>,
    /// Part of the object, such as spec.containers{nginx}
    #[arg(long, value_name = "PATH", default_value = "")]
    field_path: String,
    /// apiVersion of the object, if the cluster does not serve its kind
    #[arg(long, value_name = "VERSION", value_parser = api_version)]
    api_version: Option<String>,
    /// Namespace of the object [default: the context's, or default]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// Maximum time to find the object and deliver the event
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = times::positive_duration)]
    wait: Duration,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Parses an annotation. Its key must be valid for a server, in any case, because the library would
/// omit an invalid one.
fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let complaints = check_qualified_name(&key.to_lowercase());
    if !complaints.is_empty() {
        return Err(format!("the key {key:?}: {}", complaints.join("; ")));
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses a type in any case, as --types of the reading verbs does.
fn event_type(text: &str) -> Result<EventType, String> {
    [EventType::Normal, EventType::Warning]
        .into_iter()
        .find(|known| known.as_str().eq_ignore_ascii_case(text))
        .ok_or_else(|| "expected Normal or Warning".to_owned())
}

/// Parses an apiVersion, whose parts become path segments.
fn api_version(text: &str) -> Result<String, String> {
    let is_good = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    let begins_well = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric());
    let mut parts = text.split('/');
    if text.matches('/').count() < 2
        && parts.all(|part| begins_well(part) && part.bytes().all(is_good))
    {
        Ok(text.to_owned())
    } else {
        Err("expected VERSION or GROUP/VERSION, such as v1 or example.com/v1".to_owned())
    }
}

/// Records an event.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(record(args).await)
}

async fn record(args: Args) -> Result<u8, CommandError> {
    write(args.cluster.server().await?, &args).await
}

async fn write(mut server: Server, args: &Args) -> Result<u8, CommandError> {
    // A shorter request timeout, so that a silent server is noticed before the time is over.
    let request = server.timeout.unwrap_or(args.wait).min(args.wait);
    server.timeout = Some(request);
    // However long the wait is, tokio can represent its end.
    let over = tokio::time::sleep(args.wait).deadline();
    let object = match Named::all(&args.object).map_err(|why| CommandError::of_words(&why))? {
        mut one if one.len() == 1 => one.remove(0),
        _ => {
            let why = "expected one object: an event is about one";
            return Err(CommandError::of_words(why));
        }
    };
    let (regarding, related) = look_up(&server, args, &object, over).await?;

    let failure = Arc::default();
    let sink = Remembering {
        sink: KubeSink::new(server.client).request_timeout(request),
        failure: Arc::clone(&failure),
    };
    let broadcaster = Broadcaster::new();
    broadcaster
        .start_recording_to_sink_with(sink, delivery())
        .map_err(|error| CommandError::Failed(format!("start the delivery: {error}")))?;
    let mut source = EventSource::component(&args.component);
    if !args.host.is_empty() {
        source = source.host(&args.host);
    }
    let recorder = broadcaster.recorder(source);
    let mut event = recorder
        .build(&regarding, args.event_type, &args.reason)
        .message(&args.message)
        .action(&args.action);
    if let Some(related) = &related {
        event = event.related(related);
    }
    for (key, value) in &args.annotation {
        event = event.annotation(key.as_str(), value.as_str());
    }
    event.send();
    let left = over.saturating_duration_since(clock::moment());
    let report = broadcaster.shutdown(left).await;
    let failure = failure.lock().take();
    Ok(outcome(&report, failure, args, &object))
}

/// Options that retry temporary failures until --wait is over, however many tries that takes.
fn delivery() -> SinkOptions {
    let retry = RetryPolicy::default()
        .tries_max(u32::MAX)
        .unauthorized_tries_max(u32::MAX)
        .rate_limited_tries_max(u32::MAX);
    SinkOptions::default().delivery(DeliveryOptions::default().retry(retry))
}

/// Resolves the objects of the event. While the server is out of reach, their kinds are requested
/// until the time is over, and their uids until the reserved part of it.
async fn look_up(
    server: &Server,
    args: &Args,
    object: &Named,
    over: Instant,
) -> Result<(Reference, Option<Reference>), CommandError> {
    let given = args.namespace.clone().filter(|name| !name.is_empty());
    let namespace = given.map_or_else(|| server.context_namespace(), Ok)?;
    let look_up = LookUp {
        server,
        namespace: &namespace,
        wait: args.wait,
        over,
        uids_over: tokio::time::sleep(args.wait / 4 * UID_QUARTERS).deadline(),
        is_told: AtomicBool::new(false),
    };
    let regarding = look_up.kind(object, args.api_version.as_deref());
    let regarding = regarding.await?;
    let related = match &args.related {
        Some(named) => Some((named, look_up.kind(named, None).await?)),
        None => None,
    };
    let related = async {
        match &related {
            Some((named, kind)) => Ok(Some(look_up.reference(named, kind).await?)),
            None => Ok(None),
        }
    };
    let (regarding, related) = tokio::try_join!(look_up.reference(object, &regarding), related)?;
    Ok((regarding.with_field_path(&args.field_path), related))
}

fn outcome(report: &FlushReport, failure: Option<String>, args: &Args, object: &Named) -> u8 {
    if report.is_complete() && report.delivered > 0 {
        // If standard output is closed, the event is recorded nevertheless.
        let _ = writeln!(output(), "recorded {} about {}", args.reason, object);
        return DONE;
    }
    let why = failure.map_or_else(String::new, |failure| format!(": {}", one_line(&failure)));
    let causes = report.dropped.iter().filter(|(_, count)| *count > 0);
    let (code, words) = match causes.last() {
        // The server's message says more than the cause.
        Some((DropCause::RejectedOther, _)) if !why.is_empty() => (FAILED, "refused".to_owned()),
        Some((cause, _)) => (FAILED, cause.as_str().replace('_', " ")),
        None => (UNREACHABLE, format!("not written within {:?}", args.wait)),
    };
    tell(&format!(
        "error: failed to record {} about {}: {words}{why}",
        args.reason, object
    ));
    if report.dropped.get(DropCause::RejectedForbidden) > 0 {
        tell(&format!("hint: {}", permissions_hint("record")));
    }
    code
}

/// Finds objects within the given time.
struct LookUp<'a> {
    server: &'a Server,
    namespace: &'a str,
    wait: Duration,
    over: Instant,
    /// When to stop requesting uids.
    uids_over: Instant,
    /// Whether the user was told that the server is out of reach.
    is_told: AtomicBool,
}

impl LookUp<'_> {
    /// Retries a request until there is an answer, or until `over`.
    ///
    /// # Errors
    /// Returns a permanent error at once, and the last temporary error at the end.
    async fn insist<T>(
        &self,
        over: Instant,
        mut ask: impl AsyncFnMut() -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let mut last = None;
        let answer = tokio::time::timeout_at(over, async {
            loop {
                match ask().await {
                    Err(error) if error.may_pass() => {
                        if !self.is_told.swap(true, Ordering::Relaxed) {
                            tell(&format!("cannot {error}: trying for {:?}", self.wait));
                        }
                        last = Some(error);
                    }
                    done => return done,
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        });
        answer.await.unwrap_or_else(|_| {
            let silence = format!("no answer within {:?}", self.wait);
            Err(last
                .unwrap_or_else(|| CommandError::Unreachable(kube::Error::Service(silence.into()))))
        })
    }

    async fn kind(&self, named: &Named, api_version: Option<&str>) -> Result<Kind, CommandError> {
        let known = self.insist(self.over, || objects::kind(self.server, named));
        let known = known.await;
        let known = known.map_err(|error| {
            if error.may_pass() {
                CommandError::Away(Box::new(error))
            } else {
                error
            }
        })?;
        match (api_version, known) {
            (None, Some(kind)) => Ok(kind),
            (Some(api_version), known) => Ok(given(named, api_version, known)),
            (None, None) => Err(CommandError::Failed(format!(
                "find out what {:?} is: the cluster has no such kind; give its --api-version, and the kind in the cluster's spelling",
                named.kind
            ))),
        }
    }

    /// The reference to an object, as complete as possible.
    async fn reference(&self, named: &Named, kind: &Kind) -> Result<Reference, CommandError> {
        let metadata = self.insist(self.uids_over, async || {
            let metadata = objects::metadata(self.server, kind, self.namespace, &named.name).await;
            metadata.map_err(|error| CommandError::request(format!("get {named}"), "record", error))
        });
        let metadata = match metadata.await {
            Ok(Some(metadata)) => metadata,
            Ok(None) => {
                tell(&format!(
                    "{named} does not exist: recording without its uid"
                ));
                Value::Null
            }
            // A user who may record need not be allowed to read the object, and a server that fails
            // to return it may still accept events.
            Err(error) if error.is_forbidden() || error.may_pass() => {
                tell(&format!(
                    "cannot {error}: recording without its uid, so that kubectl describe will not show the event"
                ));
                Value::Null
            }
            Err(error) => return Err(error),
        };
        let text = |field: &str| {
            metadata
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Ok(Reference::new(ReferenceFields {
            kind: &kind.kind,
            api_version: &kind.api_version(),
            namespace: if kind.namespaced { self.namespace } else { "" },
            name: &named.name,
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            field_path: "",
        }))
    }
}

/// The kind as given on the command line, if the cluster's answer does not count.
fn given(named: &Named, api_version: &str, known: Option<Kind>) -> Kind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (word, _) = named.parts();
    let known = known.filter(|known| known.group == group);
    let namespaced = known.as_ref().is_none_or(|known| known.namespaced);
    let (kind, plural) = known.map_or_else(
        || (word.to_owned(), format!("{}s", word.to_lowercase())),
        |known| (known.kind, known.plural),
    );
    Kind {
        kind,
        group: group.to_owned(),
        version: version.to_owned(),
        plural,
        namespaced,
    }
}

/// A sink that keeps the message of the last refusal.
struct Remembering {
    sink: KubeSink,
    failure: Arc<Mutex<Option<String>>>,
}

impl Remembering {
    fn note(&self, result: Result<(), WriteError>) -> Result<(), WriteError> {
        *self.failure.lock() = result.as_ref().err().map(|error| error.message.clone());
        result
    }
}

impl Sink for Remembering {
    async fn create(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let result = self.sink.create(occurrence).await;
        self.note(result)
    }

    async fn patch(&self, occurrence: &Occurrence) -> Result<(), WriteError> {
        let result = self.sink.patch(occurrence).await;
        self.note(result)
    }
}

#[cfg(test)]
mod tests;
