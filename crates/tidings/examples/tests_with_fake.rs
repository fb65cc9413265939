//! How to test a program that records events, without a cluster and without waiting.
//!
//! ```console
//! cargo test -p tidings --example tests_with_fake
//! ```

use k8s_openapi::api::core::v1::Pod;
use tidings::{Broadcaster, Recorder};

/// The program's own code takes a recorder, and does not know where its events go.
fn restart_if_failed(pod: &Pod, recorder: &Recorder) -> bool {
    let status = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if status != Some("Failed") {
        return false;
    }
    recorder.warning(pod, "Restarting", format_args!("phase is {}", "Failed"));
    recorder.normal(pod, "Restarted", "back again");
    true
}

#[tokio::main]
async fn main() {
    let broadcaster = Broadcaster::new();
    broadcaster.start_structured_logging();
    let recorder = broadcaster.recorder("restarter");
    restart_if_failed(&Pod::default(), &recorder);
    broadcaster
        .shutdown(std::time::Duration::from_secs(5))
        .await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::PodStatus;
    use tidings::advanced::{Backoff, DeliveryOptions, RetryPolicy};
    use tidings::{
        BroadcasterOptions, Clock, EventType::Warning, MemorySink, SinkAnswer, SinkOptions,
        WriteError, testing,
    };

    use super::*;

    fn failed() -> Pod {
        Pod {
            status: Some(PodStatus {
                phase: Some("Failed".to_owned()),
                ..PodStatus::default()
            }),
            ..Pod::default()
        }
    }

    /// Most tests need no more than this: the events themselves, or their lines.
    #[test]
    fn says_what_it_does() {
        let (recorder, mut events) = testing::recorder();
        assert!(!restart_if_failed(&Pod::default(), &recorder));
        events.assert_no_more();

        assert!(restart_if_failed(&failed(), &recorder));
        let event = events.assert_recorded(Warning, "Restarting");
        assert_eq!(event.message(), "phase is Failed");
        events.assert_lines(&["Normal Restarted back again"]);
    }

    /// The events as a cluster would store them: three equal events are one with a count.
    #[tokio::test]
    async fn repeats_become_a_count() {
        let (sink, broadcaster) = (MemorySink::new(), Broadcaster::new());
        broadcaster.start_recording_to_sink(sink.clone());
        let recorder = broadcaster.recorder("restarter");
        for _ in 0..3 {
            restart_if_failed(&failed(), &recorder);
        }
        let report = broadcaster.shutdown(Duration::from_secs(5)).await;
        assert!(report.is_complete(), "{report}");
        let counts: Vec<_> = sink.events().iter().map(|event| event.count).collect();
        assert_eq!(counts, [Some(3), Some(3)]);
    }

    /// An API server that is away for an hour, without waiting: the clock is moved by hand.
    #[tokio::test]
    async fn an_outage_is_survived() {
        let (clock, hand) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        let retry = RetryPolicy::default()
            .tries_max(10)
            .backoff(Backoff::Constant(Duration::from_secs(600)));
        let delivery = DeliveryOptions::default().retry(retry);
        let options = BroadcasterOptions::default()
            .clock(clock)
            .sink(SinkOptions::default().delivery(delivery));
        let broadcaster = Broadcaster::with_options(options).unwrap();
        let sink = MemorySink::new();
        sink.answer_next(vec![
            SinkAnswer::Fail(WriteError::transport(
                "connection refused"
            ));
            6
        ]);
        broadcaster.start_recording_to_sink(sink.clone());
        let recorder = broadcaster.recorder("restarter");
        recorder.normal(&Pod::default(), "Started", "during the outage");
        while sink.events().is_empty() {
            hand.advance(Duration::from_secs(60));
            tokio::task::yield_now().await;
        }
        assert_eq!(sink.calls().len(), 7);
        broadcaster.shutdown(Duration::ZERO).await;
    }
}
