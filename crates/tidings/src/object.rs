//! Conversion of objects to [`Reference`]s: the types about which events can be recorded.
//! client-go's `tools/reference`.

use std::rc::Rc;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_core::{Reference, ReferenceFields};

use crate::error::ReferenceError;

/// An object about which events can be recorded.
///
/// Implemented for
/// - every type with kube's `Resource` whose kind is known at compile time: those of k8s-openapi,
///   those derived with `CustomResource`, `PartialObjectMeta` of either,
/// - `kube::core::DynamicObject`, which must have a kind,
/// - [`ObjectReference`] and [`Reference`], unchanged; the latter costs a copy of a pointer,
/// - lists, whose kind, apiVersion and resourceVersion are known,
/// - `Arc`, `Rc`, `Box`, and `Option` of each of these.
///
/// The compiler needs `Kind` to distinguish these implementations, and always infers it. A generic
/// helper passes it on:
///
/// ```
/// use std::fmt::Display;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use tidings::{Recorder, ToReference, testing};
///
/// /// Records a warning if `result` is an error.
/// fn record_error<Kind, E: Display>(
///     recorder: &Recorder,
///     object: &impl ToReference<Kind>,
///     result: &Result<(), E>,
/// ) {
///     if let Err(error) = result {
///         recorder.warning(object, "ReconcileFailed", error);
///     }
/// }
///
/// let (recorder, mut events) = testing::recorder();
/// record_error(&recorder, &Pod::default(), &Err("out of disk space"));
/// events.assert_lines(&["Warning ReconcileFailed out of disk space"]);
/// ```
///
/// The compiler says what is accepted in place of anything else:
///
/// ```compile_fail,E0277
/// let (recorder, _events) = tidings::testing::recorder();
/// recorder.warning(&"web-0", "ReconcileFailed", "out of disk space");
/// ```
#[diagnostic::on_unimplemented(
    message = "events cannot be recorded about `{Self}`",
    label = "not an object of Kubernetes, nor a reference to one",
    note = "accepted are types with kube's `Resource` (those of k8s-openapi, `CustomResource`, `PartialObjectMeta`), `DynamicObject`, `ObjectReference`, `tidings::Reference`, and `Arc`, `Rc`, `Box`, `&` and `Option` of these",
    note = "in a generic function, take `object: &impl ToReference<Kind>` with `Kind` as one more parameter: see the documentation of `tidings::ToReference`"
)]
pub trait ToReference<Kind> {
    /// Makes a reference to this object: kind, apiVersion, namespace, name, uid and
    /// resourceVersion.
    fn to_reference(&self) -> Result<Reference, ReferenceError>;
}

/// Markers of the implementations of [`ToReference`]. Programs need not name them.
pub mod kind {
    /// A type whose kind is known at compile time.
    #[derive(Debug)]
    pub struct Typed(());
    /// A type whose values have their own kind.
    #[derive(Debug)]
    pub struct Dynamic(());
    /// A list of a type whose kind is known.
    #[derive(Debug)]
    pub struct List(());
    /// A list whose value has its own kind.
    #[derive(Debug)]
    pub struct DynamicList(());
    /// A reference.
    #[derive(Debug)]
    pub struct Given(());
    /// A pointer to a convertible object.
    #[derive(Debug)]
    pub struct Pointed<Kind>(std::marker::PhantomData<Kind>);
    /// A type whose value may be absent.
    #[derive(Debug)]
    pub struct Optional<Kind>(std::marker::PhantomData<Kind>);
}

/// Makes a reference from an object's metadata. client-go's `GetReference` after its look-up of
/// kind and version.
fn from_metadata(kind: &str, api_version: &str, metadata: &ObjectMeta) -> Reference {
    fn text(field: Option<&String>) -> &str {
        field.map_or("", String::as_str)
    }
    Reference::new(ReferenceFields {
        kind,
        api_version,
        namespace: text(metadata.namespace.as_ref()),
        name: text(metadata.name.as_ref()),
        uid: text(metadata.uid.as_ref()),
        resource_version: text(metadata.resource_version.as_ref()),
        field_path: "",
    })
}

#[cfg(feature = "kube")]
impl<K: kube::Resource<DynamicType = ()>> ToReference<kind::Typed> for K {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        Ok(from_metadata(
            &K::kind(&()),
            &K::api_version(&()),
            self.meta(),
        ))
    }
}

