//! The requests by which feeds are shown and changed while an archive runs.
//!
//! | request | answer |
//! |---|---|
//! | `GET` | the states of all feeds |
//! | `POST check`, `POST NAME/check` | for each feed what its receiver said to a test record |
//! | `GET NAME/dead-letters` | the dead letters, without their events |
//! | `POST NAME/retry`, `POST NAME/drop` | how many dead letters are sent again, or deleted |
//! | `POST NAME/skip` | nothing, once the cursors are at the end |
//! | `POST NAME/remove` | nothing, once the cursors of a former feed are removed |
//! | `GET NAME/template` | the text that prepares the receiver |

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidings_history::{FeedError, timestamp};
use tidings_store::UnixMillis;

use crate::feeds::{Feeds, FeedsError};

impl Feeds {
    /// Answers a request. The answer is JSON if its status is 200, and otherwise a message. What
    /// was begun ends, also if nobody waits for the answer.
    pub async fn answer(&self, method: &Method, path: &str) -> (StatusCode, Vec<u8>) {
        let (feeds, method, path) = (self.clone(), method.clone(), path.to_owned());
        let answer = tokio::spawn(async move { feeds.answer_whole(&method, &path).await });
        answer.await.unwrap_or_else(|error| {
            let why = format!("the request was not answered: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, why.into_bytes())
        })
    }

    async fn answer_whole(&self, method: &Method, path: &str) -> (StatusCode, Vec<u8>) {
        match self.value(method, path).await {
            Ok(Some(value)) => (StatusCode::OK, value.to_string().into_bytes()),
            Ok(None) => {
                let why = format!("feeds have no {method} of {path:?}");
                (StatusCode::NOT_FOUND, why.into_bytes())
            }
            Err(error) => {
                let code = match &error {
                    FeedsError::NotFound(_) => StatusCode::NOT_FOUND,
                    FeedsError::Configured(_)
                    | FeedsError::Retrying(_)
                    | FeedsError::Feed(FeedError::InUse(_)) => StatusCode::CONFLICT,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                (code, error.to_string().into_bytes())
            }
        }
    }

    async fn value(&self, method: &Method, path: &str) -> Result<Option<Value>, FeedsError> {
        let (name, what) = path.split_once('/').unwrap_or(("", path));
        let value = match (method.as_str(), name, what) {
            ("GET", "", "") => json!({"feeds": self.status().await}),
            ("POST", _, "check") => {
                let name = Some(name).filter(|name| !name.is_empty());
                let checked = self.check(name).await?.into_iter();
                let checked =
                    checked.map(|(name, said)| json!({"feed": name, "error": said.err()}));
                json!({"feeds": checked.collect::<Vec<_>>()})
            }
            ("GET", _, "dead-letters") => {
                let letters = self.dead_letters(name).await?.into_iter();
                let letters = letters.map(|it| {
                    json!({
                        "at": timestamp(UnixMillis(it.at)), "cluster": it.cluster, "id": it.id,
                        "cause": it.cause, "why": it.why,
                    })
                });
                json!({"deadLetters": letters.collect::<Vec<_>>()})
            }
            ("POST", _, "retry") => json!({"deadLetters": self.retry(name).await?}),
            ("POST", _, "drop") => json!({"deadLetters": self.delete_dead_letters(name).await?}),
            ("POST", _, "skip") => {
                self.skip(name).await?;
                json!({})
            }
            ("POST", _, "remove") => {
                self.remove(name).await?;
                json!({})
            }
            ("GET", _, "template") => json!({"template": self.template(name)?}),
            _ => return Ok(None),
        };
        Ok(Some(value))
    }
}
