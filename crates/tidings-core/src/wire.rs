//! Writes events of any representation as JSON and protobuf, with the same bytes as Go's encoders.
//!
//! A [`Source`] passes its fields one by one to a [`Sink`]. The tables of [`fields`](crate::fields)
//! list the fields and when each is written. Sources are the types of k8s-openapi here, and in
//! tidings-api those of k8s-pb and stored bytes.

mod json;
mod moment;
mod protobuf;
mod text;
mod time;

use crate::fields::{Field, Kind};

pub use json::{Members, write_fields, write_members, write_object};
pub use moment::{Moment, moment};
pub(crate) use protobuf::envelope;
pub use protobuf::{MAGIC, put_varint, varint, varint_len};
pub(crate) use text::escape;
pub use text::{write_integer, write_string};
pub use time::{write_micro_time, write_time};

/// An object that can be written. Its methods return `None` if its bytes are not in the usual form.
pub trait Source {
    /// Passes the value of a field to a sink.
    fn give<K: Sink>(&self, field: &Field, sink: &mut K) -> Option<()>;
}

/// Receives the value of one field; each method is for one kind of field. Items of a list and
/// members of a map come one by one.
pub trait Sink {
    /// Receives a text, which is empty if it is unset.
    fn text(&mut self, text: &str);
    /// Receives an integer.
    fn integer(&mut self, integer: Option<i64>);
    /// Receives a boolean.
    fn boolean(&mut self, boolean: Option<bool>);
    /// Receives a time.
    fn time(&mut self, time: Option<Moment>);
    /// Receives an object.
    fn object<S: Source>(&mut self, object: Option<&S>) -> Option<()>;
    /// Receives an object of a list.
    fn item<S: Source>(&mut self, item: &S) -> Option<()>;
    /// Receives a text of a list.
    fn text_item(&mut self, item: &str);
    /// Receives a member of a map.
    fn entry(&mut self, key: &str, value: &str);
    /// Receives JSON, which is written unchanged.
    fn json(&mut self, json: Option<&[u8]>);
}

/// An object without any field set.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Source for Nothing {
    fn give<K: Sink>(&self, field: &Field, sink: &mut K) -> Option<()> {
        match field.kind {
            Kind::Text => sink.text(""),
            Kind::Int32 | Kind::Int64 => sink.integer(None),
            Kind::Bool => sink.boolean(None),
            Kind::Time | Kind::MicroTime => sink.time(None),
            Kind::Json => sink.json(None),
            Kind::Object(_) => sink.object(None::<&Self>)?,
            Kind::Map | Kind::Set | Kind::List(..) => {}
        }
        Some(())
    }
}
