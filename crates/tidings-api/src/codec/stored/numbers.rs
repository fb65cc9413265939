//! Field numbers as constants, taken from the table of fields.

/// Defines constants for the numbers of a type's fields.
macro_rules! numbers {
    ($of:path; $($constant:ident $name:literal;)+) => {
        $(
            pub(crate) const $constant: usize = $of.number($name) as usize;
            const _: () = assert!($constant > 0, "the table has no such field");
        )+
    };
}

/// Numbers of the fields of a core/v1 Event.
pub(crate) mod field {
    use tidings_core::fields::core_v1::EVENT;

    numbers! { EVENT;
        METADATA "metadata";
        INVOLVED_OBJECT "involvedObject";
        REASON "reason";
        MESSAGE "message";
        SOURCE "source";
        FIRST_TIMESTAMP "firstTimestamp";
        LAST_TIMESTAMP "lastTimestamp";
        COUNT "count";
        TYPE "type";
        EVENT_TIME "eventTime";
        SERIES "series";
        REPORTING_COMPONENT "reportingComponent";
        REPORTING_INSTANCE "reportingInstance";
        ACTION "action";
    }
}

/// Numbers of the fields of ObjectMeta.
pub(crate) mod meta {
    use tidings_core::fields::core_v1::OBJECT_META;

    numbers! { OBJECT_META;
        NAME "name";
        NAMESPACE "namespace";
        UID "uid";
        CREATION_TIMESTAMP "creationTimestamp";
        RESOURCE_VERSION "resourceVersion";
        LABELS "labels";
        MANAGED_FIELDS "managedFields";
    }
}

/// Numbers of the fields of ObjectReference.
pub(crate) mod reference {
    use tidings_core::fields::core_v1::OBJECT_REFERENCE;

    numbers! { OBJECT_REFERENCE;
        KIND "kind";
        NAMESPACE "namespace";
        NAME "name";
        UID "uid";
        FIELD_PATH "fieldPath";
    }
}

/// Numbers of the fields of EventSource.
pub(crate) mod source {
    use tidings_core::fields::core_v1::EVENT_SOURCE;

    numbers! { EVENT_SOURCE;
        COMPONENT "component";
        HOST "host";
    }
}
