//! Measures raw etcd on the same disk, with the requests that kube-apiserver would send for each
//! event.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidings_testing::free_port;
use tokio::sync::Mutex;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::events::{Events, NewEvent};
use super::failure::Failure;
use super::figures::{LONE_WRITES, TTL, figure, with_amplification, with_writes};
use super::load::{self, Target, timed};
use super::messages;
use super::process::{bytes_written, disk_bytes, peak_resident_bytes};

const NAME: &str = "etcd";

/// Number of events that share a lease, as with kube-apiserver.
const EVENTS_PER_LEASE: u32 = 1000;

/// Number of events in one page of a full list.
const PAGE: i64 = 10_000;

/// An etcd that this program started; killed when dropped.
struct Server {
    program: PathBuf,
    folder: PathBuf,
    ports: (u16, u16),
    process: Child,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Result<Self, Failure> {
        let ports = (free_port(), free_port());
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            ports,
            process: spawn(program, folder, ports)?,
        })
    }

    fn stop(&mut self) {
        // etcd may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn restart(&mut self) -> Result<(), Failure> {
        self.stop();
        self.process = spawn(&self.program, &self.folder, self.ports)?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(program: &Path, folder: &Path, (client, peer): (u16, u16)) -> Result<Child, Failure> {
    let (client, peer) = (url(client), url(peer));
    let arguments = [
        ("--name", "bench"),
        ("--listen-client-urls", &client),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--initial-cluster", &format!("bench={peer}")),
        // etcd's default is 2 GiB.
        ("--quota-backend-bytes", "17179869184"),
        ("--logger", "zap"),
        ("--log-level", "error"),
    ];
    let mut command = Command::new(program);
    for (name, value) in arguments {
        command.args([name, value]);
    }
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("could not run {}: {error}", program.display()).into())
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

struct Etcd {
    channel: Channel,
    /// The lease in use, and for how many more events it will be used.
    lease: Mutex<(i64, u32)>,
}

impl Etcd {
    fn new(port: u16) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(url(port))?.tcp_nodelay(true);
        Ok(Self {
            channel: endpoint.connect_lazy(),
            lease: Mutex::new((0, 0)),
        })
    }

    async fn call<M, R>(&self, path: &'static str, message: M) -> Result<R, Failure>
    where
        M: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc =
            tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(64 << 20);
        grpc.ready().await?;
        let codec = ProstCodec::<M, R>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc
            .unary(tonic::Request::new(message), path, codec)
            .await?;
        Ok(answer.into_inner())
    }

    /// Waits until etcd answers.
    async fn ready(&self) -> Result<(), Failure> {
        for _ in 0..6_000 {
            if self.range(Vec::new(), 1).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("etcd does not answer".into())
    }

    async fn range(&self, from: Vec<u8>, limit: i64) -> Result<messages::RangeResponse, Failure> {
        let from = if from.is_empty() { vec![0] } else { from };
        let request = messages::RangeRequest {
            key: from.into(),
            range_end: vec![0].into(),
            limit,
        };
        self.call("/etcdserverpb.KV/Range", request).await
    }

    async fn lease(&self) -> Result<i64, Failure> {
        let mut lease = self.lease.lock().await;
        if lease.1 == 0 {
            let request = messages::LeaseGrantRequest { ttl: TTL / 1000 };
            let answer: messages::LeaseGrantResponse =
                self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
            *lease = (answer.id, EVENTS_PER_LEASE);
        }
        lease.1 -= 1;
        Ok(lease.0)
    }

    /// Stores an event if its key has this revision; zero means that the key does not exist.
    async fn put(&self, event: NewEvent, revision: u64) -> Result<u64, Failure> {
        let lease = self.lease().await?;
        let mut key = b"/registry/events/".to_vec();
        key.extend(&event.key);
        let put = messages::PutRequest {
            key: key.clone().into(),
            value: event.value,
            lease,
        };
        let compare = messages::Compare {
            result: 0,
            target: 2,
            key: key.into(),
            mod_revision: Some(revision.cast_signed()),
        };
        let transaction = messages::TxnRequest {
            compare: vec![compare],
            success: vec![messages::Operation { put: Some(put) }],
        };
        let answer: messages::TxnResponse = self.call("/etcdserverpb.KV/Txn", transaction).await?;
        match answer.header {
            Some(header) if answer.succeeded => Ok(header.revision.cast_unsigned()),
            _ => Err("etcd had another version of the key".into()),
        }
    }
}

impl Target for Etcd {
    async fn create(&self, event: NewEvent) -> Result<u64, Failure> {
        self.put(event, 0).await
    }

    async fn update(&self, event: NewEvent, revision: u64) -> Result<u64, Failure> {
        self.put(event, revision).await
    }
}

/// Makes the writes of [`writes`](super::embedded::writes) in etcd, then those of a single writer,
/// lists everything, and restarts etcd.
///
/// # Errors
/// etcd cannot be run, or refused something.
pub async fn etcd(
    program: &Path,
    folder: &Path,
    count: u64,
    updates: u64,
    writers: u64,
) -> Result<(), Failure> {
    let mut server = Server::start(program, folder)?;
    let target = Arc::new(Etcd::new(server.ports.0)?);
    target.ready().await?;
    let events = Arc::new(Events::new(count));
    let (updates, process) = (updates.min(count), server.process.id());
    let before = bytes_written(process);
    let line = figure(NAME, &format!("writes_{writers}"));
    let (line, payload) = with_writes(line, &target, &events, (count, updates), writers).await?;
    let mut line = with_amplification(line, before, bytes_written(process), payload);
    if let Some(bytes) = peak_resident_bytes(process) {
        line = line.with("peak_bytes", bytes as f64);
    }
    line.with("events", count as f64)
        .with(
            "disk_bytes_per_event",
            disk_bytes(folder)? as f64 / count as f64,
        )
        .print();

    let (seconds, listed) = timed(list_all(&target)).await?;
    let (reopen, ()) = timed(async {
        server.restart()?;
        target.ready().await
    })
    .await?;
    figure(NAME, "listed")
        .with("list_per_second", listed as f64 / seconds)
        .print();
    figure(NAME, "reads").with("reopen_seconds", reopen).print();

    let alone = tempfile::tempdir_in(folder)?;
    let server = Server::start(program, alone.path())?;
    let target = Etcd::new(server.ports.0)?;
    target.ready().await?;
    let line = figure(NAME, &format!("lone_{writers}"));
    load::lone(&target, &events, LONE_WRITES, line)
        .await?
        .print();
    Ok(())
}

async fn list_all(target: &Etcd) -> Result<u64, Failure> {
    let (mut listed, mut from) = (0, Vec::new());
    loop {
        let page = target.range(from, PAGE).await?;
        listed += page.kvs.len() as u64;
        match page.kvs.last().filter(|_| page.more) {
            Some(last) => from = [&last.key[..], &[0]].concat(),
            None => return Ok(listed),
        }
    }
}
