//! Tests of the log's format: its bytes, and that each decoder reads its encoder's bytes.

use proptest::prelude::*;

use super::*;

fn bucket() -> impl Strategy<Value = u64> {
    prop_oneof![Just(NEVER), 1..=1u64 << 62]
}

/// A bucket, and an expiry in it.
pub(in crate::embedded) fn expiring() -> impl Strategy<Value = (u64, Option<UnixMillis>)> {
    (bucket(), any::<u64>()).prop_map(|(bucket, before)| {
        let at = UnixMillis((bucket - before % bucket).cast_signed());
        (bucket, (bucket != NEVER).then_some(at))
    })
}

proptest! {
    #[test]
    fn version_round_trips(
        revision: u64,
        (bucket, expires_at) in expiring(),
        back in proptest::option::of((1..=u64::MAX, bucket())),
        dictionary: Option<u32>,
        len in 0..=1usize << 40,
        bytes: Vec<u8>,
    ) {
        let previous = back.map(|(back, bucket)| (revision.wrapping_sub(back), bucket));
        let version = Version { expires_at, previous, body: Packed { dictionary, len, bytes: &bytes } };
        let bytes = version.encode(revision, bucket);
        prop_assert_eq!(Version::decode(&bytes, revision, bucket)?, version);
    }

    #[test]
    fn body_round_trips(
        key in proptest::collection::vec(any::<u8>(), 1..50),
        strings: [String; 4],
        others: Option<(String, String)>,
        last_seen: i64,
        value: Vec<u8>,
    ) {
        let [object_uid, object_kind, object_namespace, object_name] = strings;
        let last_seen = UnixMillis(last_seen);
        let (reason, event_type) = others.unwrap_or_default();
        let object = Index { object_uid, object_kind, object_namespace, object_name, ..Index::default() };
        let index = Index { reason, event_type, last_seen, ..object };
        let body = encode_body(&key, &index, &value);
        let (key_at, read, value_at) = decode_body(&body)?;
        prop_assert_eq!(split_body(&body)?, (key_at.clone(), value_at));
        prop_assert_eq!((&body[key_at], read, &body[value_at..]), (&key[..], index, &value[..]));
    }

    #[test]
    fn ends_round_trip(expired: bool, bucket in bucket(), versions: Vec<u64>) {
        let ends = Ends { expired, bucket, versions };
        prop_assert_eq!(Ends::decode(&ends.encode())?, ends);
    }

    #[test]
    fn decoding_anything_never_panics(bytes: Vec<u8>) {
        let _ = Version::decode(&bytes, 1, 1);
        let _ = decode_body(&bytes);
        let _ = split_body(&bytes);
        let _ = Ends::decode(&bytes);
    }
}

/// These bytes are the format: a change here is a change of the format.
#[test]
fn bytes_are_these() {
    let expires_at = Some(UnixMillis(900));
    let version = Version {
        expires_at,
        previous: Some((298, 2)),
        body: Packed {
            dictionary: Some(0),
            len: 5,
            bytes: b"abc",
        },
    };
    assert_eq!(
        version.encode(300, 1000),
        [100, 2, 2, 1, 5, b'a', b'b', b'c']
    );
    let ends = Ends {
        expired: true,
        bucket: 7,
        versions: vec![4, 5, 9],
    };
    assert_eq!(ends.encode(), [1, 7, 3, 4, 1, 4]);
    // A body of format 3, and one with a reason and a type.
    let index = Index {
        object_uid: "u".into(),
        last_seen: UnixMillis(-1),
        ..Index::default()
    };
    assert_eq!(encode_body(b"k", &index, b"v"), *b"\x01k\x01u\0\0\0\x01v");
    let index = Index {
        reason: "r".into(),
        ..index
    };
    assert_eq!(
        encode_body(b"k", &index, b"v"),
        *b"\0\x01k\x01u\0\0\0\x01r\0\x01v"
    );
}

#[test]
fn a_record_that_no_store_accepts_is_damaged() {
    for (key_len, reason_len, expected) in [
        (1, 0, true),
        (KEY_LEN_MAX, INDEX_LEN_MAX, true),
        (0, 0, false),
        (KEY_LEN_MAX + 1, 0, false),
    ] {
        let index = Index {
            reason: "r".repeat(reason_len),
            ..Index::default()
        };
        let body = encode_body(&vec![b'k'; key_len], &index, b"value");
        assert_eq!(decode_body(&body).is_ok(), expected, "{key_len}");
        assert_eq!(split_body(&body).is_ok(), expected, "{key_len}");
    }
    let index = Index {
        reason: "r".repeat(INDEX_LEN_MAX + 1),
        ..Index::default()
    };
    assert!(decode_body(&encode_body(b"k", &index, b"value")).is_err());
}
