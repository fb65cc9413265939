//! The answers that the timeline's page requests, requested as it does: for random times of the
//! events, over one connection, compressed as for a browser.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::ACCEPT_ENCODING;
use serde_json::Value;

use super::cluster::{DAY, HOUR, NAMESPACES, namespace};
use crate::Figure;
use crate::serving::{Connection, Latencies, LoadError, Target, now};
use crate::storing::events::Numbers;

/// The times of the server's events, and some of these events, for requests.
pub(super) struct There {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) items: Vec<Value>,
}

/// Makes each request a number of times. A first round warms up, and is not counted.
///
/// # Errors
/// A request was not answered with success.
pub async fn answers(target: &Target, rounds: u64) -> Result<(), LoadError> {
    let mut connection = target.connect().await?;
    let there = there(&mut connection).await?;
    let day = |days: i64| days * DAY;
    let busiest = format!("&namespace={}", namespace(0));
    let middle = format!("&namespace={}", namespace(NAMESPACES / 4));
    for (name, path, length, filter) in [
        ("overview", "overview", day(30), ""),
        ("view_1h", "view", HOUR, ""),
        ("view_24h", "view", day(1), ""),
        ("view_7d", "view", day(7), ""),
        ("view_30d", "view", day(30), ""),
        ("view_busiest_namespace_24h", "view", day(1), &busiest),
        ("view_busiest_namespace_30d", "view", day(30), &busiest),
        ("view_namespace_30d", "view", day(30), &middle),
        ("view_object_30d", "view", day(30), "&filter=object:"),
        ("view_kind_30d", "view", day(30), "&kind=Node"),
        ("view_warnings_30d", "view", day(30), "&filter=type:Warning"),
        ("view_reason_30d", "view", day(30), "&filter=reason:BackOff"),
        (
            "view_frequent_reason_30d",
            "view",
            day(30),
            "&filter=reason:Started",
        ),
        ("view_text_24h", "view", day(1), "&filter=back-off"),
        ("view_text_30d", "view", day(30), "&filter=back-off"),
        ("events_30d", "events", day(30), "&limit=100"),
        (
            "events_text_30d",
            "events",
            day(30),
            "&limit=100&filter=no-such-text",
        ),
        ("reasons_24h", "top", day(1), ""),
        ("reasons_30d", "top", day(30), ""),
        ("objects_30d", "top", day(30), "&by=object"),
        ("object", "object", day(7), ""),
        ("event", "event", 0, ""),
    ] {
        let mut numbers = Numbers(7);
        let (mut took, mut bytes, mut read) = (Latencies::default(), 0, 0);
        let mut complete = 0_u64;
        for round in 0..=rounds {
            let query = there.query(name, path, length, filter, &mut numbers);
            let asked = now();
            let answer = ask(&mut connection, &format!("/timeline/api/{path}?{query}")).await?;
            let took_now = asked.elapsed();
            if round == 0 {
                continue;
            }
            took.push(took_now);
            bytes += answer.len() as u64;
            if path == "view" {
                let picture = plain(&answer)?;
                read += picture["read"].as_u64().unwrap_or(0);
                complete += u64::from(picture["complete"].as_bool().unwrap_or(false));
            }
        }
        let share = rounds.max(1) as f64;
        let mut figure = Figure::new(name)
            .with("p50_ms", took.percentile_ms(0.5))
            .with("p95_ms", took.percentile_ms(0.95))
            .with("max_ms", took.percentile_ms(1.))
            .with("bytes", bytes as f64 / share);
        if path == "view" {
            figure = figure
                .with("read", read as f64 / share)
                .with("complete", complete as f64 / share);
        }
        figure.print();
    }
    Ok(())
}

impl There {
    fn query(
        &self,
        name: &str,
        path: &str,
        length: i64,
        filter: &str,
        numbers: &mut Numbers,
    ) -> String {
        let any = numbers.below(self.items.len() as u64) as usize;
        let item = self.items.get(any).unwrap_or(&Value::Null);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &item["object"];
        let (namespace, kind, object) = (
            text(&object["namespace"]),
            text(&object["kind"]),
            text(&object["name"]),
        );
        if path == "event" {
            return format!(
                "namespace={}&name={}",
                text(&item["namespace"]),
                text(&item["name"])
            );
        }
        // Each request has another range of time, as when someone pans, within the time of the
        // events.
        let free = (self.to - self.from - length).max(0);
        let end = self.to - numbers.below(free.max(HOUR).cast_unsigned()).cast_signed();
        let range = format!("from={}&to={end}", end - length);
        match (path, name) {
            ("object", _) => format!("{range}&kind={kind}&namespace={namespace}&name={object}"),
            ("view", "view_object_30d") => format!("{range}{filter}{object}&kind={kind}"),
            _ => format!("{range}{filter}"),
        }
    }
}

/// Reads the times and some events of a server.
pub(super) async fn there(connection: &mut Connection) -> Result<There, LoadError> {
    let overview = plain(&ask(connection, "/timeline/api/overview").await?)?;
    let edge = |name: &str| {
        let edge = overview["clusters"][0][name].as_i64();
        edge.ok_or_else(|| LoadError::Answer(format!("the overview has no {name}")))
    };
    let (from, to) = (edge("from")?, edge("to")?);
    let (mut items, mut numbers) = (Vec::new(), Numbers(1));
    for _ in 0..10 {
        let before = to
            - numbers
                .below((to - from).max(1).cast_unsigned())
                .cast_signed();
        let path = format!(
            "/timeline/api/events?from={from}&to={}&limit=20",
            before + HOUR
        );
        let page = plain(&ask(connection, &path).await?)?;
        items.extend(page["items"].as_array().into_iter().flatten().cloned());
    }
    if items.is_empty() {
        return Err(LoadError::Answer("there are no events".to_owned()));
    }
    Ok(There { from, to, items })
}

/// The body of an answer as it is sent, perhaps compressed.
pub(super) async fn ask(connection: &mut Connection, path: &str) -> Result<Bytes, LoadError> {
    let encoding = (ACCEPT_ENCODING, "gzip");
    let answer = connection
        .send(Method::GET, path, encoding, Bytes::new())
        .await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}

/// The JSON of a body that may be compressed.
fn plain(body: &[u8]) -> Result<Value, LoadError> {
    let unread = |error: &dyn std::fmt::Display| LoadError::Answer(error.to_string());
    let mut text = Vec::new();
    if body.starts_with(&[0x1f, 0x8b]) {
        let mut decoder = flate2::read::GzDecoder::new(body);
        std::io::Read::read_to_end(&mut decoder, &mut text).map_err(|error| unread(&error))?;
    } else {
        text.extend_from_slice(body);
    }
    serde_json::from_slice(&text).map_err(|error| unread(&error))
}
