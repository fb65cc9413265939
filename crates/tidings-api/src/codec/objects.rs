//! Access by number to the fields of an event's types in memory (k8s-pb's).
//!
//! Generic code can thus walk a table of fields.

use std::any::Any;
use std::collections::BTreeMap;

use k8s_pb::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::{
    DeleteOptions, FieldsV1, ListMeta, ManagedFieldsEntry, MicroTime, ObjectMeta, OwnerReference,
    Preconditions, Time,
};
use tidings_core::fields::{Field, Kind, Rule, Type};
use tidings_core::wire::{Moment, Nothing, Sink, Source, moment};

/// An object whose fields are accessed by number.
pub(crate) trait Object {
    /// The value of the field with this number.
    fn value(&self, number: u32) -> Value<'_>;
    /// A mutable reference to the field with this number.
    fn place(&mut self, number: u32) -> Place<'_>;
    /// Whether the other object has the same type and the same values.
    fn is_same(&self, other: &dyn Object) -> bool;
    /// The object as `Any`, for [`Object::is_same`].
    fn as_any(&self) -> &dyn Any;
}

/// The value of a field.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Integer(Option<i64>),
    Bool(Option<bool>),
    Time(Option<Moment>),
    Map(&'a BTreeMap<String, String>),
    Set(&'a [String]),
    Json(Option<&'a [u8]>),
    Object(Option<&'a dyn Object>),
    List(&'a dyn List),
    /// The type has no such field.
    Nothing,
}

impl Value<'_> {
    /// Whether the value is the zero value.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Integer(integer) => integer.unwrap_or_default() == 0,
            Self::Bool(boolean) => boolean.is_none(),
            Self::Time(time) => time.is_none(),
            Self::Map(map) => map.is_empty(),
            Self::Set(texts) => texts.is_empty(),
            Self::Json(json) => json.is_none(),
            Self::Object(object) => object.is_none(),
            Self::List(list) => list.len() == 0,
            Self::Nothing => true,
        }
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(own), Self::Text(other)) => own == other,
            (Self::Integer(own), Self::Integer(other)) => own == other,
            (Self::Bool(own), Self::Bool(other)) => own == other,
            (Self::Time(own), Self::Time(other)) => own == other,
            (Self::Map(own), Self::Map(other)) => own == other,
            (Self::Set(own), Self::Set(other)) => own == other,
            (Self::Json(own), Self::Json(other)) => own == other,
            (Self::Object(Some(own)), Self::Object(Some(other))) => own.is_same(*other),
            (Self::List(own), Self::List(other)) if own.len() == other.len() => {
                let [own, other] = [own, other].map(|list| (0..own.len()).map(|at| list.get(at)));
                own.zip(other).all(|items| match items {
                    (Some(own), Some(other)) => own.is_same(other),
                    _ => false,
                })
            }
            _ => self.is_empty() && other.is_empty(),
        }
    }
}

