//! What a request looks for, as far as the order of rows and statistics help to find it.

use tidings_store::{Index, ObjectSelector};

use crate::manifest::File;
use crate::reader::keys::Place;
use crate::reader::scan::Group;

/// Events of a namespace, about an object, or all events.
#[derive(Clone, Debug, Default)]
pub(in crate::reader) struct Selection {
    pub(in crate::reader) namespace: Option<String>,
    object: Option<ObjectSelector>,
}

impl Selection {
    pub(in crate::reader) fn new(
        namespace: Option<String>,
        object: Option<ObjectSelector>,
    ) -> Self {
        let mut selection = Self { namespace, object };
        // An API server accepts no event in another namespace than its object's, if that has one.
        if selection.namespace.is_none()
            && let Some(ObjectSelector::Name { namespace, .. }) = &selection.object
        {
            selection.namespace = namespace.clone().filter(|it| !it.is_empty());
        }
        selection
    }

    /// Selects everything about one object.
    pub(in crate::reader) fn of_place([namespace, kind, name]: Place<&str>) -> Self {
        let object = ObjectSelector::Name {
            name: name.to_owned(),
            kind: Some(kind.to_owned()),
            namespace: None,
        };
        Self {
            namespace: Some(namespace.to_owned()),
            object: Some(object),
        }
    }

    /// Returns the name of the object, if it is given.
    pub(in crate::reader) fn name(&self) -> Option<&str> {
        match &self.object {
            Some(ObjectSelector::Name { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// Returns whether the selection depends on a row's place.
    pub(in crate::reader) fn is_by_place(&self) -> bool {
        self.parts().iter().any(Option::is_some)
    }

    /// Returns whether it selects exactly one object: namespace, kind and name are given.
    pub(in crate::reader) fn is_of_object(&self) -> bool {
        self.parts().iter().all(Option::is_some)
    }

    fn kind(&self) -> Option<&str> {
        match &self.object {
            Some(ObjectSelector::Name { kind, .. }) => kind.as_deref(),
            _ => None,
        }
    }

    /// Returns the uid of the object, if it is given.
    pub(in crate::reader) fn object_uid(&self) -> Option<&str> {
        match &self.object {
            Some(ObjectSelector::Uid(uid)) => Some(uid),
            _ => None,
        }
    }

    fn parts(&self) -> Place<Option<&str>> {
        [self.namespace.as_deref(), self.kind(), self.name()]
    }

    /// Returns a place before which nothing is wanted.
    pub(in crate::reader) fn lower(&self) -> Place<&str> {
        match self.parts() {
            [Some(namespace), Some(kind), name] => [namespace, kind, name.unwrap_or_default()],
            [namespace, ..] => [namespace.unwrap_or_default(), "", ""],
        }
    }

    /// Returns whether neither this place nor any after it is wanted.
    pub(in crate::reader) fn is_over(&self, place: Place<&str>) -> bool {
        for (wanted, part) in self.parts().into_iter().zip(place) {
            match wanted.map(|wanted| part.cmp(wanted)) {
                Some(std::cmp::Ordering::Greater) => return true,
                Some(std::cmp::Ordering::Equal) => {}
                Some(std::cmp::Ordering::Less) | None => return false,
            }
        }
        false
    }

    /// Returns whether events about this place may be wanted.
    pub(in crate::reader) fn has(&self, place: Place<&str>) -> bool {
        let mut parts = self.parts().into_iter().zip(place);
        parts.all(|(wanted, part)| wanted.is_none_or(|wanted| wanted == part))
    }

    /// Returns whether a file may have wanted events.
    pub(in crate::reader) fn may_be_in(&self, file: &File) -> bool {
        let last = file.last.each_ref().map(String::as_str);
        let first = file.first.each_ref().map(String::as_str);
        last >= self.lower() && !self.is_over(first)
    }

    /// Returns whether a row group may have wanted events.
    pub(in crate::reader) fn may_be_within(&self, group: &Group) -> bool {
        let lower = group.lower.each_ref().map(String::as_str);
        !group.is_before(self.lower()) && !self.is_over(lower)
    }

    /// Returns whether an event is wanted.
    pub(in crate::reader) fn selects(&self, index: &Index) -> bool {
        self.object
            .as_ref()
            .is_none_or(|object| object.matches(index))
    }
}
