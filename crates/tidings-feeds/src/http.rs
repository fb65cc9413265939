//! Receivers over HTTP: credentials, TLS, signatures and deadlines.
//!
//! Invariant: credentials, keys and authorities are read from their files for each request, so a
//! changed file counts from the next request on. They are in no log and in no state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use parking_lot::Mutex;
use ring::hmac;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tidings_connect::proxy::Proxies;
use tidings_connect::{Client, ClientOptions};

use crate::delivery::Reply;
use crate::encode::webhook::IDEMPOTENCY_KEY;
use crate::encode::{ANSWER_LEN_MAX, Answer, Encoder, Verdict, WORDS_LEN_MAX};
use crate::record::{Record, Source};

/// Maximum time to connect to a receiver.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a file with a secret or with certificates.
const FILE_LEN_MAX: u64 = 1 << 20;

/// How a receiver is reached over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connection {
    /// The receiver's URL.
    pub url: Uri,
    /// File with the authorities of the receiver's certificate, in PEM. Default: the system's.
    pub ca: Option<PathBuf>,
    /// Files with the client certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Whether any certificate of the receiver is accepted.
    pub insecure_skip_verify: bool,
    /// The proxy. Default: that of the environment.
    pub proxy: Option<Uri>,
    /// Maximum time until the answer is complete. Default: 30 seconds.
    pub timeout: Duration,
    /// Whether bodies are compressed with gzip.
    pub gzip: bool,
    /// The credentials.
    pub credentials: Credentials,
    /// Further headers.
    pub headers: HeaderMap,
    /// Further headers, whose values are in files.
    pub header_files: Vec<(HeaderName, PathBuf)>,
    /// File with the secret by which requests are signed, as Standard Webhooks defines it.
    pub signature: Option<PathBuf>,
}

/// The credentials that a receiver gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials {
    /// None.
    #[default]
    None,
    /// A file with a token: `Authorization: Bearer`.
    Token(PathBuf),
    /// A file with a key of Elasticsearch: `Authorization: ApiKey`.
    ApiKey(PathBuf),
    /// A name, and a file with the password: `Authorization: Basic`.
    Password(String, PathBuf),
}

impl Connection {
    /// A connection to this URL without credentials.
    pub fn new(url: Uri) -> Self {
        Self {
            url,
            ca: None,
            certificate: None,
            insecure_skip_verify: false,
            proxy: None,
            timeout: Duration::from_secs(30),
            gzip: false,
            credentials: Credentials::None,
            headers: HeaderMap::new(),
            header_files: Vec::new(),
            signature: None,
        }
    }
}

/// Sends requests to a receiver.
pub(crate) struct Sender {
    connection: Connection,
    encoder: Box<dyn Encoder>,
    /// The client, and the files that it was made of.
    client: Mutex<Option<Made>>,
}

/// The files of a client, and the client.
type Made = (Vec<Vec<u8>>, Client<Full<Bytes>>);

/// A request could not be made. It may be possible later.
type Failure = String;

impl Sender {
    pub(crate) fn new(connection: Connection, encoder: Box<dyn Encoder>) -> Self {
        Self {
            connection,
            encoder,
            client: Mutex::new(None),
        }
    }

    pub(crate) fn records_max(&self) -> usize {
        self.encoder.records_max()
    }