/// A mutable reference to a field.
pub(crate) enum Place<'a> {
    Text(&'a mut Option<String>),
    Int32(&'a mut Option<i32>),
    Int64(&'a mut Option<i64>),
    Bool(&'a mut Option<bool>),
    Time(&'a mut dyn TimePlace),
    Map(&'a mut BTreeMap<String, String>),
    Set(&'a mut Vec<String>),
    Json(&'a mut Option<FieldsV1>),
    Object(&'a mut dyn ObjectPlace),
    List(&'a mut dyn List),
    Nothing,
}

/// A field that is a time of either precision: seconds and nanoseconds.
pub(crate) trait TimePlace {
    fn get(&self) -> Option<(Option<i64>, Option<i32>)>;
    fn set(&mut self, moment: Option<Moment>);
}

/// A field that is an optional object.
pub(crate) trait ObjectPlace {
    fn get(&mut self) -> Option<&mut dyn Object>;
    fn clear(&mut self);
    /// Sets the field to an empty object, and returns that.
    fn set_empty(&mut self) -> &mut dyn Object;
}

/// A list of objects.
pub(crate) trait List {
    fn len(&self) -> usize;
    fn get(&self, place: usize) -> Option<&dyn Object>;
    fn get_mut(&mut self, place: usize) -> Option<&mut dyn Object>;
    fn clear(&mut self);
    /// Appends an empty object.
    fn push(&mut self) -> &mut dyn Object;
}

/// A Rust type that fields in memory have.
trait Held {
    fn value(&self) -> Value<'_>;
    fn place(&mut self) -> Place<'_>;
}

macro_rules! held {
    ($($type:ty: |$held:ident| $value:expr, $place:path;)+) => {$(
        impl Held for $type {
            fn value(&self) -> Value<'_> {
                let $held = self;
                $value
            }
            fn place(&mut self) -> Place<'_> {
                $place(self)
            }
        }
    )+};
}
held! {
    Option<String>: |text| Value::Text(text.as_deref().unwrap_or_default()), Place::Text;
    Option<i32>: |integer| Value::Integer(integer.map(i64::from)), Place::Int32;
    Option<i64>: |integer| Value::Integer(*integer), Place::Int64;
    Option<bool>: |boolean| Value::Bool(*boolean), Place::Bool;
    Option<Time>: |time| Value::Time(moment(time.get())), Place::Time;
    Option<MicroTime>: |time| Value::Time(moment(time.get())), Place::Time;
    BTreeMap<String, String>: |map| Value::Map(map), Place::Map;
    Vec<String>: |texts| Value::Set(texts), Place::Set;
    Option<FieldsV1>: |fields| Value::Json(fields.as_ref().map(FieldsV1::raw)), Place::Json;
}

macro_rules! times {
    ($($type:ident)+) => {$(
        impl TimePlace for Option<$type> {
            fn get(&self) -> Option<(Option<i64>, Option<i32>)> {
                self.map(|time| (time.seconds, time.nanos))
            }
            fn set(&mut self, moment: Option<Moment>) {
                *self = moment.map(|moment| $type {
                    seconds: Some(moment.seconds),
                    nanos: Some(moment.nanos),
                });
            }
        }
    )+};
}
times!(Time MicroTime);

impl<T: Object + Default + 'static> Held for Option<T> {
    fn value(&self) -> Value<'_> {
        Value::Object(self.as_ref().map(|object| object as &dyn Object))
    }
    fn place(&mut self) -> Place<'_> {
        Place::Object(self)
    }
}

impl<T: Object + Default + 'static> ObjectPlace for Option<T> {
    fn get(&mut self) -> Option<&mut dyn Object> {
        self.as_mut().map(|object| object as &mut dyn Object)
    }
    fn clear(&mut self) {
        *self = None;
    }
    fn set_empty(&mut self) -> &mut dyn Object {
        self.insert(T::default())
    }
}

impl<T: Object + Default + 'static> Held for Vec<T> {
    fn value(&self) -> Value<'_> {
        Value::List(self)
    }
    fn place(&mut self) -> Place<'_> {
        Place::List(self)
    }
}

impl<T: Object + Default + 'static> List for Vec<T> {
    fn len(&self) -> usize {
        Vec::len(self)
    }
    fn get(&self, place: usize) -> Option<&dyn Object> {
        let object = self.as_slice().get(place);
        object.map(|object| object as &dyn Object)
    }
    fn get_mut(&mut self, place: usize) -> Option<&mut dyn Object> {
        let object = self.as_mut_slice().get_mut(place);
        object.map(|object| object as &mut dyn Object)
    }
    fn clear(&mut self) {
        Vec::clear(self);
    }
    fn push(&mut self) -> &mut dyn Object {
        Vec::push(self, T::default());
        let last = self.len() - 1;
        &mut self[last]
    }
}

/// Implements `Object` for each type in the table.
macro_rules! objects {
    ($($table:ident $type:ident $($atomic:ident)? $about:literal {
        $($field:ident: $kind:ident $(($($of:tt)+))? = $number:literal $name:literal $rule:ident
            $what:literal $(| $other:ident $events_number:literal $events_name:literal
            $events_rule:ident $events_what:literal)?;)+
    })+) => {$(
        impl Object for $type {
            fn value(&self, number: u32) -> Value<'_> {
                match number {
                    $($number => self.$field.value(),)+
                    _ => Value::Nothing,
                }
            }
            fn place(&mut self, number: u32) -> Place<'_> {
                match number {
                    $($number => self.$field.place(),)+
                    _ => Place::Nothing,
                }
            }
            fn is_same(&self, other: &dyn Object) -> bool {
                other.as_any().downcast_ref() == Some(self)
            }
            fn as_any(&self) -> &dyn Any {
                self
            }
        }
    )+};
}
tidings_core::event_types!(objects);

