//! The pictures of the README: what the program prints to a terminal of 112 columns, as it prints it.
//! `UPDATE_PICTURES=1 cargo test -p tidings-cli --test verbs pictures` draws them anew.

use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::support::{Cluster, ago, event, rollout};
use super::terminal::shown;

const COLUMNS: u16 = 112;
/// Of a letter, in pixels.
const WIDTH: f32 = 8.4;
const HEIGHT: f32 = 19.0;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_are_what_the_program_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let mut events = rollout();
    // Ages of minutes, half a minute from the next, and no two alike: a slow run prints the same.
    for (number, count, seconds) in [(1, 140, 750), (2, 61, 740)] {
        let mut probe = event(
            &format!("db-{number}.1"),
            ("Pod", &format!("db-{number}")),
            "FailedScheduling",
            seconds,
        );
        probe["count"] = json!(count);
        probe["firstTimestamp"] = json!(ago(3450));
        probe["message"] = json!("0/5 nodes are available: 5 Insufficient memory.");
        probe["source"] = json!({"component": "default-scheduler"});
        events.push(probe);
    }
    let cluster = Cluster::with(&events).await;
    for (name, arguments) in [
        ("events", &["events", "-A", "--since", "2h"] as &[&str]),
        (
            "tree",
            &["events", "-n", "shop", "--for", "deploy/web", "--tree"],
        ),
        ("top", &["top", "-A", "--rows", "4"]),
        (
            "describe",
            &["describe", "-n", "shop", "pod/web-5d4f8c7b9-x7k2p"],
        ),
    ] {
        let lines = shown(&cluster, COLUMNS, arguments, &[]);
        let picture = draw(&format!("$ tidings {}", arguments.join(" ")), &lines);
        let path = folder.join(format!("{name}.svg"));
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            std::fs::write(&path, &picture).unwrap();
        }
        // Ages differ from run to run; the headings and the objects do not.
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
            "{} shows what the program does not print",
            path.display()
        );
    }
}

/// Lines of a terminal as a picture.
fn draw(command: &str, lines: &[String]) -> String {
    let rows = lines.len() + 2;
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

/// Text, its colour and whether it is bold, by the escapes the program writes.
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
