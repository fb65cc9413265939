//! The pictures of the README: the program's terminal output as SVG. `UPDATE_PICTURES=1 cargo test
//! -p tidings-cli --test verbs pictures` draws them.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{Cluster, ago};
use super::terminal::shown;

const COLUMNS: u16 = 140;
/// The width of a character in pixels.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 19.0;

/// One event of the pictures: namespace, kind and name of its object, reason, reporting component,
/// count, minutes since it was first and last seen, and message.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    u32,
    [i64; 2],
    &'static str,
);

/// A rollout whose pod fails its probes, a database without enough memory, a nightly backup and a
/// node that went away, in the words of the components that report them.
#[rustfmt::skip]
const EVENTS: [Row; 14] = [
    ("shop", "Deployment", "web", "ScalingReplicaSet", "deployment-controller", 1, [54, 54],
        "Scaled up replica set web-5d4f8c7b9 from 0 to 1"),
    ("shop", "ReplicaSet", "web-5d4f8c7b9", "SuccessfulCreate", "replicaset-controller", 1, [53, 53],
        "Created pod: web-5d4f8c7b9-x7k2p"),
    ("shop", "Pod", "web-5d4f8c7b9-x7k2p", "Scheduled", "default-scheduler", 1, [52, 52],
        "Successfully assigned shop/web-5d4f8c7b9-x7k2p to worker-2"),
    ("shop", "Pod", "web-5d4f8c7b9-x7k2p", "Pulled", "kubelet", 1, [51, 51],
        "Successfully pulled image \"registry.example.com/web:2.4.0\" in 1.842s (1.842s including waiting). \
         Image size: 48231904 bytes."),
    ("batch", "CronJob", "backup", "SuccessfulCreate", "cronjob-controller", 1, [42, 42],
        "Created job backup-29340120"),
    ("batch", "Pod", "backup-29340120-7qk4d", "FailedMount", "kubelet", 5, [41, 38],
        "MountVolume.SetUp failed for volume \"credentials\" : secret \"backup-s3\" not found"),
    ("batch", "Job", "backup-29340120", "Completed", "job-controller", 1, [35, 35],
        "Job completed"),
    ("shop", "Pod", "web-5d4f8c7b9-x7k2p", "Unhealthy", "kubelet", 18, [49, 25],
        "Liveness probe failed: HTTP probe failed with statuscode: 503"),
    ("shop", "Pod", "web-5d4f8c7b9-x7k2p", "Killing", "kubelet", 6, [47, 24],
        "Container web failed liveness probe, will be restarted"),
    ("shop", "Pod", "web-5d4f8c7b9-x7k2p", "BackOff", "kubelet", 31, [45, 22],
        "Back-off restarting failed container web in pod \
         web-5d4f8c7b9-x7k2p_shop(4f0d7a12-6b1e-4c35-9a64-0f3b2d9e81c7)"),
    ("default", "Node", "worker-3", "NodeNotReady", "node-controller", 1, [19, 19],
        "Node worker-3 status is now: NodeNotReady"),
    ("kube-system", "Pod", "etcd-control-1", "Unhealthy", "kubelet", 4, [18, 16],
        "Readiness probe failed: HTTP probe failed with statuscode: 503"),
    ("batch", "Pod", "import-x2v9k", "Evicted", "kubelet", 1, [15, 15],
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 89420Ki. \
         Container import was using 612Mi, request is 256Mi, has larger consumption of memory. "),
    ("data", "Pod", "postgres-1", "FailedScheduling", "default-scheduler", 64, [56, 12],
        "0/5 nodes are available: 5 Insufficient memory. preemption: 0/5 nodes are available: \
         5 No preemption victims found for incoming pod."),
];

fn events() -> Vec<Value> {
    let event = |(number, row): (usize, &Row)| {
        let (namespace, kind, object, reason, component, count, [first, last], message) = row;
        let is_warning = matches!(
            *reason,
            "FailedMount" | "Unhealthy" | "BackOff" | "Evicted" | "FailedScheduling"
        );
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{object}.{number}"), "namespace": namespace},
            "involvedObject": {"kind": kind, "namespace": namespace, "name": object},
            "reason": reason, "message": message,
            "type": if is_warning { "Warning" } else { "Normal" },
            "source": {"component": component},
            // The times are half a minute from a full minute, so that a slow run prints the same
            // ages.
            "firstTimestamp": ago(first * 60 + 30), "lastTimestamp": ago(last * 60 + 30),
            "count": count,
        });
        if *kind == "Node" {
            event["involvedObject"]["namespace"] = Value::Null;
        }
        if *component == "kubelet" {
            event["source"]["host"] = json!("worker-2");
        }
        event
    };
    EVENTS.iter().enumerate().map(event).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_are_what_the_program_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let cluster = Cluster::with(&events()).await;
    for (name, arguments) in [
        ("events", &["events", "-A", "--since", "2h"] as &[&str]),
        (
            "tree",
            &["events", "-n", "shop", "--for", "deploy/web", "--tree"],
        ),
        ("top", &["top", "-A", "--rows", "4"]),
    ] {
        let lines = shown(&cluster, COLUMNS, arguments, &[]);
        let picture = draw(&format!("$ tidings {}", arguments.join(" ")), &lines);
        let path = folder.join(format!("{name}.svg"));
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            std::fs::write(&path, &picture).unwrap();
        }
        // Ages may differ between runs; headings and objects do not.
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let words = |text: &str| -> Vec<String> {
            text.split(['<', '>', ' '])
                .filter(|word| word.contains('/') && !word.contains('='))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(
            words(&kept),
            words(&picture),
            "{} is not what the program prints",
            path.display()
        );
    }
}

/// Draws lines of a terminal as SVG.
fn draw(command: &str, lines: &[String]) -> String {
    let rows = lines.len() + 1;
    let (width, height) = (
        f32::from(COLUMNS) * WIDTH + 32.0,
        rows as f32 * HEIGHT + 24.0,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#16181d\"/>\n"
    );
    let prompt = [(command.to_owned(), "#8bd5a0", false)];
    row(&mut svg, 0, &prompt);
    for (index, line) in lines.iter().enumerate() {
        row(&mut svg, index + 1, &spans(line));
    }
    svg.push_str("</svg>\n");
    svg
}

fn row(svg: &mut String, index: usize, spans: &[(String, &str, bool)]) {
    let y = (index as f32 + 1.0) * HEIGHT + 12.0;
    write!(svg, "<text x=\"16\" y=\"{y:.0}\" xml:space=\"preserve\">").unwrap();
    for (text, color, bold) in spans {
        let weight = if *bold { " font-weight=\"bold\"" } else { "" };
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        write!(svg, "<tspan fill=\"{color}\"{weight}>{text}</tspan>").unwrap();
    }
    svg.push_str("</text>\n");
}

/// Parts of a line with their colour and whether they are bold, from the escapes in it.
fn spans(line: &str) -> Vec<(String, &'static str, bool)> {
    const PLAIN: (&str, bool) = ("#d8dee9", false);
    let mut spans = Vec::new();
    let mut look = PLAIN;
    for (index, part) in line.split('\u{1b}').enumerate() {
        let text = if index == 0 {
            part
        } else {
            let (code, text) = part.split_once('m').unwrap();
            look = match code {
                "[1" => ("#ffffff", true),
                "[2" => ("#8a93a5", false),
                "[33" => ("#f0c674", false),
                _ => PLAIN,
            };
            text
        };
        if !text.is_empty() {
            spans.push((text.to_owned(), look.0, look.1));
        }
    }
    spans
}
