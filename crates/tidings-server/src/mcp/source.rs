//! Where tools read: the timeline's answers, of this process or of another server.

use bytes::Bytes;
use tidings_store::BoxFuture;

use crate::timeline::Reads;

/// Reads the answers of a timeline, which contain only what one caller may see. No method writes.
pub trait Source: Send + Sync + 'static {
    /// Reads the JSON of `GET /timeline/api/ANSWER?QUERY`, where the answer is `coverage`,
    /// `events`, `object`, `event` or `top`.
    ///
    /// # Errors
    /// [`Refused`] has the HTTP status of the answer and its reason.
    fn get(&self, answer: &'static str, query: String) -> BoxFuture<'_, Result<Bytes, Refused>>;
}

/// Why a [`Source`] has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The HTTP status, such as 403; 502 if there is no answer at all.
    pub code: u16,
    /// The reason, in one line.
    pub message: String,
}

impl Source for Reads {
    fn get(&self, answer: &'static str, query: String) -> BoxFuture<'_, Result<Bytes, Refused>> {
        let reads = self.clone();
        Box::pin(async move {
            let answer = reads.answer(answer, &query).await;
            answer.map_err(|status| Refused {
                code: status.code().as_u16(),
                message: status.message().to_owned(),
            })
        })
    }
}
