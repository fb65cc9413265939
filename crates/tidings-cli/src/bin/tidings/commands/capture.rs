//! `--file`: reads captures instead of a cluster. Their events are created in an Event API server
//! in this process, with a store in memory and without a port, and then read like those of any
//! cluster.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use tidings_server::clock::SystemClock;
use tidings_server::{ApiOptions, ApiServer, Authenticator, Token, User, router};
use tidings_store::memory::MemoryStore;
use tower::ServiceExt;

use super::cluster::{ClusterFlags, CommandError, NamespaceFlags};

/// The server's token; only this process can reach the server.
const TOKEN: &str = "capture";
/// Retention of the captured events: longer than any use of the command.
const EVENT_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// The captures to read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct CaptureFlags {
    /// Read captures instead of a cluster: files, folders and archives, as tidings import takes
    /// them; may be repeated. All namespaces are read, unless one is named
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
    ) -> Result<(), CommandError> {
        if self.is_some() {
            cluster.direct_to(Capture::load(&self.files).await?.client);
            namespaces.all_namespaces |= namespaces.name().is_none();
        }
        Ok(())
    }
}

/// A server with the events of loaded captures.
#[derive(Clone)]
pub(crate) struct Capture {
    server: Arc<ApiServer>,
    pub(crate) client: Client,
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
        let token = Token {
            token: TOKEN.to_owned(),
            user: User::new("capture", "", ["system:masters".to_owned()]),
        };
        let mut options = ApiOptions::default();
        options.event_ttl = EVENT_TTL;
        let server = Arc::new(ApiServer::new(
            Arc::new(MemoryStore::default()),
            Arc::new(SystemClock),
            Authenticator::new(vec![token]),
            options,
        ));
        let credentials = HeaderValue::from_static("Bearer capture");
        let service = router(Arc::clone(&server)).map_request(move |mut request: Request<Body>| {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, credentials.clone());
            request
        });
        let client = Client::new(service, "default");
        super::import::load(files, client.clone()).await?;
        Ok(Self { server, client })
    }

    /// Serves the timeline of the captures.
    pub(crate) async fn start_timeline(
        &self,
        port: u16,
    ) -> Result<tidings_server::RunningTimeline, tidings_server::StartError> {
        tidings_server::start_timeline_of_server(port, &self.server, TOKEN).await
    }
}
