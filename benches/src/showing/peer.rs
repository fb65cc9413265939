//! Measures vis-timeline in the same browser, with as many lanes and marks as one of our pictures
//! may have. It needs no server: it gets the latest events of a cluster from a file beside the
//! page, which is faster than over a network.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::answers::PERCENTILES;
use super::cluster::{Cluster, Said};
use super::tab::Tab;
use crate::{Failure, Figure};

/// Maximum number of lanes, and of marks, as in our pictures.
const LANES: usize = 300;
const MARKS: usize = 2000;

const PAGE: &str = include_str!("../../peers/vis-timeline/page.html");

/// Measures the library in this folder, an npm package, with the latest events of a cluster.
pub(super) fn peer(package: &Path, all: u64, days: i64, now: i64) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let into = |name: &str| folder.path().join(name);
    for file in [
        "vis-timeline-graph2d.min.js",
        "vis-timeline-graph2d.min.css",
    ] {
        let from = ["standalone/umd", "styles"].map(|part| package.join(part).join(file));
        let from = from.into_iter().find(|from| from.is_file());
        let from = from.ok_or_else(|| format!("{} has no {file}", package.display()))?;
        fs::copy(from, into(file))?;
    }
    let version: serde_json::Value =
        serde_json::from_slice(&fs::read(package.join("package.json"))?)?;
    let version = version["version"].as_str().unwrap_or_default().to_owned();
    let events: Vec<Said> = Cluster::new(0, all, days, now).collect();
    let events = last(&events);
    fs::write(
        into("events.js"),
        format!("window.events = {};", data(&events)),
    )?;
    fs::write(into("page.html"), PAGE)?;
    let tab = Tab::new()?;
    tab.browser
        .open(&format!("file://{}", into("page.html").display()));
    tab.browser.until("window.picture");
    let version = format!("{version}, {}", tab.program());
    let figure = |name: &str| {
        Figure::of("vis-timeline", name)
            .version(&version)
            .with("marks", events.len() as f64)
    };
    let first = tab.browser.number("window.picture");
    let mut first = [first].into_iter().collect();
    figure("first_picture")
        .times("", &PERCENTILES, &mut first)
        .print();
    tab.gestures(".vis-center", 4, figure("gesture")).print();
    Ok(())
}

/// The latest events, as many as one of our pictures shows.
fn last(events: &[Said]) -> Vec<&Said> {
    let mut lanes = HashSet::new();
    let mut fitting = Vec::new();
    for said in events.iter().rev() {
        let lane = (said.kind, &said.namespace, &said.object);
        if fitting.len() < MARKS && (lanes.len() < LANES || lanes.contains(&lane)) {
            lanes.insert(lane);
            fitting.push(said);
        }
    }
    fitting
}

/// For each event its lane, its first and last time, whether it is a warning, and its reason, as
/// JavaScript.
fn data(events: &[&Said]) -> String {
    let events = events.iter().map(|said| {
        let lane = format!("{} {}/{}", said.kind, said.namespace, said.object);
        serde_json::json!([lane, said.first, said.last, said.warning, said.reason])
    });
    events.collect::<serde_json::Value>().to_string()
}
