//! An HTTP proxy in front of a receiver. It answers instead of the receiver, cuts, delays and
//! repeats requests, and kills the archive at a step between a request and its commit.
//!
//! Each connection has one request. What the receiver answers is passed on unchanged, except for
//! bulk requests: those are answered here, document by document.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::archive::proxy::listen;

/// One request in this many has a fault.
const BETWEEN_FAULTS: u32 = 8;
/// Longest delay of a slow answer.
const SLOW_MAX: Duration = Duration::from_secs(3);
/// Versions whose resourceVersion ends so are rejected by the receiver of bulk requests.
const REJECTED: &str = "77";

/// A step of a request after which the archive is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The request arrived, and the receiver does not have it.
    Arrived,
    /// The receiver has it, and did not answer.
    Taken,
    /// The answer was sent, and the cursor is about to move.
    Answered,
}

impl Step {
    pub(super) const ALL: [Self; 3] = [Self::Arrived, Self::Taken, Self::Answered];
}

/// Kills the archive at a step of a request.
#[derive(Default)]
pub(super) struct Killer {
    /// The number of the archive's process, the step, and who waits for the kill.
    armed: Mutex<Option<(u32, Step, oneshot::Sender<()>)>>,
}

impl Killer {
    fn armed(&self) -> MutexGuard<'_, Option<(u32, Step, oneshot::Sender<()>)>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The receiver gets a message once the archive is killed.
    pub(super) fn arm(&self, process: u32, step: Step) -> oneshot::Receiver<()> {
        let (fired, heard) = oneshot::channel();
        *self.armed() = Some((process, step, fired));
        heard
    }

    /// Returns whether the archive was not killed since it was armed.
    pub(super) fn disarm(&self) -> bool {
        self.armed().take().is_some()
    }

    fn reach(&self, step: Step) {
        // The lock is held until the kill, so that `disarm` waits for one in progress.
        let mut armed = self.armed();
        let Some((process, _, fired)) = armed.take_if(|(_, at, _)| *at == step) else {
            return;
        };
        // It waits for the signal on purpose: the archive is killed at this step.
        let mut kill = std::process::Command::new("kill");
        if kill.args(["-KILL", &process.to_string()]).status().is_ok() {
            // Nobody waits any more if the run is over.
            let _ = fired.send(());
        }
    }
}

/// What all connections of a proxy share.
struct Shared {
    target: String,
    is_bulk: bool,
    killer: Arc<Killer>,
    is_faulty: Arc<AtomicBool>,
    random: Mutex<fastrand::Rng>,
    faults: AtomicU64,
}

/// A proxy of a receiver. It ends when this is dropped.
pub(super) struct Gate {
    pub(super) address: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Gate {
    pub(super) async fn start(
        (target, is_bulk): (&str, bool),
        killer: &Arc<Killer>,
        is_faulty: &Arc<AtomicBool>,
        random: fastrand::Rng,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            target: target.to_owned(),
            is_bulk,
            killer: Arc::clone(killer),
            is_faulty: Arc::clone(is_faulty),
            random: Mutex::new(random),
            faults: AtomicU64::new(0),
        });
        let all = Arc::clone(&shared);
        let serve = move |stream| {
            let shared = Arc::clone(&all);
            async move { shared.serve(stream).await }
        };
        let (address, accepting) = listen(serve).await?;
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Number of requests that had a fault.
    pub(super) fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::Relaxed)
    }
}

/// A request as it was sent.
struct Request {
    /// The request line and the headers, each with its line end. The headers `Connection` and
    /// `Content-Length` are left out: they are made anew when the request is passed on.
    head: String,
    body: Vec<u8>,
}

impl Request {
    async fn read(from: &mut TcpStream) -> io::Result<Self> {
        let mut read = Vec::new();
        let end = loop {
            if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end;
            }
            if from.read_buf(&mut read).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let mut body = read.split_off(end + 4);
        read.truncate(end);
        let text = String::from_utf8(read).map_err(io::Error::other)?;
        let (mut head, mut len) = (String::new(), 0);
        for line in text.split("\r\n") {
            let name = line.split(':').next().unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                let number = line[name.len() + 1..].trim().parse();
                len = number.map_err(io::Error::other)?;
            } else if !name.eq_ignore_ascii_case("connection") {
                head.push_str(line);
                head.push_str("\r\n");
            }
        }
        while body.len() < len {
            if from.read_buf(&mut body).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Self { head, body })
    }

    /// Sends this much of the request, and returns the whole answer.
    async fn send(&self, to: &str, body: &[u8], sent: usize) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(to).await?;
        let (head, len) = (&self.head, body.len());
        let head = format!("{head}Content-Length: {len}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body[..sent]).await?;
        let mut answer = Vec::new();
        if sent == body.len() {
            stream.read_to_end(&mut answer).await?;
        }
        Ok(answer)
    }
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}").into()
}

