//! Streams a list: it is read, encoded and sent batch by batch, so that a list of any length takes
//! bounded memory. A list that turns out not to be short at its first batch takes another share of
//! memory. If it has to wait for that, it begins again.
//!
//! An error before the first byte is answered with a [`Status`]. Once the answer has begun, it can
//! only be cut off to show that it is incomplete; its [`Outcome`] has the error.

use std::sync::Arc;
use std::vec;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{StatusCode, header};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ListMeta;
use parking_lot::Mutex;
use tidings_store::Record;

use super::list_writer::ListWriter;
use crate::api::request::Call;
use crate::api::request::{encoded, table_rows};
use crate::api::server::ApiServer;
use crate::api::server::shares;
use crate::flow::budget::Pool;
use crate::http::negotiate::{Form, Media};
use crate::http::status::Status;

/// Bytes of a batch above which it is sent in parts.
const CHUNK_LEN: usize = 256 << 10;

/// A source of a list's records.
pub(crate) trait Batches: Send + 'static {
    /// The next batch, which may be empty; `None` after the last. At most a page of the store.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Record>>, Status>> + Send;

    /// Whether the last batch was returned.
    fn is_done(&self) -> bool;

    /// Begins again: the next batch is the first one.
    fn restart(&mut self);

    /// Returns the metadata of the list, after the first batch was returned. If `lengths` are
    /// needed, this calls `see` with each record of the other batches.
    fn look_ahead(
        &mut self,
        lengths: bool,
        see: impl FnMut(&Record) -> Result<(), Status> + Send,
    ) -> impl Future<Output = Result<ListMeta, Status>> + Send;

    /// Processes a batch before it is sent, and after the head is known.
    fn settle(&mut self, _batch: &[Record]) -> impl Future<Output = Result<(), Status>> + Send {
        async { Ok(()) }
    }
}

/// The result of an answer that is being sent, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Outcome(Arc<Mutex<Option<Status>>>);

impl Outcome {
    fn new() -> Self {
        let cut_off = Status::internal("the answer was cut off before it was complete");
        Self(Arc::new(Mutex::new(Some(cut_off))))
    }

    fn set(&self, failure: Option<Status>) {
        *self.0.lock() = failure;
    }

    /// The error, if the answer is incomplete.
    pub(crate) fn failure(&self) -> Option<Status> {
        self.0.lock().clone()
    }
}

/// Answers with a list.
pub(crate) async fn answer(
    server: &ApiServer,
    call: &Call,
    form: Form,
    mut batches: impl Batches,
) -> Result<Response, Status> {
    let rows = table_rows(call, form, server.clock.now())?;
    let mut writer = ListWriter::new(call.api, form, rows);
    let mut batch = batches.next().await?.unwrap_or_default();
    let bytes = batch.iter().map(|record| record.value.len()).sum();
    let is_short = batches.is_done() && bytes <= shares::SHORT_LIST;
    if !is_short {
        let share = shares::of_list(batches.is_done().then_some(bytes));
        if !call.held.try_exchange(Pool::Large, share) {
            drop(batch);
            batches.restart();
            let share = call.held.exchange(Pool::Large, shares::of_list(None));
            share.await.map_err(|_| Status::out_of_memory())?;
            batch = batches.next().await?.unwrap_or_default();
        }
    }
    let mut items_len = 0;
    for record in &batch {
        items_len += writer.item_len(record)?;
    }
    let meta = batches
        .look_ahead(form.media == Media::Protobuf, |record| {
            items_len += writer.item_len(record)?;
            Ok(())
        })
        .await?;
    batches.settle(&batch).await?;
    let mut first = Vec::with_capacity((batch.len() * 1024).min(CHUNK_LEN) + 512);
    writer.write_start(&meta, items_len, &mut first)?;
    if is_short {
        for record in batch {
            writer.write_item(&record, &mut first)?;
        }
        writer.write_end(&meta, &mut first)?;
        return Ok(encoded(StatusCode::OK, form.media, first));
    }
    let outcome = Outcome::new();
    let streamed = Streamed {
        batches,
        batch: batch.into_iter(),
        writer,
        meta,
        ended: false,
        outcome: outcome.clone(),
    };
    let chunks = stream::try_unfold((streamed, first), |(mut streamed, out)| async move {
        match streamed.next_chunk(out).await {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk, (streamed, Vec::new())))),
            Err(status) => {
                let why = String::from_utf8_lossy(&status.to_json()).into_owned();
                streamed.outcome.set(Some(status));
                Err(std::io::Error::other(why))
            }
        }
    });
    let content_type = [(header::CONTENT_TYPE, form.media.content_type())];
    let mut response = (content_type, Body::from_stream(chunks)).into_response();
    response.extensions_mut().insert(outcome);
    Ok(response)
}

