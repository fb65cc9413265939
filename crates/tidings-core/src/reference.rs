//! References to objects: client-go's `tools/reference`, as a value that is cheap to clone and
//! compare.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;

use crate::packed::Packed;
use crate::validate::is_dns1123_subdomain;

/// Maximum length of an object's name that fits in an event's name. An event's name (253 bytes)
/// adds `.` and sixteen hexadecimal digits.
const NAMEABLE_BYTES: usize = 236;

/// Number of leading packed fields that identify the object: kind, namespace, name, uid,
/// apiVersion.
pub(crate) const OBJECT_FIELDS: usize = 5;
/// Number of leading packed fields including the part of the object: fieldPath.
pub(crate) const PART_FIELDS: usize = 6;
/// Number of leading packed fields including the object's version: resourceVersion.
pub(crate) const ALL_FIELDS: usize = 7;

/// A reference to the object an event is about: kind, namespace, name, uid, apiVersion,
/// resourceVersion and fieldPath.
///
/// Cloning it copies a pointer: make one for an object about which many events are recorded. The
/// Kubernetes name is `ObjectReference`; every field may be empty.
///
/// ```
/// use tidings_core::{Reference, ReferenceFields};
///
/// let pod = Reference::new(ReferenceFields {
///     api_version: "v1",
///     kind: "Pod",
///     namespace: "default",
///     name: "web-0",
///     ..Default::default()
/// });
/// let container = pod.with_field_path("spec.containers{nginx}");
/// assert_eq!(container.field_path(), "spec.containers{nginx}");
/// assert_eq!(pod.field_path(), "");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Reference {
    fields: Arc<Packed<7>>,
    nameable: bool,
}

/// The fields of a [`Reference`]. Empty by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceFields<'a> {
    /// The object's kind, such as `Pod`.
    pub kind: &'a str,
    /// The object's namespace; empty for a cluster-scoped object.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object's uid.
    pub uid: &'a str,
    /// `version` for the core group, otherwise `group/version`.
    pub api_version: &'a str,
    /// The part of the object, such as `spec.containers{nginx}`.
    pub field_path: &'a str,
    /// The version of the object that was seen.
    pub resource_version: &'a str,
}

impl Reference {
    /// A reference with these fields, which are not checked, as in client-go.
    pub fn new(fields: ReferenceFields<'_>) -> Self {
        let ReferenceFields {
            kind,
            namespace,
            name,
            uid,
            api_version,
            field_path,
            resource_version,
        } = fields;
        Self {
            nameable: name.len() <= NAMEABLE_BYTES && is_dns1123_subdomain(name),
            fields: Arc::new(Packed::new([
                kind,
                namespace,
                name,
                uid,
                api_version,
                field_path,
                resource_version,
            ])),
        }
    }

    /// The object's kind.
    pub fn kind(&self) -> &str {
        self.fields.get(0)
    }

    /// The object's namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        self.fields.get(1)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.fields.get(2)
    }

    /// The object's uid.
    pub fn uid(&self) -> &str {
        self.fields.get(3)
    }

    /// `version` for the core group, otherwise `group/version`.
    pub fn api_version(&self) -> &str {
        self.fields.get(4)
    }

    /// The part of the object.
    pub fn field_path(&self) -> &str {
        self.fields.get(5)
    }

    /// The version of the object that was seen.
    pub fn resource_version(&self) -> &str {
        self.fields.get(6)
    }

    /// A reference to the part of the same object at `field_path`. This reference stays as it is.
    /// client-go's `GetPartialReference` changes the caller's own `ObjectReference` instead.
    #[must_use]
    pub fn with_field_path(&self, field_path: &str) -> Self {
        Self::new(ReferenceFields {
            field_path,
            ..self.fields()
        })
    }

    /// The same reference with another namespace.
    pub(crate) fn with_namespace(&self, namespace: &str) -> Self {
        Self::new(ReferenceFields {
            namespace,
            ..self.fields()
        })
    }

    /// All fields at once.
    pub fn fields(&self) -> ReferenceFields<'_> {
        ReferenceFields {
            kind: self.kind(),
            namespace: self.namespace(),
            name: self.name(),
            uid: self.uid(),
            api_version: self.api_version(),
            field_path: self.field_path(),
            resource_version: self.resource_version(),
        }
    }

    /// Converts the reference to the wire type.
    pub fn to_object_reference(&self) -> ObjectReference {
        let some = |field: &str| (!field.is_empty()).then(|| field.to_owned());
        ObjectReference {
            kind: some(self.kind()),
            namespace: some(self.namespace()),
            name: some(self.name()),
            uid: some(self.uid()),
            api_version: some(self.api_version()),
            field_path: some(self.field_path()),
            resource_version: some(self.resource_version()),
        }
    }

    /// Whether an event about this object can be named after it.
    pub(crate) fn is_nameable(&self) -> bool {
        self.nameable
    }

    pub(crate) fn prefix_eq(&self, other: &Self, count: usize) -> bool {
        Arc::ptr_eq(&self.fields, &other.fields) || self.fields.prefix_eq(&other.fields, count)
    }

    pub(crate) fn hash_prefix(&self, count: usize, state: &mut impl Hasher) {
        self.fields.hash_prefix(count, state);
    }

    pub(crate) fn heap_size(&self) -> usize {
        size_of::<Packed<7>>() + self.fields.heap_size()
    }
}

impl From<&ObjectReference> for Reference {
    fn from(reference: &ObjectReference) -> Self {
        fn text(field: Option<&String>) -> &str {
            field.map_or("", String::as_str)
        }
        Self::new(ReferenceFields {
            kind: text(reference.kind.as_ref()),
            namespace: text(reference.namespace.as_ref()),
            name: text(reference.name.as_ref()),
            uid: text(reference.uid.as_ref()),
            api_version: text(reference.api_version.as_ref()),
            field_path: text(reference.field_path.as_ref()),
            resource_version: text(reference.resource_version.as_ref()),
        })
    }
}

/// Writes `kind/name` in lower case, as `kubectl get events` shows an object.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind().to_lowercase())?;
        if self.name().is_empty() {
            Ok(())
        } else {
            write!(f, "/{}", self.name())
        }
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_object_is_the_same_object_otherwise() {
        let fields = ReferenceFields {
            kind: "Pod",
            namespace: "shop",
            name: "web-0",
            uid: "u",
            api_version: "v1",
            field_path: "",
            resource_version: "7",
        };
        let pod = Reference::new(fields);
        let field_path = "spec.containers{web}";
        let part = pod.with_field_path(field_path);
        assert_eq!(part.field_path(), field_path);
        assert_eq!(
            format!("{:?}", part.fields()),
            format!(
                "{:?}",
                ReferenceFields {
                    field_path,
                    ..fields
                }
            )
        );
        assert_eq!(
            (pod.field_path(), pod.to_string()),
            ("", "pod/web-0".to_owned())
        );
        assert_eq!(part, Reference::from(&part.to_object_reference()));
        assert_eq!(
            part.heap_size(),
            size_of::<Packed<7>>() + "Podshopweb-0uv17".len() + field_path.len()
        );
        let unnamed = Reference::new(ReferenceFields { name: "", ..fields });
        assert_eq!(unnamed.to_string(), "pod");
    }
}
