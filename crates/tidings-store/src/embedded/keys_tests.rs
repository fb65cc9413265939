//! Tests of the format: its bytes, their order, and that each decoder reads its encoder's bytes.

use std::ops::RangeBounds;

use super::*;
use crate::HOUR_MILLIS;
use proptest::prelude::*;

fn bucket() -> impl Strategy<Value = u64> {
    prop_oneof![Just(NEVER), 1..=1u64 << 62]
}

fn expiring() -> impl Strategy<Value = (u64, Option<UnixMillis>)> {
    (bucket(), any::<u64>()).prop_map(|(bucket, before)| {
        let at = UnixMillis((bucket - before % bucket).cast_signed());
        (bucket, (bucket != NEVER).then_some(at))
    })
}

proptest! {
    #[test]
    fn pointer_round_trips(revision: u64, (bucket, expires_at) in expiring()) {
        let pointer = Pointer { revision, bucket, expires_at };
        prop_assert_eq!(Pointer::decode(&pointer.encode())?, pointer);
    }

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
    fn state_round_trips(values in prop::array::uniform4(0..=COUNTED_MAX), floor in 0..NEVER, marks: BTreeMap<u64, Revision>) {
        let [revision, compacted, records, value_bytes] = values;
        let swept = Swept { floor, marks: Arc::new(marks) };
        let state = State { revision, compacted, swept, records, value_bytes };
        prop_assert_eq!(State::decode(&state.encode())?, state);
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
        let _ = Version::decode(&bytes, 1, 1);
        let _ = decode_body(&bytes);
        let _ = split_body(&bytes);
        let _ = Ends::decode(&bytes);
        let _ = State::decode(&bytes);
        let _ = read_place(&bytes);
        let _ = read_count_key(&bytes);
        let _ = read_early_key(&bytes);
        let _ = revision_of(&bytes);
    }
}

#[test]
fn formats_up_to_3_had_one_mark() {
    let of = |bucket, revision| Swept::up_to(bucket, revision);
    assert_eq!(of(0, 0), Swept::default());
    assert!(of(7, 5).has(7, 5) && of(7, 5).has(6, 9) && !of(7, 5).has(7, 6));
    assert!(of(7, Revision::MAX).has(7, 9) && !of(7, Revision::MAX).has(8, 1));
}

/// These bytes are the format: a change here is a change of the format.
#[test]
fn bytes_are_these() {
    let mut state = State {
        revision: 300,
        compacted: 2,
        swept: Swept::up_to(9, Revision::MAX),
        records: 4,
        value_bytes: 5,
    };
    assert_eq!(state.encode(), [0xac, 2, 2, 10, 0, 4, 5]);
    state.swept.set_mark(20, 7);
    assert_eq!(state.encode(), [0xac, 2, 2, 10, 0, 4, 5, 20, 7]);
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

#[test]
fn a_state_that_no_store_reaches_is_damaged() {
    let most = COUNTED_MAX;
    for change in [
        |state: &mut State| state.revision += 1,
        |state: &mut State| state.compacted += 1,
        |state: &mut State| state.records += 1,
        |state: &mut State| state.value_bytes += 1,
    ] {
        let mut state = State {
            revision: most,
            compacted: most,
            records: most,
            value_bytes: most,
            ..State::default()
        };
        assert_eq!(State::decode(&state.encode()).as_ref().ok(), Some(&state));
        change(&mut state);
        assert!(State::decode(&state.encode()).is_err(), "{state:?}");
    }
}
