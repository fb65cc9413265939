//! Tests of the index's format: its bytes, their order, and that each decoder reads its encoder's
//! bytes.

use std::ops::RangeBounds;

use super::*;
use crate::HOUR_MILLIS;
use crate::embedded::codec::version::tests::expiring;
use proptest::prelude::*;

proptest! {
    #[test]
    fn pointer_round_trips(revision: u64, (bucket, expires_at) in expiring()) {
        let pointer = Pointer { revision, bucket, expires_at };
        prop_assert_eq!(Pointer::decode(&pointer.encode())?, pointer);
    }

    #[test]
    fn keys_tell_their_revision(revision: u64, end: i64, last_seen: i64) {
        let index = Index { object_uid: "u".into(), last_seen: UnixMillis(last_seen), ..Index::default() };
        let keys = Fields::of(&index, b"n/x").keys(revision);
        let early = early_key(UnixMillis(end), revision);
        prop_assert_eq!(read_early_key(&early)?, (UnixMillis(end), revision));
        for key in keys.chain([early, ended_key(revision)]) {
            prop_assert_eq!(revision_of(&key), Some(revision));
        }
        prop_assert_eq!(revision_of(&count_key(UnixMillis(end), "Killing")), None);
        prop_assert_eq!(revision_of(&counted_key()), None);
    }

    #[test]
    fn keys_sort_newest_first(a: (i64, u64), b: (i64, u64)) {
        let place = |(time, revision)| Place { last_seen: UnixMillis(time), revision };
        let key = |of| By::Reason(7 << 40).key(&place_bytes(place(of)));
        prop_assert_eq!(key(a)[..].cmp(&key(b)[..]), b.cmp(&a));
        prop_assert_eq!(key(a).order().cmp(&key(b).order()), b.cmp(&a));
        prop_assert_eq!(read_place(&key(a))?, place(a));
    }

    #[test]
    fn counts_sort_by_the_latest_hour(a: (i64, String), b: (i64, String)) {
        let key = |(hour, reason): &(i64, String)| count_key(UnixMillis(*hour), reason);
        let order = b.0.cmp(&a.0).then(a.1.cmp(&b.1));
        prop_assert_eq!(key(&a).cmp(&key(&b)), order);
        let key = key(&a);
        prop_assert_eq!(read_count_key(&key)?, (UnixMillis(a.0), &a.1[..]));
    }

    #[test]
    fn ranges_of_counts_have_the_hours_that_are_asked_for(
        hour in -50..50i64,
        since in proptest::option::of(-50 * HOUR_MILLIS..50 * HOUR_MILLIS),
        until in proptest::option::of(-50 * HOUR_MILLIS..50 * HOUR_MILLIS),
        on_the_hour: bool,
    ) {
        let moment = |at: i64| UnixMillis(if on_the_hour { at - at.rem_euclid(HOUR_MILLIS) } else { at });
        let (since, until) = (since.map(moment), until.map(moment));
        let request = CountsRequest { since, until, ..CountsRequest::default() };
        let hour = UnixMillis(hour * HOUR_MILLIS);
        let (first, last) = count_range(&request);
        for reason in ["", "Killing"] {
            let key = count_key(hour, reason);
            let is_in = (first.clone(), last.clone()).contains(&key);
            prop_assert_eq!(is_in, request.in_range(hour));
        }
    }

    #[test]
    fn decoding_anything_never_panics(bytes: Vec<u8>) {
        let _ = Pointer::decode(&bytes);
        let _ = read_place(&bytes);
        let _ = read_count_key(&bytes);
        let _ = read_early_key(&bytes);
        let _ = revision_of(&bytes);
    }
}

/// These bytes are the format: a change here is a change of the format.
#[test]
fn bytes_are_these() {
    let expires_at = Some(UnixMillis(900));
    assert_eq!(
        Pointer {
            revision: 300,
            bucket: 1000,
            expires_at
        }
        .encode(),
        [0xac, 2, 0xe8, 7, 100]
    );
    let index = Index {
        object_uid: "u".into(),
        reason: "Killing".into(),
        event_type: "Warning".into(),
        ..Index::default()
    };
    let keys: Vec<_> = Fields::of(&index, b"n/x")
        .keys(1)
        .map(|key| key.to_vec())
        .collect();
    let place = b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe";
    let by_uid = ObjectKey::of(&ObjectSelector::Uid("u".into()), b"").unwrap();
    assert_eq!(keys[0][..9], By::Object(by_uid).prefix()[..]);
    assert_eq!(
        keys[0][..9],
        [b'o', 0x0d, 0xe0, 0xf3, 0xce, 0xf1, 0xe7, 0x69, 0x22]
    );
    assert_eq!(keys[1][..1], *b"g");
    assert_eq!(keys[2][..4], [b'r', 0x42, 0xdd, 0x1e]);
    assert_eq!(keys[3][..4], [b't', 0xe5, 0x12, 0x2f]);
    assert_eq!(keys[4], [b"s", &place[..]].concat());
    for key in &keys {
        assert_eq!(key[key.len() - 16..], place[..]);
    }
    let request = |prefix: &'static str, reason: &str, event_type: &str| NewestRequest {
        prefix: prefix.into(),
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        event_type: Some(event_type.to_owned()).filter(|event_type| !event_type.is_empty()),
        ..NewestRequest::default()
    };
    for (request, key) in [
        (request("n/", "", "Normal"), &keys[1]),
        (request("n/", "Killing", "Warning"), &keys[2]),
        (request("n/", "", "Warning"), &keys[3]),
        (request("n", "", ""), &keys[4]),
    ] {
        let prefix = By::of(&request).unwrap().prefix();
        assert_eq!(key[..key.len() - 16], prefix[..]);
    }
    assert_eq!(ended_key(5)[..], *b"x\0\0\0\0\0\0\0\x05");
    assert_eq!(counted_key()[..], *b"u");
    assert_eq!(count_key(UnixMillis(-1), "a"), *b"c\x80\0\0\0\0\0\0\0a");
    // The usual type has no index, because nearly all events have it.
    let usual = Index {
        event_type: USUAL_TYPE.into(),
        ..Index::default()
    };
    assert_eq!(Fields::of(&usual, b"n").keys(1).count(), 1);
    // By name: in all namespaces, and in one.
    let index = Index {
        object_name: "web".into(),
        ..Index::default()
    };
    let keys: Vec<_> = Fields::of(&index, b"shop/x").keys(1).collect();
    let named = ObjectSelector::Name {
        name: "web".into(),
        kind: None,
        namespace: None,
    };
    let prefix = |keys: &[u8]| By::Object(ObjectKey::of(&named, keys).unwrap()).prefix();
    assert_eq!(prefix(b"")[..], keys[0][..6]);
    assert_eq!(prefix(b"sho")[..], keys[0][..6]);
    assert_eq!(prefix(b"shop/x")[..], keys[0][..9]);
    assert_ne!(prefix(b"bank/")[..], keys[0][..9]);
}
