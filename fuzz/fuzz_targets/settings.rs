//! Any text as a setting: a file of `tidings serve` or `tidings archive`, or the value of a flag.
//! The first byte chooses which. No panic.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use jiff::Timestamp;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tidings_cli::clusters;
use tidings_cli::columns::Columns;
use tidings_cli::feeds;
use tidings_cli::jsonpath::Template;
use tidings_cli::kinds::Named;
use tidings_cli::{times, values};
use tidings_server::{
    EventRateLimitOptions, Namespaces, RbacPolicy, RetentionRules, parse_go_duration, parse_token_file,
};

/// The settings, which seeds choose by a letter from A on. New ones are added at the end.
const SETTINGS: &[fn(&str)] = &[
    |text| drop(RetentionRules::parse(text)),
    |text| drop(RbacPolicy::parse(text)),
    |text| drop(parse_token_file(text.as_bytes())),
    |text| drop(Namespaces::only(text.split(','))),
    |text| drop(EventRateLimitOptions::parse(text)),
    |text| _ = values::bytes(text).is_ok() | values::positive(text).is_ok(),
    |text| _ = parse_go_duration(text),
    |text| drop(times::duration(text)),
    |text| drop(times::moment(text, Timestamp::UNIX_EPOCH)),
    |text| {
        if let Ok(template) = text.parse::<Template>() {
            let _ = template.render(event());
        }
    },
    |text| {
        if let Ok(columns) = text.parse::<Columns>() {
            let _ = columns.row(event());
        }
    },
    |text| drop(text.parse::<Named>()),
    |text| drop(clusters::parse(text)),
    // The files that it names are not opened.
    |text| drop(feeds::parse(text, Path::new("/nowhere"), Path::new("/nowhere/data"))),
];

fn event() -> &'static Value {
    static EVENT: OnceLock<Value> = OnceLock::new();
    EVENT.get_or_init(|| {
        json!({
            "metadata": {"name": "web.1", "labels": {"a.b/c": "d"}, "finalizers": ["a", "b"]},
            "involvedObject": {"kind": "Pod", "name": "web"},
            "message": "m", "count": 3, "series": null,
        })
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((letter, text)) = input.split_first() else {
        return;
    };
    let setting = SETTINGS[usize::from(letter.wrapping_sub(b'A')) % SETTINGS.len()];
    setting(&String::from_utf8_lossy(text));
});
