//! `/metrics`, in Prometheus' text form, with kube-apiserver's names and labels where it has them.
//!
//! Events are counted where they happen, and converted to text when the page is requested. The
//! page's handler assembles it from the metrics of all rooms. Labels are constants (see
//! [`series`]), so clients cannot increase the number of series. A metric whose name begins with
//! `tidings_` has no counterpart upstream.

mod process;
mod series;

use std::time::Duration;

use crate::http::request::RequestLabels;
pub(crate) use process::write as write_process;
pub(crate) use series::{Counter, Counters, Histograms, Label, Text};
use series::{Family, Gauge, Labels};
use tidings_api::codec::Api;

/// The code of a request whose client disconnected before it was answered.
pub(crate) const CLIENT_GONE: u16 = 0;

/// Buckets of `apiserver_request_duration_seconds`, in seconds.
const DURATIONS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];
/// Buckets of `apiserver_request_sli_duration_seconds` and of watch lists, in seconds.
const LONG_DURATIONS: &[f64] = &[
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0,
    30.0, 45.0, 60.0,
];
const RESPONSE_SIZES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const BODY_SIZES: &[f64] = &[
    50_000.0,
    150_000.0,
    250_000.0,
    350_000.0,
    450_000.0,
    1_000_000.0,
    3_145_728.0,
];
const WATCH_EVENT_SIZES: &[f64] = &[
    1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0,
];

/// The labels of a request. Labels that are `None` are omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestSeries {
    request: RequestLabels,
    dry_run: Option<&'static str>,
    component: Option<&'static str>,
    code: Option<&'static str>,
}

impl From<RequestLabels> for RequestSeries {
    fn from(request: RequestLabels) -> Self {
        Self {
            request,
            dry_run: None,
            component: Some("apiserver"),
            code: None,
        }
    }
}

impl Labels for RequestSeries {
    fn pairs(&self) -> Vec<Label> {
        let request = &self.request;
        let all = [
            ("verb", Some(request.verb)),
            ("dry_run", self.dry_run),
            ("group", Some(request.group)),
            ("version", Some(request.version)),
            ("resource", Some(request.resource)),
            ("subresource", Some(request.subresource)),
            ("scope", Some(request.scope)),
            ("component", self.component),
            ("code", self.code),
        ];
        let given = |(name, value): (_, Option<_>)| Some((name, value?));
        all.into_iter().filter_map(given).collect()
    }
}

/// Metrics of requests and their answers.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Counters<RequestSeries>,
    durations: Histograms<RequestSeries>,
    sli_durations: Histograms<RequestSeries>,
    response_sizes: Histograms<RequestSeries>,
    body_sizes: Histograms<[Label; 2]>,
    terminations: Counters<RequestSeries>,
    aborts: Counters<RequestSeries>,
    long_running: Family<RequestSeries, Gauge>,
    watch_events: Counters<[Label; 3]>,
    watch_event_sizes: Histograms<[Label; 3]>,
    watch_lists: Histograms<[Label; 4]>,
    lists: Counters<[Label; 2]>,
    listed_fetched: Counters<[Label; 2]>,
    listed_returned: Counters<[Label; 2]>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Counters::new(
                "apiserver_request_total",
                "Requests by verb, dry run, group, version, resource, scope and code.",
            ),
            durations: Histograms::of_durations(
                "apiserver_request_duration_seconds",
                "Time until the last byte of the answer.",
                DURATIONS,
            ),
            sli_durations: Histograms::of_durations(
                "apiserver_request_sli_duration_seconds",
                "Time until the last byte of the answer, for service level indicators.",
                LONG_DURATIONS,
            ),
            response_sizes: Histograms::of_bytes(
                "apiserver_response_sizes",
                "Bytes of the answers to reading requests.",
                RESPONSE_SIZES,
            ),
            body_sizes: Histograms::of_bytes(
                "apiserver_request_body_size_bytes",
                "Bytes of requests' bodies.",
                BODY_SIZES,
            ),
            terminations: Counters::new(
                "apiserver_request_terminations_total",
                "Requests turned away in self-defence.",
            ),
            aborts: Counters::new(
                "apiserver_request_aborts_total",
                "Requests that reached their deadline.",
            ),
            long_running: Family::new("apiserver_longrunning_requests", "Watches being served."),
            watch_events: Counters::new("apiserver_watch_events_total", "Events sent to watchers."),
            watch_event_sizes: Histograms::of_bytes(
                "apiserver_watch_events_sizes",
                "Bytes of events sent to watchers.",
                WATCH_EVENT_SIZES,
            ),
            watch_lists: Histograms::of_durations(
                "apiserver_watch_list_duration_seconds",
                "Time until a watch has sent the existing events.",
                LONG_DURATIONS,
            ),
            lists: Counters::new(
                "apiserver_storage_list_total",
                "Pages of lists read from the store.",
            ),
            listed_fetched: Counters::new(
                "apiserver_storage_list_fetched_objects_total",
                "Events read from the store for lists.",
            ),
            listed_returned: Counters::new(
                "apiserver_storage_list_returned_objects_total",
                "Events returned by lists.",
            ),
        }
    }
}

