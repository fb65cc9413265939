//! Where events are read from, and a page of them.

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

/// Events in a page, as many as kubectl asks for.
pub(super) const PAGE: usize = 500;
/// How many events are held at once, unless told otherwise.
pub(crate) const EVENTS_MAX: usize = 250_000;
/// Asks for the events last seen first. Servers that do not know it answer in the order of names,
/// and without the header.
const NEWEST_FIRST: &str = "tidings-newest-first";
/// The parameter that has the server select by fields.
pub(super) const FIELD_SELECTOR: &str = "fieldSelector";
/// Says that a list is in the order of objects and not of names: it is one of a sealed archive.
const ORDER: &str = "tidings-order";

/// The API group that is asked for events: the core group, or events.k8s.io if the user may read
/// only there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group(Arc<AtomicBool>);

impl Group {
    fn is_events(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set_events(&self, is_events: bool) {
        self.0.store(is_events, Ordering::Relaxed);
    }

    /// An event of what a server sent.
    pub(super) fn event(&self, mut value: Value) -> Event {
        if self.is_events()
            && let Some(event) = value.as_object_mut()
        {
            // One that has fields by both names is shown as it is.
            let _ = convert::to_core_v1(event);
        }
        Event::new(value)
    }
}

/// Where events are read from, and which.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) server: Server,
    pub(crate) group: Group,
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
        // Fields have other names in the other group. What is read is selected once more here, but
        // for what only the server can select by.
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

    /// The page of a list that is asked for. A user who may not read events of the core group may
    /// be allowed to read those of events.k8s.io, which are the same.
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
        if !list.kind.ends_with("List") {
            return Err(Stranger::Form("a list").into_error());
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
fn refusal(code: http::StatusCode, body: &[u8]) -> Status {
    let status: Option<Status> = serde_json::from_slice(body).ok();
    let status = status.filter(|status| status.code > 0);
    status.unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
        Status::failure(&format!("{code}: {text}"), "").with_code(code.as_u16())
    })
}