#[cfg(not(feature = "kube"))]
impl<K> ToReference<kind::Typed> for K
where
    K: k8s_openapi::Resource + k8s_openapi::Metadata<Ty = ObjectMeta>,
{
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        Ok(from_metadata(K::KIND, K::API_VERSION, self.metadata()))
    }
}

#[cfg(feature = "kube")]
impl ToReference<kind::Dynamic> for kube::core::DynamicObject {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        match &self.types {
            Some(types) if !types.kind.is_empty() => Ok(from_metadata(
                &types.kind,
                &types.api_version,
                &self.metadata,
            )),
            _ => Err(ReferenceError::MissingKind {
                name: self.metadata.name.clone().unwrap_or_default(),
            }),
        }
    }
}

fn list(kind: &str, api_version: &str, resource_version: Option<&String>) -> Reference {
    Reference::new(ReferenceFields {
        kind,
        api_version,
        resource_version: resource_version.map_or("", String::as_str),
        ..ReferenceFields::default()
    })
}

impl<T: k8s_openapi::ListableResource> ToReference<kind::List> for k8s_openapi::List<T> {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        use k8s_openapi::Resource;
        Ok(list(
            Self::KIND,
            Self::API_VERSION,
            self.metadata.resource_version.as_ref(),
        ))
    }
}

#[cfg(feature = "kube")]
impl<T: Clone> ToReference<kind::DynamicList> for kube::core::ObjectList<T> {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        if self.types.kind.is_empty() {
            return Err(ReferenceError::MissingKind {
                name: String::new(),
            });
        }
        Ok(list(
            &self.types.kind,
            &self.types.api_version,
            self.metadata.resource_version.as_ref(),
        ))
    }
}

impl ToReference<kind::Given> for ObjectReference {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        Ok(Reference::from(self))
    }
}

impl ToReference<kind::Given> for Reference {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        Ok(self.clone())
    }
}

impl<Kind, T: ToReference<Kind>> ToReference<kind::Pointed<Kind>> for Arc<T> {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        (**self).to_reference()
    }
}

impl<Kind, T: ToReference<Kind>> ToReference<kind::Pointed<Kind>> for Rc<T> {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        (**self).to_reference()
    }
}

impl<Kind, T: ToReference<Kind>> ToReference<kind::Pointed<Kind>> for Box<T> {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        (**self).to_reference()
    }
}

impl<Kind, T: ToReference<Kind>> ToReference<kind::Pointed<Kind>> for &T {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        (**self).to_reference()
    }
}

