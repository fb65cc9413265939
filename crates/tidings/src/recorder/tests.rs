//! Tests of the events that a recorder makes from its arguments.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tidings_core::{DropCause, Event, Reference, ReferenceFields};

use super::*;
use crate::EventType::{Normal, Warning};
use crate::clock::Clock;
use crate::config::BroadcasterOptions;
use crate::error::ReferenceError;
use crate::sampling::is_sampled;
use crate::testing;

fn pod() -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: Some("web-0".to_owned()),
            namespace: Some("baz".to_owned()),
            uid: Some("bar".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        },
        ..Pod::default()
    }
}

fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn recorder() -> (Recorder, testing::RecordedEvents) {
    let (clock, _hand) = Clock::manual(noon());
    testing::recorder_with(
        &BroadcasterOptions::default().clock(clock),
        EventSource::component("eventTest").host("node-1"),
    )
}

/// client-go `recorderImpl.makeEvent`.
#[test]
fn an_event_has_what_client_go_gives_it() {
    let (recorder, mut events) = recorder();
    recorder.event(
        &pod(),
        Warning,
        "BackOff",
        format_args!("{} %d", "verbatim"),
    );
    let event = events.assert_recorded(Warning, "BackOff").to_wire();
    let text = |text: &str| Some(text.to_owned());
    assert!(event.metadata.name.unwrap().starts_with("web-0."));
    assert_eq!(event.metadata.namespace, text("baz"));
    let object = event.involved_object;
    assert_eq!((object.kind, object.api_version), (text("Pod"), text("v1")));
    assert_eq!(
        (object.name, object.namespace),
        (text("web-0"), text("baz"))
    );
    assert_eq!(
        (object.uid, object.resource_version),
        (text("bar"), text("7"))
    );
    assert_eq!((event.message, event.count), (text("verbatim %d"), Some(1)));
    let source = event.source.unwrap();
    assert_eq!(
        (source.component, source.host),
        (text("eventTest"), text("node-1"))
    );
    assert_eq!(event.reporting_component, text("eventTest"));
    assert_eq!(event.reporting_instance, text("node-1"));
    assert_eq!(event.first_timestamp.unwrap().0, noon());
    assert_eq!(event.last_timestamp.unwrap().0, noon());
    assert_eq!(
        (event.event_time, event.series, event.action),
        (None, None, None)
    );
}

#[test]
fn every_short_call_and_the_builder_say_the_same() {
    let (recorder, mut events) = recorder();
    let (object, at) = (pod(), "2025-12-31T23:59:59Z".parse().unwrap());
    recorder.normal(&object, "Started", "up");
    recorder.event(&object, Normal, "Started", "up");
    recorder.annotated(&object, [("k", "v")], Normal, "Started", "up");
    recorder.past(&object, at, Normal, "Started", "up");
    recorder
        .build(&object, Normal, "Started")
        .message("up")
        .send();
    recorder
        .build(&object, Normal, "Started")
        .message("down")
        .message("up")
        .annotation("k", "v")
        .label("app", "web")
        .action("Starting")
        .field_path("spec.containers{nginx}")
        .related(&Node::default())
        .at(at)
        .try_send()
        .unwrap();
    let recorded = events.take();
    assert_eq!(recorded.len(), 6);
    for event in &recorded {
        assert_eq!(
            testing::line(event).replace(" map[k:v]", ""),
            "Normal Started up"
        );
    }
    let annotations = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    assert_eq!(recorded[2].annotations(), Some(&annotations));
    assert_eq!(recorded[3].first_timestamp(), Some(at));
    assert_eq!(recorded[3].last_timestamp(), Some(at));
    let all = &recorded[5];
    assert_eq!(all.annotations(), Some(&annotations));
    assert_eq!(all.labels().unwrap()["app"], "web");
    assert_eq!(
        (all.action(), all.regarding().field_path()),
        ("Starting", "spec.containers{nginx}")
    );
    assert_eq!(all.related().unwrap().kind(), "Node");
    assert_eq!(all.last_timestamp(), Some(at));
}

/// An object that fails while it is displayed.
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("half a ")?;
        Err(fmt::Error)
    }
}

#[test]
fn a_message_that_cannot_be_written_whole_is_recorded_as_far_as_it_goes() {
    let (recorder, mut events) = recorder();
    recorder.normal(&pod(), "Started", Broken);
    recorder
        .build(&pod(), Normal, "Started")
        .message(Broken)
        .send();
    events.assert_lines(&["Normal Started half a ", "Normal Started half a "]);
}

#[test]
fn what_cannot_be_referred_to_is_an_error_for_those_who_ask() {
    let (recorder, mut events) = recorder();
    let builder = recorder.build(&None::<Pod>, Normal, "Started");
    assert_eq!(
        builder.field_path("spec").try_send(),
        Err(RecordError::Reference(ReferenceError::NoObject))
    );
    recorder.normal(&None::<Pod>, "Started", "");
    let refused = recorder.intake.refused.counts();
    assert_eq!(refused.get(DropCause::InvalidReference), 2);
    events.assert_no_more();
}

#[test]
fn the_longest_text_is_an_option() {
    let options = BroadcasterOptions::default().text_bytes_max(64);
    let (recorder, mut events) = testing::recorder_with(&options, EventSource::component("test"));
    recorder.normal(&pod(), "Started", "x".repeat(65));
    let event = events.assert_recorded(Normal, "Started");
    assert!(event.message().len() <= 64 && event.message().ends_with("…(truncated)"));
}

/// One clock reading, many threads: every event has a different name.
#[test]
fn events_of_one_moment_have_different_names() {
    let (recorder, mut events) = recorder();
    let object = Reference::new(ReferenceFields {
        name: "web-0",
        ..ReferenceFields::default()
    });
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..100).for_each(|_| recorder.normal(&object, "Started", "")));
        }
    });
    let recorded = events.take();
    let names: std::collections::HashSet<_> = recorded.iter().map(Event::name).collect();
    assert_eq!(names.len(), 800);
}

#[test]
fn sampled_counts_are_the_powers_of_two_they_pass() {
    let sampled: Vec<_> = (0..40_u64)
        .filter(|before| is_sampled(*before, 1))
        .collect();
    assert_eq!(sampled, [0, 1, 3, 7, 15, 31]);
    assert!(is_sampled(3, 16) && !is_sampled(4, 3) && !is_sampled(u64::MAX, 1));
}

/// Recorders can be sent and shared between threads.
#[test]
fn recorders_are_shared_between_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<Recorder>();
}