fn is_success(answer: &[u8]) -> bool {
    answer.get(9) == Some(&b'2')
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Unavailable,
    TooMany,
    /// The receiver has the request, and its sender hears that it failed.
    TakenAndFailed,
    /// The receiver has the request, and its sender hears nothing.
    TakenAndCut,
    /// The receiver has half of the request.
    Half,
    Slow,
    /// The receiver takes half of the documents.
    Partial,
}

impl Shared {
    fn fault(&self) -> (Option<Fault>, f64) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_faulty.load(Ordering::Relaxed) || random.u32(..BETWEEN_FAULTS) > 0 {
            return (None, 0.0);
        }
        self.faults.fetch_add(1, Ordering::Relaxed);
        let all = [
            Fault::Unavailable,
            Fault::TooMany,
            Fault::TakenAndFailed,
            Fault::TakenAndCut,
            Fault::Half,
            Fault::Slow,
            Fault::Partial,
        ];
        (random.choice(all), random.f64())
    }

    async fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let request = Request::read(&mut client).await?;
        self.killer.reach(Step::Arrived);
        let (fault, random) = self.fault();
        let said = match fault {
            Some(Fault::Unavailable) => answer("503 Service Unavailable", ""),
            Some(Fault::TooMany) => answer("429 Too Many Requests\r\nRetry-After: 1", ""),
            Some(Fault::Half) => {
                let half = request.body.len() / 2;
                request.send(&self.target, &request.body, half).await?;
                return Ok(());
            }
            _ => {
                if fault == Some(Fault::Slow) {
                    sleep(SLOW_MAX.mul_f64(random)).await;
                }
                let said = if self.is_bulk {
                    self.bulk(&request, fault == Some(Fault::Partial)).await?
                } else {
                    request
                        .send(&self.target, &request.body, request.body.len())
                        .await?
                };
                self.killer.reach(Step::Taken);
                match fault {
                    Some(Fault::TakenAndFailed) => answer("503 Service Unavailable", ""),
                    Some(Fault::TakenAndCut) => return Ok(()),
                    _ => said,
                }
            }
        };
        client.write_all(&said).await?;
        client.shutdown().await?;
        self.killer.reach(Step::Answered);
        Ok(())
    }

    /// Sends the documents on that the receiver is to take, and answers for each.
    async fn bulk(&self, request: &Request, is_partial: bool) -> io::Result<Vec<u8>> {
        let lines: Vec<_> = request
            .body
            .split_inclusive(|byte| *byte == b'\n')
            .collect();
        let pairs = lines.chunks_exact(2);
        let taken_max = pairs.len() / if is_partial { 2 } else { 1 };
        let (mut body, mut items) = (Vec::new(), Vec::new());
        for (number, pair) in pairs.enumerate() {
            let (kind, status) = if is_rejected(pair[1]) {
                ("mapper_parsing_exception", 400)
            } else if number >= taken_max {
                ("es_rejected_execution_exception", 429)
            } else {
                body.extend_from_slice(pair[0]);
                body.extend_from_slice(pair[1]);
                items.push(json!({"create": {"status": 201}}));
                continue;
            };
            let error = json!({"type": kind, "reason": "the suite says so"});
            items.push(json!({"create": {"status": status, "error": error}}));
        }
        if !body.is_empty() {
            let said = request.send(&self.target, &body, body.len()).await?;
            if !is_success(&said) {
                return Ok(said);
            }
        }
        let has_errors = items.iter().any(|item| item["create"]["error"].is_object());
        let said = json!({"took": 1, "errors": has_errors, "items": items});
        Ok(answer(
            "200 OK\r\nContent-Type: application/json",
            &said.to_string(),
        ))
    }
}

fn is_rejected(document: &[u8]) -> bool {
    let document: Value = serde_json::from_slice(document).unwrap_or_default();
    let version = document["kubernetes"]["event"]["metadata"]["resource_version"].as_str();
    version.is_some_and(|version| version.ends_with(REJECTED))
}
