//! An S3 server in this process: s3s, whose buckets are folders.
//!
//! To create an object, s3s-fs first looks whether it exists and then writes it. So two requests
//! that create one object at the same time could both succeed. This server handles one request
//! after the other, so that `If-None-Match: *` works as in S3.
//!
//! When s3s-fs is asked for a range of a file that it did not write itself, it reads the whole file
//! for its checksum. A server with a delay, on which readers are measured, therefore answers
//! requests for ranges without s3s-fs.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::Method;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, oneshot};

/// The name of the only bucket.
pub const BUCKET: &str = "events";
const KEY: &str = "test";
const SECRET: &str = "of-this-test-only";

/// A server on a free loopback port. It ends when it is dropped.
#[derive(Debug)]
pub struct S3Server {
    endpoint: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3Server {
    /// Starts a server over a folder. The object `KEY` is the file `events/KEY` there.
    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, None)
    }

    /// Starts a server that delays each answer, as if it were far away. A range of a file takes
    /// this delay and the time to send its bytes, and no more.
    pub fn start_far(folder: &Path, delay: Duration) -> Self {
        let far = Far {
            folder: folder.to_owned(),
            delay,
        };
        Self::start_with(folder, Some(Arc::new(far)))
    }

    fn start_with(folder: &Path, far: Option<Arc<Far>>) -> Self {
        std::fs::create_dir_all(folder.join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(FileSystem::new(folder).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let (end, ended) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        // The server has a runtime of its own, so that a test can pause or stop its own runtime and
        // clock.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = serve(listener, service, far) => {}
                    // That the sender was dropped also ends the server.
                    _ = ended => {}
                }
            });
        });
        let address: SocketAddr = told.recv().unwrap();
        Self {
            endpoint: format!("http://{address}"),
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// The environment variables that a client needs.
    pub fn environment(&self) -> [(&'static str, &str); 5] {
        [
            ("AWS_ENDPOINT", &self.endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
        ]
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has printed why.
            let _ = thread.join();
        }
    }
}

/// Answers requests for ranges in place of s3s-fs, on a server with a delay.
struct Far {
    folder: PathBuf,
    delay: Duration,
}

impl Far {
    /// The answer to a request for a range of a file; `None` for any other request.
    fn range(&self, request: &hyper::Request<Incoming>) -> Option<hyper::Response<s3s::Body>> {
        if request.method() != Method::GET || request.uri().query().is_some() {
            return None;
        }
        let range = request.headers().get(hyper::header::RANGE)?.to_str().ok()?;
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        let key = request.uri().path().strip_prefix('/')?;
        let file = File::open(self.folder.join(key)).ok()?;
        let len = file.metadata().ok()?.len();
        let to = to.saturating_add(1).min(len);
        let mut bytes = vec![0; usize::try_from(to.checked_sub(from)?).ok()?];
        file.read_exact_at(&mut bytes, from).ok()?;
        let answer = hyper::Response::builder()
            .status(206)
            .header("content-length", bytes.len())
            .header("content-range", format!("bytes {from}-{}/{len}", to - 1))
            .header("etag", format!("\"{len}\""))
            .header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT");
        answer.body(bytes.into()).ok()
    }
}

async fn serve(listener: TcpListener, s3: S3Service, far: Option<Arc<Far>>) {
    let creating = Arc::new(Mutex::new(()));
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (s3, creating, far) = (s3.clone(), Arc::clone(&creating), far.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (s3, creating, far) = (s3.clone(), Arc::clone(&creating), far.clone());
            async move {
                if let Some(far) = far {
                    tokio::time::sleep(far.delay).await;
                    if let Some(answer) = far.range(&request) {
                        return Ok(answer);
                    }
                }
                let _one = match *request.method() {
                    Method::PUT => Some(creating.lock().await),
                    _ => None,
                };
                Service::call(&s3, request).await
            }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
        // A connection that the client ended is not an error.
        tokio::spawn(async { drop(connection.await) });
    }
}
