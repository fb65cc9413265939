//! Reads the parts of Kubernetes' protobuf that sinks need: a `Status` in its envelope, with which
//! a server refuses a protobuf request, and the resourceVersion of an event in the answer to a
//! write.
//!
//! Invariant: any bytes are read without a panic, and without memory beyond their own size. Unknown
//! parts are skipped.

use tidings_core::wire::{MAGIC, varint};

use super::said::Said;

/// The media type of Kubernetes protobuf.
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The `Status` in `body`, if the body is a protobuf Status.
pub(super) fn status(body: &[u8]) -> Option<Said> {
    let unknown = body.strip_prefix(MAGIC)?;
    let type_meta = fields(unknown).find_map(|field| field.bytes(1))?;
    if fields(type_meta).find_map(|field| field.bytes(2))? != b"Status" {
        return None;
    }
    let message = fields(unknown).find_map(|field| field.bytes(2))?;
    let mut said = Said::default();
    for field in fields(message) {
        match (field.number, field.value) {
            (3, Value::Bytes(text)) => said.message = lossy(text),
            (4, Value::Bytes(text)) => said.reason = lossy(text),
            (5, Value::Bytes(details)) => read_details(details, &mut said),
            _ => {}
        }
    }
    Some(said)
}

/// The resourceVersion of the object in `body`, if the body is a protobuf object; empty if the
/// object has none.
pub(super) fn resource_version(body: &[u8]) -> Option<String> {
    let unknown = body.strip_prefix(MAGIC)?;
    let message = fields(unknown).find_map(|field| field.bytes(2))?;
    let metadata = fields(message).find_map(|field| field.bytes(1))?;
    let version = fields(metadata).find_map(|field| field.bytes(6));
    Some(lossy(version.unwrap_or_default()))
}

fn read_details(message: &[u8], said: &mut Said) {
    for field in fields(message) {
        match (field.number, field.value) {
            (4, Value::Bytes(cause)) => {
                let reason = fields(cause).find_map(|field| field.bytes(1));
                said.causes.extend(reason.map(lossy));
            }
            (5, Value::Number(seconds)) => said.retry_after_seconds = seconds,
            _ => {}
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One field of a protobuf message.
#[derive(Clone, Copy)]
struct Field<'a> {
    number: u64,
    value: Value<'a>,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A field of fixed width, which no message read here has.
    Fixed,
}

impl<'a> Field<'a> {
    fn bytes(self, number: u64) -> Option<&'a [u8]> {
        match self.value {
            Value::Bytes(bytes) if self.number == number => Some(bytes),
            _ => None,
        }
    }
}

/// The fields of a message, up to the first that cannot be read.
fn fields(mut message: &[u8]) -> impl Iterator<Item = Field<'_>> {
    std::iter::from_fn(move || {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)?),
            1 => take(&mut message, 8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                Value::Bytes(take(&mut message, length)?)
            }
            5 => take(&mut message, 4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some(Field {
            number: key >> 3,
            value,
        })
    })
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The refusal of an event whose namespace is being deleted, with a wait. Its messages are
    /// those of apimachinery's `generated.proto`.
    const REFUSAL: &[u8] = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x88\x01\x0a\x06\x0a\0\x12\0\x1a\0\x12\x07Failure\x1a\x1eforbidden: is being terminated\
        \x22\x09Forbidden\x2aG\x0a\x03web\x12\0\x1a\x06events\x22\x32\x0a\x14NamespaceTerminating\x12\x06gone: \x1a\x12metadata.namespace\x28\x02\x32\0\x30\x93\x03\x1a\0\x22\0";

    #[test]
    fn fields_of_every_kind_are_passed_over() {
        let message = b"\x08\x96\x01\x11........\x1a\x02hi\x25....\x2a\x01!";
        let found: Vec<_> = fields(message)
            .map(|field| (field.number, field.bytes(field.number)))
            .collect();
        assert_eq!(
            found,
            [
                (1, None),
                (2, None),
                (3, Some(&b"hi"[..])),
                (4, None),
                (5, Some(&b"!"[..]))
            ]
        );
        // A group, which proto3 has no longer, ends the reading.
        assert_eq!(fields(b"\x0b\x2a\x01!").count(), 0);
    }

    #[test]
    fn a_refusal_is_read() {
        let expected = Said {
            message: "forbidden: is being terminated".to_owned(),
            reason: "Forbidden".to_owned(),
            causes: vec!["NamespaceTerminating".to_owned()],
            retry_after_seconds: 2,
        };
        assert_eq!(status(REFUSAL), Some(expected));
    }

    #[test]
    fn what_is_no_status_is_none() {
        let event = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x04\x0a\0\x12\0";
        for body in [&b""[..], b"k8s\0", b"{\"kind\":\"Status\"}", event] {
            assert!(status(body).is_none(), "{body:?}");
        }
    }

    #[test]
    fn the_version_of_an_event_is_read() {
        let event =
            b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x0b\x0a\x09\x0a\x03web\x32\x0242\x1a\0";
        assert_eq!(resource_version(event), Some("42".to_owned()));
        let bare = b"k8s\0\x0a\x0b\x0a\x02v1\x12\x05Event\x12\x04\x0a\0\x12\0";
        assert_eq!(resource_version(bare), Some(String::new()));
        assert_eq!(resource_version(b"{}"), None);
    }

    proptest! {
        /// Any bytes, and a valid refusal with one byte changed or its end cut.
        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), at in 0..REFUSAL.len(), with in any::<u8>()) {
            let _ = status(&[MAGIC, &bytes].concat());
            let _ = status(&REFUSAL[..at]);
            let mut changed = REFUSAL.to_vec();
            changed[at] = with;
            let _ = status(&changed);
            let _ = resource_version(&changed);
        }
    }
}
