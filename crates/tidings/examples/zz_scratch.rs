#![allow(warnings)]
use tidings::*;
fn best(name: &str, b: &Broadcaster, mut f: impl FnMut(u32)) {
    let n = 5000u32;
    let mut times = Vec::new();
    for _ in 0..300 {
        let t = std::time::Instant::now();
        for i in 0..n {
            f(i)
        }
        times.push(t.elapsed() / n);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    times.sort();
    println!(
        "{name}: min {:?} median {:?} {}",
        times[0],
        times[150],
        b.report().handlers
    );
}
fn main() {
    let watchers: u32 = std::env::args()
        .nth(1)
        .and_then(|a| a.parse().ok())
        .unwrap_or(1);
    let rt = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _g = rt.enter();
    let b = Broadcaster::new();
    for _ in 0..watchers {
        b.start_event_watcher(|_| {});
    }
    let r = b.recorder(EventSource::component("x"));
    let pod = Reference::new(ReferenceFields {
        kind: "Pod",
        namespace: "default",
        name: "web-0",
        uid: "0123-4567",
        api_version: "v1",
        ..Default::default()
    });
    let p = k8s_openapi::api::core::v1::Pod {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some("web-0".into()),
            namespace: Some("default".into()),
            uid: Some("0123".into()),
            ..Default::default()
        },
        ..Default::default()
    };
    best("plain", &b, |_| {
        r.event(&pod, EventType::Normal, "Tested", "some message")
    });
    best("past", &b, |_| {
        r.past(
            &pod,
            jiff::Timestamp::UNIX_EPOCH,
            EventType::Normal,
            "Tested",
            "some message",
        )
    });
    best("format", &b, |i| {
        r.event(
            &pod,
            EventType::Normal,
            "Tested",
            format_args!("message {i}"),
        )
    });
    best("pod", &b, |i| {
        r.event(&p, EventType::Normal, "Tested", "some message")
    });
}
