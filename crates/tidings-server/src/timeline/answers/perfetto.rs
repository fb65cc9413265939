//! Writes events as the JSON of Perfetto and other trace viewers ("Trace Event Format"): a process
//! for each namespace, threads for each object, and a slice for each event.
//!
//! A viewer omits a slice that partly overlaps another of its thread, so an object gets several
//! threads if its events overlap.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use serde_json::{Value, json};
use tidings_api::codec::stored::Brief;

/// The beginning of the file.
pub(super) const HEAD: &str = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
/// The end of the file.
pub(super) const TAIL: &str = "\n]}\n";

/// Minimum length of a slice, in microseconds, so that it is visible.
const SLICE_MIN: i64 = 1000;

/// Maximum objects of a trace. Each is kept in memory, so that its events get the same threads.
pub(super) const OBJECTS_MAX: usize = 50_000;

/// The processes and threads that were named, with their numbers.
#[derive(Default)]
pub(super) struct Tracks {
    /// Numbers by a hash of the name, because names may be long.
    processes: HashMap<u64, usize>,
    objects: HashMap<u64, Threads>,
    hashes: RandomState,
    /// The number of threads of all objects.
    threads: usize,
    /// The start of the earliest slice, in microseconds.
    earliest: Option<i64>,
}

/// The threads of one object, each with the start and end of its earliest slice, and its number.
#[derive(Default)]
struct Threads(BTreeSet<(i64, i64, usize)>);

impl Threads {
    /// Chooses the thread of a slice: a thread whose earliest slice is equal, or one with only
    /// later slices, or else the `new` one. If slices come in descending order of their ends, this
    /// needs the least threads.
    fn place(&mut self, (begins, ends): (i64, i64), new: usize) -> usize {
        let same = (begins, ends, 0)..=(begins, ends, usize::MAX);
        if let Some((.., thread)) = self.0.range(same).next() {
            return *thread;
        }
        let later = self.0.range((ends, i64::MIN, 0)..).next().copied();
        if let Some(later) = &later {
            self.0.remove(later);
        }
        let thread = later.map_or(new, |(.., thread)| thread);
        self.0.insert((begins, ends, thread));
        thread
    }
}

impl Tracks {
    /// The JSON values of an event: the names of new threads, and its slice.
    pub(super) fn events(&mut self, cluster: (usize, &str), brief: &Brief<'_>) -> Vec<Value> {
        let mut events = Vec::new();
        let namespace = match brief.object_namespace {
            "" => "(cluster)",
            namespace => namespace,
        };
        let number = self.processes.len() + 1;
        let key = self.hashes.hash_one((cluster.0, namespace));
        let process = *self.processes.entry(key).or_insert_with(|| {
            let name = match cluster.1 {
                "" => namespace.to_owned(),
                cluster => format!("{cluster}/{namespace}"),
            };
            events.push(name_of("process_name", number, 0, &name));
            number
        });
        let micros = |millis: i64| millis.saturating_mul(1000);
        let begins = micros(brief.first);
        let lasted = micros(brief.last.saturating_sub(brief.first));
        let duration = lasted.max(SLICE_MIN);
        let earliest = self.earliest.unwrap_or(begins);
        self.earliest = Some(earliest.min(begins));
        let object = format!("{}/{}", brief.kind, brief.object);
        let key = self.hashes.hash_one((cluster.0, namespace, &object));
        let new = self.threads + 1;
        let threads = self.objects.entry(key).or_default();
        let thread = threads.place((begins, begins.saturating_add(duration)), new);
        if thread == new {
            self.threads = new;
            events.push(name_of("thread_name", process, thread, &object));
        }
        events.push(json!({
            "name": brief.reason,
            "cat": brief.event_type,
            "ph": "X",
            "ts": begins,
            "dur": duration,
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

    /// Whether no more objects can be added.
    pub(super) fn are_full(&self) -> bool {
        self.objects.len() >= OBJECTS_MAX
    }

    /// A note about the whole trace, at the start of the earliest slice. Elsewhere it would extend
    /// the trace.
    pub(super) fn note(&self, text: &str) -> Value {
        let at = self.earliest.unwrap_or_default();
        json!({"name": text, "ph": "i", "s": "g", "ts": at, "pid": 0})
    }
}

fn name_of(what: &str, process: usize, thread: usize, name: &str) -> Value {
    json!({"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}})
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::HashSet;

    use super::super::super::rules::cases::{Case, seen};
    use super::*;

    /// The values of a pod's events with these first and last seconds, the last seen first.
    fn traced(tracks: &mut Tracks, mut spans: Vec<(i64, i64)>) -> Vec<Value> {
        spans.sort_by_key(|(_, last)| Reverse(*last));
        let case = |(first, last)| Case::new("Pod", "web-0", "BackOff", last).times(1, first);
        let cases: Vec<Case> = spans.into_iter().map(case).collect();
        let events = seen(&cases).into_iter();
        let values = events.flat_map(|event| tracks.events((0, ""), &event.brief));
        values.collect()
    }

    /// The thread, start and end of each slice.
    fn slices(values: &[Value]) -> Vec<(i64, i64, i64)> {
        let slices = values.iter().filter(|value| value["ph"] == "X");
        let slices = slices.map(|slice| {
            assert_eq!(slice["pid"], 1);
            let number = |name: &str| slice[name].as_i64().unwrap();
            let begins = number("ts");
            (number("tid"), begins, begins + number("dur"))
        });
        slices.collect()
    }

    #[test]
    fn no_two_slices_of_a_thread_overlap_in_part() {
        let scattered = (0..300).map(|at| {
            let first = at * 7919 % 1000;
            (first, first + at * 104_729 % 300)
        });
        for (spans, threads) in [
            // Events one after the other, and two equal ones.
            (vec![(10, 12), (12, 15), (20, 20), (20, 20)], 1),
            (vec![(0, 10), (5, 15), (10, 20), (15, 25)], 2),
            // A single occurrence within another event.
            (vec![(0, 10), (5, 5)], 2),
            ((0..40).map(|at| (at, at + 40)).collect(), 40),
            (scattered.collect(), 100),
        ] {
            let values = traced(&mut Tracks::default(), spans);
            let slices = slices(&values);
            for (thread, begins, ends) in &slices {
                for (other, its_begin, its_end) in &slices {
                    let in_part = begins < its_begin && its_begin < ends && ends < its_end;
                    assert!(thread != other || !in_part, "{slices:?}");
                }
            }
            let used: HashSet<i64> = slices.iter().map(|(thread, ..)| *thread).collect();
            assert!(used.len() <= threads, "{}: {slices:?}", used.len());
            // Each thread has the name of the object.
            let names = values.iter().filter(|it| it["name"] == "thread_name");
            let named: HashSet<i64> = names
                .map(|name| {
                    assert_eq!(name["args"]["name"], "Pod/web-0");
                    name["tid"].as_i64().unwrap()
                })
                .collect();
            assert_eq!(named, used);
        }
    }

    #[test]
    fn a_note_does_not_make_a_trace_longer() {
        let mut tracks = Tracks::default();
        let values = traced(&mut tracks, vec![(1000, 3000), (2000, 4000), (3500, 3500)]);
        let note = tracks.note("cut");
        assert_eq!(note["name"], "cut");
        assert_eq!(note["ts"], 1_000_000_000);
        let slices = slices(&values);
        let begins = slices.iter().map(|(_, begins, _)| *begins).min();
        assert_eq!(note["ts"].as_i64(), begins);
    }
}
