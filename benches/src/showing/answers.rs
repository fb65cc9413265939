//! The answers that the timeline's page requests, requested as it does: for random times of the
//! events, over one connection, compressed as for a browser.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::ACCEPT_ENCODING;
use serde_json::Value;

use super::cluster::{DAY, HOUR, NAMESPACES, namespace};
use crate::serving::{Connection, Target};
use crate::{Failure, Figure, Latencies, Numbers, now};

/// The percentiles of every time that is measured here.
pub(super) const PERCENTILES: [&str; 3] = ["p50", "p95", "max"];

/// The requests: name, answer, length of the time that is asked about, and filter, where `BUSIEST`
/// and `MIDDLE` are namespaces.
#[rustfmt::skip]
const REQUESTS: [(&str, &str, i64, &str); 22] = [
    ("overview", "overview", 30 * DAY, ""),
    ("view_1h", "view", HOUR, ""),
    ("view_24h", "view", DAY, ""),
    ("view_7d", "view", 7 * DAY, ""),
    ("view_30d", "view", 30 * DAY, ""),
    ("view_busiest_namespace_24h", "view", DAY, "&namespace=BUSIEST"),
    ("view_busiest_namespace_30d", "view", 30 * DAY, "&namespace=BUSIEST"),
    ("view_namespace_30d", "view", 30 * DAY, "&namespace=MIDDLE"),
    ("view_object_30d", "view", 30 * DAY, "&filter=object:OBJECT&kind=KIND"),
    ("view_kind_30d", "view", 30 * DAY, "&kind=Node"),
    ("view_warnings_30d", "view", 30 * DAY, "&filter=type:Warning"),
    ("view_reason_30d", "view", 30 * DAY, "&filter=reason:BackOff"),
    ("view_frequent_reason_30d", "view", 30 * DAY, "&filter=reason:Started"),
    ("view_text_24h", "view", DAY, "&filter=back-off"),
    ("view_text_30d", "view", 30 * DAY, "&filter=back-off"),
    ("events_30d", "events", 30 * DAY, "&limit=100"),
    ("events_text_30d", "events", 30 * DAY, "&limit=100&filter=no-such-text"),
    ("reasons_24h", "top", DAY, ""),
    ("reasons_30d", "top", 30 * DAY, ""),
    ("objects_30d", "top", 30 * DAY, "&by=object"),
    ("object", "object", 7 * DAY, "&kind=KIND&namespace=NAMESPACE&name=OBJECT"),
    ("event", "event", 0, "&namespace=OF_EVENT&name=EVENT"),
];

/// The times of the server's events, and some of these events, for requests.
pub(super) struct There {
    from: i64,
    to: i64,
    items: Vec<Value>,
}

/// Makes each request a number of times. A first round warms up, and is not counted.
pub(super) async fn answers(target: &Target, rounds: u64) -> Result<(), Failure> {
    let mut connection = target.connect().await?;
    let there = There::read(&mut connection).await?;
    for (name, path, length, filter) in REQUESTS {
        let mut numbers = Numbers(7);
        let (mut took, mut bytes, mut read) = (Latencies::default(), 0, 0);
        let mut complete = 0_u64;
        for round in 0..=rounds {
            let path = format!(
                "/timeline/api/{path}?{}",
                there.query(length, filter, &mut numbers)
            );
            let asked = now();
            let answer = ask(&mut connection, &path).await?;
            let took_now = asked.elapsed();
            if round == 0 {
                continue;
            }
            took.push(took_now);
            bytes += answer.len() as u64;
            if name.starts_with("view") {
                let picture = plain(&answer)?;
                read += picture["read"].as_u64().unwrap_or(0);
                complete += u64::from(picture["complete"] == true);
            }
        }
        let share = rounds.max(1) as f64;
        let mut figure = Figure::new(name).times("", &PERCENTILES, &mut took);
        figure = figure.with("bytes", bytes as f64 / share);
        if name.starts_with("view") {
            let (read, complete) = (read as f64 / share, complete as f64 / share);
            figure = figure.with("read", read).with("complete", complete);
        }
        figure.print();
    }
    Ok(())
}

impl There {
    /// Reads the times and some events of a server.
    pub(super) async fn read(connection: &mut Connection) -> Result<Self, Failure> {
        let overview = plain(&ask(connection, "/timeline/api/overview").await?)?;
        let edge = |name: &str| overview["clusters"][0][name].as_i64();
        let (from, to) = edge("from")
            .zip(edge("to"))
            .ok_or("the overview has no times")?;
        let (mut items, mut numbers) = (Vec::new(), Numbers(1));
        for _ in 0..10 {
            let earlier = numbers.below((to - from).max(1).cast_unsigned());
            let before = to - earlier.cast_signed() + HOUR;
            let path = format!("/timeline/api/events?from={from}&to={before}&limit=20");
            let page = plain(&ask(connection, &path).await?)?;
            items.extend(page["items"].as_array().into_iter().flatten().cloned());
        }
        if items.is_empty() {
            return Err("there are no events".into());
        }
        Ok(Self { from, to, items })
    }

    /// An event, and the end of a range of this length: another one each time, as when someone
    /// pans, within the time of the events.
    pub(super) fn any(&self, length: i64, numbers: &mut Numbers) -> (&Value, i64) {
        let any = numbers.below(self.items.len() as u64) as usize;
        let free = (self.to - self.from - length).max(HOUR).cast_unsigned();
        (
            &self.items[any],
            self.to - numbers.below(free).cast_signed(),
        )
    }

    fn query(&self, length: i64, filter: &str, numbers: &mut Numbers) -> String {
        let (item, end) = self.any(length, numbers);
        let mut query = filter.to_owned();
        if length > 0 {
            query = format!("from={}&to={end}{filter}", end - length);
        }
        let object = &item["object"];
        for (place, text) in [
            ("BUSIEST", &namespace(0).into()),
            ("MIDDLE", &namespace(NAMESPACES / 4).into()),
            ("NAMESPACE", &object["namespace"]),
            ("KIND", &object["kind"]),
            ("OBJECT", &object["name"]),
            ("OF_EVENT", &item["namespace"]),
            ("EVENT", &item["name"]),
        ] {
            query = query.replace(place, text.as_str().unwrap_or_default());
        }
        query
    }
}

/// The body of an answer as it is sent, perhaps compressed.
pub(super) async fn ask(connection: &mut Connection, path: &str) -> Result<Bytes, Failure> {
    let encoding = [(ACCEPT_ENCODING, "gzip")];
    let answer = connection.send(Method::GET, path, &encoding, "").await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}

/// The JSON of a body that may be compressed.
fn plain(body: &[u8]) -> Result<Value, Failure> {
    if body.starts_with(&[0x1f, 0x8b]) {
        let decoder = flate2::read::GzDecoder::new(body);
        return Ok(serde_json::from_reader(std::io::BufReader::new(decoder))?);
    }
    Ok(serde_json::from_slice(body)?)
}
