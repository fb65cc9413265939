//! Requests to a cluster: choice of the member, deadline, token, and the meaning of failures.
//!
//! Only requests that were certainly not accepted, or that may be done twice without harm, are sent
//! again here.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::error::OpenError;
use super::failure::{Failure, Outcome, chain};
use super::members::{Members, REFRESH_EVERY};
use super::options::{Credentials, EtcdOptions};
use super::pause::Pause;
use super::token::{Token, Tokens};
use super::wire;
use crate::Revision;

/// Longest answer accepted from etcd, in bytes. Lists are read in parts that stay far below.
const ANSWER_LEN_MAX: usize = 256 << 20;

/// Longest request sent, in bytes; etcd refuses more than 1.5 MiB by default.
const REQUEST_LEN_MAX: usize = 16 << 20;

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
pub(super) const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";

/// A cluster. Shared by everything that talks to it.
pub(super) struct Client {
    members: Members,
    /// The preferred member: the last one that answered.
    current: AtomicUsize,
    credentials: Option<Credentials>,
    tokens: Tokens,
    request_timeout: Duration,
    attempt_timeout: Duration,
    /// The greatest revision in any answer of the cluster's current history.
    revision: AtomicU64,
}

impl Client {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self, OpenError> {
        Ok(Self {
            members: Members::new(options)?,
            current: AtomicUsize::new(0),
            credentials: options.credentials.clone(),
            tokens: Tokens::default(),
            request_timeout: options.request_timeout,
            attempt_timeout: options.attempt_timeout,
            revision: AtomicU64::new(0),
        })
    }

    /// The greatest revision in any answer of the cluster's current history.
    pub(super) fn revision(&self) -> Revision {
        self.revision.load(Ordering::Acquire)
    }

    /// Notes and returns the revision of an answer.
    pub(super) fn observe(&self, header: Option<wire::ResponseHeader>) -> Revision {
        let revision = header.map_or(0, |header| unsigned(header.revision));
        self.revision.fetch_max(revision, Ordering::AcqRel);
        revision
    }

    /// Another history took the place of the former one, and is at this revision.
    pub(super) fn begin_anew(&self, revision: Revision) {
        self.revision.store(revision, Ordering::Release);
    }

    /// The deadline of a request that begins now.
    pub(super) fn deadline(&self) -> Instant {
        sleep(self.request_timeout).deadline()
    }

    /// Repeats a request until a member answers or the deadline passes; for requests that may be
    /// done twice without harm.
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

    /// Sends a request such that it is done at most once: another member is tried only if none has
    /// accepted it. If the answer was lost, the next request goes to another member.
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
            // Also if it is not sent again here: the caller's next request must not wait for a
            // member that does not answer.
            if !matches!(failure.outcome, Outcome::Refused | Outcome::TokenRefused) {
                self.leave(member);
            }
            if failure.outcome == Outcome::Refused || !again(failure.outcome) {
                return Err(failure);
            }
            // After a refused token it is tried again at once; a second refusal waits as usual.
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
        let authorized = self.authorized(member, Request::new(message));
        let (request, token) = match timeout_at(end, authorized).await {
            Ok(authorized) => authorized?,
            // It waited for a token, and was not sent.
            Err(_) => return Err(late().knowing(Outcome::NotDone)),
        };
        let answer = timeout_at(end, self.unary(member, path, request)).await;
        let answer = answer.unwrap_or_else(|_| Err(late()));
        answer.inspect_err(|failure| self.heed(failure, token.as_ref()))
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
        // Not being ready means that there is no connection: nothing was sent.
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

    /// Opens a watch stream to a member, with the returned token. It ends by itself when the member
    /// loses its leader.
    pub(super) async fn stream(
        &self,
        member: usize,
        requests: tokio::sync::mpsc::Receiver<wire::WatchRequest>,
    ) -> Result<(tonic::Streaming<wire::WatchResponse>, Option<Token>), Failure> {
        let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
        let open = async {
            let (request, token) = self.authorized(member, Request::new(requests)).await?;
            let mut grpc = self.grpc(member)?;
            grpc.ready()
                .await
                .map_err(|error| self.failure(member, &Status::unavailable(chain(&error))))?;
            let opened = grpc.streaming(
                request,
                PathAndQuery::from_static(WATCH),
                ProstCodec::<wire::WatchRequest, wire::WatchResponse>::default(),
            );
            match opened.await {
                Ok(opened) => Ok((opened.into_inner(), token)),
                Err(status) => {
                    let failure = self.failure(member, &status);
                    self.heed(&failure, token.as_ref());
                    Err(failure)
                }
            }
        };
        timeout(self.attempt_timeout, open)
            .await
            .unwrap_or_else(|_| {
                Err(self.failure(member, &Status::deadline_exceeded("no answer in time")))
            })
    }

    /// Asks one member and no other.
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

    /// Adds the token, which is also returned, and requires that a member without a leader refuses
    /// at once.
    async fn authorized<M>(
        &self,
        member: usize,
        mut request: Request<M>,
    ) -> Result<(Request<M>, Option<Token>), Failure> {
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        let Some(credentials) = &self.credentials else {
            return Ok((request, None));
        };
        let ask = self.authenticate(member, credentials);
        let token = self.tokens.get(member, ask).await?;
        metadata.insert("token", token.value.clone());
        Ok((request, Some(token)))
    }

    async fn authenticate(
        &self,
        member: usize,
        credentials: &Credentials,
    ) -> Result<MetadataValue<Ascii>, Failure> {
        let request = wire::AuthenticateRequest {
            name: credentials.user.clone(),
            password: credentials.password.clone(),
        };
        let answer: Result<wire::AuthenticateResponse, _> = self
            .unary(member, AUTHENTICATE, Request::new(request))
            .await;
        // The request itself was not sent.
        let answer = answer.map_err(|failure| match failure.outcome {
            Outcome::Refused => failure,
            _ => failure.knowing(Outcome::NotDone),
        })?;
        MetadataValue::try_from(answer.token.as_str()).map_err(|_| {
            self.failure(
                member,
                &Status::invalid_argument("the token is not printable"),
            )
        })
    }

    /// Drops the token of a request or stream that failed for lack of a valid one.
    pub(super) fn heed(&self, failure: &Failure, token: Option<&Token>) {
        if failure.outcome == Outcome::TokenRefused
            && let Some(token) = token
        {
            self.tokens.give_up(token);
        }
    }

    /// The current member.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Switches to the next member, unless another task has already switched away from this one;
    /// with new TLS files, if there are any.
    pub(super) fn leave(&self, member: usize) {
        self.members.refresh();
        let next = (member + 1) % self.members.len().max(1);
        let _ = self
            .current
            .compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Reads the TLS files again at intervals, forever.
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

/// etcd's numbers are signed and never negative.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Ours are unsigned; greater ones mean etcd's maximum.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_member_that_does_not_answer_a_write_is_left() {
        // The system accepts their connections; no program answers.
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
