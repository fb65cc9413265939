//! Negotiates the form of an answer, and finds the form of a body.
//!
//! It follows `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, header};

use crate::http::params;
use crate::http::query::Query;
use crate::http::status::Status;

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

    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];
    /// The text encodings.
    const TEXTS: [Self; 2] = [Self::Json, Self::Yaml];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|media| media.content_type() == name)
    }
}

/// The kind of object that an answer is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// The event or list itself.
    Whole,
    /// A `Table` of this apiVersion.
    Table(&'static str),
    /// A `PartialObjectMetadata`, or a list of them, of this apiVersion.
    Partial(&'static str),
    /// A `PartialObjectMetadata` of a list, or a list of one object. It is refused with this
    /// message once the answer is ready.
    Mismatch(&'static str),
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) media: Media,
    pub(crate) shape: Shape,
    pub(crate) pretty: bool,
}

impl Form {
    /// A form, indented only if it is JSON.
    fn new(media: Media, shape: Shape, pretty: bool) -> Self {
        Self {
            media,
            shape,
            pretty: pretty && media == Media::Json,
        }
    }

    /// The object itself as JSON.
    fn json(pretty: bool) -> Self {
        Self::new(Media::Json, Shape::Whole, pretty)
    }
}

/// The kind of answer, which determines the valid values of `as`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Object,
    List,
    /// The list of deleted events, which is never a watch.
    Deleted,
    Watch,
    /// An error, which is never converted.
    Status,
}

/// Maximum clauses of Accept that are read; further ones are ignored. Clients send a handful.
const CLAUSES_MAX: usize = 64;

/// The encodings of documents.
pub(crate) const ACCEPTED: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The encodings of documents without a protobuf form.
const ACCEPTED_TEXTS: &str = "application/json, application/yaml";
/// The encodings of watches.
pub(crate) const STREAMED: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Chooses the form of an answer as kube-apiserver does, in two steps. Its router requires one of
/// the media types, whatever their parameters. Then the first clause that can be served is used, in
/// the order of quality.
///
/// # Errors
///
/// 406 if no form is accepted.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    answer: Answer,
) -> Result<Form, Status> {
    check_routed(headers, answer)?;
    choose(&Media::ALL, headers, query, answer).ok_or_else(|| Status::not_acceptable(ACCEPTED))
}

/// Chooses the form of an answer that has no protobuf form. A client that prefers protobuf, as
/// controllers in Go do, gets the next form that it accepts.
///
/// # Errors
///
/// 406 if nothing else is accepted.
pub(crate) fn negotiate_text(
    headers: &HeaderMap,
    query: &Query,
    answer: Answer,
) -> Result<Form, Status> {
    check_routed(headers, answer)?;
    choose(&Media::TEXTS, headers, query, answer)
        .ok_or_else(|| Status::not_acceptable(ACCEPTED_TEXTS))
}

/// Checks the media types as kube-apiserver's router does.
fn check_routed(headers: &HeaderMap, answer: Answer) -> Result<(), Status> {
    if !is_routed(accepted(headers)) {
        let streamed = match answer {
            Answer::List | Answer::Watch => format!(", {STREAMED}"),
            Answer::Object | Answer::Deleted | Answer::Status => String::new(),
        };
        return Err(Status::not_representable(&format!("{ACCEPTED}{streamed}")));
    }
    Ok(())
}

/// The `as`, `g` and `v` of aggregated discovery.
const AGGREGATED_DISCOVERY: [Option<&str>; 3] = [
    Some("APIGroupDiscoveryList"),
    Some("apidiscovery.k8s.io"),
    Some("v2"),
];

/// The form of an answer to a discovery request.
pub(crate) enum Discovery {
    /// The document of the path.
    Plain(Form),
    /// All documents below the path at once.
    Aggregated(Media),
}

/// Chooses between a plain and an aggregated discovery document. For `routed` paths, the router
/// checks the media types first.
///
/// # Errors
///
/// 406 if neither is accepted.
pub(crate) fn negotiate_discovery(
    headers: &HeaderMap,
    query: &Query,
    routed: bool,
    aggregates: bool,
) -> Result<Discovery, Status> {
    let accept = accepted(headers);
    if routed && !is_routed(accept) {
        return Err(Status::not_representable(ACCEPTED));
    }
    let pretty = pretty(headers, query);
    if accept.is_empty() {
        return Ok(Discovery::Plain(Form::json(pretty)));
    }
    let choose = |clause: &Clause<'_>| {
        if aggregates && clause.target() == AGGREGATED_DISCOVERY {
            return clause.fitting().next().map(Discovery::Aggregated);
        }
        let (media, shape) = clause.serve(&Media::ALL, Answer::Status)?;
        Some(Discovery::Plain(Form::new(media, shape, pretty)))
    };
    sorted(accept)
        .iter()
        .find_map(choose)
        .ok_or_else(|| Status::not_acceptable(ACCEPTED))
}

