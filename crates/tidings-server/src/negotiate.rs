//! What form a client wants an answer in, and what form it sent a body in
//! (`k8s.io/apiserver/pkg/endpoints/handlers/negotiation`).

use http::{HeaderMap, header};

use crate::error::Status;
use crate::query::Query;

/// An encoding of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Media {
    Json,
    Yaml,
    Protobuf,
}

impl Media {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Some(Self::Json),
            "application/yaml" => Some(Self::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            _ => None,
        }
    }
}

/// What an answer's objects are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// The event or list itself.
    Whole,
    /// `Table`, in this version of meta.k8s.io.
    Table(&'static str),
    /// `PartialObjectMetadata` or its list, in this version of meta.k8s.io.
    Partial(&'static str),
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) media: Media,
    pub(crate) shape: Shape,
    pub(crate) pretty: bool,
}

/// What kind of answer is being negotiated: it decides which `as` makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Object,
    List,
    Watch,
}

const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// A list may turn into a watch, and names its forms, too.
const ACCEPTED_BY_LIST: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
    application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses the form of an answer: the first clause of `Accept` that can be served, by quality.
///
/// # Errors
/// 406 if there is none.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    answer: Answer,
) -> Result<Form, Status> {
    let accept = header_text(headers, header::ACCEPT);
    let pretty = query.has("pretty")
        && query
            .get("pretty")
            .is_none_or(|value| !matches!(value, "0" | "false"))
        || !query.has("pretty") && read_by_a_human(headers);
    if accept.trim().is_empty() {
        return Ok(Form {
            media: Media::Json,
            shape: Shape::Whole,
            pretty,
        });
    }
    let mut clauses: Vec<Clause<'_>> = accept.split(',').map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let form = clauses.iter().find_map(|clause| clause.form(answer));
    let accepted = match answer {
        Answer::Object => ACCEPTED,
        Answer::List | Answer::Watch => ACCEPTED_BY_LIST,
    };
    form.map(|(media, shape)| Form {
        media,
        shape,
        pretty,
    })
    .ok_or_else(|| Status::not_acceptable(accepted))
}

/// The encoding of a request's body; without a Content-Type it is JSON.
///
/// # Errors
/// 415 if it is none we read.
pub(crate) fn body_media(headers: &HeaderMap) -> Result<Media, Status> {
    let content_type = header_text(headers, header::CONTENT_TYPE);
    let name = content_type.split(';').next().unwrap_or_default().trim();
    if name.is_empty() {
        return Ok(Media::Json);
    }
    Media::parse(name)
        .filter(|_| !name.contains('*'))
        .ok_or_else(|| Status::unsupported_media_type(ACCEPTED))
}

fn header_text(headers: &HeaderMap, name: header::HeaderName) -> String {
    let values: Vec<&str> = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    values.join(",")
}

fn read_by_a_human(headers: &HeaderMap) -> bool {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"]
        .iter()
        .any(|prefix| agent.starts_with(prefix))
}

struct Clause<'a> {
    media: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .collect();
        let quality = parameters
            .iter()
            .find(|(name, _)| *name == "q")
            .and_then(|(_, q)| q.parse().ok())
            .unwrap_or(1.0);
        Self {
            media,
            quality,
            parameters,
        }
    }

    fn form(&self, answer: Answer) -> Option<(Media, Shape)> {
        let media = Media::parse(self.media)?;
        if media == Media::Yaml && answer == Answer::Watch {
            return None;
        }
        let parameter = |name| {
            self.parameters
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
                .filter(|value| !value.is_empty())
        };
        let Some(kind) = parameter("as") else {
            return Some((media, Shape::Whole));
        };
        if parameter("g") != Some("meta.k8s.io") {
            return None;
        }
        let version = match parameter("v")? {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => return None,
        };
        match (kind, answer) {
            ("Table", _) if media != Media::Protobuf => Some((media, Shape::Table(version))),
            ("PartialObjectMetadata", Answer::Object | Answer::Watch)
            | ("PartialObjectMetadataList", Answer::List) => Some((media, Shape::Partial(version))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn form(accept: &'static str, answer: Answer) -> Option<(Media, Shape)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        negotiate(&headers, &Query::default(), answer)
            .ok()
            .map(|form| (form.media, form.shape))
    }

    #[test]
    fn accept() {
        const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        for (accept, answer, expected) in [
            ("", Answer::List, Some((Media::Json, Shape::Whole))),
            ("*/*", Answer::List, Some((Media::Json, Shape::Whole))),
            (
                KUBECTL,
                Answer::List,
                Some((Media::Json, Shape::Table("v1"))),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Answer::Object,
                Some((Media::Protobuf, Shape::Whole)),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
                Answer::List,
                None,
            ),
            (
                "application/json;q=0.1,application/yaml;q=0.9",
                Answer::Object,
                Some((Media::Yaml, Shape::Whole)),
            ),
            ("application/yaml", Answer::Watch, None),
            (
                "text/html,application/json",
                Answer::Object,
                Some((Media::Json, Shape::Whole)),
            ),
            ("application/cbor", Answer::Object, None),
            (
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Answer::Object,
                Some((Media::Json, Shape::Partial("v1"))),
            ),
            (
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Answer::List,
                None,
            ),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Answer::List,
                Some((Media::Json, Shape::Partial("v1"))),
            ),
        ] {
            assert_eq!(form(accept, answer), expected, "{accept}");
        }
    }
}
