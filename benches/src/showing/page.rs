//! Measures the page in a browser: the first picture, pans and zooms, and the memory of a tab that
//! follows new events.

use std::time::Duration;

use serde_json::json;

use super::answers::PERCENTILES;
use super::cluster::{Cluster, DAY, HOUR};
use super::tab::{Tab, numbers};
use crate::serving::{JSON, Target};
use crate::{Failure, Figure, Latencies, Numbers};

/// The measured views: each with its part of a figure's name, and its length.
const VIEWS: [(&str, i64); 4] = [
    ("1h", HOUR),
    ("24h", DAY),
    ("7d", 7 * DAY),
    ("30d", 30 * DAY),
];

/// How often the first picture of each is measured.
const ROUNDS: u64 = 10;

/// The time from the page's request to its first picture.
const FIRST: &str = "performance.getEntriesByName('first-picture')[0].startTime";

/// A script: pans by a third of the picture, and measures the time until what was loaded for it is
/// drawn.
const SETTLE: &str = "const [times, done] = arguments;
    const box = document.getElementById('lanes-body');
    const root = document.documentElement;
    const took = [];
    const step = () => {
        if (took.length >= times) return done(took);
        const begun = performance.now();
        new MutationObserver((_, observer) => {
            observer.disconnect();
            requestAnimationFrame(() => {
                const channel = new MessageChannel();
                channel.port1.onmessage = () => {
                    took.push(performance.now() - begun);
                    setTimeout(step, 300);
                };
                channel.port2.postMessage(0);
            });
        }).observe(root, { attributeFilter: ['data-loaded'] });
        box.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true,
            shiftKey: true, deltaY: took.length % 2 === 0 ? -300 : 300,
            clientX: 900, clientY: 400 }));
    };
    step();";

/// A condition: the page has drawn a picture.
const DRAWN: &str = "performance.getEntriesByName('first-picture').length > 0";

/// Opens the timeline of a server in a browser, and measures pictures of several lengths of time,
/// each at random times. The first picture is measured for a browser that has none of the page's
/// files, and again for one that has them.
pub(super) fn page(target: &Target) -> Result<(), Failure> {
    let (url, token) = target.entrance();
    let tab = Tab::new()?;
    log_in(&tab, &url, token);
    let edge = |name: &str| {
        let script = format!(
            "const [done] = arguments; fetch('/timeline/api/overview')
                .then((answer) => answer.json()).then((found) => done(found.clusters[0].{name}))"
        );
        tab.browser.run_until_done(&script, json!([])).as_i64()
    };
    let (from, to) = edge("from").zip(edge("to")).ok_or("there are no events")?;
    let program = tab.program();
    for (name, length) in VIEWS {
        let mut numbers_of = Numbers(length.cast_unsigned());
        for visit in ["first_picture", "first_picture_again"] {
            let mut pictures = Vec::new();
            for _ in 0..ROUNDS {
                let free = (to - from - length).max(HOUR).cast_unsigned();
                let end = to - numbers_of.below(free).cast_signed();
                if visit == "first_picture" {
                    tab.browser.devtools("Network.clearBrowserCache", json!({}));
                }
                let (since, until) = (time(end - length), time(end));
                tab.browser.open(&format!("{url}?from={since}&to={until}"));
                tab.browser.until(DRAWN);
                pictures.push(tab.browser.number(FIRST));
            }
            print(&format!("{visit}_{name}"), &program, pictures);
        }
        let moved = Figure::new(&format!("gesture_{name}")).by(&program);
        tab.gestures("#lanes-body", 12, moved).print();
        tab.browser.open(&tab.browser.url());
        tab.browser.until(DRAWN);
        let settled = numbers(&tab.browser.run_until_done(SETTLE, json!([20])));
        print(&format!("settled_{name}"), &program, settled);
    }
    Ok(())
}

fn print(name: &str, program: &str, times: Vec<f64>) {
    let mut times: Latencies = times.into_iter().collect();
    Figure::new(name)
        .by(program)
        .times("", &PERCENTILES, &mut times)
        .print();
}

/// Follows new events in a tab while they are written, and prints how its memory develops: every
/// half minute, from the end of the first minute on.
pub(super) async fn live(
    target: &Target,
    minutes: u64,
    per_second: u64,
    clock: impl Fn() -> i64,
) -> Result<(), Failure> {
    const SAMPLE: u64 = 30;
    let (url, token) = target.entrance();
    let tab = Tab::new()?;
    log_in(&tab, &url, token);
    tab.browser.open(&format!("{url}?last=1h"));
    tab.browser.until(DRAWN);
    let (mut heaps, mut nodes) = (Vec::new(), Vec::new());
    let mut written = 0_u64;
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for second in 1..=minutes * 60 {
        ticks.tick().await;
        // Each round has a new connection: the server ends those that are idle while this program
        // sleeps.
        let mut connection = target.connect().await?;
        // The events of a small cluster, moved to now and with names of their own.
        let now = clock();
        for said in Cluster::new(0, per_second, 1, now).map(|said| said.moved_to(now, second)) {
            let body = said.event().to_string();
            let path = format!("/api/v1/namespaces/{}/events", said.namespace);
            connection
                .write(hyper::Method::POST, &path, JSON, body)
                .await?;
            written += 1;
        }
        if second % SAMPLE == 0 {
            let (used, counted) = tab.memory();
            heaps.push(used);
            nodes.push(counted);
        }
    }
    let pictures = tab
        .browser
        .number("Number(document.documentElement.dataset.loaded)");
    let greatest = |of: &[f64]| of.iter().copied().fold(0., f64::max);
    let halves = |of: &[f64]| {
        // The first sample is left out: the page had not shown everything once.
        let of = of.get(1..).unwrap_or_default();
        let (first, second) = of.split_at(of.len() / 2);
        (greatest(first), greatest(second))
    };
    let ((heap_first, heap_second), (nodes_first, nodes_second)) = (halves(&heaps), halves(&nodes));
    Figure::new("live")
        .by(&tab.program())
        .with("minutes", minutes as f64)
        .with("events", written as f64)
        .with("pictures", pictures)
        .with("heap_first_half_bytes", heap_first)
        .with("heap_second_half_bytes", heap_second)
        .with("nodes_first_half", nodes_first)
        .with("nodes_second_half", nodes_second)
        .print();
    Ok(())
}

fn log_in(tab: &Tab, url: &str, token: &str) {
    tab.browser.open(url);
    tab.browser.until("document.getElementById('login').open");
    tab.browser.run("document.getElementById('token').focus()");
    tab.browser.keys(token);
    tab.browser.keys("\u{e007}");
    tab.browser.until("document.documentElement.dataset.loaded");
}

/// A time as the page writes it in its address.
fn time(millis: i64) -> String {
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| String::new(), |at| at.to_string())
}