/// Chooses one of these media types as kube-openapi does, whatever their parameters. It is the
/// first media type that matches the first clause that any of them matches, in the order of
/// quality.
pub(crate) fn negotiate_documents(
    headers: &HeaderMap,
    served: &[&'static str],
) -> Option<&'static str> {
    let accept = accepted(headers);
    if accept.is_empty() {
        return served.first().copied();
    }
    let fits = |clause: &Clause<'_>| served.iter().copied().find(|media| clause.fits(media));
    sorted(accept).iter().find_map(fits)
}

/// Whether the client already has the document with this tag (`If-None-Match`). A proxy that
/// compresses answers makes their tags weak.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let known = known.filter_map(|tags| tags.to_str().ok());
    let mut known = known.flat_map(|tags| tags.split(',')).map(str::trim);
    known.any(|it| it == "*" || it.strip_prefix("W/").unwrap_or(it) == tag)
}

/// Checks media types as the router does for paths that are served as JSON only.
///
/// # Errors
///
/// 406 if JSON is not accepted.
pub(crate) fn require_json(headers: &HeaderMap) -> Result<(), Status> {
    let json = media_types(accepted(headers))
        .any(|media| matches!(media, "" | "*/*" | "application/json"));
    if json {
        Ok(())
    } else {
        Err(Status::not_representable("application/json"))
    }
}

/// The form of an error; JSON if no form is accepted.
pub(crate) fn negotiate_status(headers: &HeaderMap, query: &Query) -> Form {
    choose(&Media::ALL, headers, query, Answer::Status).unwrap_or(Form::json(true))
}

fn accepted(headers: &HeaderMap) -> &str {
    text_of(headers, header::ACCEPT)
}

/// The text of a header; empty if it is missing.
fn text_of(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name);
    value.map_or("", |value| value.to_str().unwrap_or_default())
}

/// The clauses of Accept, up to the maximum.
fn clauses(accept: &str) -> impl Iterator<Item = &str> {
    accept.split(',').take(CLAUSES_MAX)
}

/// The media types of the clauses.
fn media_types(accept: &str) -> impl Iterator<Item = &str> {
    clauses(accept).map(|clause| {
        let media = clause.split(';').next().unwrap_or_default();
        media.trim_matches(' ')
    })
}

/// Whether a clause has one of the server's media types (`matchesAccept` of go-restful).
fn is_routed(accept: &str) -> bool {
    let is_served = |media: &str| media == "*/*" || Media::parse(media).is_some();
    accept.is_empty() || media_types(accept).any(is_served)
}

/// The form of the first clause that one of these encodings can serve.
fn choose(served: &[Media], headers: &HeaderMap, query: &Query, answer: Answer) -> Option<Form> {
    let accept = accepted(headers);
    let human = pretty(headers, query);
    if accept.is_empty() {
        return Some(Form::json(human));
    }
    sorted(accept).iter().find_map(|clause| {
        let (media, shape) = clause.serve(served, answer)?;
        let pretty = human || clause.parameter("pretty") == Some("1");
        Some(Form::new(media, shape, pretty))
    })
}

/// Whether the answer is for a human reader (`isPrettyPrint`).
fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get(params::PRETTY) {
        return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = text_of(headers, header::USER_AGENT);
    let humans = ["curl", "Wget", "Mozilla/5.0"];
    humans.iter().any(|prefix| agent.starts_with(prefix))
}

/// The encoding of a request's body; JSON without a Content-Type.
///
/// # Errors
///
/// 415 for an encoding that the server does not read.
pub(crate) fn body_media(headers: &HeaderMap) -> Result<Media, Status> {
    let content_type = text_of(headers, header::CONTENT_TYPE);
    let (name, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let name = name.trim();
    if content_type.is_empty() {
        return Ok(Media::Json);
    }
    Media::parse(&name.to_ascii_lowercase())
        .filter(|_| are_parameters(parameters))
        .ok_or_else(|| Status::unsupported_media_type(ACCEPTED))
}

/// Whether the parameters of a media type are valid (`mime.ParseMediaType`). They are names and
/// values, each name once.
fn are_parameters(text: &str) -> bool {
    let is_token = |text: &str| {
        let is_part = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte);
        !text.is_empty() && text.bytes().all(is_part)
    };
    let is_quoted = |text: &str| text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    let mut names = BTreeSet::new();
    text.split_terminator(';').all(|parameter| {
        let Some((name, value)) = parameter.split_once('=') else {
            return false;
        };
        let (name, value) = (name.trim(), value.trim());
        is_token(name)
            && (is_token(value) || is_quoted(value))
            && names.insert(name.to_ascii_lowercase())
    })
}