const STORED_EVENTS: [Label; 2] = [("group", ""), ("resource", "events")];

impl Metrics {
    /// Counts a request that was answered completely, or given up.
    pub(crate) fn request(
        &self,
        labels: RequestLabels,
        dry_run: &'static str,
        code: u16,
        took: Duration,
        bytes: u64,
    ) {
        let plain = RequestSeries::from(labels);
        let with_dry_run = RequestSeries {
            dry_run: Some(dry_run),
            ..plain
        };
        let all = RequestSeries {
            code: Some(code_label(code)),
            ..with_dry_run
        };
        self.requests.of(all).add(1);
        self.durations.of(with_dry_run).observe_duration(took);
        self.sli_durations.of(plain).observe_duration(took);
        if matches!(labels.verb, "GET" | "LIST") {
            self.response_sizes.of(plain).observe_bytes(bytes);
        }
    }

    /// Counts a request's body of this length.
    pub(crate) fn request_body(&self, labels: RequestLabels, len: u64) {
        let labels = [("resource", labels.resource), ("verb", labels.verb)];
        self.body_sizes.of(labels).observe_bytes(len);
    }

    /// Changes the number of watches being served.
    pub(crate) fn long_running(&self, labels: RequestLabels, by: i64) {
        self.long_running.of(labels.into()).add(by);
    }

    /// Counts a request that was refused in self-defence.
    pub(crate) fn terminated(&self, labels: RequestLabels, code: u16) {
        let labels = RequestSeries {
            code: Some(code_label(code)),
            ..labels.into()
        };
        self.terminations.of(labels).add(1);
    }

    /// Counts a request that was given up, or whose answer was cut off, at its deadline.
    pub(crate) fn aborted(&self, labels: RequestLabels) {
        let labels = RequestSeries {
            component: None,
            ..labels.into()
        };
        self.aborts.of(labels).add(1);
    }

    /// Counts watch events of these lengths, sent to one watcher.
    pub(crate) fn watched(&self, api: Api, lens: impl Iterator<Item = usize>) {
        let labels = events(api);
        let sizes = self.watch_event_sizes.of(labels);
        let mut count = 0;
        for len in lens {
            sizes.observe_bytes(len as u64);
            count += 1;
        }
        self.watch_events.of(labels).add(count);
    }

    /// Counts a watch that has sent the existing events.
    pub(crate) fn watch_list(&self, api: Api, scope: &'static str, took: Duration) {
        let [group, version, resource] = events(api);
        let labels = [group, version, resource, ("scope", scope)];
        self.watch_lists.of(labels).observe_duration(took);
    }

    /// Counts a page of a list, read from the store.
    pub(crate) fn listed(&self, fetched: usize, returned: usize) {
        self.lists.of(STORED_EVENTS).add(1);
        self.listed_fetched.of(STORED_EVENTS).add(fetched as u64);
        self.listed_returned.of(STORED_EVENTS).add(returned as u64);
    }

    /// Appends metrics of requests.
    pub(crate) fn write_requests(&self, text: &mut Text) {
        text.family(&self.requests);
        text.family(&self.durations);
        text.family(&self.sli_durations);
        text.family(&self.response_sizes);
        text.family(&self.body_sizes);
    }

    /// Appends metrics of watches, terminated requests, and reads of the store.
    pub(crate) fn write_answers(&self, text: &mut Text) {
        text.family(&self.long_running);
        text.family(&self.terminations);
        text.family(&self.aborts);
        text.family(&self.watch_events);
        text.family(&self.watch_event_sizes);
        text.family(&self.watch_lists);
        text.family(&self.lists);
        text.family(&self.listed_fetched);
        text.family(&self.listed_returned);
    }
}

fn events(api: Api) -> [Label; 3] {
    let group = ("group", api.group());
    [group, ("version", "v1"), ("resource", api.plural())]
}

/// The label of a code; `other` for codes that this server does not use.
fn code_label(code: u16) -> &'static str {
    macro_rules! label {
        ($($known:literal)*) => {
            match code {
                $($known => stringify!($known),)*
                _ => "other",
            }
        };
    }
    // The first code is that of a client that is gone.
    label!(0 200 201 202 204 304 400 401 403 404 405 406 409 410 413 415 422 429 500 503 504 507)
}