    /// Sends records and judges the answer. `now` is the wall time.
    pub(crate) async fn send(&self, source: &Source, records: &[Record], now: Timestamp) -> Reply {
        let encoded = self.encoder.encode(source, records);
        if !encoded.unencodable.is_empty() {
            return Reply::Unencodable(encoded.unencodable);
        }
        let (client, request) = match self.prepare(encoded, now).await {
            Ok(prepared) => prepared,
            Err(why) => return Reply::Judged(Verdict::Refused(cut(why)), None),
        };
        let exchange = async {
            let answer = client
                .request(request)
                .await
                .map_err(|error| chain(&error))?;
            let (head, body) = answer.into_parts();
            let mut body = std::pin::pin!(body);
            let mut read = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| chain(&error))?;
                let data = frame.into_data().unwrap_or_default();
                let room = ANSWER_LEN_MAX - read.len();
                read.extend_from_slice(&data[..data.len().min(room)]);
                if room == 0 {
                    break;
                }
            }
            Ok((head, read))
        };
        let exchanged = tokio::time::timeout(self.connection.timeout, exchange).await;
        let failed = |why: String| Reply::Judged(Verdict::Retry(cut(why)), None);
        match exchanged {
            Err(_) => failed(format!(
                "there was no complete answer within {:?}",
                self.connection.timeout
            )),
            Ok(Err(why)) => failed(why),
            Ok(Ok((head, body))) => {
                let retry_after = head.headers.get(RETRY_AFTER);
                let retry_after = retry_after.and_then(|it| retry_after_of(it.to_str().ok()?, now));
                let answer = Answer {
                    status: head.status,
                    headers: &head.headers,
                    body: &body,
                };
                Reply::Judged(self.encoder.judge(&answer, records), retry_after)
            }
        }
    }

    async fn prepare(
        &self,
        encoded: crate::encode::Encoded,
        now: Timestamp,
    ) -> Result<(Client<Full<Bytes>>, Request<Full<Bytes>>), Failure> {
        let connection = &self.connection;
        let client = self.client().await?;
        let base = connection.url.to_string();
        let url = match encoded.path.as_str() {
            "" => base,
            query if query.starts_with('?') && base.contains('?') => {
                format!("{base}&{}", &query[1..])
            }
            path => format!("{}{path}", base.trim_end_matches('/')),
        };
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.method_mut() = encoded.method;
        let url = url.parse();
        *request.uri_mut() = url.map_err(|error| format!("the receiver's URL: {error}"))?;
        let headers = request.headers_mut();
        let agent = concat!("tidings/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.extend(encoded.headers);
        headers.extend(connection.headers.clone());
        for (name, path) in &connection.header_files {
            headers.insert(name, sensitive(&secret(path).await?, path)?);
        }
        if let Some(authorization) = authorization(&connection.credentials).await? {
            headers.insert(AUTHORIZATION, authorization);
        }
        if let Some(path) = &connection.signature {
            let id = headers.get(IDEMPOTENCY_KEY).map(HeaderValue::as_bytes);
            let id = String::from_utf8_lossy(id.unwrap_or_default()).into_owned();
            let secret = secret(path).await?;
            let signed = sign(&secret, &id, now.as_second(), &encoded.body)
                .map_err(|why| format!("{}: {why}", path.display()))?;
            for (name, value) in [
                ("webhook-id", id),
                ("webhook-timestamp", now.as_second().to_string()),
                ("webhook-signature", signed),
            ] {
                let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let mut body = encoded.body;
        if connection.gzip && !body.is_empty() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            body = gzip(&body).map_err(|error| error.to_string())?;
        }
        *request.body_mut() = Full::new(body);
        Ok((client, request))
    }

    /// Returns the client, a new one if its files have changed.
    async fn client(&self) -> Result<Client<Full<Bytes>>, Failure> {
        let connection = &self.connection;
        let mut files = Vec::new();
        let certificate = connection
            .certificate
            .iter()
            .flat_map(|(it, key)| [it, key]);
        for path in connection.ca.iter().chain(certificate) {
            files.push(file(path).await?);
        }
        let mut client = self.client.lock();
        if let Some((_, client)) = client.as_ref().filter(|(of, _)| *of == files) {
            return Ok(client.clone());
        }
        let mut options = ClientOptions::new(tls(connection, &files)?);
        options.allows_plain = true;
        options.connect_timeout = Some(CONNECT_TIMEOUT);
        if let Some(proxy) = &connection.proxy {
            options.proxies = Proxies::Fixed(Some(proxy.clone()));
        }
        let new = Client::new(options).map_err(|error| error.to_string())?;
        *client = Some((files, new.clone()));
        Ok(new)
    }
}

/// Makes the TLS configuration of the files with authorities, certificate and key that are set.
fn tls(connection: &Connection, files: &[Vec<u8>]) -> Result<ClientConfig, Failure> {
    let mut files = files.iter();
    let authorities = match &connection.ca {
        None => None,
        Some(path) => {
            let wrong = |error: String| format!("{}: {error}", path.display());
            let found = CertificateDer::pem_slice_iter(files.next().map_or(&[], Vec::as_slice));
            let found: Result<Vec<_>, _> = found.collect();
            let found = found.map_err(|error| wrong(error.to_string()))?;
            if found.is_empty() {
                return Err(wrong("there is no certificate in it".to_owned()));
            }
            Some(found)
        }
    };
    let is_verified =
        connection.url.scheme_str() == Some("https") && !connection.insecure_skip_verify;
    let mut tls = match tidings_connect::tls(authorities.as_deref()) {
        Ok(tls) => tls,
        // A machine may have no authorities.
        Err(_) if !is_verified => {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions();
            let builder = builder.map_err(|error| error.to_string())?;
            builder
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth()
        }
        Err(error) => return Err(chain(&error)),
    };
    if let Some((path, key_path)) = &connection.certificate {
        let wrong =
            |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let [chain, key] = [files.next(), files.next()].map(|it| it.map_or(&[][..], Vec::as_slice));
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|error| wrong(path, &error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(key_path, &error))?;
        let certified = CertifiedKey::from_der(chain, key, tls.crypto_provider());
        let certified = certified.map_err(|error| wrong(path, &error))?;
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    }
    if connection.insecure_skip_verify {
        let provider = Arc::clone(tls.crypto_provider());
        let any = Arc::new(AnyCertificate(provider));
        tls.dangerous().set_certificate_verifier(any);
    }
    Ok(tls)
}

/// Accepts every certificate, as the configuration says.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

async fn authorization(credentials: &Credentials) -> Result<Option<HeaderValue>, Failure> {
    let (text, path) = match credentials {
        Credentials::None => return Ok(None),
        Credentials::Token(path) => (format!("Bearer {}", secret(path).await?), path),
        Credentials::ApiKey(path) => (format!("ApiKey {}", secret(path).await?), path),
        Credentials::Password(name, path) => {
            let login = format!("{name}:{}", secret(path).await?);
            (format!("Basic {}", STANDARD.encode(login)), path)
        }
    };
    sensitive(&text, path).map(Some)
}

fn sensitive(text: &str, path: &Path) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(text);
    let mut value = value.map_err(|_| {
        let path = path.display();
        format!("{path}: it has characters that cannot be in a header")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads a secret, without blank space around it.
async fn secret(path: &Path) -> Result<String, Failure> {
    let bytes = file(path).await?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{}: it is no text", path.display()))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("{}: it is empty", path.display()));
    }
    Ok(text.to_owned())
}

async fn file(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    if tokio::fs::metadata(path).await.map_err(wrong)?.len() > FILE_LEN_MAX {
        return Err(format!("{}: it has more than a MiB", path.display()));
    }
    tokio::fs::read(path).await.map_err(wrong)
}

/// Signs a message as Standard Webhooks defines it. The secret is in base64, and may begin with
/// `whsec_`.
fn sign(secret: &str, id: &str, seconds: i64, body: &[u8]) -> Result<String, &'static str> {
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap_or(secret));
    let key = key.map_err(|_| "a secret in base64 is expected, such as whsec_MfKQ9r8G…")?;
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &key));
    context.update(format!("{id}.{seconds}.").as_bytes());
    context.update(body);
    Ok(format!("v1,{}", STANDARD.encode(context.sign())))
}

fn gzip(body: &[u8]) -> std::io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    std::io::Write::write_all(&mut encoder, body)?;
    Ok(encoder.finish()?.into())
}

/// Reads `Retry-After`: seconds, or a date.
fn retry_after_of(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(at.duration_since(now).try_into().unwrap_or_default())
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

fn cut(mut text: String) -> String {
    text.truncate(tidings_core::floor_char_boundary(&text, WORDS_LEN_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Standard Webhooks' specification.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signed.as_deref(), Ok(expected));
        assert!(sign("not base64!", "", 0, b"").is_err());
    }

    #[test]
    fn a_wait_is_in_seconds_or_until_a_date() {
        let now = Timestamp::from_second(784_111_767).unwrap();
        for (text, expected) in [
            ("7", Some(7)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            let found = retry_after_of(text, now);
            assert_eq!(found, expected.map(Duration::from_secs), "{text}");
        }
    }
}
