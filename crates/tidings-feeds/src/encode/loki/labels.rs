//! The labels of Loki's streams.
//!
//! Invariants: no label has the name or uid of an object (except of nodes, where a preset has it)
//! or a message, and every set of labels has that of the cluster. What anyone can write into an
//! event is a label only if it looks like a name, and types are three.
//! [`Streams`](super::streams::Streams) bounds how many sets of labels there are.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::encode::facts::{EventFacts, Facts, OTHER, label_value};
use crate::record::{Record, Source};

/// Maximum labels of a stream, as Loki limits them by default.
const LABELS_MAX: usize = 15;

/// The labels of streams: those of a known collector, so that its dashboards work, or a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// `k8s-monitoring`: those of Grafana's Helm chart `k8s-monitoring`.
    #[default]
    K8sMonitoring,
    /// `alloy`: those of Alloy's `loki.source.kubernetes_events`.
    Alloy,
    /// `kee`: those that dashboards of kubernetes-event-exporter expect.
    Kee,
    /// Each label's name with its value.
    List(BTreeMap<String, Label>),
}

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// The cluster's name in the archive.
    Cluster,
    /// The namespace of the involvedObject.
    Namespace,
    /// The kind of the involvedObject.
    Kind,
    /// `Normal`, `Warning` or `other`.
    Type,
    /// `Info` for `Normal`, `Warning` or `other`.
    Level,
    /// The reason.
    Reason,
    /// The component that reported the event.
    Controller,
    /// The host that reported the event. Each node makes streams of its own.
    Node,
    /// A fixed text.
    Text(String),
}

/// Why labels cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// A preset does not exist.
    #[error("no labels {0:?}: k8s-monitoring, alloy, kee, or a map of labels")]
    Preset(String),
    /// A name is not one of Loki's.
    #[error(
        "the label {0:?}: a name has letters, digits and '_', begins with no digit or '__', and is \
         not 'id', which has each record's key"
    )]
    Name(String),
    /// There are no labels, or too many. `cluster` counts, which each list has.
    #[error("{0} labels: 1 to {LABELS_MAX} are accepted")]
    Number(usize),
}

impl Labels {
    /// Returns the labels of a preset.
    ///
    /// # Errors
    /// [`LabelError::Preset`].
    pub fn preset(name: &str) -> Result<Self, LabelError> {
        match name {
            "k8s-monitoring" => Ok(Self::K8sMonitoring),
            "alloy" => Ok(Self::Alloy),
            "kee" => Ok(Self::Kee),
            other => Err(LabelError::Preset(other.to_owned())),
        }
    }

    /// Makes labels of a list.
    ///
    /// # Errors
    /// [`LabelError::Name`] and [`LabelError::Number`].
    pub fn list(mut labels: BTreeMap<String, Label>) -> Result<Self, LabelError> {
        if labels.is_empty() {
            return Err(LabelError::Number(0));
        }
        if !labels.values().any(|label| *label == Label::Cluster) {
            let cluster = labels.entry("cluster".to_owned());
            cluster.or_insert(Label::Cluster);
        }
        if labels.len() > LABELS_MAX {
            return Err(LabelError::Number(labels.len()));
        }
        match labels.keys().find(|name| !is_name(name)) {
            Some(name) => Err(LabelError::Name(name.clone())),
            None => Ok(Self::List(labels)),
        }
    }

    /// Returns the labels whose values writers of events choose, by their names.
    pub(super) fn written(&self) -> Vec<(&str, Label)> {
        let is_written = |label: &Label| label.metadata().is_some();
        match self {
            Self::K8sMonitoring => vec![
                ("namespace", Label::Namespace),
                ("reason", Label::Reason),
                ("node", Label::Node),
            ],
            Self::Alloy => vec![("namespace", Label::Namespace)],
            Self::Kee => Vec::new(),
            Self::List(list) => {
                let list = list.iter().filter(|(_, label)| is_written(label));
                list.map(|(name, label)| (name.as_str(), label.clone()))
                    .collect()
            }
        }
    }