/// Further types of the API that are not part of an event.
macro_rules! companions {
    ($then:path $(, $version:ident)?) => { $then! { $($version;)?

LIST_META ListMeta "What all lists have in common." {
    self_link: Text = 1 "selfLink" omitted "";
    resource_version: Text = 2 "resourceVersion" omitted "";
    r#continue: Text = 3 "continue" omitted "";
    remaining_item_count: Int64 = 4 "remainingItemCount" pointer "";
}

DELETE_OPTIONS DeleteOptions "How to delete." {
    grace_period_seconds: Int64 = 1 "gracePeriodSeconds" pointer "";
    preconditions: Object(PRECONDITIONS) = 2 "preconditions" omitted "";
    orphan_dependents: Bool = 3 "orphanDependents" omitted "";
    propagation_policy: Text = 4 "propagationPolicy" omitted "";
    dry_run: Set = 5 "dryRun" omitted "";
    ignore_store_read_error_with_cluster_breaking_potential: Bool
        = 6 "ignoreStoreReadErrorWithClusterBreakingPotential" omitted "";
}

PRECONDITIONS Preconditions "What has to hold of an object that is deleted." {
    uid: Text = 1 "uid" omitted "";
    resource_version: Text = 2 "resourceVersion" omitted "";
}

    } };
}
companions!(tidings_core::field_tables, core);
companions!(objects);

/// An object of any kind, whose fields are all skipped.
#[derive(Default)]
pub(crate) struct Skipped;

/// The type of a skipped object: it has no fields.
pub(crate) static SKIPPED: Type = Type {
    name: "Unknown",
    about: "",
    atomic: true,
    fields: &[],
    by_number: &[],
};

impl Object for Skipped {
    fn value(&self, _number: u32) -> Value<'_> {
        Value::Nothing
    }
    fn place(&mut self, _number: u32) -> Place<'_> {
        Place::Nothing
    }
    fn is_same(&self, other: &dyn Object) -> bool {
        other.as_any().is::<Self>()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An object that a document is written from.
#[derive(Clone, Copy)]
pub(crate) struct ObjectSource<'a>(pub(crate) &'a dyn Object);

impl Source for ObjectSource<'_> {
    fn give<K: Sink>(&self, field: &Field, sink: &mut K) -> Option<()> {
        match self.0.value(field.stored) {
            Value::Text(text) => sink.text(text),
            Value::Integer(integer) => sink.integer(integer),
            Value::Bool(boolean) => sink.boolean(boolean),
            Value::Time(time) => sink.time(time),
            Value::Map(map) => map.iter().for_each(|(key, value)| sink.entry(key, value)),
            Value::Set(texts) => texts.iter().for_each(|text| sink.text_item(text)),
            Value::Json(json) => {
                sink.json(json.map(|json| if json.is_empty() { b"null" } else { json }));
            }
            Value::Object(object) => sink.object(object.map(ObjectSource).as_ref())?,
            Value::List(list) => {
                for place in 0..list.len() {
                    sink.item(&ObjectSource(list.get(place)?))?;
                }
            }
            Value::Nothing => Nothing.give(field, sink)?,
        }
        Some(())
    }
}

/// Converts an object to canonical form, so that equal objects have equal bytes. Empty fields are
/// unset, objects that are always present are set, and times have their field's precision.
pub(crate) fn canonicalize(of: &Type, object: &mut dyn Object) {
    for field in of.fields {
        match object.place(field.stored) {
            Place::Text(text) if text.as_deref() == Some("") => *text = None,
            Place::Int32(integer) if *integer == Some(0) => *integer = None,
            Place::Int64(integer) if *integer == Some(0) && field.rule == Rule::Omitted => {
                *integer = None;
            }
            Place::Time(time) => {
                let moment = moment(time.get()).map(|moment| match field.kind {
                    Kind::MicroTime => moment.truncated_to_micros(),
                    _ => Moment { nanos: 0, ..moment },
                });
                time.set(moment);
            }
            Place::Object(place) => {
                if field.is_always_there() && place.get().is_none() {
                    place.set_empty();
                }
                if let (Some(object), Kind::Object(of)) = (place.get(), field.kind) {
                    canonicalize(of, object);
                }
            }
            Place::List(list) => {
                if let Kind::List(of, _) = field.kind {
                    for place in 0..list.len() {
                        if let Some(item) = list.get_mut(place) {
                            canonicalize(of, item);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// Refuses times that cannot be printed. `around` is the path of the object, with a final dot, for
/// the error.
pub(crate) fn check_times(of: &Type, object: &mut dyn Object, around: &str) -> Result<(), String> {
    for field in of.fields {
        match object.place(field.stored) {
            Place::Time(time) => {
                if let Some((Some(seconds), nanos)) = time.get()
                    && Moment::new(seconds, nanos.unwrap_or(0)).is_none()
                {
                    let name = field.name();
                    return Err(format!(
                        "{around}{name}: {seconds} s is not in the years 0 to 9999"
                    ));
                }
            }
            Place::Object(place) => {
                if let (Some(object), Kind::Object(of)) = (place.get(), field.kind) {
                    check_times(of, object, &format!("{around}{}.", field.name()))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
