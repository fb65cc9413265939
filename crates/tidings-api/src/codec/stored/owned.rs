//! An owned copy of a [`Brief`], in one allocation, without the rest of the stored bytes.

use super::brief::Brief;

/// Number of texts in a brief.
const TEXTS: usize = 14;

/// A copy of a [`Brief`], for callers that hold many events without their stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedBrief {
    first: i64,
    last: i64,
    last_nanos: i32,
    count: u64,
    /// All texts, one after the other; below, where each ends.
    texts: Box<str>,
    ends: [u32; TEXTS],
}

impl OwnedBrief {
    /// Copies a brief, with at most the first `message_max` bytes of its message. The message is
    /// cut between characters.
    pub fn new(brief: &Brief<'_>, message_max: usize) -> Self {
        let all = [
            brief.namespace,
            brief.name,
            brief.uid,
            brief.kind,
            brief.object_namespace,
            brief.object,
            brief.object_uid,
            brief.field_path,
            brief.event_type,
            brief.reason,
            beginning(brief.message, message_max),
            brief.action,
            brief.component,
            brief.host,
        ];
        let mut texts = String::with_capacity(all.iter().map(|text| text.len()).sum());
        let ends = all.map(|text| {
            texts.push_str(text);
            // A stored event has at most 3 MiB, so 32 bits are enough.
            u32::try_from(texts.len()).unwrap_or(u32::MAX)
        });
        Self {
            first: brief.first,
            last: brief.last,
            last_nanos: brief.last_nanos,
            count: brief.count,
            texts: texts.into(),
            ends,
        }
    }

    /// The brief view of the event.
    pub fn brief(&self) -> Brief<'_> {
        let mut from = 0;
        let [
            namespace,
            name,
            uid,
            kind,
            object_namespace,
            object,
            object_uid,
            field_path,
            event_type,
            reason,
            message,
            action,
            component,
            host,
        ] = self.ends.map(|end| {
            let text = self.texts.get(from..end as usize).unwrap_or_default();
            from = end as usize;
            text
        });
        Brief {
            namespace,
            name,
            uid,
            kind,
            object_namespace,
            object,
            object_uid,
            field_path,
            event_type,
            reason,
            message,
            action,
            component,
            host,
            first: self.first,
            last: self.last,
            last_nanos: self.last_nanos,
            count: self.count,
        }
    }

    /// Bytes of memory that the copy takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.texts.len()
    }
}

fn beginning(message: &str, max: usize) -> &str {
    let mut end = max.min(message.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_says_the_same_but_for_the_end_of_a_long_message() {
        let brief = Brief {
            namespace: "shop",
            name: "web.1",
            uid: "1",
            kind: "Pod",
            object_namespace: "shop",
            object: "web",
            object_uid: "2",
            field_path: "",
            event_type: "Warning",
            reason: "BackOff",
            message: "zurück",
            action: "Back",
            component: "kubelet",
            host: "node-1",
            first: -1,
            last: 7,
            last_nanos: 252_000,
            count: 3,
        };
        for (max, message) in [
            (100, "zurück"),
            (7, "zurück"),
            (5, "zurü"),
            (4, "zur"),
            (0, ""),
        ] {
            let copy = OwnedBrief::new(&brief, max);
            assert_eq!(copy.brief(), Brief { message, ..brief }, "{max}");
        }
    }
}
