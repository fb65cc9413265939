//! The tools of the Model Context Protocol over HTTP, each beside the answer of the timeline that
//! it reads, for random objects, events and times.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use serde_json::{Value, json};

use super::answers::{There, ask, there};
use super::cluster::{DAY, HOUR};
use crate::Figure;
use crate::serving::{Connection, Latencies, LoadError, Target, now};
use crate::storing::events::Numbers;

/// A call of a tool, and the same answer as the timeline's page requests it.
struct Call {
    tool: &'static str,
    arguments: Value,
    path: String,
}

/// Makes each call a number of times, and after each one the request for the same answer. A first
/// round warms up, and is not counted.
///
/// # Errors
/// A call or a request was not answered with success.
pub async fn tools(target: &Target, rounds: u64) -> Result<(), LoadError> {
    let mut connection = target.connect().await?;
    let there = there(&mut connection).await?;
    for name in [
        "clusters",
        "coverage, 30 days",
        "search, 24 hours",
        "search, 30 days",
        "search, a reason, 30 days",
        "search, a text that is nowhere, 30 days",
        "object, 24 hours",
        "object, 30 days",
        "object without family, 30 days",
        "event",
        "top by reason, 24 hours",
        "top by reason, 30 days",
        "top by object, 30 days",
        "compare, an hour with yesterday's",
        "compare, 24 hours",
        "compare, 7 days",
    ] {
        let mut numbers = Numbers(7);
        let (mut took, mut plain, mut bytes) = (Latencies::default(), Latencies::default(), 0);
        for round in 0..=rounds {
            let call = there.call(name, &mut numbers);
            let asked = now();
            let answer = call_tool(&mut connection, call.tool, &call.arguments).await?;
            let took_now = asked.elapsed();
            let asked = now();
            ask(&mut connection, &call.path).await?;
            let plain_now = asked.elapsed();
            if round > 0 {
                took.push(took_now);
                plain.push(plain_now);
                bytes += answer.len() as u64;
            }
        }
        Figure::new(name)
            .with("p50_ms", took.percentile_ms(0.5))
            .with("p95_ms", took.percentile_ms(0.95))
            .with("max_ms", took.percentile_ms(1.))
            .with("plain_p50_ms", plain.percentile_ms(0.5))
            .with("plain_p95_ms", plain.percentile_ms(0.95))
            .with("bytes", bytes as f64 / rounds.max(1) as f64)
            .print();
    }
    Ok(())
}

impl There {
    /// The next call of this name. Ranges end at a random time within that of the events.
    fn call(&self, name: &'static str, numbers: &mut Numbers) -> Call {
        let (tool, rest) = name.split_once([',', ' ']).unwrap_or((name, ""));
        let tool = match tool {
            "coverage" | "search" | "object" | "event" | "top" | "compare" => tool,
            _ => "clusters",
        };
        let length = match name {
            _ if name.contains("30 days") => 30 * DAY,
            _ if name.contains("7 days") => 7 * DAY,
            _ if name.contains("24 hours") => DAY,
            _ => HOUR,
        };
        let any = numbers.below(self.items.len() as u64) as usize;
        let item = self.items.get(any).unwrap_or(&Value::Null);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let free = (self.to - self.from - length).max(0);
        let end = self.to - numbers.below(free.max(HOUR).cast_unsigned()).cast_signed();
        let range = format!("from={}&to={end}", end - length);
        let moment = |millis: i64| {
            let at = jiff::Timestamp::from_millisecond(millis);
            at.map(|at| at.to_string()).unwrap_or_default()
        };
        let mut arguments = json!({"since": moment(end - length), "until": moment(end)});
        let (namespace, name_of) = (text(&item["namespace"]), text(&item["name"]));
        let object = &item["object"];
        let path = match tool {
            "clusters" => {
                arguments = json!({});
                "coverage?from=0".to_owned()
            }
            "coverage" => format!("coverage?{range}"),
            "search" => {
                let mut filter = "";
                if rest.contains("reason") {
                    arguments["reason"] = "BackOff".into();
                    filter = "&filter=reason:BackOff";
                } else if rest.contains("text") {
                    arguments["text"] = "no-such-text".into();
                    filter = "&filter=no-such-text";
                }
                format!("events?{range}&limit=30{filter}")
            }
            "object" => {
                arguments["kind"] = object["kind"].clone();
                arguments["namespace"] = object["namespace"].clone();
                arguments["name"] = object["name"].clone();
                arguments["family"] = (!name.contains("without")).into();
                let [kind, namespace, name] =
                    ["kind", "namespace", "name"].map(|of| text(&object[of]));
                format!("object?{range}&kind={kind}&namespace={namespace}&name={name}")
            }
            "event" => {
                arguments = json!({"id": format!("-/{namespace}/{name_of}")});
                format!("event?namespace={namespace}&name={name_of}")
            }
            _ => {
                let by = if rest.contains("object") {
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
        Call {
            tool,
            arguments,
            path: format!("/timeline/api/{path}"),
        }
    }
}

/// The body of a tool's answer.
async fn call_tool(
    connection: &mut Connection,
    tool: &'static str,
    arguments: &Value,
) -> Result<Bytes, LoadError> {
    const MINE: &str = "2026-07-28";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MINE,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        },
    }});
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (ACCEPT, "application/json, text/event-stream"),
        (HeaderName::from_static("mcp-protocol-version"), MINE),
        (HeaderName::from_static("mcp-method"), "tools/call"),
        (HeaderName::from_static("mcp-name"), tool),
    ];
    let body = Bytes::from(body.to_string());
    let answer = connection
        .send_with(Method::POST, "/mcp", &headers, body)
        .await?;
    let body = answer.into_body().collect().await?.to_bytes();
    let answer: Value =
        serde_json::from_slice(&body).map_err(|error| LoadError::Answer(error.to_string()))?;
    if answer["result"]["isError"] == true || answer.get("error").is_some() {
        return Err(LoadError::Answer(answer.to_string()));
    }
    Ok(body)
}
