//! The parameters of queries: each is named here, once. [`Query`](super::query::Query) reads them
//! by these constants, and OpenAPI declares those that a verb takes.

/// A parameter of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The verbs on events that take it.
    pub(crate) verbs: &'static [Verb],
    pub(crate) about: &'static str,
}

/// The type of a value, as OpenAPI has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Integer,
    String,
}

/// What is done to events. A list may be a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

macro_rules! parameter {
    ($name:literal, $kind:ident, [$($verb:ident)*], $about:literal) => {
        Parameter {
            name: $name,
            kind: Kind::$kind,
            verbs: &[$(Verb::$verb),*],
            about: $about,
        }
    };
}

macro_rules! parameters {
    ($($constant:ident = $name:literal, $kind:ident, [$($verb:ident)*], $about:literal;)*) => {
        $(pub(crate) const $constant: Parameter = parameter!($name, $kind, [$($verb)*], $about);)*

        /// All of them. The constants are not named here: one that is never read is unused.
        pub(crate) const PARAMETERS: &[Parameter] =
            &[$(parameter!($name, $kind, [$($verb)*], $about)),*];
    };
}

parameters! {
    ALLOW_WATCH_BOOKMARKS = "allowWatchBookmarks", Boolean, [List],
        "Whether a watch is told from time to time how far it is.";
    BY = "by", String, [],
        "What the rates of the timeline are by: type or reason.";
    CLUSTER = "cluster", String, [],
        "A cluster of the timeline; may be repeated.";
    CODE = "code", String, [],
        "What lets in a browser to the timeline, once.";
    CONTINUE = "continue", String, [List DeleteCollection],
        "The token of the page before.";
    DRY_RUN = "dryRun", String, [Create Update Patch Delete DeleteCollection],
        "When it is All, nothing is stored.";
    EXCLUDE = "exclude", String, [],
        "A check of health that is left out.";
    FIELD_MANAGER = "fieldManager", String, [Create Update Patch],
        "Who makes this change.";
    FIELD_SELECTOR = "fieldSelector", String, [List DeleteCollection],
        "Which events, by their fields.";
    FIELD_VALIDATION = "fieldValidation", String, [Create Update Patch],
        "What becomes of unknown fields: Ignore, Warn or Strict.";
    FOLLOW = "follow", Boolean, [],
        "Whether a log goes on, of a pod that a followed cluster has.";
    FORCE = "force", Boolean, [Patch],
        "An apply takes the fields that others manage.";
    FORMAT = "format", String, [],
        "The form of an export of the timeline: jsonl or perfetto.";
    FROM = "from", Integer, [],
        "The beginning of the timeline, in milliseconds since 1970.";
    GRACE_PERIOD_SECONDS = "gracePeriodSeconds", Integer, [Delete DeleteCollection],
        "Accepted; it has no effect on events.";
    INCLUDE_OBJECT = "includeObject", String, [Get List],
        "What the rows of a Table hold of their objects: None, Metadata or Object.";
    KIND = "kind", String, [],
        "The kind of the objects of the timeline; may be repeated.";
    LABEL_SELECTOR = "labelSelector", String, [List DeleteCollection],
        "Which events, by their labels.";
    LIMIT = "limit", Integer, [List DeleteCollection],
        "Maximum of events in a page.";
    NAME = "name", String, [],
        "The name of an object or event of the timeline.";
    NAMESPACE = "namespace", String, [],
        "A namespace of the timeline; may be repeated.";
    OBJECT = "object", String, [],
        "The name of an object of the timeline; may be repeated.";
    ORDER = "order", String, [List],
        "When it is newest, the events last seen come first, in pages of up to 500.";
    ORPHAN_DEPENDENTS = "orphanDependents", Boolean, [Delete DeleteCollection],
        "Accepted; it has no effect on events.";
    POSITION = "position", String, [],
        "From where on the changes of the timeline are sent.";
    PRETTY = "pretty", String, [Get List Create Update Patch Delete DeleteCollection],
        "Whether JSON is indented.";
    PROPAGATION_POLICY = "propagationPolicy", String, [Delete DeleteCollection],
        "Accepted; it has no effect on events.";
    REASON = "reason", String, [],
        "A reason of the timeline's events; may be repeated.";
    RESOURCE_VERSION = "resourceVersion", String, [Get List DeleteCollection],
        "The version that is read, or from which on changes are watched.";
    RESOURCE_VERSION_MATCH = "resourceVersionMatch", String, [List DeleteCollection],
        "What resourceVersion means: Exact or NotOlderThan.";
    SEND_INITIAL_EVENTS = "sendInitialEvents", Boolean, [List],
        "Whether a watch begins with the events that exist.";
    SINCE = "since", String, [List],
        "With order=newest: only events last seen at this time or later, as 2026-03-04T05:06:07Z.";
    SOURCE = "source", String, [],
        "Who reported the timeline's events; may be repeated.";
    TEXT = "text", String, [],
        "What is in the messages of the timeline's events; may be repeated, then all of it is.";
    TIMEOUT = "timeout", String, [Get List Create Update Patch Delete DeleteCollection],
        "How long the client waits for the answer, as 8s.";
    TIMEOUT_SECONDS = "timeoutSeconds", Integer, [List DeleteCollection],
        "How long a watch lasts.";
    TO = "to", Integer, [],
        "The end of the timeline, in milliseconds since 1970.";
    TYPE = "type", String, [],
        "A type of the timeline's events; may be repeated.";
    UNTIL = "until", String, [List],
        "With order=newest: only events last seen before this time.";
    VERBOSE = "verbose", Boolean, [],
        "Whether each check of health is told of.";
    WATCH = "watch", Boolean, [List],
        "Whether changes are sent as they happen.";
}

/// The parameters that a verb takes.
pub(crate) fn of(verb: Verb) -> impl Iterator<Item = &'static Parameter> {
    let takes = move |parameter: &&Parameter| parameter.verbs.contains(&verb);
    PARAMETERS.iter().filter(takes)
}

impl Kind {
    /// Its name in OpenAPI.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::String => "string",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_is_named_once_and_described() {
        let names: BTreeSet<_> = PARAMETERS.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), PARAMETERS.len());
        for Parameter { name, about, .. } in PARAMETERS {
            assert!(about.ends_with('.'), "{name}");
        }
    }
}
