//! Which events a request is about: a field selector and a label selector together.

mod fields;
mod labels;

use k8s_pb::api::core::v1::Event;

pub(crate) use fields::FieldSelector;
pub(crate) use labels::LabelSelector;

/// Both selectors; an event has to match both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) fields: FieldSelector,
    pub(crate) labels: LabelSelector,
}

impl Selector {
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.labels.is_empty()
    }

    pub(crate) fn matches(&self, event: &Event) -> bool {
        static NONE: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        let labels = event
            .metadata
            .as_ref()
            .map_or(&NONE, |metadata| &metadata.labels);
        self.fields.matches(event) && self.labels.matches(labels)
    }
}
