//! The flags that select events, the same for every reading verb.

use jiff::Timestamp;
use tidings_cli::filter::{Filter, Selectors};
use tidings_cli::kinds::Named;
use tidings_cli::times;
use tidings_core::filter::{Filter as Terms, InvalidFilter, Key, Pattern, Term};

use super::cluster::{self, ClusterFlags, CommandError, NamespaceFlags};
use super::objects;
use super::reader::{EVENTS_MAX, Group, Reader};
use crate::clock;

/// The events to show.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Which events")]
pub(crate) struct SelectionFlags {
    /// Events about this object, even if it was deleted; may be repeated
    #[arg(long = "for", value_name = "KIND/NAME")]
    objects: Vec<Named>,
    /// With --for: also events about the objects it owns, such as a deployment's replica sets and
    /// pods. Deleted ones are recognised by their names
    #[arg(long, requires = "objects")]
    tree: bool,
    /// Events of these types: Normal, Warning
    #[arg(long, visible_alias = "type", value_name = "TYPE,…", value_delimiter = ',', value_parser = event_type)]
    types: Vec<String>,
    /// Events that match a filter, such as 'reason:Failed* -reason:FailedMount node:worker-1 OOM';
    /// may be repeated. A word is looked for in message, reason, source and object, in any case
    // A term may begin with a hyphen.
    #[arg(long, value_name = "FILTER", allow_hyphen_values = true)]
    filter: Vec<Terms>,
    /// Events last seen at or after this time: 90m, 2h30m or 3d ago, or 2026-03-04T05:06:00Z
    // Hyphenated values are refused with a message that lists the accepted forms.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,
    /// Events first seen at or before this time
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,
    /// Events with these labels, in kubectl's notation: app=web,tier!=front
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    selector: Option<String>,
    /// Events with these fields, in kubectl's notation: reason=BackOff,type!=Normal
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
}

fn event_type(text: &str) -> Result<String, String> {
    ["Normal", "Warning"]
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(text))
        .map(str::to_owned)
        .ok_or_else(|| "expected Normal or Warning".to_owned())
}

impl SelectionFlags {
    /// Makes flags that select one object, as --for does.
    pub(crate) fn of(named: Named, tree: bool) -> Self {
        Self {
            objects: vec![named],
            tree,
            ..Self::default()
        }
    }

    /// The filter, except for objects. Times need no cluster, so a misspelt one is reported before
    /// the first request.
    fn filter(&self, now: Timestamp) -> Result<Filter, CommandError> {
        let moment = |flag: &str, text: &Option<String>| {
            let moment = text.as_deref().map(|text| times::moment(text, now));
            moment
                .transpose()
                .map_err(|why| CommandError::Usage(format!("understand --{flag}: {why}")))
        };
        Ok(Filter {
            terms: self.terms()?,
            targets: Vec::new(),
            since: moment("since", &self.since)?,
            until: moment("until", &self.until)?,
            selectors: Selectors {
                fields: self.field_selector.clone().unwrap_or_default(),
                labels: self.selector.clone().unwrap_or_default(),
            },
        })
    }

    /// The terms of all filters, and those of the types.
    fn terms(&self) -> Result<Terms, CommandError> {
        let joined = || -> Result<Terms, InvalidFilter> {
            let mut all = Terms::default();
            for event_type in &self.types {
                all.add(Term::new(Key::Type, false, Pattern::of(event_type))?)?;
            }
            self.filter
                .iter()
                .try_for_each(|terms| all.extend(terms.clone()))?;
            Ok(all)
        };
        let terms =
            joined().map_err(|why| CommandError::Usage(format!("understand --filter: {why}")))?;
        if terms.has(Key::Cluster) {
            return Err(CommandError::Usage(
                "understand --filter: --cluster chooses the cluster of an archive".to_owned(),
            ));
        }
        Ok(terms)
    }

