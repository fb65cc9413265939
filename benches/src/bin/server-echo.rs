//! The least that an API server can do on this machine: over HTTPS it parses a JSON body and writes
//! it back, nothing else. Other servers are compared with it.
//!
//! Prints the path of a kubeconfig when it is ready, as `tidings serve` does.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Parses JSON over HTTPS, and sends it back.
#[derive(Parser)]
struct Arguments {
    /// Folder where the kubeconfig is written
    #[arg(long)]
    data_dir: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = Arguments::parse().data_dir;
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![cert.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der())),
        )?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = format!("https://{}", listener.local_addr()?);

    std::fs::create_dir_all(&folder)?;
    let authority = folder.join("ca.crt");
    std::fs::write(&authority, cert.pem())?;
    let kubeconfig = folder.join("kubeconfig");
    let text = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "echo",
        "clusters": [{"name": "echo", "cluster": {"server": server, "certificate-authority": authority}}],
        "contexts": [{"name": "echo", "context": {"cluster": "echo", "user": "echo"}}],
        "users": [{"name": "echo", "user": {}}],
    });
    std::fs::write(&kubeconfig, text.to_string())?;
    writeln!(std::io::stdout(), "{}", kubeconfig.display())?;

    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                // If a connection fails, the client reports it.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(echo))
                    .await;
            }
        });
    }
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let (status, body) = match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(value) => (StatusCode::CREATED, value.to_string()),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}
