//! Another program on the same etcd, through its JSON gateway, like kube-apiserver or an operator.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// Calls a method of the gateway, such as `kv/range`. Waits for an etcd that is starting.
pub(crate) fn call(url: &str, method: &str, body: &Value) -> Value {
    let body = body.to_string();
    let request = format!(
        "POST /v3/{method} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    serde_json::from_str(&send(url, &request)).unwrap()
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
    // With HTTP/1.0 the answer ends with the connection.
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

/// A key's version, value and lease in etcd.
pub(crate) fn read(url: &str, key: &str) -> Option<(Vec<u8>, String)> {
    let answer = call(url, "kv/range", &json!({ "key": encode(key) }));
    let kv = answer.get("kvs")?.get(0)?;
    let value = kv.get("value").and_then(Value::as_str).unwrap_or_default();
    let lease = kv.get("lease").and_then(Value::as_str).unwrap_or("0");
    Some((BASE64_STANDARD.decode(value).unwrap(), lease.to_owned()))
}

/// Stores a value like kube-apiserver, under a lease.
pub(crate) fn put(url: &str, key: &str, value: &str, lease: &str) {
    let body = json!({ "key": encode(key), "value": encode(value), "lease": lease });
    call(url, "kv/put", &body);
}

/// A lease with a number chosen by etcd, like kube-apiserver's.
pub(crate) fn grant(url: &str, seconds: u64) -> String {
    let answer = call(url, "lease/grant", &json!({ "TTL": seconds.to_string() }));
    answer["ID"].as_str().unwrap().to_owned()
}

/// The granted and the remaining time of a lease.
pub(crate) fn life(url: &str, lease: &str) -> (u64, u64) {
    let answer = call(url, "lease/timetolive", &json!({ "ID": lease }));
    let number = |name: &str| answer[name].as_str().unwrap_or("0").parse().unwrap();
    (number("grantedTTL"), number("TTL"))
}
