//! Bodies of create requests, written from events of k8s-openapi's types, which the recorder sends.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Event, EventSeries, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, MicroTime, ObjectMeta, OwnerReference, Time,
};

use crate::EventApi;
use crate::fields::{Field, Type, core_v1, events_v1};
use crate::wire::{Sink, Source, envelope, write_fields, write_members};

fn table(api: EventApi) -> &'static Type {
    match api {
        EventApi::Core => &core_v1::EVENT,
        EventApi::Events => &events_v1::EVENT,
    }
}

/// The event as JSON, as client-go sends it. Fields that are deprecated in events.k8s.io/v1 are
/// left out there, or are empty where Go cannot leave them out.
pub(crate) fn json(api: EventApi, mut event: Event) -> Vec<u8> {
    clear_deprecated(api, &mut event);
    let mut out = Vec::with_capacity(1024);
    write_members(&mut out, |members| {
        members.text("kind", "Event");
        members.text("apiVersion", api.api_version());
        // These types always have their fields, so writing them cannot fail.
        members.rest(|out| {
            let _ = write_fields(table(api), &event, out);
        });
    });
    out
}

/// The event as protobuf in an envelope, with the same fields as [`json`].
pub(crate) fn protobuf(api: EventApi, mut event: Event) -> Vec<u8> {
    clear_deprecated(api, &mut event);
    envelope(api.api_version(), table(api), &event).unwrap_or_default()
}

fn clear_deprecated(api: EventApi, event: &mut Event) {
    if api == EventApi::Events {
        event.source = None;
        (event.first_timestamp, event.last_timestamp, event.count) = (None, None, None);
    }
}

/// A Rust type of a field's value.
trait Value {
    fn give<K: Sink>(&self, sink: &mut K) -> Option<()>;
}

/// Implements `Source` for each type that the table names.
macro_rules! sources {
    ($($table:ident $type:ident $($atomic:ident)? $about:literal {
        $($field:ident: $kind:ident $(($($of:tt)+))? = $number:literal $name:literal $rule:ident
            $what:literal $(| $other:ident $($events:literal)* $events_rule:ident
            $events_what:literal)?;)+
    })+) => {$(
        impl Source for $type {
            fn give<K: Sink>(&self, field: &Field, sink: &mut K) -> Option<()> {
                match field.stored {
                    $($number => Value::give(&sources!(@ self $field), sink),)+
                    _ => None,
                }
            }
        }
        impl Value for $type {
            fn give<K: Sink>(&self, sink: &mut K) -> Option<()> {
                sink.object(Some(self))
            }
        }
        impl Value for Option<$type> {
            fn give<K: Sink>(&self, sink: &mut K) -> Option<()> {
                sink.object(self.as_ref())
            }
        }
    )+};
    // The only name that differs in k8s-openapi.
    (@ $event:ident r#type) => { $event.type_ };
    (@ $event:ident $field:ident) => { $event.$field };
}
crate::event_types!(sources);

macro_rules! values {
    ($($type:ty: |$value:ident, $sink:ident| $give:expr;)+) => {$(
        impl Value for $type {
            fn give<K: Sink>(&self, $sink: &mut K) -> Option<()> {
                let $value = self;
                $give;
                Some(())
            }
        }
    )+};
}
values! {
    String: |text, sink| sink.text(text);
    Option<String>: |text, sink| sink.text(text.as_deref().unwrap_or_default());
    Option<i32>: |integer, sink| sink.integer(integer.map(i64::from));
    Option<i64>: |integer, sink| sink.integer(*integer);
    Option<bool>: |boolean, sink| sink.boolean(*boolean);
    Option<Time>: |time, sink| sink.time(time.as_ref().map(|time| time.0.into()));
    Option<MicroTime>: |time, sink| sink.time(time.as_ref().map(|time| time.0.into()));
    Option<BTreeMap<String, String>>: |map, sink| for (key, value) in map.iter().flatten() {
        sink.entry(key, value);
    };
    Option<Vec<String>>: |texts, sink| for text in texts.iter().flatten() {
        sink.text_item(text);
    };
    Option<Vec<OwnerReference>>: |owners, sink| for owner in owners.iter().flatten() {
        sink.item(owner)?;
    };
    Option<Vec<ManagedFieldsEntry>>: |entries, sink| for entry in entries.iter().flatten() {
        sink.item(entry)?;
    };
    Option<FieldsV1>: |fields, sink| {
        let json = fields.as_ref().map(|fields| fields.0.to_string());
        sink.json(json.as_deref().map(str::as_bytes));
    };
}

#[cfg(test)]
mod tests;
