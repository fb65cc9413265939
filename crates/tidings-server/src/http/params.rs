//! The query parameters. Each is named only here.
//!
//! [`Query`](super::query::Query) reads them by these constants, and OpenAPI declares those that a
//! verb takes.

/// A parameter of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The verbs on events that take the parameter.
    pub(crate) verbs: &'static [Verb],
    pub(crate) about: &'static str,
}

/// The type of a value, as OpenAPI names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Integer,
    String,
}

/// The verbs on events. A list may be a watch.
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

        /// All parameters. The constants are not used here, so that the compiler warns of one that
        /// is never read.
        pub(crate) const PARAMETERS: &[Parameter] =
            &[$(parameter!($name, $kind, [$($verb)*], $about)),*];
    };
}

parameters! {
    AGAINST = "against", String, [],
        "With which range a table of the timeline is compared: before.";
    ALLOW_WATCH_BOOKMARKS = "allowWatchBookmarks", Boolean, [List],
        "Whether a watch gets bookmarks.";
    BY = "by", String, [],
        "How the rates of the timeline are split: type or reason. Of its tables, what rows are about: reason, object, namespace, node or source.";
    CLUSTER = "cluster", String, [],
        "A cluster of the timeline; may be repeated.";
    CODE = "code", String, [],
        "The one-time code of a link to the timeline.";
    CONTINUE = "continue", String, [List DeleteCollection],
        "The continue token of the previous page.";
    COUNT = "count", String, [],
        "What the rates of the timeline count: occurrences or events.";
    DRY_RUN = "dryRun", String, [Create Update Patch Delete DeleteCollection],
        "With All, nothing is stored.";
    EXCLUDE = "exclude", String, [],
        "A health check to leave out.";
    FIELD_MANAGER = "fieldManager", String, [Create Update Patch],
        "The name of the client that makes this change.";
    FIELD_SELECTOR = "fieldSelector", String, [List DeleteCollection],
        "Selects events by their fields.";
    FIELD_VALIDATION = "fieldValidation", String, [Create Update Patch],
        "How unknown and duplicate fields are treated: Ignore, Warn or Strict.";
    FILTER = "filter", String, [],
        "Terms that the timeline's events match, such as reason:BackOff; may be repeated.";
    FOLLOW = "follow", Boolean, [],
        "Whether to follow the log of a pod of a followed cluster.";
    FORCE = "force", Boolean, [Patch],
        "Whether an apply takes over fields that other managers own.";
    FORMAT = "format", String, [],
        "The format of an export of the timeline: jsonl or perfetto.";
    FROM = "from", String, [],
        "Of the timeline: its beginning, in milliseconds since 1970. Of an export: the first event, as namespace/name. Of what waits to be sealed: the first entry.";
    GRACE_PERIOD_SECONDS = "gracePeriodSeconds", Integer, [Delete DeleteCollection],
        "Accepted; it has no effect on events.";
    GROUP = "group", String, [],
        "What the timeline's objects are put together by: owner, namespace or node.";
    INCLUDE_OBJECT = "includeObject", String, [Get List],
        "What the rows of a Table contain of their events: None, Metadata or Object.";
    KIND = "kind", String, [],
        "The kind of the timeline's objects; may be repeated.";
    LABEL_SELECTOR = "labelSelector", String, [List DeleteCollection],
        "Selects events by their labels.";
    LIMIT = "limit", Integer, [List DeleteCollection],
        "Maximum number of events in a page.";
    NAME = "name", String, [],
        "The name of an object or event of the timeline.";
    NAMESPACE = "namespace", String, [],
        "A namespace of the timeline; may be repeated. Of the coverage: the only one that is asked about.";
    ORDER = "order", String, [List],
        "With newest, the events last seen come first, in pages of up to 500.";
    ORPHAN_DEPENDENTS = "orphanDependents", Boolean, [Delete DeleteCollection],
        "Accepted; it has no effect on events.";
    PARTS = "parts", Integer, [],
        "In how many parts a row of the timeline's tables counts the range.";
    POSITION = "position", String, [],
        "From where on the changes of the timeline are sent.";
    PRETTY = "pretty", String, [Get List Create Update Patch Delete DeleteCollection],
        "Whether JSON is indented.";
    PROPAGATION_POLICY = "propagationPolicy", String, [Delete DeleteCollection],
        "Accepted; it has no effect on events.";
    RESOURCE_VERSION = "resourceVersion", String, [Get List DeleteCollection],
        "The version to read, or after which to watch.";
    RESOURCE_VERSION_MATCH = "resourceVersionMatch", String, [List DeleteCollection],
        "How resourceVersion is applied: Exact or NotOlderThan.";
    SEND_INITIAL_EVENTS = "sendInitialEvents", Boolean, [List],
        "Whether a watch begins with the existing events.";
    RULES = "rules", String, [],
        "Rules of retention, as YAML: the coverage says what they would end at once.";
    SINCE = "since", String, [List],
        "With order=newest: only events last seen at or after this time, such as 2026-03-04T05:06:07Z.";
    SKIP = "skip", Integer, [],
        "How many of the timeline's objects to leave out, those that come first.";
    SORT = "sort", String, [],
        "Which of the timeline's objects come first: trouble, first, latest or name.";
    TIMEOUT = "timeout", String, [Get List Create Update Patch Delete DeleteCollection],
        "How long the client waits for the answer, such as 8s.";
    TIMEOUT_SECONDS = "timeoutSeconds", Integer, [List DeleteCollection],
        "Duration of a watch.";
    TO = "to", Integer, [],
        "The end of the timeline, in milliseconds since 1970. Of what waits to be sealed: the entry behind the last.";
    UNTIL = "until", String, [List],
        "With order=newest: only events last seen before this time.";
    VERBOSE = "verbose", Boolean, [],
        "Whether to list each health check.";
    WATCH = "watch", Boolean, [List],
        "Whether to watch for changes.";
}

/// The parameters that a verb takes.
pub(crate) fn of(verb: Verb) -> impl Iterator<Item = &'static Parameter> {
    let takes = move |parameter: &&Parameter| parameter.verbs.contains(&verb);
    PARAMETERS.iter().filter(takes)
}

impl Kind {
    /// The type's name in OpenAPI.
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
