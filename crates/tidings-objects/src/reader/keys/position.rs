//! The place of an event in the order of lists, and the keys that encode it.
//!
//! The order is by namespace, kind and name of the object, then by the event's name and uid.
//!
//! A key is the namespace, a slash, and the other parts in hexadecimal digits. So it is valid in a
//! continue token, whatever text is in an event.

use std::fmt::Write;

use bytes::Bytes;

use super::place::Place;

/// The place of one event; see the module documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::reader) struct Position {
    pub(in crate::reader) place: Place,
    /// The event's name at the source.
    pub(in crate::reader) base: String,
    pub(in crate::reader) uid: String,
}

impl Position {
    pub(in crate::reader) fn key(&self) -> Bytes {
        let [namespace, kind, name] = &self.place;
        let mut key = format!("{namespace}/");
        for (at, part) in [kind, name, &self.base, &self.uid].into_iter().enumerate() {
            if at > 0 {
                key.push('-');
            }
            for byte in part.as_bytes() {
                // Writing to a text cannot fail.
                let _ = write!(key, "{byte:02x}");
            }
        }
        key.into()
    }

    /// Decodes a key. For `NAMESPACE/` and the byte 0xff it returns a position after the whole
    /// namespace.
    pub(in crate::reader) fn of(key: &[u8]) -> Option<Self> {
        if let Some(namespace) = key.strip_suffix(b"/\xff") {
            let namespace = std::str::from_utf8(namespace).ok()?;
            return Some(Self {
                place: [format!("{namespace}\0"), String::new(), String::new()],
                base: String::new(),
                uid: String::new(),
            });
        }
        let (namespace, rest) = std::str::from_utf8(key).ok()?.split_once('/')?;
        let mut parts = rest.split('-').map(text);
        let mut next = || parts.next().flatten();
        let (kind, name) = (next()?, next()?);
        let (base, uid) = (next()?, next()?);
        parts.next().is_none().then(|| Self {
            place: [namespace.to_owned(), kind, name],
            base,
            uid,
        })
    }
}

fn text(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    String::from_utf8(pairs.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_the_position() {
        for parts in [
            ["shop", "Pod", "web-0", "web-0.17a", "uid"],
            ["", "", "", "", ""],
            ["shop", "a/b-c", "\0ü", "..", "-"],
        ] {
            let [namespace, kind, name, base, uid] = parts.map(str::to_owned);
            let place = [namespace, kind, name];
            let position = Position { place, base, uid };
            let key = position.key();
            assert_eq!(Position::of(&key), Some(position), "{key:?}");
        }
    }

    #[test]
    fn a_namespace_is_passed_over() {
        let of = |namespace: &str| Position {
            place: [namespace, "\u{10ffff}", ""].map(str::to_owned),
            base: String::new(),
            uid: String::new(),
        };
        let behind = Position::of(b"a/\xff").unwrap();
        assert!(behind > of("a") && behind < of("a-b") && behind < of("b"));
    }

    #[test]
    fn what_is_no_key() {
        for key in [
            "",
            "shop",
            "shop/web-0.17a",
            "shop/50-6-7-8",
            "shop/50-60-70-80-90",
            "a/5+-60-70-80",
        ] {
            assert_eq!(Position::of(key.as_bytes()), None, "{key}");
        }
    }
}
