//! Events in the JSON of Perfetto and other viewers of traces ("Trace Event Format"): a process for
//! each namespace, a thread for each object, and a slice for each event.

use std::collections::HashMap;

use serde_json::{Value, json};
use tidings_api::codec::stored::Brief;

/// What begins the file.
pub(super) const HEAD: &str = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
/// What ends it.
pub(super) const TAIL: &str = "\n]}\n";

/// Numbers of the processes and threads that were named.
#[derive(Default)]
pub(super) struct Tracks {
    processes: HashMap<(usize, String), usize>,
    threads: HashMap<(usize, String, String), usize>,
}

impl Tracks {
    /// What there is of an event: the names of new tracks, and its slice.
    pub(super) fn events(&mut self, cluster: (usize, &str), brief: &Brief<'_>) -> Vec<Value> {
        let mut events = Vec::new();
        let namespace = match brief.object_namespace {
            "" => "(cluster)",
            namespace => namespace,
        };
        let number = self.processes.len() + 1;
        let key = (cluster.0, namespace.to_owned());
        let process = *self.processes.entry(key).or_insert_with(|| {
            let name = match cluster.1 {
                "" => namespace.to_owned(),
                cluster => format!("{cluster}/{namespace}"),
            };
            events.push(name_of("process_name", number, 0, &name));
            number
        });
        let number = self.threads.len() + 1;
        let object = format!("{}/{}", brief.kind, brief.object);
        let key = (cluster.0, namespace.to_owned(), object);
        let thread = if let Some(thread) = self.threads.get(&key) {
            *thread
        } else {
            events.push(name_of("thread_name", process, number, &key.2));
            self.threads.insert(key, number);
            number
        };
        let micros = |millis: i64| millis.saturating_mul(1000);
        events.push(json!({
            "name": brief.reason,
            "cat": brief.event_type,
            "ph": "X",
            "ts": micros(brief.first),
            "dur": micros(brief.last.saturating_sub(brief.first)).max(1000),
            "pid": process,
            "tid": thread,
            "args": {
                "message": brief.message,
                "count": brief.count,
                "source": brief.component,
                "event": brief.name,
            },
        }));
        events
    }
}

fn name_of(what: &str, process: usize, thread: usize, name: &str) -> Value {
    json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})
}
