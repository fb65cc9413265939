//! The maximum size of a stored event, and the treatment of larger ones.

use k8s_pb::api::core::v1::Event;
use prost::Message;
use tidings_core::floor_char_boundary;

use crate::http::status::Status;

/// The annotation of an event whose message was cut. Its value is the original length of the
/// message in bytes.
pub const TRUNCATED_ANNOTATION: &str = "tidings/message-truncated";

/// The end of a message that was cut.
const ELLIPSIS: &str = "…";
/// Upper bound of the annotation's bytes in an encoded event: name, number, and their lengths.
const ANNOTATION_BYTES: usize = TRUNCATED_ANNOTATION.len() + 32;

/// Bytes of the envelope around a stored event.
const ENVELOPE_BYTES: usize = 32;

/// The treatment of an event that is too large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Oversized {
    /// The event is refused with 413. (kube-apiserver with etcd refuses with 500.)
    #[default]
    Reject,
    /// The event's message is cut, and [`TRUNCATED_ANNOTATION`] is added. The event is refused only
    /// if it is still too large.
    TruncateMessage,
}

/// The size limit for one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSizeLimit {
    /// Maximum bytes of an event as stored (Kubernetes' protobuf). Default: 1.5 MiB. That is etcd's
    /// own default, and also the maximum.
    pub bytes_max: usize,
    /// The treatment of larger events. Default: they are refused.
    pub oversized: Oversized,
}

impl Default for EventSizeLimit {
    fn default() -> Self {
        Self {
            bytes_max: tidings_store::VALUE_LEN_MAX,
            oversized: Oversized::default(),
        }
    }
}

impl EventSizeLimit {
    /// A limit in bytes, and the treatment of larger events.
    pub fn new(bytes_max: usize, oversized: Oversized) -> Self {
        Self {
            bytes_max,
            oversized,
        }
    }

    /// Makes an event fit, if its message may be cut. Returns whether it was cut. Cutting is
    /// idempotent: a client that sends its long message again changes nothing.
    pub(super) fn fit(self, event: &mut Event) -> Result<bool, Status> {
        if event.encoded_len() + ENVELOPE_BYTES <= self.bytes_max {
            return Ok(false);
        }
        // The position of the cut must not depend on the resourceVersion, which is not stored, or
        // on the annotation of an earlier cut.
        let metadata = event.metadata.get_or_insert_default();
        let resource_version = metadata.resource_version.take();
        let said = metadata.annotations.remove(TRUNCATED_ANNOTATION);
        let len = event.encoded_len() + ENVELOPE_BYTES;
        let marked = if said.is_some() { ANNOTATION_BYTES } else { 0 };
        let fitted = if len + marked <= self.bytes_max {
            Ok(said)
        } else if self.oversized == Oversized::TruncateMessage {
            self.cut(event, len, said).map(Some)
        } else {
            Err(Status::event_too_large(len + marked, self.bytes_max))
        };
        let metadata = event.metadata.get_or_insert_default();
        metadata.resource_version = resource_version;
        let Some(said) = fitted? else {
            return Ok(false);
        };
        metadata
            .annotations
            .insert(TRUNCATED_ANNOTATION.into(), said);
        Ok(true)
    }

    /// Cuts the message of an event of `len` bytes. Returns the value for the annotation.
    fn cut(self, event: &mut Event, len: usize, said: Option<String>) -> Result<String, Status> {
        let whole = event.message().len();
        let over = len.saturating_sub(self.bytes_max) + ELLIPSIS.len() + ANNOTATION_BYTES;
        let Some(keep) = whole.checked_sub(over) else {
            return Err(Status::event_too_large(len, self.bytes_max));
        };
        let mut message = event.message.take().unwrap_or_default();
        // The annotation of an earlier cut has the original length.
        let said = said.filter(|_| message.ends_with(ELLIPSIS));
        message.truncate(floor_char_boundary(&message, keep));
        message.push_str(ELLIPSIS);
        event.message = Some(message);
        Ok(said.unwrap_or_else(|| whole.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use proptest::prelude::*;

    use super::*;

    fn event(message: &str) -> Event {
        Event {
            metadata: Some(ObjectMeta::default()),
            reason: Some("BackOff".into()),
            message: Some(message.into()),
            ..Event::default()
        }
    }

    proptest! {
        #[test]
        fn what_is_cut_fits_and_is_the_beginning(message in "[a-z€🦀]{0,400}", bytes_max in 0..1000_usize) {
            let limit = EventSizeLimit::new(bytes_max, Oversized::TruncateMessage);
            let mut cut = event(&message);
            let len = cut.encoded_len() + ENVELOPE_BYTES;
            match limit.fit(&mut cut) {
                Ok(false) => prop_assert!(len <= bytes_max && cut == event(&message)),
                Ok(true) => {
                    let mut again = cut.clone();
                    again.message = Some(message.clone());
                    prop_assert!(limit.fit(&mut again).is_ok());
                    prop_assert_eq!(&again, &cut);
                    prop_assert!(len > bytes_max && cut.encoded_len() + ENVELOPE_BYTES <= bytes_max);
                    let kept = cut.message().strip_suffix(ELLIPSIS).unwrap();
                    prop_assert!(message.starts_with(kept));
                    // No more is lost than the mark, its annotation and a character take.
                    prop_assert!(cut.encoded_len() + ENVELOPE_BYTES + ANNOTATION_BYTES + 8 > bytes_max);
                    let said = &cut.metadata.as_ref().unwrap().annotations[TRUNCATED_ANNOTATION];
                    prop_assert_eq!(said, &message.len().to_string());
                }
                Err(_) => prop_assert!(len - bytes_max + ANNOTATION_BYTES + 3 > message.len()),
            }
        }
    }

    #[test]
    fn nothing_is_cut_unless_asked() {
        let mut whole = event("a long message");
        let status = EventSizeLimit::new(10, Oversized::Reject).fit(&mut whole);
        assert_eq!(status.unwrap_err().code(), 413);
        assert_eq!(whole, event("a long message"));
    }
}