impl<Kind, T: ToReference<Kind>> ToReference<kind::Optional<Kind>> for Option<T> {
    fn to_reference(&self) -> Result<Reference, ReferenceError> {
        self.as_ref()
            .ok_or(ReferenceError::NoObject)
            .and_then(ToReference::to_reference)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;

    use super::*;

    fn metadata() -> ObjectMeta {
        ObjectMeta {
            name: Some("web-0".to_owned()),
            namespace: Some("default".to_owned()),
            uid: Some("bar".to_owned()),
            resource_version: Some("42".to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn pod() -> Pod {
        Pod {
            metadata: metadata(),
            ..Pod::default()
        }
    }

    fn full(kind: &str, api_version: &str) -> Reference {
        Reference::new(ReferenceFields {
            kind,
            api_version,
            namespace: "default",
            name: "web-0",
            uid: "bar",
            resource_version: "42",
            field_path: "",
        })
    }

    fn refer<Kind>(object: &impl ToReference<Kind>) -> Result<Reference, ReferenceError> {
        object.to_reference()
    }

    #[test]
    fn a_typed_object_is_referred_to_whole() {
        assert_eq!(refer(&pod()), Ok(full("Pod", "v1")));
        assert_eq!(refer(&&pod()), Ok(full("Pod", "v1")));
        assert_eq!(refer(&Arc::new(pod())), Ok(full("Pod", "v1")));
        assert_eq!(refer(&Rc::new(pod())), Ok(full("Pod", "v1")));
        assert_eq!(refer(&Box::new(pod())), Ok(full("Pod", "v1")));
        assert_eq!(refer(&Some(Arc::new(pod()))), Ok(full("Pod", "v1")));
        assert_eq!(refer(&pod().metadata.name.map(|_| pod())), refer(&pod()));
        let node = refer(&Node::default()).unwrap();
        assert_eq!(
            (node.kind(), node.name(), node.namespace()),
            ("Node", "", "")
        );
    }

    /// client-go's `can't reference a nil object`.
    #[test]
    fn no_object_is_an_error() {
        assert_eq!(refer(&None::<Pod>), Err(ReferenceError::NoObject));
        assert_eq!(refer(&None::<&Pod>), Err(ReferenceError::NoObject));
    }

    #[test]
    fn references_are_taken_as_they_are() {
        let reference = full("Pod", "").with_field_path("spec.containers{nginx}");
        assert_eq!(refer(&reference), Ok(reference.clone()));
        assert_eq!(refer(&reference.to_object_reference()), Ok(reference));
        assert_eq!(
            refer(&ObjectReference::default()),
            Ok(Reference::new(ReferenceFields::default()))
        );
    }

    #[test]
    fn of_a_list_only_kind_and_version_are_known() {
        let list = k8s_openapi::List::<Pod> {
            metadata: ListMeta {
                resource_version: Some("7".to_owned()),
                ..ListMeta::default()
            },
            ..k8s_openapi::List::default()
        };
        let expected = Reference::new(ReferenceFields {
            kind: "PodList",
            api_version: "v1",
            resource_version: "7",
            ..ReferenceFields::default()
        });
        assert_eq!(refer(&list), Ok(expected));
    }

    #[cfg(feature = "kube")]
    mod with_kube {
        use kube::core::{DynamicObject, ObjectList, PartialObjectMeta, TypeMeta};

        use super::*;

        fn dynamic(types: Option<(&str, &str)>) -> DynamicObject {
            DynamicObject {
                types: types.map(|(api_version, kind)| TypeMeta {
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                }),
                metadata: metadata(),
                data: serde_json::Value::Null,
            }
        }

        #[derive(kube::CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize)]
        #[kube(
            group = "foo.group",
            version = "v3",
            kind = "Machine",
            namespaced,
            schema = "disabled"
        )]
        struct MachineSpec {}

        /// client-go `tools/reference` TestGetReferenceRefVersion, and values that have their own
        /// kind.
        #[test]
        fn the_version_has_its_group() {
            let mut machine = Machine::new("web-0", MachineSpec {});
            machine.metadata = metadata();
            assert_eq!(refer(&machine), Ok(full("Machine", "foo.group/v3")));
            assert_eq!(refer(&pod()), Ok(full("Pod", "v1")));
            assert_eq!(
                refer(&dynamic(Some(("foo.group/v3", "Machine")))),
                Ok(full("Machine", "foo.group/v3"))
            );
            let partial = PartialObjectMeta::<Pod> {
                types: None,
                metadata: metadata(),
                _phantom: std::marker::PhantomData,
            };
            assert_eq!(refer(&partial), Ok(full("Pod", "v1")));
        }

        /// client-go `tools/reference` TestGetReferenceNilScheme: the kind is unknown.
        /// TestGetReferenceNilSchemeWithPopulatedGVK: the same object with `types`.
        #[test]
        fn a_dynamic_object_says_what_kind_it_is() {
            let missing = ReferenceError::MissingKind {
                name: "web-0".to_owned(),
            };
            assert_eq!(refer(&dynamic(None)), Err(missing.clone()));
            assert_eq!(refer(&dynamic(Some(("v1", "")))), Err(missing));
            assert_eq!(refer(&dynamic(Some(("", "Pod")))), Ok(full("Pod", "")));
        }

        #[test]
        fn a_dynamic_list_says_what_kind_it_is() {
            let mut list = ObjectList::<DynamicObject> {
                types: TypeMeta {
                    api_version: "v1".to_owned(),
                    kind: "PodList".to_owned(),
                },
                metadata: ListMeta::default(),
                items: Vec::new(),
            };
            let expected = Reference::new(ReferenceFields {
                kind: "PodList",
                api_version: "v1",
                ..ReferenceFields::default()
            });
            assert_eq!(refer(&list), Ok(expected));
            list.types.kind.clear();
            assert!(refer(&list).is_err());
        }
    }
}