    /// The texts that events must contain, in lower case.
    pub(crate) fn texts(&self) -> Vec<String> {
        let texts = self.filter.iter().flat_map(Terms::texts);
        texts.map(str::to_owned).collect()
    }

    /// Makes a reader of the selected events, and prints notes about the selection.
    pub(crate) async fn reader(
        &self,
        cluster: &ClusterFlags,
        namespaces: &NamespaceFlags,
    ) -> Result<Reader, CommandError> {
        let mut filter = self.filter(clock::now())?;
        let server = cluster.server().await?;
        let mut found = Vec::with_capacity(self.objects.len());
        for named in &self.objects {
            found.push((named.clone(), objects::kind(&server, named).await?));
        }
        let mut kinds = found.iter().filter_map(|(_, kind)| kind.as_ref());
        let namespace = match namespaces.name() {
            _ if namespaces.all_namespaces => String::new(),
            Some(namespace) => namespace.to_owned(),
            // Events about cluster-scoped objects may be in any namespace.
            None if kinds.any(|kind| !kind.namespaced) => String::new(),
            None if filter.terms.has(Key::Namespace) => match *filter.terms.only(Key::Namespace) {
                // It becomes a path segment.
                [one] => cluster::namespace(one.to_owned()).unwrap_or_default(),
                _ => String::new(),
            },
            None => server.context_namespace()?,
        };
        let tree = self.tree.then_some(namespace.as_str());
        filter.targets = objects::targets(&server, found, tree).await?;
        Ok(Reader {
            server,
            group: Group::default(),
            namespace,
            filter,
            seen_before: None,
            events_max: EVENTS_MAX,
            rbac: self.rbac("events"),
        })
    }

    /// The use of `tidings rbac` that prints the needed permissions: the verb's own, or the one for
    /// families, which includes it.
    pub(crate) fn rbac(&self, of_verb: &'static str) -> &'static str {
        if self.tree { "tree" } else { of_verb }
    }

    /// Whether a time is given, so that more than a cluster has may be wanted.
    pub(crate) fn is_of_times(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// The selected period.
    pub(crate) fn times(
        &self,
        now: Timestamp,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>), CommandError> {
        let filter = self.filter(now)?;
        Ok((filter.since, filter.until))
    }

    /// Whether events are selected by times only.
    pub(crate) fn is_of_times_alone(&self) -> bool {
        let of_times = Self {
            since: self.since.clone(),
            until: self.until.clone(),
            ..Self::default()
        };
        self.words("") == of_times.words("")
    }

    /// Resolves relative times as of another moment.
    pub(crate) fn as_of(&self, then: Timestamp, reader: &mut Reader) -> Result<(), CommandError> {
        let targets = std::mem::take(&mut reader.filter.targets);
        reader.filter = Filter {
            targets,
            ..self.filter(then)?
        };
        Ok(())
    }

    /// The selection as words of a command line. Equal words select the same events.
    pub(crate) fn words(&self, namespace: &str) -> String {
        // Each field is named, so that no flag is forgotten.
        let Self {
            objects,
            tree,
            types,
            filter,
            since,
            until,
            selector,
            field_selector,
        } = self;
        let mut words = match namespace {
            "" => vec!["--all-namespaces".to_owned()],
            namespace => vec![format!("--namespace={namespace}")],
        };
        words.extend(objects.iter().map(|named| format!("--for={named}")));
        words.extend(tree.then(|| "--tree".to_owned()));
        if !types.is_empty() {
            words.push(format!("--types={}", types.join(",")));
        }
        let filters = filter.iter().map(Terms::to_string);
        words.extend(filters.map(|filter| format!("--filter={filter:?}")));
        for (flag, when) in [("since", since), ("until", until)] {
            words.extend(when.iter().map(|when| format!("--{flag}={when}")));
        }
        for (flag, selector) in [("selector", selector), ("field-selector", field_selector)] {
            words.extend(selector.iter().map(|text| format!("--{flag}={text:?}")));
        }
        words.join(" ")
    }
}