    /// Returns the labels of a record's stream. Empty ones are left out, as Loki would.
    pub(super) fn of<'a>(
        &'a self,
        source: &'a Source,
        record: &'a Record,
    ) -> BTreeMap<&'a str, &'a str> {
        let cluster = source.cluster.as_str();
        let value = |label: &'a Label| value(label, cluster, record);
        let mut labels: BTreeMap<&str, &str> = match self {
            Self::K8sMonitoring => BTreeMap::from([
                ("cluster", cluster),
                ("k8s_cluster_name", cluster),
                ("namespace", value(&Label::Namespace)),
                ("job", "integrations/kubernetes/eventhandler"),
                ("service_name", "integrations/kubernetes/eventhandler"),
                ("source", "kubernetes-events"),
                ("level", value(&Label::Level)),
                ("reason", value(&Label::Reason)),
                ("node", node_of_itself(record)),
            ]),
            Self::Alloy => BTreeMap::from([
                ("cluster", cluster),
                ("namespace", value(&Label::Namespace)),
                ("job", "loki.source.kubernetes_events"),
                ("instance", "loki.source.kubernetes_events.tidings"),
            ]),
            Self::Kee => BTreeMap::from([
                ("cluster", cluster),
                ("source", "kubernetes-event-exporter"),
                ("container", "kubernetes-event-exporter"),
            ]),
            Self::List(list) => {
                let labels = list.iter();
                labels
                    .map(|(name, label)| (name.as_str(), value(label)))
                    .collect()
            }
        };
        labels.retain(|_, value| !value.is_empty());
        labels
    }
}

impl Label {
    /// Returns the name of the structured metadata that has the value where the label is
    /// [`OTHER`]; `None` for labels that writers of events do not choose.
    pub(super) fn metadata(&self) -> Option<&'static str> {
        Some(match self {
            Self::Namespace => "event_namespace",
            Self::Kind => "event_kind",
            Self::Reason => "event_reason",
            Self::Controller => "event_controller",
            Self::Node => "event_node",
            Self::Cluster | Self::Type | Self::Level | Self::Text(_) => return None,
        })
    }

    /// Returns what writers chose as the label's value.
    pub(super) fn written<'a>(&self, event: &EventFacts<'a>) -> &'a str {
        match self {
            Self::Namespace => event.object.namespace(),
            Self::Kind => event.object.kind(),
            Self::Reason => event.record.event.reason(),
            Self::Controller => event.controller(),
            Self::Node => event.node(),
            Self::Cluster | Self::Type | Self::Level | Self::Text(_) => "",
        }
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(LabelsVisitor)
    }
}

/// Reads the name of a preset or a map of labels. The error of a map is that of its label.
struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("k8s-monitoring, alloy, kee, or a map of labels")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Labels, E> {
        Labels::preset(name).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Labels, A::Error> {
        let list = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
        Labels::list(list).map_err(A::Error::custom)
    }
}

fn is_name(name: &str) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(is_start)
        && name
            .bytes()
            .all(|byte| is_start(byte) || byte.is_ascii_digit())
        && !name.starts_with("__")
        && name != "id"
}

/// The name of the node that an event is about, as the chart `k8s-monitoring` has it.
fn node_of_itself(record: &Record) -> &str {
    match record.facts() {
        Facts::Event(event) if event.is_about("", "Node") => label_value(event.object.name()),
        _ => "",
    }
}

fn value<'a>(label: &'a Label, cluster: &'a str, record: &'a Record) -> &'a str {
    let facts = record.facts();
    let event_type = match &facts {
        Facts::Event(event) => event.event().r#type(),
        Facts::Notice(notice) => notice.event_type,
    };
    match (label, facts) {
        (Label::Cluster, _) => cluster,
        (Label::Text(text), _) => text,
        (Label::Level, _) if event_type == "Normal" => "Info",
        (Label::Type | Label::Level, _) if matches!(event_type, "" | "Normal" | "Warning") => {
            event_type
        }
        (Label::Type | Label::Level, _) => OTHER,
        (Label::Node, Facts::Event(event)) => label_value(event.host()),
        (label, Facts::Event(event)) => label_value(label.written(&event)),
        (Label::Namespace, Facts::Notice(notice)) => notice.namespace,
        (Label::Reason, Facts::Notice(notice)) => notice.reason,
        (Label::Kind | Label::Controller | Label::Node, Facts::Notice(_)) => "",
    }
}
