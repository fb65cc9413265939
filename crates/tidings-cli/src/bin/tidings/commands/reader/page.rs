//! Where events are read from, and a page of them.

use jiff::Timestamp;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;
use tidings_archive::REVISION_BITS;
use tidings_cli::event::Event;
use tidings_cli::filter::Filter;

use super::super::cluster::Server;

/// Events in a page, as many as kubectl asks for.
pub(super) const PAGE: usize = 500;
/// How many events are held at once, unless told otherwise.
pub(crate) const EVENTS_MAX: usize = 250_000;
/// Asks for the events last seen first. Servers that do not know it answer in the order of names,
/// and without the header.
const NEWEST_FIRST: &str = "tidings-newest-first";
/// Says that a list is in the order of objects and not of names: it is one of a sealed archive.
const ORDER: &str = "tidings-order";

/// Where events are read from, and which.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) server: Server,
    /// Empty for all.
    pub(crate) namespace: String,
    pub(crate) filter: Filter,
    /// Those last seen at this time or later are left out where the server can do it, which gives
    /// out those seen last first.
    pub(crate) seen_before: Option<Timestamp>,
    /// More events than these are not held: they cannot be put in order.
    pub(crate) events_max: usize,
    /// The use of `tidings rbac` that says what permissions this needs.
    pub(crate) rbac: &'static str,
}

/// A page of a list.
pub(super) struct Page {
    pub(super) events: Vec<Event>,
    /// The rest, if there is any.
    pub(super) next: Option<String>,
    /// The revision of the list; empty if the server gives none.
    pub(super) revision: String,
    /// How many events are behind the page, where the server says so.
    pub(super) remaining: Option<u64>,
    pub(super) is_newest_first: bool,
    /// The events' revisions are of another kind than that of the list: they are sealed. Neither is
    /// the list in the order of keys.
    pub(super) is_sealed: bool,
}

/// What was read, in no order.
pub(crate) struct Listed {
    pub(crate) events: Vec<Event>,
    pub(crate) revision: String,
    /// The revisions of events are of another kind than that of the list.
    pub(crate) is_sealed: bool,
}

impl Listed {
    /// Leaves out what was written after the list's revision: a watch from there gives it out.
    pub(crate) fn leave_to_watch(&mut self) {
        let reached: Option<u64> = self.revision.parse().ok();
        if let Some(reached) = reached.filter(|_| !self.is_sealed) {
            let is_listed = |event: &Event| event.revision().is_none_or(|it| it <= reached);
            self.events.retain(is_listed);
        }
    }
}

/// Whether a server is as far as a revision, by the latest one of its own: not if one is of another
/// archive. An API server counts no further than the first bits.
pub(super) fn is_reached(revision: u64, latest: Option<u64>) -> bool {
    let history = |revision: u64| revision >> REVISION_BITS;
    latest.is_some_and(|latest| latest >= revision && history(latest) == history(revision))
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default)]
    items: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: String,
    r#continue: String,
    remaining_item_count: Option<u64>,
}

impl Reader {
    fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => "/api/v1/events".to_owned(),
            namespace => format!("/api/v1/namespaces/{namespace}/events"),
        }
    }

    pub(super) fn request(
        &self,
        parameters: &[(&str, &str)],
    ) -> kube::Result<http::Request<Vec<u8>>> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters.iter().filter(|(_, value)| !value.is_empty()));
        let uri = format!("{}?{}", self.path(), query.finish());
        http::Request::get(uri)
            .header(http::header::ACCEPT, "application/json")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)
    }

    /// The page of a list that is asked for.
    pub(super) async fn answered(&self, parameters: &[(&str, &str)]) -> kube::Result<Page> {
        self.server.ask(|| self.answered_once(parameters)).await
    }

    async fn answered_once(&self, parameters: &[(&str, &str)]) -> kube::Result<Page> {
        let request = self.request(parameters)?;
        let answer = self
            .server
            .client
            .send(request.map(kube::client::Body::from))
            .await?;
        let status = answer.status();
        let newest_first = answer.headers().get(NEWEST_FIRST).cloned();
        let is_by_object = answer.headers().contains_key(ORDER);
        let body = answer.into_body().collect_bytes().await?;
        if !status.is_success() {
            return Err(kube::Error::Api(Box::new(refusal(status, &body))));
        }
        let list: List = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
        Ok(Page {
            events: list
                .items
                .unwrap_or_default()
                .into_iter()
                .map(Event::new)
                .collect(),
            next: Some(list.metadata.r#continue).filter(|next| !next.is_empty()),
            revision: list.metadata.resource_version,
            remaining: list.metadata.remaining_item_count,
            is_newest_first: newest_first.is_some(),
            is_sealed: is_by_object || newest_first.is_some_and(|value| value == "sealed"),
        })
    }
}

/// The Status of an answer, or one made of it.
fn refusal(code: http::StatusCode, body: &[u8]) -> Status {
    let status: Option<Status> = serde_json::from_slice(body).ok();
    let status = status.filter(|status| status.code > 0);
    status.unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
        Status::failure(&format!("{code}: {text}"), "").with_code(code.as_u16())
    })
}
