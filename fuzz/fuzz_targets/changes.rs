//! Any bytes as each kind of patch and as an applied configuration, for an event that has every
//! kind of field: no panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tidings_api::codec::json::Reading;
use tidings_api::codec::{self, Api};
use tidings_api::field_validation::FieldValidation;
use tidings_api::managed::{Writer, apply};
use tidings_api::patch::{Patch, PatchKind};

fuzz_target!(|input: &[u8]| {
    let live = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {
            "name": "web.1", "namespace": "shop", "labels": {"a": "1"}, "finalizers": ["a", "b"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"}],
        },
        "involvedObject": {"kind": "Pod", "name": "web"}, "reason": "BackOff", "count": 2,
        "series": {"count": 2, "lastObservedTime": "2024-05-01T10:00:00.000001Z"},
    });
    for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        if let Ok(patch) = Patch::parse(kind, input, FieldValidation::Warn) {
            let mut patched = live.clone();
            if patch.apply(&mut patched).is_ok() {
                let _ = patch.shown(&patched).to_string();
                let mut reading = patch.reading();
                let _ = codec::read_event(Api::Core, patched, &mut reading);
                let _ = patch.heed(reading, FieldValidation::Strict);
            }
        }
    }
    let Ok(config) = serde_json::from_slice::<Value>(input) else {
        return;
    };
    let (_, event) =
        codec::read_event(Api::Core, live, &mut Reading::default()).expect("it is an event");
    let writer = Writer {
        manager: "fuzz",
        api: Api::Core,
        now: Default::default(),
    };
    if let Ok(applied) = apply(Some(&event), &config, writer, true) {
        let _ = apply(Some(&applied), &config, writer, false);
    }
});
