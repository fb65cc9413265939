//! Measures raw etcd on the same disk, with the requests that kube-apiserver would send for each
//! event. The messages have the names and numbers of etcd's `rpc.proto` and `kv.proto`.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use tidings_testing::etcd::{Cluster, Member};
use tokio::sync::Mutex;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::embedded::WRITERS;
use super::events::NewEvent;
use super::target::{Sizes, TTL, Target, Written, disk_bytes};
use crate::{Failure, Figure, timed};

const NAME: &str = "etcd";

/// Number of events that share a lease, as with kube-apiserver.
const EVENTS_PER_LEASE: u32 = 1000;

/// Number of events in one page of a full list.
const PAGE: i64 = 10_000;

/// Maximum length of the database. etcd's default is 2 GiB.
const QUOTA: [&str; 2] = ["--quota-backend-bytes", "17179869184"];

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct ResponseHeader {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    value: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    range_end: Bytes,
    #[prost(int64, tag = "3")]
    limit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    more: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
    #[prost(int64, tag = "3")]
    lease: i64,
}

/// `RequestOp`, here always a put.
#[derive(Clone, PartialEq, prost::Message)]
struct Operation {
    #[prost(message, optional, tag = "2")]
    put: Option<PutRequest>,
}

/// Compares a key's modification revision (`target` 2) with a number, for equality (`result` 0).
#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    key: Bytes,
    /// Zero must be written too: without the field there would be no comparison.
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

/// The time to live of a request, and the number of an answer.
#[derive(Clone, Copy, PartialEq, prost::Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

struct Etcd {
    channel: Channel,
    /// The lease in use, and for how many more events it will be used.
    lease: Mutex<(i64, u32)>,
}

impl Etcd {
    /// A new etcd with the client of it, when it answers.
    async fn start() -> Result<(Cluster, Self), Failure> {
        let cluster = Cluster::start(1, &QUOTA).ok_or("there is no etcd")?;
        let endpoint = Endpoint::from_shared(cluster.endpoints().concat())?.tcp_nodelay(true);
        let etcd = Self {
            channel: endpoint.connect_lazy(),
            lease: Mutex::new((0, 0)),
        };
        etcd.ready().await?;
        Ok((cluster, etcd))
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
        let answer = grpc.unary(tonic::Request::new(message), path, codec);
        Ok(answer.await?.into_inner())
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

    async fn range(&self, from: Vec<u8>, limit: i64) -> Result<RangeResponse, Failure> {
        let from = if from.is_empty() { vec![0] } else { from };
        let request = RangeRequest {
            key: from.into(),
            range_end: vec![0].into(),
            limit,
        };
        self.call("/etcdserverpb.KV/Range", request).await
    }

    async fn lease(&self) -> Result<i64, Failure> {
        let mut lease = self.lease.lock().await;
        if lease.1 == 0 {
            let request = LeaseGrantRequest { ttl: TTL / 1000 };
            let answer: LeaseGrantResponse =
                self.call("/etcdserverpb.Lease/LeaseGrant", request).await?;
            *lease = (answer.id, EVENTS_PER_LEASE);
        }
        lease.1 -= 1;
        Ok(lease.0)
    }

    async fn list_all(&self) -> Result<u64, Failure> {
        let (mut listed, mut from) = (0, Vec::new());
        loop {
            let page = self.range(from, PAGE).await?;
            listed += page.kvs.len() as u64;
            match page.kvs.last().filter(|_| page.more) {
                Some(last) => from = [&last.key[..], &[0]].concat(),
                None => return Ok(listed),
            }
        }
    }
}

impl Target for Etcd {
    async fn put(&self, event: NewEvent, revision: u64) -> Result<u64, Failure> {
        let lease = self.lease().await?;
        let key = Bytes::from([b"/registry/events/", &event.key[..]].concat());
        let compare = Compare {
            target: 2,
            key: key.clone(),
            mod_revision: Some(revision.cast_signed()),
        };
        let value = event.value;
        let put = Some(PutRequest { key, value, lease });
        let transaction = TxnRequest {
            compare: vec![compare],
            success: vec![Operation { put }],
        };
        let answer: TxnResponse = self.call("/etcdserverpb.KV/Txn", transaction).await?;
        match answer.header {
            Some(header) if answer.succeeded => Ok(header.revision.cast_unsigned()),
            _ => Err("etcd had another version of the key".into()),
        }
    }
}

/// Makes the writes in etcd, then those of a single writer in another.
pub(super) async fn etcd(sizes: Sizes) -> Result<(), Failure> {
    let (mut cluster, etcd) = Etcd::start().await?;
    let etcd = Written::new(etcd, sizes.count, sizes.updates);
    let [member] = &mut cluster.members[..] else {
        return Err("there is no member of etcd".into());
    };
    let process = member.process().ok_or("etcd has ended")?;
    let figure = etcd.measure(NAME, sizes, process, async {}).await?;
    let bytes = disk_bytes(Path::new(member.data()))? as f64 / sizes.count as f64;
    figure.with("disk_bytes_per_event", bytes).print();

    // As of the embedded store, reads are measured only after the writes of that many writers.
    if sizes.writers == WRITERS {
        reads(&etcd.target, member).await?;
    }
    let (_cluster, alone) = Etcd::start().await?;
    Written::new(alone, sizes.count, 0).alone(NAME, sizes).await
}

/// Lists everything, and restarts etcd.
async fn reads(etcd: &Etcd, member: &mut Member) -> Result<(), Failure> {
    let (seconds, listed) = timed(etcd.list_all()).await?;
    Figure::of(NAME, "listed")
        .with("list_per_second", listed as f64 / seconds)
        .print();
    let (reopen, ()) = timed(async {
        member.kill();
        member.start();
        etcd.ready().await
    })
    .await?;
    Figure::of(NAME, "reads")
        .with("reopen_seconds", reopen)
        .print();
    Ok(())
}
