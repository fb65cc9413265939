//! Another program on the same etcd, speaking to its JSON gateway: what kube-apiserver or an
//! operator would do.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Calls a method of the gateway, `kv/range` say. Waits for an etcd that is just starting.
pub(crate) fn call(url: &str, method: &str, body: &Value) -> Value {
    call_with(url, "", method, body)
}

/// The same with a line of the request's head.
pub(crate) fn call_with(url: &str, line: &str, method: &str, body: &Value) -> Value {
    let body = body.to_string();
    let request = format!(
        "POST /v3/{method} HTTP/1.0\r\nContent-Type: application/json\r\n{line}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    serde_json::from_str(&send(url, &request)).unwrap()
}

/// What etcd has counted under a name with these labels, since it was started.
pub(crate) fn metric(url: &str, series: &str) -> u64 {
    let metrics = send(url, "GET /metrics HTTP/1.0\r\n\r\n");
    let value = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
    metrics.lines().find_map(value).unwrap_or(0)
}

/// The answer's body.
fn send(url: &str, request: &str) -> String {
    let address = url.trim_start_matches("http://");
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    // HTTP/1.0 asks for an answer that simply ends.
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{request}: {answer}");
    body.to_owned()
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// A key's version, value and lease as etcd has them.
pub(crate) fn read(url: &str, key: &str) -> Option<(Vec<u8>, String)> {
    let answer = call(url, "kv/range", &json!({ "key": encode(key) }));
    let kv = answer.get("kvs")?.get(0)?;
    let value = kv.get("value").and_then(Value::as_str).unwrap_or_default();
    let lease = kv.get("lease").and_then(Value::as_str).unwrap_or("0");
    Some((BASE64_STANDARD.decode(value).unwrap(), lease.to_owned()))
}

/// Stores a value as kube-apiserver does, under a lease.
pub(crate) fn put(url: &str, key: &str, value: &str, lease: &str) {
    let body = json!({ "key": encode(key), "value": encode(value), "lease": lease });
    call(url, "kv/put", &body);
}

/// A lease with a number etcd chooses, as kube-apiserver's are.
pub(crate) fn grant(url: &str, seconds: u64) -> String {
    let answer = call(url, "lease/grant", &json!({ "TTL": seconds.to_string() }));
    answer["ID"].as_str().unwrap().to_owned()
}

/// The life a lease was granted, and what is left of it.
pub(crate) fn life(url: &str, lease: &str) -> (u64, u64) {
    let answer = call(url, "lease/timetolive", &json!({ "ID": lease }));
    let number = |name: &str| answer[name].as_str().unwrap_or("0").parse().unwrap();
    (number("grantedTTL"), number("TTL"))
}
