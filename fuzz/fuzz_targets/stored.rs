//! Any bytes as the stored form of an event, as others may have written it to an etcd: no panic,
//! and the direct conversion to JSON has the same result as decoding and encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidings_api::codec::stored::{StoredEvent, put_bytes};
use tidings_api::codec::{self, Api};

fuzz_target!(|input: &[u8]| {
    let _ = tidings_server::describe(input);
    let mut enveloped = codec::protobuf::MAGIC.to_vec();
    put_bytes(1, b"\x0a\x02v1\x12\x05Event", &mut enveloped);
    put_bytes(2, input, &mut enveloped);
    for bytes in [input, &enveloped] {
        let decoded = codec::decode_stored(&bytes.to_vec().into(), 1);
        let Some(stored) = StoredEvent::open(bytes, 1) else {
            continue;
        };
        for api in [Api::Core, Api::Events] {
            let (mut short, mut long) = (Vec::new(), Vec::new());
            stored.write_protobuf(api, &mut Vec::new());
            if stored.write_json(api, true, &mut short).is_some() {
                let event = decoded.as_ref().expect("what can be served is an event");
                codec::write_event(api, event, true, &mut long);
                assert_eq!(
                    String::from_utf8_lossy(&short),
                    String::from_utf8_lossy(&long)
                );
            }
        }
        stored.write_partial_json("v1", true, &mut Vec::new());
        stored.labels();
        stored.series();
    }
});
