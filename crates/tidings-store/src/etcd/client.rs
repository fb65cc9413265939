//! Sends requests to an etcd cluster: chooses the member and the deadline.
//!
//! It also finds out whether a failed request may have been done. A request is repeated here only
//! if etcd certainly did not accept it, or if doing it twice is harmless.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::error::OpenError;
use super::failure::{Failure, Outcome, chain};
use super::members::{Members, REFRESH_EVERY};
use super::options::EtcdOptions;
use super::pause::Pause;
use super::wire;
use crate::Revision;

/// Maximum length of an answer from etcd, in bytes. Lists are read in parts far below it.
const ANSWER_LEN_MAX: usize = 256 << 20;

/// Maximum length of a request, in bytes. etcd itself refuses more than 1.5 MiB by default.
const REQUEST_LEN_MAX: usize = 16 << 20;

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// The client of one etcd cluster, shared by the store's methods, tasks and watches.
pub(super) struct Client {
    members: Members,
    /// Index of the preferred member: the last one that answered.
    current: AtomicUsize,
    request_timeout: Duration,
    attempt_timeout: Duration,
    /// The greatest revision in any answer since the cluster's history began or was replaced.
    revision: AtomicU64,
}

impl Client {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, OpenError> {
        Ok(Self {
            members: Members::new(options)?,
            current: AtomicUsize::new(0),
            request_timeout: options.request_timeout,
            attempt_timeout: options.attempt_timeout,
            revision: AtomicU64::new(0),
        })
    }

    /// The greatest revision in any answer since the cluster's history began or was replaced.
    pub(super) fn revision(&self) -> Revision {
        self.revision.load(Ordering::Acquire)
    }

    /// Records the revision of an answer's header, and returns it.
    pub(super) fn observe(&self, header: Option<wire::ResponseHeader>) -> Revision {
        let revision = header.map_or(0, |header| unsigned(header.revision));
        self.revision.fetch_max(revision, Ordering::AcqRel);
        revision
    }

    /// Forgets the greatest revision: etcd has another history now, at `revision`.
    pub(super) fn begin_anew(&self, revision: Revision) {
        self.revision.store(revision, Ordering::Release);
    }

    /// The deadline of a request that starts now.
    pub(super) fn deadline(&self) -> Instant {
        sleep(self.request_timeout).deadline()
    }

