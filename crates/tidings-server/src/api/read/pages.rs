//! Reading of a list: batches of the matching records, all at one revision.
//!
//! The store is read page by page, the next page while a short previous one is sent. So a list of
//! any length takes little more memory than a page. If the beginning of an answer contains
//! something that is known only at the end (the continue token of a limited list, the length of a
//! protobuf list), the list is read twice, the second time up to the key at which the first reading
//! stopped.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{self, BoxFuture, MaybeDone};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use tidings_store::{At, ListRequest, Page, ReadError, Record, Revision};

use super::streamed::Batches;
use crate::api::server::ApiServer;
use crate::http::status::Status;
use crate::http::stored::selects;
use tidings_api::selector::Selector;

/// Maximum records read from the store at a time.
const STORE_PAGE_LEN: usize = 500;
/// Bytes of a page beyond which the next page is not read while this one is sent, to bound memory.
const AHEAD_BYTES_MAX: usize = 512 << 10;

type Ahead = MaybeDone<BoxFuture<'static, Result<Page, Status>>>;

/// Reads one list.
pub(crate) struct Pages {
    server: Arc<ApiServer>,
    selector: Selector,
    request: ListRequest,
    /// How reading began: the request, the limit, and the number of remaining records.
    begun: (ListRequest, Option<usize>, Option<u64>),
    /// Length of the namespace and slash at the beginning of each key, which continue tokens omit.
    namespace_len: usize,
    /// Records that may still be returned.
    left: Option<usize>,
    /// The list ends at this key.
    until: Option<Bytes>,
    /// The next page, while it is being read.
    ahead: Option<Pin<Box<Ahead>>>,
    started: bool,
    done: bool,
    /// Whether records remain after the limit.
    more: bool,
    revision: Revision,
    /// Records after those read so far, whether or not the limit allows them.
    remaining: Option<u64>,
}

impl Pages {
    pub(crate) fn new(
        server: Arc<ApiServer>,
        selector: Selector,
        request: ListRequest,
        namespace_len: usize,
        limit: Option<usize>,
        remaining: Option<u64>,
    ) -> Self {
        Self {
            begun: (request.clone(), limit, remaining),
            remaining: remaining.filter(|_| selector.is_empty()),
            server,
            selector,
            request,
            namespace_len,
            left: limit,
            until: None,
            ahead: None,
            started: false,
            done: false,
            more: false,
            revision: 0,
        }
    }

    fn next_request(&self) -> ListRequest {
        let limit = match self.left {
            // With a selector it is unknown how many records have to be read.
            Some(left) if self.selector.is_empty() => left.min(STORE_PAGE_LEN),
            _ => STORE_PAGE_LEN,
        };
        ListRequest {
            limit: Some(limit),
            ..self.request.clone()
        }
    }

    /// Whether the remaining records are known to fit within the limit.
    fn fits(&self) -> bool {
        match (self.left, self.remaining) {
            (None, _) => true,
            (Some(left), Some(remaining)) => remaining <= left as u64,
            (Some(_), None) => false,
        }
    }

    /// The list's metadata, once the list was read completely.
    fn meta(&self) -> ListMeta {
        let after = self.request.after.as_ref().filter(|_| self.more);
        let token = after.map(|after| {
            let after = relative(after, self.namespace_len);
            self.server.continue_token(Some(self.revision), after)
        });
        if let (Some(token), Some(remaining)) = (&token, self.remaining) {
            let lists = &self.server.remaining;
            lists.keep(&self.request.prefix, token, remaining);
        }
        ListMeta {
            resource_version: Some(self.revision.to_string()),
            r#continue: token,
            remaining_item_count: self
                .remaining
                .filter(|remaining| self.more && *remaining > 0)
                .and_then(|remaining| i64::try_from(remaining).ok()),
            ..ListMeta::default()
        }
    }
}

