//! Conversion between store keys and etcd keys. An etcd key is the prefix and the store key.

use bytes::{BufMut, Bytes, BytesMut};

pub(super) struct Keys {
    prefix: Bytes,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: Bytes::copy_from_slice(prefix.as_bytes()),
        }
    }

    /// The etcd key of a store key.
    pub(super) fn full(&self, key: &[u8]) -> Bytes {
        let mut full = BytesMut::with_capacity(self.prefix.len() + key.len() + 1);
        full.put_slice(&self.prefix);
        full.put_slice(key);
        full.freeze()
    }

    /// The store key of an etcd key.
    pub(super) fn short(&self, full: &Bytes) -> Bytes {
        full.slice(self.prefix.len().min(full.len())..)
    }

    /// The etcd range of all keys of the store.
    pub(super) fn all(&self) -> (Bytes, Bytes) {
        (self.prefix.clone(), end(&self.prefix))
    }

    /// The etcd range of the keys under a prefix that come after a key.
    pub(super) fn range(&self, prefix: &[u8], after: Option<&Bytes>) -> (Bytes, Bytes) {
        let first = self.full(prefix);
        let begin = match after {
            Some(after) if after[..] >= *prefix => {
                let mut next = BytesMut::from(&self.full(after)[..]);
                next.put_u8(0);
                next.freeze()
            }
            _ => first.clone(),
        };
        (begin, end(&first))
    }
}

/// The first key after all keys with a prefix. If there is none, it is a single zero byte, which
/// etcd reads as "to the end of all keys".
fn end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(&[0])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_range_holds_the_keys_with_the_prefix_behind_the_key(
            prefix: Vec<u8>,
            after: Option<Vec<u8>>,
            tail: Vec<u8>,
            other: Vec<u8>,
        ) {
            let keys = Keys::new("/registry/events/");
            let after = after.map(Bytes::from);
            let (begin, end) = keys.range(&prefix, after.as_ref());
            for key in [[prefix.clone(), tail].concat(), other] {
                let full = keys.full(&key);
                let wanted = key.starts_with(&prefix) && after.as_ref().is_none_or(|after| key[..] > after[..]);
                prop_assert_eq!(begin <= full && full < end, wanted);
                prop_assert_eq!(&keys.short(&full)[..], &key[..]);
            }
        }
    }

    #[test]
    fn the_end_of_a_prefix_of_greatest_bytes_is_the_end_of_all_keys() {
        assert_eq!(&end(b"/a/")[..], b"/a0");
        assert_eq!(&end(&[b'a', 255, 255])[..], b"b");
        assert_eq!(&end(&[255])[..], [0]);
    }
}
