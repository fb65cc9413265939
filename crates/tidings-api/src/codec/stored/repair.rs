//! Texts of events that are not UTF-8.
//!
//! Go does not check the texts of a protobuf message, neither when it writes nor when it reads one.
//! So an API server accepts and stores a message that was cut to a number of bytes within a
//! character, as the output of a probe is, and shows U+FFFD in JSON.

use bytes::Bytes;
use tidings_core::fields::{Kind, Type};

use super::wire::{Message, Value, put_bytes, put_field};

/// The message of an event of this type with U+FFFD where its own texts are not UTF-8. `None` if
/// they are, or if the message cannot be read.
///
/// Texts of the objects in it stay as they are: these are names, which nothing else may become. The
/// message becomes three times as long at most.
pub(crate) fn repaired(of: &Type, event: &[u8]) -> Option<Bytes> {
    let is_text = |number: usize| {
        let mut fields = of.fields.iter();
        fields.any(|field| field.number as usize == number && matches!(field.kind, Kind::Text))
    };
    let message = Message::read(event)?;
    let mut repaired = Vec::with_capacity(event.len());
    let mut is_changed = false;
    for field in message.fields() {
        match field? {
            (number, Value::Bytes(text))
                if is_text(number) && std::str::from_utf8(text).is_err() =>
            {
                let text = String::from_utf8_lossy(text);
                put_bytes(number, text.as_bytes(), &mut repaired);
                is_changed = true;
            }
            (number, value) => put_field(number, value, &mut repaired),
        }
    }
    is_changed.then(|| repaired.into())
}

#[cfg(test)]
mod tests {
    use tidings_core::fields::{core_v1, events_v1};

    use super::super::wire::bytes_field;
    use super::*;

    #[test]
    fn every_text_of_an_event_is_repaired_and_nothing_else() {
        for of in [&core_v1::EVENT, &events_v1::EVENT] {
            for field in of.fields {
                let [sent, shown] = [&b"cut \xff"[..], "cut \u{fffd}".as_bytes()]
                    .map(|value| Bytes::from(bytes_field(field.number as usize, value)));
                let is_text = matches!(field.kind, Kind::Text);
                let expected = is_text.then(|| shown.clone());
                assert_eq!(repaired(of, &sent), expected, "{}", field.name());
                assert_eq!(repaired(of, &shown), None, "{}", field.name());
            }
        }
    }
}