/// A clause of `Accept`.
struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

/// The clauses of `Accept` in the order in which they are tried, that of `munnerz/goautoneg`.
///
/// Invalid clauses are ignored. The order is not total: a wildcard of higher quality and a type of
/// lower quality each come before the other. So the result depends on the sorting algorithm. It is
/// insertion sort, as Go sorts lists of up to twelve. Because at most [`CLAUSES_MAX`] clauses are
/// read, this takes two thousand comparisons at most.
fn sorted(accept: &str) -> Vec<Clause<'_>> {
    let mut sorted: Vec<Clause<'_>> = Vec::new();
    for clause in clauses(accept).filter_map(Clause::parse) {
        let behind = sorted.iter().rev();
        let passed = behind.take_while(|before| clause.comes_before(before));
        let place = sorted.len() - passed.count();
        sorted.insert(place, clause);
    }
    sorted
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_matches(' ');
        let (media, rest) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = match media.split_once('/') {
            Some((kind, subtype)) if !subtype.is_empty() => (kind.trim_matches(' '), subtype),
            _ if media.trim_matches(['/', ' ']) == "*" => ("*", "*"),
            _ => return None,
        };
        if subtype.contains('/') {
            return None;
        }
        let mut clause = Self {
            kind,
            subtype: subtype.trim_matches(' '),
            quality: 1.0,
            parameters: Vec::new(),
        };
        for parameter in rest.split(';') {
            let Some((name, value)) = parameter.split_once('=') else {
                continue;
            };
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match name.trim_matches(' ') {
                "q" => clause.quality = value.parse().unwrap_or(0.0),
                name => clause.parameters.push((name, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    fn comes_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.kind != "*" && other.kind == "*"
            || self.subtype != "*" && other.subtype == "*"
    }

    /// The last value of a parameter of the clause.
    fn parameter(&self, name: &str) -> Option<&'a str> {
        let mut given = self.parameters.iter().rev();
        given.find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// The kind, group and version that the answer should be converted to.
    fn target(&self) -> [Option<&'a str>; 3] {
        ["as", "g", "v"].map(|name| self.parameter(name))
    }

    fn serve(&self, served: &[Media], answer: Answer) -> Option<(Media, Shape)> {
        let mut fitting = self.fitting().filter(|media| served.contains(media));
        fitting.find_map(|media| Some((media, self.shape(media, answer)?)))
    }

    /// The encodings that match the clause.
    fn fitting(&self) -> impl Iterator<Item = Media> {
        Media::ALL.into_iter().filter(|media| {
            let (kind, subtype) = media.content_type().split_once('/').unwrap_or_default();
            self.kind == kind && [subtype, "*"].contains(&self.subtype)
                || (self.kind, self.subtype) == ("*", "*")
        })
    }

    /// Whether a media type matches the clause, each part by itself.
    fn fits(&self, media: &str) -> bool {
        let (kind, subtype) = media.split_once('/').unwrap_or_default();
        [kind, "*"].contains(&self.kind) && [subtype, "*"].contains(&self.subtype)
    }

    /// The shape that the clause's parameters ask for; `None` if it is not available.
    fn shape(&self, media: Media, answer: Answer) -> Option<Shape> {
        if let Some(stream) = self.parameter("stream")
            && (stream != "watch" || media == Media::Yaml)
        {
            return None;
        }
        if let Some(version) = self.parameter("sv")
            && (version != "v1" || answer == Answer::Status)
        {
            return None;
        }
        let (kind, api_version) = match (answer, self.target()) {
            (_, [None, None, None]) => return Some(Shape::Whole),
            (Answer::Status, _) => return None,
            (_, [Some(kind), Some("meta.k8s.io"), Some("v1")]) => (kind, "meta.k8s.io/v1"),
            (_, [Some(kind), Some("meta.k8s.io"), Some("v1beta1")]) => {
                (kind, "meta.k8s.io/v1beta1")
            }
            _ => return None,
        };
        match (kind, answer) {
            ("Table", _) if media != Media::Protobuf => Some(Shape::Table(api_version)),
            ("PartialObjectMetadata", Answer::Object | Answer::Watch)
            | ("PartialObjectMetadataList", Answer::List | Answer::Deleted) => {
                Some(Shape::Partial(api_version))
            }
            ("PartialObjectMetadata", _) => Some(Shape::Mismatch(
                "you requested PartialObjectMetadata, but the requested object is a list (*core.EventList)",
            )),
            ("PartialObjectMetadataList", _) => Some(Shape::Mismatch(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*core.Event)",
            )),
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
        let json = |shape| Some((Media::Json, shape));
        let whole = |media| Some((media, Shape::Whole));
        let partial = json(Shape::Partial("meta.k8s.io/v1"));
        let of_a_list = "you requested PartialObjectMetadata, but the requested object is a list \
                         (*core.EventList)";
        #[rustfmt::skip]
        let table = [
            ("", Answer::List, whole(Media::Json)),
            ("*/*", Answer::List, whole(Media::Json)),
            (KUBECTL, Answer::List, json(Shape::Table("meta.k8s.io/v1"))),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Answer::Object,
                whole(Media::Protobuf),
            ),
            ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", Answer::List, None),
            ("application/json;q=0.1,application/yaml;q=0.9", Answer::Object, whole(Media::Yaml)),
            ("application/yaml", Answer::Watch, whole(Media::Yaml)),
            ("application/yaml;stream=watch", Answer::Watch, None),
            ("application/*", Answer::Object, None),
            ("application/*, application/yaml", Answer::Object, whole(Media::Yaml)),
            ("application/json;v=v1", Answer::Object, None),
            ("text/html,application/json", Answer::Object, whole(Media::Json)),
            ("application/cbor", Answer::Object, None),
            (
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Answer::Object,
                partial,
            ),
            (
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                Answer::List,
                json(Shape::Mismatch(of_a_list)),
            ),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Answer::List,
                partial,
            ),
        ];
        for (accept, answer, expected) in table {
            assert_eq!(form(accept, answer), expected, "{accept}");
        }
    }

    #[test]
    fn documents_are_chosen_by_each_part_of_a_clause() {
        const SERVED: [&str; 2] = ["application/json", "application/x@v1"];
        for (accept, expected) in [
            ("", Some(SERVED[0])),
            ("application/x@v1", Some(SERVED[1])),
            ("application/*;q=0.2", Some(SERVED[0])),
            ("*/x@v1", Some(SERVED[1])),
            ("text/html,*/*;q=0.1", Some(SERVED[0])),
            (
                "application/json;q=0.5,application/x@v1;q=0.9;v=1",
                Some(SERVED[1]),
            ),
            ("application/yaml", None),
            ("nonsense", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(negotiate_documents(&headers, &SERVED), expected, "{accept}");
        }
    }

    #[test]
    fn a_tag_is_known_among_others_and_made_weak() {
        for (known, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", W/\"a\",\"c\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(known));
            assert_eq!(is_known(&headers, "\"a\""), expected, "{known}");
            headers.append(header::IF_NONE_MATCH, HeaderValue::from_static("\"a\""));
            assert!(is_known(&headers, "\"a\""), "{known}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"a\""));
    }

    #[test]
    fn clauses_beyond_the_limit_are_passed_over() {
        let accept = |before: usize| {
            let clauses = format!("{}application/yaml", "a/b,".repeat(before));
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, clauses.parse().unwrap());
            let form = negotiate(&headers, &Query::default(), Answer::Object).ok();
            (form.map(|form| form.media), require_json(&headers).is_ok())
        };
        assert_eq!(accept(CLAUSES_MAX - 1), (Some(Media::Yaml), false));
        assert_eq!(accept(CLAUSES_MAX), (None, false));
        assert_eq!(sorted(&"a/a,*/a,".repeat(100_000)).len(), CLAUSES_MAX);
    }

    /// Go's results for lists of up to twelve, sorted by `Less` of goautoneg.
    #[test]
    fn clauses_are_sorted_as_go_sorts_few() {
        for (accept, expected) in [
            ("a/a;q=0.1,b/b,c/c;q=0.5", "b/b c/c a/a"),
            ("*/*,application/json;q=0.5", "application/json */*"),
            ("application/json;q=0.5,*/*", "*/* application/json"),
            ("a/*,a/b,*/*,b/*,c/d", "a/b c/d a/* b/* */*"),
        ] {
            let found: Vec<String> = sorted(accept)
                .iter()
                .map(|clause| format!("{}/{}", clause.kind, clause.subtype))
                .collect();
            assert_eq!(found.join(" "), expected, "{accept}");
        }
    }
}