    /// Sends a request until a member answers or the deadline passes. Use it only for requests that
    /// are harmless when done twice.
    pub(super) async fn ask<M, R>(
        &self,
        path: &'static str,
        message: M,
        deadline: Instant,
    ) -> Result<R, Failure>
    where
        M: prost::Message + Clone + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.send(path, message, deadline, |_| true).await
    }

    /// Sends a request that must be done at most once. It tries another member only if no member
    /// has accepted the request. After a lost answer, the next request goes to another member.
    pub(super) async fn order<M, R>(
        &self,
        path: &'static str,
        message: M,
        deadline: Instant,
    ) -> Result<R, Failure>
    where
        M: prost::Message + Clone + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        self.send(path, message, deadline, |outcome| {
            outcome != Outcome::Unknown
        })
        .await
    }

    async fn send<M, R>(
        &self,
        path: &'static str,
        message: M,
        deadline: Instant,
        again: impl Fn(Outcome) -> bool,
    ) -> Result<R, Failure>
    where
        M: prost::Message + Clone + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let mut pause = Pause::default();
        loop {
            let member = self.current();
            let failure = match self.attempt(member, path, message.clone(), deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            // Switch the member even if this request is not repeated: the caller's next request
            // must not wait for a silent member.
            if failure.outcome == Outcome::Refused {
                return Err(failure);
            }
            self.leave(member);
            if !again(failure.outcome) {
                return Err(failure);
            }
            if !pause.wait_until(deadline).await {
                return Err(failure);
            }
        }
    }

    async fn attempt<M, R>(
        &self,
        member: usize,
        path: &'static str,
        message: M,
        deadline: Instant,
    ) -> Result<R, Failure>
    where
        M: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let end = sleep(self.attempt_timeout).deadline().min(deadline);
        let late = || self.failure(member, &Status::deadline_exceeded("no answer in time"));
        let request = requiring_leader(message);
        let answer = timeout_at(end, self.unary(member, path, request)).await;
        answer.unwrap_or_else(|_| Err(late()))
    }

    async fn unary<M, R>(
        &self,
        member: usize,
        path: &'static str,
        request: Request<M>,
    ) -> Result<R, Failure>
    where
        M: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.grpc(member)?;
        // A channel that is not ready has no connection, so nothing was sent.
        grpc.ready().await.map_err(|error| {
            self.failure(member, &Status::unavailable(chain(&error)))
                .knowing(Outcome::NotDone)
        })?;
        grpc.unary(
            request,
            PathAndQuery::from_static(path),
            ProstCodec::<M, R>::default(),
        )
        .await
        .map(tonic::Response::into_inner)
        .map_err(|status| self.failure(member, &status))
    }

    /// Opens a watch stream to one member. etcd ends the stream when the member loses its leader.
    pub(super) async fn stream(
        &self,
        member: usize,
        requests: tokio::sync::mpsc::Receiver<wire::WatchRequest>,
    ) -> Result<tonic::Streaming<wire::WatchResponse>, Failure> {
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        let open = async {
            let mut grpc = self.grpc(member)?;
            grpc.ready()
                .await
                .map_err(|error| self.failure(member, &Status::unavailable(chain(&error))))?;
            let opened = grpc.streaming(
                requiring_leader(requests),
                PathAndQuery::from_static(WATCH),
                ProstCodec::<wire::WatchRequest, wire::WatchResponse>::default(),
            );
            let opened = opened.await;
            opened
                .map(tonic::Response::into_inner)
                .map_err(|status| self.failure(member, &status))
        };
        timeout(self.attempt_timeout, open)
            .await
            .unwrap_or_else(|_| {
                Err(self.failure(member, &Status::deadline_exceeded("no answer in time")))
            })
    }

    /// Sends a request to one given member, without trying others.
    pub(super) async fn ask_member<M, R>(
        &self,
        member: usize,
        path: &'static str,
        message: M,
    ) -> Result<R, Failure>
    where
        M: prost::Message + Send + Sync + 'static,
        R: prost::Message + Default + Send + Sync + 'static,
    {
        let deadline = self.deadline();
        self.attempt(member, path, message, deadline).await
    }

    fn grpc(&self, member: usize) -> Result<tonic::client::Grpc<Channel>, Failure> {
        let channel = self.members.channel(member);
        let channel = channel
            .ok_or_else(|| self.failure(member, &Status::internal("there is no such member")))?;
        Ok(tonic::client::Grpc::new(channel)
            .max_decoding_message_size(ANSWER_LEN_MAX)
            .max_encoding_message_size(REQUEST_LEN_MAX))
    }

    /// Index of the preferred member.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Switches from this member to the next one. Does nothing if another task has already
    /// switched. Also loads new TLS files, if there are any.
    pub(super) fn leave(&self, member: usize) {
        self.members.refresh();
        let next = (member + 1) % self.members.len().max(1);
        let _ = self
            .current
            .compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Reloads the TLS files at an interval; never returns.
    pub(super) async fn keep_tls(&self) {
        loop {
            sleep(REFRESH_EVERY).await;
            self.members.refresh();
        }
    }

    pub(super) fn failure(&self, member: usize, status: &Status) -> Failure {
        Failure::new(self.members.url(member), status)
    }
}

/// A request that a member without a leader refuses at once.
fn requiring_leader<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    let required = MetadataValue::from_static("true");
    request.metadata_mut().insert("hasleader", required);
    request
}

/// Converts a number of etcd, which is signed but never negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a number of ours for etcd; one that does not fit becomes etcd's maximum.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_member_that_does_not_answer_a_write_is_left() {
        // The operating system accepts the connections, but no program answers.
        let silent = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let url = |member: &TcpListener| format!("http://{}", member.local_addr().unwrap());
        let mut options = EtcdOptions::new(silent.iter().map(url));
        options.attempt_timeout = Duration::from_millis(50);
        let client = Client::new(&options).unwrap();
        for left in [1, 0] {
            let write = wire::TxnRequest::default();
            let sent: Result<wire::TxnResponse, _> =
                client.order(TXN, write, client.deadline()).await;
            assert_eq!(sent.unwrap_err().outcome, Outcome::Unknown);
            assert_eq!(client.current(), left);
        }
    }
}
