//! The reporter of an event: source component and host, reporting controller and instance.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use k8s_openapi::api::core::v1;

use crate::packed::Packed;

/// Number of leading packed fields of core/v1's `source`: component and host.
pub(crate) const COMPONENT_FIELDS: usize = 2;
/// Number of all packed fields, including reportingController and reportingInstance.
pub(crate) const REPORTING_FIELDS: usize = 4;

/// The reporter of events. Cloning it copies a pointer.
///
/// As client-go's recorder does, the component is also the reporting controller and the host the
/// reporting instance, unless [`EventSource::reporting`] says otherwise.
///
/// ```
/// use tidings_core::EventSource;
///
/// let source = EventSource::component("example-controller").host("node-1");
/// assert_eq!(EventSource::from("example-controller").host("node-1"), source);
/// assert_eq!(source.reporting_controller(), "example-controller");
/// assert_eq!(source.reporting_instance(), "node-1");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct EventSource(Arc<Packed<4>>);

/// Its four fields.
impl fmt::Debug for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSource")
            .field("component", &self.source_component())
            .field("host", &self.source_host())
            .field("reporting_controller", &self.reporting_controller())
            .field("reporting_instance", &self.reporting_instance())
            .finish()
    }
}

/// [`EventSource::component`].
impl From<&str> for EventSource {
    fn from(component: &str) -> Self {
        Self::component(component)
    }
}

/// [`EventSource::component`].
impl From<String> for EventSource {
    fn from(component: String) -> Self {
        Self::component(component)
    }
}

impl From<&Self> for EventSource {
    fn from(source: &Self) -> Self {
        source.clone()
    }
}

impl EventSource {
    /// The reporter named `component`, without a host.
    ///
    /// # Limits
    ///
    /// Any text is accepted, as by client-go. The API server requires a qualified name only if the
    /// event has an `eventTime`.
    pub fn component(component: impl AsRef<str>) -> Self {
        let component = component.as_ref();
        Self(Arc::new(Packed::new([component, "", component, ""])))
    }

    /// The same reporter on `host`, which is also its reporting instance.
    #[must_use]
    pub fn host(&self, host: impl AsRef<str>) -> Self {
        let host = host.as_ref();
        Self(Arc::new(Packed::new([
            self.source_component(),
            host,
            self.reporting_controller(),
            host,
        ])))
    }

    /// The same reporter with another reporting controller and instance.
    #[must_use]
    pub fn reporting(&self, controller: impl AsRef<str>, instance: impl AsRef<str>) -> Self {
        Self(Arc::new(Packed::new([
            self.source_component(),
            self.source_host(),
            controller.as_ref(),
            instance.as_ref(),
        ])))
    }

    /// The `source.component` of the event.
    pub fn source_component(&self) -> &str {
        self.0.get(0)
    }

    /// The `source.host` of the event.
    pub fn source_host(&self) -> &str {
        self.0.get(1)
    }

    /// The `reportingComponent` of core/v1, `reportingController` of events.k8s.io/v1.
    pub fn reporting_controller(&self) -> &str {
        self.0.get(2)
    }

    /// The `reportingInstance` of the event.
    pub fn reporting_instance(&self) -> &str {
        self.0.get(3)
    }

    /// The reporter of a wire event.
    pub fn from_event(event: &v1::Event) -> Self {
        let source = event.source.as_ref();
        let text = |field: Option<&'_ String>| field.map_or_else(String::new, Clone::clone);
        Self(Arc::new(Packed::new([
            &text(source.and_then(|source| source.component.as_ref())),
            &text(source.and_then(|source| source.host.as_ref())),
            &text(event.reporting_component.as_ref()),
            &text(event.reporting_instance.as_ref()),
        ])))
    }

    pub(crate) fn heap_size(&self) -> usize {
        size_of::<Packed<4>>() + self.0.heap_size()
    }

    pub(crate) fn prefix_eq(&self, other: &Self, count: usize) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.prefix_eq(&other.0, count)
    }

    pub(crate) fn hash_prefix(&self, count: usize, state: &mut impl Hasher) {
        self.0.hash_prefix(count, state);
    }
}
