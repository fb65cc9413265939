//! JSON forms of times and numbers in answers: RFC 3339, seconds, and resourceVersions as texts.

#![expect(
    clippy::trivially_copy_pass_by_ref,
    clippy::ref_option,
    reason = "serde passes fields by reference"
)]

use jiff::Timestamp;
use tidings_store::UnixMillis;

/// Converts a moment to a timestamp. A moment beyond the timestamps becomes the nearest one.
///
/// ```
/// use tidings_history::timestamp;
/// use tidings_store::UnixMillis;
///
/// assert_eq!(timestamp(UnixMillis(1500)).to_string(), "1970-01-01T00:00:01.5Z");
/// assert_eq!(timestamp(UnixMillis(i64::MAX)), jiff::Timestamp::MAX);
/// ```
pub fn timestamp(at: UnixMillis) -> Timestamp {
    let nearest = if at.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    Timestamp::from_millisecond(at.0).unwrap_or(nearest)
}

/// A moment in RFC 3339.
pub(crate) mod time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tidings_store::UnixMillis;

    pub(crate) fn serialize<S: Serializer>(at: &UnixMillis, to: S) -> Result<S::Ok, S::Error> {
        super::timestamp(*at).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UnixMillis, D::Error> {
        let at = Timestamp::deserialize(from)?;
        Ok(UnixMillis(at.as_millisecond()))
    }
}

/// A moment in RFC 3339, or null.
pub(crate) mod optional_time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tidings_store::UnixMillis;

    pub(crate) fn serialize<S: Serializer>(
        at: &Option<UnixMillis>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(super::timestamp).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<UnixMillis>, D::Error> {
        let at = Option::<Timestamp>::deserialize(from)?;
        Ok(at.map(|at| UnixMillis(at.as_millisecond())))
    }
}

/// A duration in whole seconds.
pub(crate) mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        time.as_secs().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_secs)
    }
}

/// A resourceVersion, which Kubernetes writes as a text.
pub(crate) mod number {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn parse<E: Error>(text: &str) -> Result<u64, E> {
        let parsed = text.parse();
        parsed.map_err(|_| E::custom(format!("the resourceVersion {text:?} is no number")))
    }

    pub(crate) fn serialize<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
        number.to_string().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        parse(&String::deserialize(from)?)
    }
}

/// A resourceVersion as a text, or null.
pub(crate) mod optional_number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        number.map(|number| number.to_string()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| super::number::parse(&text)).transpose()
    }
}