impl Batches for Pages {
    async fn next(&mut self) -> Result<Option<Vec<Record>>, Status> {
        if self.done {
            return Ok(None);
        }
        let first = !std::mem::replace(&mut self.started, true);
        let unfiltered = self.selector.is_empty();
        let page = if let Some(mut ahead) = self.ahead.take() {
            ahead.as_mut().await;
            let page = ahead.as_mut().take_output();
            page.ok_or_else(|| Status::internal("a page that was read is not there"))?
        } else {
            self.request.count_remaining =
                first && unfiltered && self.left.is_some() && self.remaining.is_none();
            read_page(&self.server, self.next_request(), self.namespace_len).await
        }?;
        self.request.count_remaining = false;
        self.revision = page.revision;
        self.request.at = At::Exact(page.revision);
        match &mut self.remaining {
            Some(remaining) => *remaining = remaining.saturating_sub(page.records.len() as u64),
            None => self.remaining = page.remaining,
        }

        let fetched = page.records.len();
        let bytes: usize = page.records.iter().map(|record| record.value.len()).sum();
        let mut batch = Vec::with_capacity(fetched);
        let mut records = page.records.into_iter();
        for record in records.by_ref() {
            let is_over = |until: &Bytes| self.server.store.is_behind(&record.key, until);
            if self.until.as_ref().is_some_and(is_over) {
                self.done = true;
                break;
            }
            self.request.after = Some(record.key.clone());
            if unfiltered || selects(&self.selector, &record)? {
                batch.push(record);
                self.left = self.left.map(|left| left.saturating_sub(1));
            }
            if self.left == Some(0) {
                break;
            }
        }
        self.server.metrics.listed(fetched, batch.len());
        let left = page.more || records.len() > 0;
        if self.until.is_some() && self.until == self.request.after {
            self.done = true;
        }
        if self.left == Some(0) || !left {
            self.done = true;
            self.more = left;
        }
        if !self.done && bytes <= AHEAD_BYTES_MAX {
            let (server, request) = (Arc::clone(&self.server), self.next_request());
            let namespace_len = self.namespace_len;
            let page = async move { read_page(&server, request, namespace_len).await };
            let mut ahead = Box::pin(future::maybe_done(page.boxed()));
            // Polled once so that the store begins now, and not after this page was sent. A
            // separate task would have to wait for this one to yield.
            let _ = futures::poll!(&mut ahead);
            self.ahead = Some(ahead);
        }
        Ok(Some(batch))
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn restart(&mut self) {
        let (request, limit, remaining) = self.begun.clone();
        *self = Self::new(
            Arc::clone(&self.server),
            self.selector.clone(),
            request,
            self.namespace_len,
            limit,
            remaining,
        );
    }

    /// Reads the rest of the list to find its metadata, calling `see` with each record, and
    /// prepares it to be read again. If everything is known already, nothing is read.
    async fn look_ahead(
        &mut self,
        lengths: bool,
        mut see: impl FnMut(&Record) -> Result<(), Status> + Send,
    ) -> Result<ListMeta, Status> {
        if self.done || self.fits() && !lengths {
            return Ok(self.meta());
        }
        let mut scout = Self::new(
            Arc::clone(&self.server),
            self.selector.clone(),
            self.request.clone(),
            self.namespace_len,
            self.left,
            self.remaining,
        );
        scout.started = true;
        while let Some(batch) = scout.next().await? {
            for record in &batch {
                see(record)?;
            }
        }
        self.left = None;
        self.until.clone_from(&scout.request.after);
        Ok(scout.meta())
    }
}

/// A key without the namespace of its list.
fn relative(key: &Bytes, namespace_len: usize) -> String {
    String::from_utf8_lossy(key.get(namespace_len..).unwrap_or_default()).into_owned()
}

async fn read_page(
    server: &ApiServer,
    request: ListRequest,
    namespace_len: usize,
) -> Result<Page, Status> {
    let after = request.after.clone();
    server
        .store
        .list(request)
        .await
        .map_err(|error: ReadError| {
            // A list that cannot continue at its own revision can continue at the latest.
            let resume = after.map(|after| {
                let after = relative(&after, namespace_len);
                server.continue_token(None, after)
            });
            Status::from_read(&error, resume)
        })
}
