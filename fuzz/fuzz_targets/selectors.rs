//! Any text as a field selector, a label selector and a filter: no panic, a selector finds an event
//! in its encoded form exactly if it finds the decoded one, and a filter is read as it is written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidings_api::codec::json::Reading;
use tidings_api::codec::{self, Api};
use tidings_api::selector::{FieldSelector, LabelSelector, Selector};
use tidings_core::filter::{Fields, Filter};

const EVENT: &str = r#"{"metadata": {"name": "web.1", "namespace": "shop", "labels": {"app": "web"}},
    "involvedObject": {"kind": "Pod", "name": "web", "uid": "u"}, "reason": "BackOff",
    "source": {"component": "kubelet"}, "type": "Warning"}"#;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(filter) = text.parse::<Filter>() {
        filter.selects(&Fields {
            message: text,
            object: text,
            ..Fields::default()
        });
        assert_eq!(filter.to_string().parse(), Ok(filter));
    }
    let mut json = serde_json::Deserializer::from_str(EVENT);
    let (_, mut event) =
        codec::read_event(Api::Core, &mut json, &mut Reading::default()).expect("it is an event");
    let stored = codec::encode_stored(&mut event);
    let event = codec::decode_stored(&stored, 1).expect("it was just encoded");
    for api in [Api::Core, Api::Events] {
        let selector = Selector {
            fields: FieldSelector::parse(api, text).unwrap_or_default(),
            labels: LabelSelector::parse(text).unwrap_or_default(),
        };
        let selected = selector.selects(&stored, 1).expect("it is an event");
        assert_eq!(selected, selector.matches(&event));
    }
});
