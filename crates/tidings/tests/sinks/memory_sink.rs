//! `MemorySink` answers like an API server, or as scripted.

use crate::support::occurrences;
use futures::FutureExt;
use tidings::{MemorySink, Sink, SinkAnswer, SinkVerb, WriteError, WriteErrorKind};

fn code(result: Result<(), WriteError>) -> u16 {
    match result.unwrap_err().kind {
        WriteErrorKind::Status(failure) => failure.code,
        other => panic!("{other:?} is no answer"),
    }
}

#[tokio::test]
async fn what_is_written_can_be_read() {
    let sink = MemorySink::new();
    let (first, second) = occurrences("default", "p");
    assert_eq!(code(sink.patch(&second).await), 404);
    sink.create(&first).await.unwrap();
    assert_eq!(code(sink.create(&first).await), 409);
    sink.patch(&second).await.unwrap();

    let mut expected = second.to_wire();
    expected.metadata.resource_version = Some("2".to_owned());
    assert_eq!(sink.events(), [expected.clone()]);
    assert_eq!(sink.event("default", &first.name()), Some(expected));
    assert_eq!(sink.event("other", &first.name()), None);
    let verbs: Vec<_> = sink.calls().iter().map(|call| call.verb).collect();
    assert_eq!(
        verbs,
        [
            SinkVerb::Patch,
            SinkVerb::Create,
            SinkVerb::Create,
            SinkVerb::Patch
        ]
    );
    assert_eq!(sink.calls()[3].body, second.patch_body());

    sink.update(&first).await.unwrap();
    assert_eq!(sink.events()[0].count, Some(1));
    sink.expire();
    assert_eq!(code(sink.patch(&second).await), 404);
}

#[tokio::test]
async fn it_fails_loses_answers_and_hangs_as_told() {
    let sink = MemorySink::new();
    let (first, _) = occurrences("default", "p");
    let reset = WriteError::transport("connection reset by peer");
    sink.answer_next([
        SinkAnswer::Fail(reset.clone()),
        SinkAnswer::Lose(reset.clone()),
    ]);
    assert_eq!(sink.create(&first).await, Err(reset.clone()));
    assert!(sink.events().is_empty());
    assert_eq!(sink.create(&first).await, Err(reset));
    assert_eq!(sink.events().len(), 1);
    assert_eq!(code(sink.create(&first).await), 409);

    sink.expire();
    let held = sink.hold();
    let also_held = sink.hold();
    let mut call = Box::pin(sink.create(&first));
    assert_eq!(call.as_mut().now_or_never(), None);
    assert_eq!(sink.calls().len(), 4, "it was asked all the same");
    drop(held);
    assert_eq!(call.as_mut().now_or_never(), None);
    assert!(sink.events().is_empty());
    drop(also_held);
    call.await.unwrap();
    assert_eq!(sink.events().len(), 1);
}

#[tokio::test]
async fn beyond_its_capacity_the_oldest_are_forgotten_and_counted() {
    let sink = MemorySink::with_capacity(2);
    for pod in ["a", "b", "c"] {
        sink.create(&occurrences("default", pod).0).await.unwrap();
    }
    let events = sink.events().into_iter();
    let pods: Vec<_> = events
        .filter_map(|event| event.involved_object.name)
        .collect();
    assert_eq!(pods, ["b", "c"]);
    assert_eq!(sink.calls().len(), 2);
    assert_eq!(sink.forgotten(), 2);
}
