//! The table of an event's fields.
//!
//! JSON, protobuf, stored bytes, OpenAPI, apply and strategic merge patches are all derived from
//! these rows.

/// Passes the table's rows to the macro that the arguments name.
///
/// A type is `STATIC GoName [atomic] "description" { rows }`, in the order of Go's struct. A row is
/// `rust_name: Kind = number "jsonName" rule "description";`. If a field differs in
/// events.k8s.io/v1, that version follows after `|`, beginning with the name in Rust.
///
/// Fields with `required` and `always` are written even if they are empty, those with `omitted` are
/// not, and those with `pointer` are written if they are set.
#[doc(hidden)]
#[macro_export]
macro_rules! event_types {
    ($then:path $(, $version:ident)?) => { $then! { $($version;)?

EVENT Event "A report of something that happened to an object, kept for a limited time." {
    metadata: Object(OBJECT_META)
        = 1 "metadata" required "Name, namespace, labels and the like."
        | metadata 1 "metadata" always "Name, namespace, labels and the like.";
    involved_object: Object(OBJECT_REFERENCE)
        = 2 "involvedObject" required "The object the event is about."
        | regarding 8 "regarding" always "The object the event is about.";
    reason: Text
        = 3 "reason" omitted "Why the event happened, in one word for machines."
        | reason 7 "reason" omitted "Why it was done, in one word for machines.";
    message: Text
        = 4 "message" omitted "What happened, in words for humans."
        | note 10 "note" omitted "What happened, in words for humans.";
    source: Object(EVENT_SOURCE)
        = 5 "source" always "Who reported the event."
        | deprecated_source 12 "deprecatedSource" always
            "Who reported the event, in core/v1's form.";
    first_timestamp: Time
        = 6 "firstTimestamp" always "When the event was first seen."
        | deprecated_first_timestamp 13 "deprecatedFirstTimestamp" always
            "When the event was first seen, in core/v1's form.";
    last_timestamp: Time
        = 7 "lastTimestamp" always "When the event was last seen."
        | deprecated_last_timestamp 14 "deprecatedLastTimestamp" always
            "When the event was last seen, in core/v1's form.";
    count: Int32
        = 8 "count" omitted "How often the event was seen."
        | deprecated_count 15 "deprecatedCount" omitted
            "How often the event was seen, in core/v1's form.";
    r#type: Text
        = 9 "type" omitted "Normal or Warning."
        | r#type 11 "type" omitted "Normal or Warning.";
    event_time: MicroTime
        = 10 "eventTime" always "When the event was first observed."
        | event_time 2 "eventTime" required "When the event was first observed.";
    series: Object(EVENT_SERIES)
        = 11 "series" omitted "The repetitions of the event, if it repeats."
        | series 3 "series" omitted "The repetitions of the event, if it repeats.";
    action: Text
        = 12 "action" omitted "What was done, or failed to be done, to the object."
        | action 6 "action" omitted "What was done, or failed to be done, to the object.";
    related: Object(OBJECT_REFERENCE)
        = 13 "related" omitted "Another object that took part."
        | related 9 "related" omitted "Another object that took part.";
    reporting_component: Text
        = 14 "reportingComponent" always
            "The controller that reported the event, e.g. kubernetes.io/kubelet."
        | reporting_controller 4 "reportingController" omitted
            "The controller that reported the event, e.g. kubernetes.io/kubelet.";
    reporting_instance: Text
        = 15 "reportingInstance" always "Which instance of that controller."
        | reporting_instance 5 "reportingInstance" omitted "Which instance of that controller.";
}

EVENT_SERIES EventSeries "The repetitions of an event." {
    count: Int32
        = 1 "count" omitted "How often it was seen so far."
        | count 1 "count" required "How often it was seen so far.";
    last_observed_time: MicroTime
        = 2 "lastObservedTime" always "When it was last seen."
        | last_observed_time 2 "lastObservedTime" required "When it was last seen.";
}

EVENT_SOURCE EventSource "Who reported an event." {
    component: Text = 1 "component" omitted "The program.";
    host: Text = 2 "host" omitted "The node it runs on.";
}

OBJECT_REFERENCE ObjectReference atomic "Points at an object, or at a part of it." {
    kind: Text = 1 "kind" omitted "The object's kind.";
    namespace: Text = 2 "namespace" omitted "The object's namespace.";
    name: Text = 3 "name" omitted "The object's name.";
    uid: Text = 4 "uid" omitted "The object's uid.";
    api_version: Text = 5 "apiVersion" omitted "The version of the object's API.";
    resource_version: Text
        = 6 "resourceVersion" omitted "The version of the object the event is about.";
    field_path: Text
        = 7 "fieldPath" omitted "The part of the object, e.g. spec.containers{web}.";
}

OBJECT_META ObjectMeta "What all objects have in common." {
    name: Text = 1 "name" omitted "Unique within the namespace.";
    generate_name: Text
        = 2 "generateName" omitted "What the name is made from if none is given.";
    namespace: Text = 3 "namespace" omitted "Where the object lives.";
    self_link: Text = 4 "selfLink" omitted "Accepted and not kept.";
    uid: Text = 5 "uid" omitted "Set by the server.";
    resource_version: Text = 6 "resourceVersion" omitted "Set by the server.";
    generation: Int64 = 7 "generation" omitted "Unused by events.";
    creation_timestamp: Time = 8 "creationTimestamp" omitted "Set by the server.";
    deletion_timestamp: Time
        = 9 "deletionTimestamp" pointer
            "Set by the server when finalizers hold back a delete.";
    deletion_grace_period_seconds: Int64
        = 10 "deletionGracePeriodSeconds" pointer "Set by the server.";
    labels: Map = 11 "labels" omitted "What the object can be selected by.";
    annotations: Map = 12 "annotations" omitted "What tools keep with the object.";
    owner_references: List(OWNER_REFERENCE "uid")
        = 13 "ownerReferences" omitted "The objects this one belongs to.";
    finalizers: Set = 14 "finalizers" omitted "What has to be done before a delete.";
    managed_fields: List(MANAGED_FIELDS_ENTRY)
        = 17 "managedFields" omitted
            "The managers of fields, once the object was applied.";
}

OWNER_REFERENCE OwnerReference atomic "An object that another belongs to." {
    api_version: Text = 5 "apiVersion" required "The version of the owner's API.";
    kind: Text = 1 "kind" required "The owner's kind.";
    name: Text = 3 "name" required "The owner's name.";
    uid: Text = 4 "uid" required "The owner's uid.";
    controller: Bool = 6 "controller" omitted "Whether the owner is the controller.";
    block_owner_deletion: Bool
        = 7 "blockOwnerDeletion" omitted
            "Whether the owner waits for this object when it is deleted.";
}

MANAGED_FIELDS_ENTRY ManagedFieldsEntry atomic "What one manager manages." {
    manager: Text = 1 "manager" omitted "Who manages the fields.";
    operation: Text = 2 "operation" omitted "How: Apply or Update.";
    api_version: Text = 3 "apiVersion" omitted "The version whose names the fields have.";
    time: Time = 4 "time" pointer "When the manager last changed a field.";
    fields_type: Text = 6 "fieldsType" omitted "FieldsV1.";
    fields_v1: Json = 7 "fieldsV1" omitted "The fields.";
    subresource: Text = 8 "subresource" omitted "Unused by events.";
}

    } };
}

