//! Converts a configuration of kubernetes-event-exporter to a file of feeds.
//!
//! What cannot be taken over is named with its line. A rule that cannot be taken over has no feed,
//! and a drop that cannot be taken over drops nothing, so no event is lost in silence.

mod environment;
mod expression;
mod findings;
mod layout;
mod pattern;
mod receivers;
mod routes;
mod tree;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;

use findings::Notes;
use serde_json::Value;
use tree::Node;

pub use findings::Finding;

/// Maximum bytes of a feed's name without its number.
const NAME_LEN_MAX: usize = 50;
/// Settings of kubernetes-event-exporter that feeds do not have, each with the reason.
const SETTINGS: [(&str, &str); 13] = [
    (
        "logLevel",
        "not taken over: see the options of `tidings archive`",
    ),
    (
        "logFormat",
        "not taken over: see the options of `tidings archive`",
    ),
    ("throttlePeriod", TOO_OLD),
    ("maxEventAgeSeconds", TOO_OLD),
    (
        "clusterName",
        "name the cluster with `tidings archive --name`, or in the file of clusters",
    ),
    (
        "leaderElection",
        "not needed: an archive follows a cluster once",
    ),
    ("kubeQPS", "not needed: a watch is one request"),
    ("kubeBurst", "not needed: a watch is one request"),
    (
        "metricsNamePrefix",
        "not taken over: metrics begin with tidings_feed_",
    ),
    ("omitLookup", "not needed: objects of events are not read"),
    ("cacheSize", "not needed: objects of events are not read"),
    ("kubeconfig", "give it to `tidings archive --kubeconfig`"),
    (
        "namespace",
        "each feed has this namespace only; `tidings archive` follows all",
    ),
];
const TOO_OLD: &str = "not needed: no event is too old for a feed";

/// A configuration as feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The file of feeds, in YAML.
    pub feeds: String,
    /// What was not taken over, or not as it was, in the order of lines.
    pub findings: Vec<Finding>,
}

/// Why a configuration cannot be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The text is not YAML. The error states the line.
    #[error("{0}")]
    Yaml(String),
    /// The text is not YAML, and has a template without quotes.
    #[error("{0}; a text that begins with {{{{ needs quotes")]
    Template(String),
    /// There is nothing to convert.
    #[error("no configuration of kubernetes-event-exporter: expected `route` and `receivers`")]
    Other,
}

