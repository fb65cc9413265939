//! Typical reads of a server that has many events.

use super::events::{namespace, object_name, object_uid};
use super::{Latencies, LoadError, Target, now};

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The durations of reads.
#[derive(Debug)]
pub struct Reads {
    /// Reads of all events of one object in its namespace, as `kubectl describe pod` sends them.
    pub one_object: Latencies,
    /// Reads of all events of one object among those of all namespaces, as `kubectl get events -A
    /// --field-selector` sends them.
    pub one_object_of_all: Latencies,
    /// Reads of the first 500 events, as `kubectl get events` sends them.
    pub first_page: Latencies,
    /// Reads of everything in one answer, as JSON.
    pub everything: Latencies,
    /// Number of bytes of the last answer with everything.
    pub everything_bytes: u64,
}

/// Makes each read `rounds` times, among the events that [`fill`](super::fill) created with this
/// count.
///
/// # Errors
/// A request was not answered with success.
pub async fn reads(target: &Target, count: u64, rounds: u64) -> Result<Reads, LoadError> {
    let mut connection = target.connect().await?;
    let objects = (count / 20).max(1);
    let mut reads = Reads {
        one_object: Latencies::default(),
        one_object_of_all: Latencies::default(),
        first_page: Latencies::default(),
        everything: Latencies::default(),
        everything_bytes: 0,
    };
    for round in 0..rounds {
        let object = round * 37 % objects;
        let space = namespace(object);
        let selected = format!(
            "events?fieldSelector=involvedObject.name%3D{},involvedObject.namespace%3D{space},involvedObject.uid%3D{}&limit=500",
            object_name(object),
            object_uid(object),
        );
        let one_object = format!("/api/v1/namespaces/{space}/{selected}");
        let one_object_of_all = format!("/api/v1/{selected}");
        for (path, media_type, latencies) in [
            (one_object.as_str(), TABLE, &mut reads.one_object),
            (&one_object_of_all, TABLE, &mut reads.one_object_of_all),
            ("/api/v1/events?limit=500", TABLE, &mut reads.first_page),
        ] {
            let asked = now();
            connection.read(path, media_type).await?;
            latencies.push(asked.elapsed());
        }
    }
    for _ in 0..rounds.min(5) {
        let asked = now();
        reads.everything_bytes = connection.read("/api/v1/events", JSON).await?;
        reads.everything.push(asked.elapsed());
    }
    Ok(reads)
}