/// Makes a static [`Type`](crate::fields::Type) of each type, for core/v1 or events.k8s.io/v1.
#[doc(hidden)]
#[macro_export]
macro_rules! field_tables {
    ($version:ident; $($table:ident $type:ident $($atomic:ident)? $about:literal {
        $($field:ident: $kind:ident $(($($of:tt)+))?
            = $number:literal $name:literal $rule:ident $what:literal
            $(| $other:ident $events_number:literal $events_name:literal $events_rule:ident
                $events_what:literal)?;)+
    })+) => {$(
        #[doc = $about]
        pub static $table: $crate::fields::Type = {
            use $crate::fields::{Field, Type};
            const ROWS: &[Field] = &[$($crate::field_tables!(
                @$version: $kind ($($($of)+)?) $number,
                $number $name $rule $what
                $(| $events_number $events_name $events_rule $events_what)?
            ),)+];
            const BY_NUMBER: &[Field] = &$crate::fields::by_number::<{ ROWS.len() }>(ROWS);
            Type {
                name: stringify!($type),
                about: $about,
                atomic: $crate::field_tables!(@atomic $($atomic)?),
                fields: $crate::fields::in_order(ROWS, BY_NUMBER),
                by_number: BY_NUMBER,
            }
        };
    )+};
    (@events: $kind:ident $of:tt $stored:literal, $number:literal $name:literal $rule:ident
        $what:literal | $($events:tt)+) => {
        $crate::field_tables!(@field $kind $of $stored, $($events)+)
    };
    (@$version:ident: $kind:ident $of:tt $stored:literal, $number:literal $name:literal $rule:ident
        $what:literal $(| $($events:tt)+)?) => {
        $crate::field_tables!(@field $kind $of $stored, $number $name $rule $what)
    };
    (@field $kind:ident $of:tt $stored:literal, $number:literal $name:literal $rule:ident
        $what:literal) => {
        Field::new(
            concat!(",\"", $name, "\":"),
            [$number, $stored],
            $crate::field_tables!(@kind $kind $of),
            $crate::field_tables!(@rule $rule),
            $what,
        )
    };
    (@atomic atomic) => { true };
    (@atomic) => { false };
    (@kind Object ($of:ident)) => { $crate::fields::Kind::Object(&$of) };
    (@kind List ($of:ident)) => { $crate::fields::Kind::List(&$of, None) };
    (@kind List ($of:ident $key:literal)) => { $crate::fields::Kind::List(&$of, Some($key)) };
    (@kind $kind:ident ()) => { $crate::fields::Kind::$kind };
    (@rule required) => { $crate::fields::Rule::Required };
    (@rule always) => { $crate::fields::Rule::Always };
    (@rule omitted) => { $crate::fields::Rule::Omitted };
    (@rule pointer) => { $crate::fields::Rule::Pointer };
}
