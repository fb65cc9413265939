//! Repairs texts of events that are not UTF-8.
//!
//! Go does not check the texts of a protobuf message, neither when it writes nor when it reads one.
//! So an API server accepts and stores a message that was cut within a character, such as the
//! output of a probe, and shows U+FFFD in JSON.

use bytes::Bytes;
use tidings_core::fields::{Kind, Type};

use super::wire::{Message, Value, put_bytes, put_field};

/// Replaces bytes that are not UTF-8 by U+FFFD in the event's own texts. `None` if all are UTF-8,
/// or if the message cannot be read.
///
/// Texts of the objects in the event stay as they are: they are names, and a changed name means
/// another object. The message becomes at most three times as long.
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
