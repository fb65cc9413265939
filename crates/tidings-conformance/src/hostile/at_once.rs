//! Requests at once, of a store with more events than the server may hold, and clients that do not
//! read their answers: the server's memory stays below a bound that does not depend on their
//! number, and small requests are answered meanwhile.

use http::Method;

use super::kind::{Kind, kind};
use super::script::{
    Act, Ask, AtOnce, JSON, MERGE, Script, event, events as events_of, large_events, one,
};

const MIB: u64 = 1 << 20;
/// Maximum resident memory of a server with its defaults, whatever is requested at once.
pub(super) const RESIDENT_MAX: u64 = 384 * MIB;
/// Events, and the letters of their messages: as much as is read for one picture.
const EVENTS: usize = 1_000;
const MESSAGE: usize = 60_000;
/// Events of nearly the maximum size that are changed at once, and more often than that.
const LARGE: usize = 16;
/// Events that are written while streams are open.
const WRITTEN: usize = 100;

const fn at_once(name: &'static str, largest: usize, make: fn(usize, &str) -> Script) -> Kind {
    Kind {
        parts: &[1],
        // Each round begins with the same memory.
        alone: true,
        resident_max: Some(RESIDENT_MAX),
        ..kind(name, largest, make)
    }
}

pub(super) const AT_ONCE: &[Kind] = &[
    at_once("at once: views", 128, |n, ns| {
        prepared(ns, Vec::new(), vec![timeline("view", ns); n])
    }),
    at_once("at once: searches", 128, |n, ns| {
        let search = timeline("events", &format!("{ns}&filter=m&limit=500"));
        prepared(ns, Vec::new(), vec![search; n])
    }),
    at_once("at once: exports", 32, |n, ns| {
        prepared(ns, Vec::new(), vec![timeline("export", ns); n])
    }),
    at_once("at once: exports that nobody reads", 100, |n, ns| {
        prepared(ns, vec![timeline("export", ns); n], Vec::new())
    }),
    at_once("at once: live streams that nobody reads", 100, |n, ns| {
        prepared(ns, vec![timeline("live", ns); n], Vec::new())
    }),
    at_once("at once: changes of large events", 64, |n, ns| {
        let change = |number: usize| {
            let target = format!("{}/large.{}", events_of(ns), number % LARGE);
            let change = format!("{{\"count\":{number}}}");
            Ask::new(Method::PATCH, target).body(MERGE, change)
        };
        let act = AtOnce {
            read: (0..n).map(change).collect(),
            ..AtOnce::default()
        };
        Script::from(Act::AtOnce(act)).after(large_events(ns, LARGE))
    }),
    at_once("at once: lists", 128, |n, ns| {
        let lists = (0..n).map(|number| list(ns, number));
        prepared(ns, Vec::new(), lists.collect())
    }),
    at_once("at once: lists that nobody reads", 128, |n, ns| {
        let lists = (0..n).map(|number| list(ns, number));
        prepared(ns, lists.collect(), Vec::new())
    }),
    at_once("at once: watches that nobody reads", 256, |n, ns| {
        let watches = (0..n).map(|number| Ask::list(ns, watch(number)));
        prepared(ns, watches.collect(), Vec::new())
    }),
    at_once("at once: everything", 320, |n, ns| {
        let mixed = |number: usize| match number % 8 {
            0 | 1 => timeline("view", ns),
            2 => timeline("export", ns),
            3 => timeline("events", ns),
            4 => timeline("object", &format!("{ns}&kind=Pod&name=web")),
            5 => timeline("event", &format!("{ns}&name=at-once.{number}")),
            6 => list(ns, number / 8),
            _ => Ask::list(ns, watch(number / 8)),
        };
        let unread = (0..n / 4).map(|number| match number % 4 {
            0 | 1 => timeline("live", ns),
            2 => timeline("export", ns),
            _ => Ask::list(ns, watch(number / 4)),
        });
        // Watches are left out here, because reading one would never end.
        let read = (0..n).filter(|number| number % 8 != 7).map(mixed);
        prepared(ns, unread.collect(), read.collect())
    }),
    Kind {
        archive: true,
        ..at_once("at once: everything of an archive", 160, |n, ns| {
            let cluster = |path: &str| Ask::get(format!("/clusters/judge{path}"));
            let mixed = |number: usize| match number % 8 {
                0 => timeline("view", ns),
                1 => timeline("export", ns),
                2 => cluster("/export"),
                3 => cluster("/waiting?from=0"),
                4 => cluster("/counts"),
                5 => cluster("/coverage"),
                6 => list(ns, number / 8),
                _ => Ask::get(format!("{}/versions", one(ns))),
            };
            let changed =
                (0..300).map(|count| Ask::patch(ns, MERGE, format!("{{\"count\":{count}}}")));
            let message = format!(",\"message\":\"{}\"", "m".repeat(MESSAGE));
            let read = (0..n).map(mixed).collect();
            prepared(ns, vec![timeline("live", ns); n / 4], read)
                .after([Ask::event(ns, "", &message)])
                .after(changed)
        })
    },
];

fn timeline(answer: &str, namespace: &str) -> Ask {
    Ask::get(format!("/timeline/api/{answer}?namespace={namespace}"))
}

/// A request for a list of all events: whole or in pages, in an order and a form that depend on
/// `number`.
fn list(namespace: &str, number: usize) -> Ask {
    let query = ["", "limit=500", "order=newest&limit=500", "limit=500"];
    let accept = [
        JSON,
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        JSON,
    ];
    let at = number % query.len();
    let list = Ask::list(namespace, query.get(at).unwrap_or(&""));
    list.header(
        "accept",
        *accept
            .get(number / query.len() % accept.len())
            .unwrap_or(&JSON),
    )
}

fn watch(number: usize) -> &'static str {
    if number.is_multiple_of(2) {
        "watch=1"
    } else {
        "watch=1&resourceVersion=1"
    }
}

/// A script that first writes events, and writes others once the unread answers have begun.
fn prepared(namespace: &str, unread: Vec<Ask>, read: Vec<Ask>) -> Script {
    let then = if unread.is_empty() { 0 } else { WRITTEN };
    let act = Act::AtOnce(AtOnce {
        unread,
        then: events(namespace, EVENTS, then).collect(),
        read,
    });
    Script::from(act).after(events(namespace, 0, EVENTS))
}

fn events(namespace: &str, from: usize, count: usize) -> impl Iterator<Item = Ask> {
    let namespace = namespace.to_owned();
    let fields = format!(",\"message\":\"{}\"", "m".repeat(MESSAGE));
    (from..from + count).map(move |number| {
        let body = event(&namespace, &format!("at-once.{number}"), "", &fields);
        Ask::create(&namespace, JSON, body)
    })
}
