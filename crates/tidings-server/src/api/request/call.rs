//! A request to the events API, as handlers get it: path and query, user, and body.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, Method};
use hyper::body::Body as _;

use crate::api::server::ApiServer;
use crate::api::server::limits::InitialPlace;
use crate::api::server::shares;
use crate::audit::Notes;
use crate::auth::decision::Decision;
use crate::auth::{ReviewError, User};
use crate::flow::budget::Held;
use crate::http::body::read_body_as;
use crate::http::negotiate::{Answer, Form, negotiate};
use crate::http::query::WriteOptions;
use crate::http::request::RequestInfo;
use crate::http::status::Status;
use crate::http::stored::{Key, Stored};
use tidings_api::codec::Api;
use tidings_api::managed::manager_of;

/// An extension of a request: a cluster's decision about the create that the request becomes if its
/// event does not exist.
#[derive(Clone, Debug)]
pub(in crate::api) struct Preauthorized(pub(in crate::api) Result<Decision, ReviewError>);

/// A request for events.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) api: Api,
    /// The authenticated user.
    pub(crate) user: User,
    pub(crate) info: Arc<RequestInfo>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(in crate::api) preauthorized: Option<Preauthorized>,
    /// The place of a watch that sends existing events.
    pub(in crate::api) initial_place: Option<InitialPlace>,
    /// The share of memory of the answer.
    pub(in crate::api) held: Held,
    /// Facts for the audit log.
    pub(in crate::api) notes: Notes,
}

impl Call {
    pub(crate) fn key(&self) -> Key {
        Key::of(&self.info)
    }

    /// The form of the answer.
    pub(crate) fn form(&self, answer: Answer) -> Result<Form, Status> {
        negotiate(&self.headers, &self.info.query, answer)
    }

    /// The field manager of a change: the one that the request names, or else its User-Agent.
    pub(crate) fn manager(&self, options: &WriteOptions) -> String {
        if !options.field_manager.is_empty() {
            return options.field_manager.clone();
        }
        let user_agent = self.headers.get(http::header::USER_AGENT);
        let user_agent = user_agent.map(|value| String::from_utf8_lossy(value.as_bytes()));
        manager_of(&user_agent.unwrap_or_default())
    }

    /// The stored event that the request names. The memory for a long one is taken once its length
    /// is known: until then, it is not held. A request with a long body has it already.
    ///
    /// # Errors
    /// 404 if there is none; 429 if there is no memory for it.
    pub(crate) async fn stored(&self, server: &ApiServer) -> Result<Stored, Status> {
        let key = self.key();
        let mut len_max = if self.body.len() > shares::SMALL {
            shares::EVENT_MAX
        } else {
            shares::SMALL_EVENT
        };
        loop {
            let record = server.store.get(key.bytes()).await?;
            let record = record.ok_or_else(|| Status::not_found(self.api, &key.name))?;
            let len = record.value.len();
            if len <= len_max {
                return Stored::decode(record);
            }
            drop(record);
            let (pool, bytes) = shares::of_event(&self.info, len);
            let long = self.held.exchange(pool, bytes).await;
            long.map_err(|_| Status::out_of_memory())?;
            // It may grow meanwhile.
            len_max = len;
        }
    }

    pub(crate) fn content_type(&self) -> Option<&str> {
        self.headers
            .get(http::header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
    }
}

impl FromRequest<Arc<ApiServer>> for Call {
    type Rejection = Status;

    async fn from_request(request: Request, server: &Arc<ApiServer>) -> Result<Self, Status> {
        let (mut parts, body) = request.into_parts();
        let info: Option<Arc<RequestInfo>> = parts.extensions.remove();
        let info = info.filter(|info| !info.is_ambiguous);
        let info = info.ok_or_else(Status::no_such_path)?;
        let user = parts
            .extensions
            .get::<User>()
            .cloned()
            .ok_or_else(Status::unauthorized)?;
        let held: Held = parts.extensions.remove().unwrap_or(Held::NOTHING);
        let body = if parts.method == Method::GET {
            Bytes::new()
        } else {
            let bytes_max = server.options.request_bytes_max;
            let short = match body.size_hint().upper() {
                Some(_) => usize::MAX,
                None => shares::SMALL,
            };
            let grow = async || {
                let (pool, bytes) = shares::long_body(&info, bytes_max);
                let share = held.exchange(pool, bytes).await;
                share.map_err(|_| Status::out_of_memory())
            };
            read_body_as(body, bytes_max, short, grow).await?
        };
        let notes: Notes = parts.extensions.remove().unwrap_or_default();
        notes.body(&body);
        Ok(Self {
            api: Api::of_group(&info.group),
            info,
            user,
            preauthorized: parts.extensions.remove(),
            initial_place: parts.extensions.remove(),
            held,
            notes,
            headers: parts.headers,
            body,
        })
    }
}
