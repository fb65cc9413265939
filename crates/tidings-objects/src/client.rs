//! The HTTP client for the object storage of clouds.
//!
//! It is the client that the command uses anyway, so that the program contains one TLS
//! implementation.

use std::time::Duration;

use async_trait::async_trait;
use http::uri::Scheme;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector as Connector;
use hyper_util::rt::TokioExecutor;
use object_store::client::{
    ClientConfigKey, ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind,
    HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};

/// How long a request waits for its answer to begin, on top of the time for sending it.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The slowest rate, in bytes per second, at which a request is assumed to be sent.
const SENT_A_SECOND: usize = 128 << 10;
/// The error for a request that would be sent without TLS.
const PLAIN: &str = "plain HTTP takes AWS_ALLOW_HTTP=true, GOOGLE_ALLOW_HTTP=true or AZURE_ALLOW_HTTP=true, whichever cloud it is";

/// Makes HTTP clients that verify certificates against the system's roots.
#[derive(Debug)]
pub(crate) struct Clients;

impl HttpConnector for Clients {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |source: std::io::Error| object_store::Error::Generic {
            store: "HTTP",
            source: source.into(),
        };
        let builder = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
            .map_err(failed)?;
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let allows_plain = allow_http.as_deref() == Some("true");
        let builder = if allows_plain {
            builder.https_or_http()
        } else {
            builder.https_only()
        };
        let client = Client::builder(TokioExecutor::new()).build(builder.enable_http1().build());
        let service = Service {
            client,
            allows_plain,
        };
        Ok(HttpClient::new(service))
    }
}

#[derive(Debug)]
struct Service {
    client: Client<HttpsConnector<Connector>, HttpRequestBody>,
    /// Whether requests may be sent without TLS.
    allows_plain: bool,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.allows_plain && request.uri().scheme() != Some(&Scheme::HTTPS) {
            // This error kind is not retried. The connector's own refusal would be, for minutes.
            let refused = std::io::Error::other(PLAIN);
            return Err(HttpError::new(HttpErrorKind::Unknown, refused));
        }
        let within = answer_max(request.body().content_length());
        let answer = tokio::time::timeout(within, self.client.request(request)).await;
        let answer = answer.map_err(|error| HttpError::new(HttpErrorKind::Timeout, error))?;
        let answer = answer.map_err(|error| {
            let kind = if error.is_connect() {
                HttpErrorKind::Connect
            } else {
                HttpErrorKind::Request
            };
            HttpError::new(kind, error)
        })?;
        let (parts, body) = answer.into_parts();
        let body = http_body_util::BodyExt::map_err(body, |error| {
            HttpError::new(HttpErrorKind::Interrupted, error)
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Returns how long the answer to a request of `bytes` bytes may take to begin. The time grows with
/// the bytes, as a merged file takes minutes to send on a slow line.
fn answer_max(bytes: usize) -> Duration {
    let seconds = u64::try_from(bytes / SENT_A_SECOND).unwrap_or(u64::MAX);
    ANSWER_MAX.saturating_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_has_the_time_to_be_sent() {
        for (bytes, seconds) in [(0, 60), (100 << 10, 60), (1 << 20, 68), (32 << 20, 316)] {
            assert_eq!(answer_max(bytes), Duration::from_secs(seconds), "{bytes}");
        }
    }
}