struct Streamed<B> {
    batches: B,
    /// The rest of the batch that is being sent.
    batch: vec::IntoIter<Record>,
    writer: ListWriter,
    meta: ListMeta,
    ended: bool,
    outcome: Outcome,
}

impl<B: Batches> Streamed<B> {
    /// The next part of the answer, which begins with the content of `out`; `None` when nothing is
    /// left.
    async fn next_chunk(&mut self, mut out: Vec<u8>) -> Result<Option<Bytes>, Status> {
        if self.ended {
            return Ok(None);
        }
        loop {
            for record in self.batch.by_ref() {
                self.writer.write_item(&record, &mut out)?;
                if out.len() >= CHUNK_LEN {
                    return Ok(Some(out.into()));
                }
            }
            if self.batches.is_done() {
                self.writer.write_end(&self.meta, &mut out)?;
                self.ended = true;
                self.outcome.set(None);
                return Ok(Some(out.into()));
            }
            // Available bytes are sent before more is read.
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
            let batch = self.batches.next().await?.unwrap_or_default();
            self.batches.settle(&batch).await?;
            out.reserve((batch.len() * 1024).min(CHUNK_LEN));
            self.batch = batch.into_iter();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;

    use tidings_api::codec::Api;
    use tidings_api::table::{IncludeObject, Rows};
    use tokio::runtime::Builder;

    use super::*;
    use crate::http::negotiate::Shape;

    /// How long a list waits for the other before the test has failed.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

    /// A source of empty batches, each of which comes only while the other list waits for one, too.
    struct Meeting {
        left: usize,
        tell: Sender<()>,
        hear: Receiver<()>,
    }

    impl Batches for Meeting {
        async fn next(&mut self) -> Result<Option<Vec<Record>>, Status> {
            let _ = self.tell.send(());
            let met = self.hear.recv_timeout(ANSWER_TIMEOUT);
            met.map_err(|_| Status::internal("the other list does not continue"))?;
            self.left -= 1;
            Ok(Some(Vec::new()))
        }

        fn is_done(&self) -> bool {
            self.left == 0
        }

        fn restart(&mut self) {}

        async fn look_ahead(
            &mut self,
            _lengths: bool,
            _see: impl FnMut(&Record) -> Result<(), Status> + Send,
        ) -> Result<ListMeta, Status> {
            Ok(ListMeta::default())
        }
    }

    #[test]
    fn lists_are_made_at_the_same_time() {
        let (to_one, of_one) = channel();
        let (to_other, of_other) = channel();
        let list = |media, tell, hear| {
            let form = Form {
                media,
                shape: Shape::Whole,
                pretty: false,
            };
            let rows = Rows {
                api: Api::Core,
                api_version: "meta.k8s.io/v1",
                include_object: IncludeObject::None,
                now: jiff::Timestamp::UNIX_EPOCH,
            };
            let mut streamed = Streamed {
                batches: Meeting {
                    left: 3,
                    tell,
                    hear,
                },
                batch: Vec::new().into_iter(),
                writer: ListWriter::new(Api::Core, form, rows),
                meta: ListMeta::default(),
                ended: false,
                outcome: Outcome::new(),
            };
            let runtime = Builder::new_current_thread().build().unwrap();
            let chunk = runtime.block_on(streamed.next_chunk(Vec::new()));
            chunk.map(|chunk| chunk.is_some())
        };
        let made = thread::scope(|scope| {
            let other = scope.spawn(|| list(Media::Yaml, to_other, of_one));
            [list(Media::Json, to_one, of_other), other.join().unwrap()]
        });
        let made = made.map(|made| made.map_err(|status| status.message().to_owned()));
        assert_eq!(made, [Ok(true), Ok(true)]);
    }
}
