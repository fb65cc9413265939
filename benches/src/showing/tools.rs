//! The tools of the Model Context Protocol over HTTP, each beside the answer of the timeline that
//! it reads, for random objects, events and times.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use serde_json::{Value, json};

use super::answers::{PERCENTILES, There, ask};
use super::cluster::{DAY, HOUR};
use crate::serving::{Connection, JSON, Target};
use crate::{Failure, Figure, Latencies, Numbers, now};

/// How often each tool is called.
const ROUNDS: u64 = 200;

/// The calls: name, tool, and length of the time that is asked about.
#[rustfmt::skip]
const CALLS: [(&str, &str, i64); 16] = [
    ("clusters", "clusters", HOUR),
    ("coverage, 30 days", "coverage", 30 * DAY),
    ("search, 24 hours", "search", DAY),
    ("search, 30 days", "search", 30 * DAY),
    ("search, a reason, 30 days", "search", 30 * DAY),
    ("search, a text that is nowhere, 30 days", "search", 30 * DAY),
    ("object, 24 hours", "object", DAY),
    ("object, 30 days", "object", 30 * DAY),
    ("object without family, 30 days", "object", 30 * DAY),
    ("event", "event", HOUR),
    ("top by reason, 24 hours", "top", DAY),
    ("top by reason, 30 days", "top", 30 * DAY),
    ("top by object, 30 days", "top", 30 * DAY),
    ("compare, an hour with yesterday's", "compare", HOUR),
    ("compare, 24 hours", "compare", DAY),
    ("compare, 7 days", "compare", 7 * DAY),
];

/// Makes each call a number of times, and after each one the request for the same answer. A first
/// round warms up, and is not counted.
pub(super) async fn tools(target: &Target) -> Result<(), Failure> {
    let mut connection = target.connect().await?;
    let there = There::read(&mut connection).await?;
    for (name, tool, length) in CALLS {
        let mut numbers = Numbers(7);
        let (mut took, mut plain, mut bytes) = (Latencies::default(), Latencies::default(), 0);
        for round in 0..=ROUNDS {
            let (arguments, path) = there.call(name, tool, length, &mut numbers);
            let asked = now();
            let answer = call(&mut connection, tool, &arguments).await?;
            let took_now = asked.elapsed();
            let asked = now();
            ask(&mut connection, &format!("/timeline/api/{path}")).await?;
            let plain_now = asked.elapsed();
            if round > 0 {
                took.push(took_now);
                plain.push(plain_now);
                bytes += answer.len() as u64;
            }
        }
        Figure::new(name)
            .times("", &PERCENTILES, &mut took)
            .times("plain_", &PERCENTILES, &mut plain)
            .with("bytes", bytes as f64 / ROUNDS as f64)
            .print();
    }
    Ok(())
}

impl There {
    /// The arguments of the next call, and the request for the same answer.
    fn call(&self, name: &str, tool: &str, length: i64, numbers: &mut Numbers) -> (Value, String) {
        let (item, end) = self.any(length, numbers);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let range = format!("from={}&to={end}", end - length);
        let moment = |millis| jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
        let (since, until) = (moment(end - length).to_string(), moment(end).to_string());
        let mut arguments = json!({"since": since, "until": until});
        let object = &item["object"];
        let path = match tool {
            "clusters" => {
                arguments = json!({});
                "coverage?from=0".to_owned()
            }
            "coverage" => format!("coverage?{range}"),
            "search" => {
                let mut filter = "";
                if name.contains("reason") {
                    arguments["reason"] = "BackOff".into();
                    filter = "&filter=reason:BackOff";
                } else if name.contains("text") {
                    arguments["text"] = "no-such-text".into();
                    filter = "&filter=no-such-text";
                }
                format!("events?{range}&limit=30{filter}")
            }
            "object" => {
                let mut path = format!("object?{range}");
                for field in ["kind", "namespace", "name"] {
                    arguments[field] = object[field].clone();
                    path.extend(["&", field, "=", &text(&object[field])]);
                }
                arguments["family"] = (!name.contains("without")).into();
                path
            }
            "event" => {
                let (namespace, name) = (text(&item["namespace"]), text(&item["name"]));
                arguments = json!({"id": format!("-/{namespace}/{name}")});
                format!("event?namespace={namespace}&name={name}")
            }
            _ => {
                let by = if name.contains("object") {
                    "object"
                } else {
                    "reason"
                };
                if tool == "top" {
                    arguments["by"] = by.into();
                }
                format!("top?{range}&by={by}&parts=1")
            }
        };
        (arguments, path)
    }
}

/// The body of a tool's answer.
async fn call(
    connection: &mut Connection,
    tool: &'static str,
    arguments: &Value,
) -> Result<Bytes, Failure> {
    const MINE: &str = "2026-07-28";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MINE,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        },
    }});
    let headers = [
        (CONTENT_TYPE, JSON),
        (ACCEPT, "application/json, text/event-stream"),
        (HeaderName::from_static("mcp-protocol-version"), MINE),
        (HeaderName::from_static("mcp-method"), "tools/call"),
        (HeaderName::from_static("mcp-name"), tool),
    ];
    let answer = connection
        .send(Method::POST, "/mcp", &headers, body.to_string())
        .await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&body)?;
    if answer["result"]["isError"] == true || answer.get("error").is_some() {
        return Err(answer.to_string().into());
    }
    Ok(body)
}
