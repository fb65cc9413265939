//! `--file`: reads captures instead of a cluster. Their events are created in an Event API server
//! in this process, with a store in memory and without a port, and then read like those of any
//! cluster.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tidings_cli::event::Event;
use tidings_cli::time_form::TimeForm;
use tidings_server::clock::{Clock, SystemClock};
use tidings_server::{ApiOptions, ApiServer, Authenticator, Token, User, router};
use tidings_store::memory::MemoryStore;
use tower::ServiceExt;

use super::cluster::{ClusterFlags, CommandError, DONE, FAILED, NamespaceFlags, tell};
use crate::clock;

/// The server's token; only this process can reach the server.
const TOKEN: &str = "capture";
/// Retention of the captured events: longer than any use of the command.
const EVENT_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// The captures to read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct CaptureFlags {
    /// Read captures instead of a cluster: files, folders and archives, as tidings import takes
    /// them; may be repeated. All namespaces are read, unless one is named; ages and durations
    /// count from when the newest event was seen
    #[arg(long = "file", value_name = "FILE|DIR", conflicts_with_all = ["kubeconfig", "context", "cluster", "user", "server"])]
    files: Vec<PathBuf>,
}

impl CaptureFlags {
    /// Whether captures are read instead of a cluster.
    pub(crate) fn is_some(&self) -> bool {
        !self.files.is_empty()
    }

    /// Loads the captures, if there are any, and makes the flags point to them.
    pub(crate) async fn load(
        &self,
        cluster: &mut ClusterFlags,
        namespaces: &mut NamespaceFlags,
    ) -> Result<Loaded, CommandError> {
        let now = clock::now();
        if !self.is_some() {
            return Ok(Loaded {
                now,
                is_complete: true,
            });
        }
        let capture = Capture::load(&self.files).await?;
        let newest = capture.newest().await;
        cluster.direct_to(capture.client);
        namespaces.all_namespaces |= namespaces.name().is_none();
        Ok(Loaded {
            // The clock of an event's reporter may be ahead.
            now: newest.unwrap_or(now).min(now),
            is_complete: capture.is_complete,
        })
    }

    /// Says from which time the ages of captures count, if they are shown.
    pub(crate) fn tell_form(&self, form: &TimeForm, now: Timestamp) {
        if self.is_some() && *form == TimeForm::Age {
            tell(&format!(
                "ages count from {now:.0}, when the newest event was seen"
            ));
        }
    }
}

/// What a verb shows: loaded captures or a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    /// The time from which ages count: now or, in captures, when their newest event was seen.
    pub(crate) now: Timestamp,
    /// Whether everything in the captures was read.
    is_complete: bool,
}

impl Loaded {
    /// The exit code of a verb that has shown what was loaded.
    pub(crate) fn exit_code(self) -> u8 {
        if self.is_complete { DONE } else { FAILED }
    }
}

/// A server with the events of loaded captures.
#[derive(Clone)]
pub(crate) struct Capture {
    store: Arc<MemoryStore>,
    server: Arc<ApiServer>,
    pub(crate) client: Client,
    /// Whether everything in the captures was read.
    is_complete: bool,
}

impl fmt::Debug for Capture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl Capture {
    /// Loads captures, and prints which parts could not be read.
    ///
    /// # Errors
    /// [`CommandError`] says which capture cannot be opened, or that none has an event.
    pub(crate) async fn load(files: &[PathBuf]) -> Result<Self, CommandError> {
        let store = Arc::new(MemoryStore::default());
        let server = serving(&store, Arc::new(SystemClock));
        let credentials = HeaderValue::from_static("Bearer capture");
        let service = router(Arc::clone(&server)).map_request(move |mut request: Request<Body>| {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, credentials.clone());
            request
        });
        let client = Client::new(service, "default");
        let is_complete = super::import::load(files, client.clone()).await?;
        Ok(Self {
            store,
            server,
            client,
            is_complete,
        })
    }

    /// When the newest event was seen.
    async fn newest(&self) -> Option<Timestamp> {
        let request = Request::get("/api/v1/events?order=newest&limit=1");
        let list: Value = self
            .client
            .request(request.body(Vec::new()).ok()?)
            .await
            .ok()?;
        Event::new(list.pointer("/items/0")?.clone()).last_seen()
    }

    /// The captures, for the Model Context Protocol. Now is when their newest event was seen.
    pub(crate) async fn source(
        &self,
    ) -> Result<Arc<dyn tidings_server::mcp::Source>, tidings_server::StartError> {
        let now = clock::now();
        // The clock of an event's reporter may be ahead.
        let now = self.newest().await.map_or(now, |newest| newest.min(now));
        let server = serving(&self.store, Arc::new(Stopped(now)));
        tidings_server::source_of_server(&server, TOKEN)
    }

    /// Serves the timeline of the captures.
    pub(crate) async fn start_timeline(
        &self,
        port: u16,
    ) -> Result<tidings_server::RunningTimeline, tidings_server::StartError> {
        tidings_server::start_timeline_of_server(port, &self.server, TOKEN).await
    }
}

/// A server of a store, for this process only.
fn serving(store: &Arc<MemoryStore>, clock: Arc<dyn Clock>) -> Arc<ApiServer> {
    let token = Token {
        token: TOKEN.to_owned(),
        user: User::new("capture", "", ["system:masters".to_owned()]),
    };
    let mut options = ApiOptions::default();
    options.event_ttl = EVENT_TTL;
    options.keep_identities = true;
    let store = Arc::clone(store);
    let server = ApiServer::new(store, clock, Authenticator::new(vec![token]), options);
    Arc::new(server)
}

/// A clock that shows one time, for events of the past.
struct Stopped(Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }
}
