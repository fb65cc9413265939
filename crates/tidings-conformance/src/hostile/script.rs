//! Scripts: requests and bytes that are measured, and their preparation.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(super) const APPLY: &str = "application/apply-patch+yaml";
pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";

/// The name of the event that patches and deletions change.
const NAME: &str = "web.1";

/// One piece of hostile input.
pub(super) struct Script {
    /// Requests that prepare the server, and are not measured.
    pub(super) before: Vec<Ask>,
    pub(super) act: Act,
}

/// What is sent and measured.
pub(super) enum Act {
    /// Requests one after the other over one connection.
    Requests(Vec<Ask>),
    /// Bytes over a connection, with this protocol in its TLS handshake or none, until the server
    /// ends it.
    Bytes(Option<&'static [u8]>, Vec<u8>),
    /// This number of TLS handshakes without requests, one after the other.
    Handshakes(usize),
    /// This number of connections that are opened and left without requests.
    Idle(usize),
    /// Requests at the same time.
    AtOnce(AtOnce),
}

/// Requests at the same time, each over a connection of its own.
#[derive(Default)]
pub(super) struct AtOnce {
    /// Requests whose answers are not read.
    pub(super) unread: Vec<Ask>,
    /// Requests that follow, one after the other, once the unread ones have begun to be answered.
    pub(super) then: Vec<Ask>,
    /// Requests whose answers are read, sent at the same time as the others.
    pub(super) read: Vec<Ask>,
}

/// A request before its token is known.
#[derive(Clone)]
pub(super) struct Ask {
    method: Method,
    target: String,
    headers: Vec<(HeaderName, String)>,
    has_token: bool,
    body: Bytes,
}

impl Ask {
    pub(super) fn new(method: Method, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            headers: Vec::new(),
            has_token: true,
            body: Bytes::new(),
        }
    }

    pub(super) fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target)
    }

    /// Lists the events of a namespace, with a query.
    pub(super) fn list(namespace: &str, query: &str) -> Self {
        Self::get(format!("{}?{query}", events(namespace)))
    }

    /// Creates an event.
    pub(super) fn create(namespace: &str, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, events(namespace)).body(content_type, body)
    }

    /// Creates an event that is well-formed except for `metadata` and `fields`.
    pub(super) fn event(namespace: &str, metadata: &str, fields: &str) -> Self {
        Self::create(namespace, JSON, event(namespace, NAME, metadata, fields))
    }

    /// Changes that event.
    pub(super) fn patch(namespace: &str, content_type: &str, body: impl Into<Bytes>) -> Self {
        let target = format!("{}?fieldManager=hostile", one(namespace));
        Self::new(Method::PATCH, target).body(content_type, body)
    }

    /// Deletes that event.
    pub(super) fn delete(namespace: &str, body: impl Into<Bytes>) -> Self {
        Self::new(Method::DELETE, one(namespace)).body(JSON, body)
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers
            .push((HeaderName::from_static(name), value.into()));
        self
    }

    /// Adds a header with a generated name, or nothing if the name is invalid.
    pub(super) fn named_header(mut self, name: &str, value: impl Into<String>) -> Self {
        let name = HeaderName::try_from(name).ok();
        self.headers.extend(name.map(|name| (name, value.into())));
        self
    }

    pub(super) fn without_token(mut self) -> Self {
        self.has_token = false;
        self
    }

    pub(super) fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// The complete request, with this token unless it has its own.
    pub(super) fn request(&self, token: &str) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(name, HeaderValue::from_str(value)?);
        }
        if self.has_token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(Full::new(self.body.clone()))
    }
}

impl From<Ask> for Script {
    fn from(ask: Ask) -> Self {
        vec![ask].into()
    }
}

impl From<Vec<Ask>> for Script {
    fn from(asks: Vec<Ask>) -> Self {
        Act::Requests(asks).into()
    }
}

impl From<Act> for Script {
    fn from(act: Act) -> Self {
        Self {
            before: Vec::new(),
            act,
        }
    }
}

impl Script {
    /// Adds requests to the preparation.
    pub(super) fn after(mut self, before: impl IntoIterator<Item = Ask>) -> Self {
        self.before.extend(before);
        self
    }

    /// Adds a plain event to the preparation.
    pub(super) fn after_event(self, namespace: &str) -> Self {
        self.after([Ask::event(namespace, "", "")])
    }
}

/// The path of a namespace's events.
pub(super) fn events(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events")
}

/// The path of the event that patches and deletions change.
pub(super) fn one(namespace: &str) -> String {
    format!("{}/{NAME}", events(namespace))
}

/// An event as JSON. `metadata` and `fields` begin with a comma or are empty.
pub(super) fn event(namespace: &str, name: &str, metadata: &str, fields: &str) -> String {
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"{namespace}\"{metadata}}},\
         \"involvedObject\":{{\"kind\":\"Pod\",\"namespace\":\"{namespace}\",\"name\":\"web\"}},\"reason\":\"BackOff\",\"type\":\"Normal\"{fields}}}"
    )
}

/// Requests that create events with a message of nearly the maximum size.
pub(super) fn large_events(namespace: &str, count: usize) -> impl Iterator<Item = Ask> {
    static TEXT: LazyLock<String> = LazyLock::new(|| noise(1_400_000));
    let namespace = namespace.to_owned();
    (0..count).map(move |number| {
        // No two messages are alike.
        let (first, second) = TEXT.split_at(number * 1_000);
        let fields = format!(",\"message\":\"{second}{first}\"");
        let body = event(&namespace, &format!("large.{number}"), "", &fields);
        Ask::create(&namespace, JSON, body)
    })
}

/// A text of this number of letters that does not compress well.
fn noise(letters: usize) -> String {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state >> 33) as u8 % 26)
    };
    (0..letters).map(|_| letter()).collect()
}

/// Texts for the numbers up to `count`, separated by commas.
pub(super) fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0..count {
        if number > 0 {
            text.push(',');
        }
        text.push_str(&item(number));
    }
    text
}

/// A text in `depth` pairs of these brackets.
pub(super) fn nested(open: &str, core: &str, close: &str, depth: usize) -> String {
    format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
}
