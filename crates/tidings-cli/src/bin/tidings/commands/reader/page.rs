//! The source of events to read, and its pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;
use tidings_archive::REVISION_BITS;
use tidings_cli::event::Event;
use tidings_cli::filter::Filter;
use tidings_core::convert;

use super::super::cluster::Server;
use super::super::connection::answer::Stranger;

/// Events in a page, as many as kubectl requests.
pub(super) const PAGE: usize = 500;
/// Default maximum of events held in memory.
pub(crate) const EVENTS_MAX: usize = 250_000;
/// The header that requests the last seen events first. Servers that do not support it answer in
/// the order of names, without this header.
const NEWEST_FIRST: &str = "tidings-newest-first";
/// The parameter with the field selector.
pub(super) const FIELD_SELECTOR: &str = "fieldSelector";
/// The header of a list in the order of objects and not of names, which is that of a sealed
/// archive.
const ORDER: &str = "tidings-order";

/// The API group in which events are read: the core group, or events.k8s.io if the user may read
/// only that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group(Arc<AtomicBool>);

impl Group {
    fn is_events(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set_events(&self, is_events: bool) {
        self.0.store(is_events, Ordering::Relaxed);
    }

    /// Makes an event of a server's object, converted to core/v1.
    pub(super) fn event(&self, mut value: Value) -> Event {
        if self.is_events()
            && let Some(event) = value.as_object_mut()
        {
            // An event with fields under both names is shown unchanged.
            let _ = convert::to_core_v1(event);
        }
        Event::new(value)
    }
}

/// Reads the selected events of one source.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) server: Server,
    pub(crate) group: Group,
    /// The namespace; empty for all.
    pub(crate) namespace: String,
    pub(crate) filter: Filter,
    /// Events last seen at this time or later are left out, if the server can do that and lists the
    /// last seen events first.
    pub(crate) seen_before: Option<Timestamp>,
    /// Maximum events held in memory; more cannot be sorted.
    pub(crate) events_max: usize,
    /// The use of `tidings rbac` that prints the needed permissions.
    pub(crate) rbac: &'static str,
}

/// A page of a list.
pub(super) struct Page {
    pub(super) events: Vec<Event>,
    /// The continue token; `None` on the last page.
    pub(super) next: Option<String>,
    /// The revision of the list; empty if the server returns none.
    pub(super) revision: String,
    /// The number of events after the page, if the server reports it.
    pub(super) remaining: Option<u64>,
    pub(super) is_newest_first: bool,
    /// Whether the events are sealed. Their revisions are then not comparable to the list's, and
    /// the list is not in the order of keys.
    pub(super) is_sealed: bool,
}

/// The events read from a list, unsorted.
pub(crate) struct Listed {
    pub(crate) events: Vec<Event>,
    pub(crate) revision: String,
    /// Whether the events are sealed, so that their revisions are not comparable to the list's.
    pub(crate) is_sealed: bool,
}

impl Listed {
    /// Leaves out events written after the list's revision, because a watch from there returns
    /// them.
    pub(crate) fn leave_to_watch(&mut self) {
        let reached: Option<u64> = self.revision.parse().ok();
        if let Some(reached) = reached.filter(|_| !self.is_sealed) {
            let is_listed = |event: &Event| event.revision().is_none_or(|it| it <= reached);
            self.events.retain(is_listed);
        }
    }
}

/// Whether a server has reached a revision, given the latest revision of its own. A server of
/// another archive has not. Archives differ in the first bits, which an API server does not count
/// up to.
pub(super) fn is_reached(revision: u64, latest: Option<u64>) -> bool {
    let history = |revision: u64| revision >> REVISION_BITS;
    latest.is_some_and(|latest| latest >= revision && history(latest) == history(revision))
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    kind: String,
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
        let root = if self.group.is_events() {
            "/apis/events.k8s.io/v1"
        } else {
            "/api/v1"
        };
        match self.namespace.as_str() {
            "" => format!("{root}/events"),
            namespace => format!("{root}/namespaces/{namespace}/events"),
        }
    }

    pub(super) fn request(
        &self,
        parameters: &[(&str, &str)],
    ) -> kube::Result<http::Request<Vec<u8>>> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        // The other API group has other field names. All events are filtered once more here, except
        // by selectors that only the server can apply.
        let selectors = &self.filter.selectors;
        let all_fields = parameters.iter().find(|(name, _)| *name == FIELD_SELECTOR);
        let fields = match all_fields {
            _ if self.group.is_events() => selectors.fields_of_events_v1(),
            Some((_, fields)) => (*fields).to_owned(),
            None => selectors.fields.clone(),
        };
        let others = parameters.iter().copied();
        let others = others.filter(|(name, _)| *name != FIELD_SELECTOR);
        let of_server = [
            (FIELD_SELECTOR, fields.as_str()),
            ("labelSelector", selectors.labels.as_str()),
        ];
        let parameters = of_server.into_iter().chain(others);
        query.extend_pairs(parameters.filter(|(_, value)| !value.is_empty()));
        let uri = format!("{}?{}", self.path(), query.finish());
        http::Request::get(uri)
            .header(http::header::ACCEPT, "application/json")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)
    }

    /// Requests a page of a list. A user who may not read events of the core group may be allowed
    /// to read the same events in events.k8s.io.
    pub(super) async fn answered(&self, parameters: &[(&str, &str)]) -> kube::Result<Page> {
        let answer = self.server.ask(|| self.answered_once(parameters)).await;
        match answer {
            Err(kube::Error::Api(status)) if status.code == 403 && !self.group.is_events() => {
                self.group.set_events(true);
                let page = self.server.in_time(self.answered_once(parameters)).await;
                page.map_err(|_| {
                    self.group.set_events(false);
                    kube::Error::Api(status)
                })
            }
            answer => answer,
        }
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
        if !matches!(list.kind.as_str(), "EventList" | "PastEventList" | "List") {
            return Err(Stranger::Form("a list of events").into_error());
        }
        Ok(Page {
            events: list
                .items
                .unwrap_or_default()
                .into_iter()
                .map(|item| self.group.event(item))
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
pub(crate) fn refusal(code: http::StatusCode, body: &[u8]) -> Status {
    let status: Option<Status> = serde_json::from_slice(body).ok();
    let status = status.filter(|status| status.code > 0);
    status.unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
        Status::failure(&format!("{code}: {text}"), "").with_code(code.as_u16())
    })
}