/// Converts a configuration of kubernetes-event-exporter.
///
/// # Errors
/// [`ConvertError`].
///
/// ```
/// let converted = tidings_feeds::convert::convert(
///     "route: {routes: [{drop: [{type: Normal}], match: [{receiver: dump}]}]}
/// receivers: [{name: dump, stdout: {}}]
/// ",
/// )?;
/// assert_eq!(
///     converted.feeds,
///     "feeds:\n- name: \"dump\"\n  match:\n    not: [{\"type\":\"*Normal*\"}]\n  stdout: {}\n"
/// );
/// assert!(converted.findings.is_empty());
/// # Ok::<(), tidings_feeds::convert::ConvertError>(())
/// ```
pub fn convert(text: &str) -> Result<Converted, ConvertError> {
    let root: Node = serde_saphyr::from_str(text).map_err(|error| {
        let why = error.without_snippet().to_string();
        if text.lines().any(|line| line.contains(": {{")) {
            ConvertError::Template(why)
        } else {
            ConvertError::Yaml(why)
        }
    })?;
    let (Some(route), Some(receivers)) = (root.get("route"), root.get("receivers")) else {
        return Err(ConvertError::Other);
    };
    let mut notes = Notes::default();
    for (name, node) in root.members() {
        let setting = SETTINGS.iter().find(|(setting, _)| setting == name);
        let why = match setting {
            _ if name == "route" || name == "receivers" => continue,
            Some((_, why)) if root.get(name).is_some_and(|node| !node.text().is_empty()) => why,
            Some((_, why)) if !node.members().is_empty() => why,
            Some(_) => continue,
            None => "kubernetes-event-exporter has no such setting",
        };
        notes.add(node.line, name, why);
    }
    let namespace = root.get("namespace").map_or("", Node::text);
    let selections = routes::selections(route, namespace, &mut notes);
    let mut feeds = String::from("feeds:\n");
    let (mut names, mut files) = (BTreeSet::new(), BTreeSet::new());
    let name_of = |node: &Node| node.get("name").map_or("", Node::text).to_owned();
    let is_known = |name: &str| receivers.items().iter().any(|node| name_of(node) == name);
    for selection in &selections {
        if !is_known(&selection.receiver) {
            let why = format!("there is no receiver {:?}", selection.receiver);
            notes.add(selection.line, "receiver", &why);
        }
    }
    for (number, receiver) in receivers.items().iter().enumerate() {
        let (name, path) = (name_of(receiver), format!("receivers[{number}]"));
        let of_this = selections.iter().filter(|it| it.receiver == name);
        let mut rules: Vec<_> = of_this.collect();
        rules.dedup_by(|one, other| one.conditions == other.conditions);
        if rules.is_empty() {
            notes.add(
                receiver.line,
                &path,
                "no feed is written: no rule leads to it",
            );
            continue;
        }
        let feed = unused(&name, &mut names);
        let Some(members) = receivers::receiver(receiver, &path, &feed, &mut notes) else {
            continue;
        };
        let file = members.iter().find(|(member, _)| *member == "file");
        if let Some(file) = file.and_then(|(_, file)| file["path"].as_str()) {
            // An archive refuses two feeds with one file.
            if !files.insert(PathBuf::from(file)) {
                let why = "no feed is written: another one has this file";
                notes.add(receiver.line, &path, why);
                continue;
            }
            for rule in rules.drain(1..) {
                let why = format!(
                    "not taken over: a file is that of one feed, and {feed:?} has the first rule \
                     that leads to it; give this one a receiver with another path"
                );
                notes.add(rule.line, "receiver", &why);
            }
        }
        if rules.len() > 1 {
            let why = "several rules lead to it, so it has several feeds: an event that several \
                       select is sent by each, as before";
            notes.add(receiver.line, &path, why);
        }
        for (number, rule) in rules.into_iter().enumerate() {
            let feed = if number == 0 {
                feed.clone()
            } else {
                unused(&name, &mut names)
            };
            let mut all = Vec::new();
            if !rule.conditions.is_empty() {
                all.push(("match", Value::from(rule.conditions.clone())));
            }
            all.extend(members.iter().cloned());
            write(&feed, &all, &mut feeds);
        }
    }
    if feeds.len() == "feeds:\n".len() {
        "feeds: []\n".clone_into(&mut feeds);
    }
    notes.0.sort_by_key(|finding| finding.line);
    Ok(Converted {
        feeds,
        findings: notes.0,
    })
}

/// Returns a DNS label like the name, with a number if it is used already.
fn unused(name: &str, names: &mut BTreeSet<String>) -> String {
    let is_letter = |c: char| c.is_ascii_alphanumeric();
    let label = name
        .replace(|c: char| !is_letter(c), "-")
        .to_ascii_lowercase();
    let label: String = label.chars().take(NAME_LEN_MAX).collect();
    let label = match label.trim_matches('-') {
        "" => "feed",
        label => label,
    };
    let mut found = label.to_owned();
    let mut number = 2;
    while !names.insert(found.clone()) {
        found = format!("{label}-{number}");
        number += 1;
    }
    found
}

/// Writes a feed. Texts are in quotes of JSON, which YAML reads in the same way.
fn write(name: &str, members: &receivers::Members, feeds: &mut String) {
    // Writing to a text cannot fail.
    let _ = writeln!(feeds, "- name: {}", Value::from(name));
    for (key, value) in members {
        match value.as_object().filter(|members| !members.is_empty()) {
            Some(members) => {
                let _ = writeln!(feeds, "  {key}:");
                for (key, value) in members {
                    let _ = writeln!(feeds, "    {key}: {value}");
                }
            }
            None => {
                let _ = writeln!(feeds, "  {key}: {value}");
            }
        }
    }
}
