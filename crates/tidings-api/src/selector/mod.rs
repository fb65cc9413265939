//! Field selectors and label selectors.

mod fields;
mod labels;

use bytes::Bytes;
use k8s_pb::api::core::v1::Event;

use crate::codec;
use crate::codec::stored::StoredEvent;

pub use fields::{FieldSelector, SelectedObject};
pub use labels::LabelSelector;

/// A field selector and a label selector; an event must match both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The field selector.
    pub fields: FieldSelector,
    /// The label selector.
    pub labels: LabelSelector,
}

impl Selector {
    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.labels.is_empty()
    }

    /// Whether the event in stored bytes matches; `revision` is its resourceVersion.
    ///
    /// # Errors
    ///
    /// The reason why the bytes are not an event.
    pub fn selects(&self, value: &Bytes, revision: u64) -> Result<bool, String> {
        if self.is_empty() {
            return Ok(true);
        }
        if let Some(selected) =
            StoredEvent::open(value, revision).and_then(|stored| self.matches_stored(&stored))
        {
            return Ok(selected);
        }
        Ok(self.matches(&codec::decode_stored(value, revision)?))
    }

    /// Whether the event matches, without decoding it. `None` if the bytes are not in the usual
    /// form.
    fn matches_stored(&self, stored: &StoredEvent<'_>) -> Option<bool> {
        if !self.fields.matches_view(stored)? {
            return Some(false);
        }
        Some(self.labels.is_empty() || self.labels.matches(&stored.labels()?))
    }

    /// Whether an event matches both selectors.
    pub fn matches(&self, event: &Event) -> bool {
        static NONE: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        let labels = event
            .metadata
            .as_ref()
            .map_or(&NONE, |metadata| &metadata.labels);
        self.fields.matches(event) && self.labels.matches(labels)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Api;

    proptest! {
        /// Any text that a client sends is a selector or an error.
        #[test]
        fn any_text_is_answered(text in prop_oneof![any::<String>(), "[a-c=!,()<> \\\\inot.]{0,24}"]) {
            let labels = LabelSelector::parse(&text);
            for api in [Api::Core, Api::Events] {
                let fields = FieldSelector::parse(api, &text);
                if let (Ok(fields), Ok(labels)) = (fields, &labels) {
                    Selector { fields, labels: labels.clone() }.matches(&Event::default());
                }
            }
        }

        /// A selector finds a value again, whatever had to be escaped in it.
        #[test]
        fn values_are_escaped_with_backslashes(reason in "[a,=\\\\ü]{0,8}") {
            let escaped: String = reason
                .chars()
                .flat_map(|character| matches!(character, ',' | '=' | '\\').then_some('\\').into_iter().chain([character]))
                .collect();
            let selector = FieldSelector::parse(Api::Core, &format!("type=,reason={escaped}")).map_err(TestCaseError::fail)?;
            let same = Event { reason: Some(reason.clone()), ..Event::default() };
            let value = codec::encode_stored(&mut same.clone());
            let selector = Selector { fields: selector, ..Selector::default() };
            prop_assert!(selector.selects(&value, 1).is_ok_and(|selected| selected));
            let other = Event { reason: Some(reason + "x"), ..Event::default() };
            prop_assert!(selector.matches(&same));
            prop_assert!(!selector.matches(&other));
        }
    }
}
