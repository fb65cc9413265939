//! Any bytes as an event's JSON, YAML and protobuf: no panic, and an event that was read can be
//! written and read again as the same event, in both versions and all encodings.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_saphyr::DuplicateKeyPolicy;
use tidings_api::codec::json::{Reading, complaint, replace_what_is_no_text};
use tidings_api::codec::{self, Api};
use tidings_api::yaml;

fuzz_target!(|input: &[u8]| {
    let _ = complaint(input);
    replace_what_is_no_text(input);
    for api in [Api::Core, Api::Events] {
        let mut json = serde_json::Deserializer::from_slice(input);
        let read = codec::read_event(api, &mut json, &mut Reading::default());
        let mut events: Vec<_> = read.into_iter().map(|(_, event)| event).collect();
        if let Ok(value) = yaml::read::<serde_json::Value>(input, DuplicateKeyPolicy::LastWins)
            && let Ok((_, event)) = codec::read_event(api, value, &mut Reading::default())
        {
            events.push(event);
        }
        events.extend(codec::read_protobuf_event(api, input.to_vec().into()));
        for event in events {
            let mut json = Vec::new();
            codec::write_event(api, &event, true, &mut json);
            if let Ok(value) = serde_json::from_slice::<serde_json::Value>(&json) {
                let read = codec::read_event(api, value, &mut Reading::default());
                assert!(read.is_ok(), "{}", String::from_utf8_lossy(&json));
            }
            let message = codec::protobuf_event(api, event.clone());
            let opened = codec::protobuf::open(&message.into()).expect("it was just enveloped");
            let read = codec::read_protobuf_event(api, opened.raw);
            assert_eq!(read.as_ref(), Ok(&event));
        }
    }
});
