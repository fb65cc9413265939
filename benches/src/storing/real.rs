//! Events captured on real clusters, as JSON Lines. They are repeated with other names, uids and
//! times until there are enough.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_store::UnixMillis;

use super::events::NewEvent;
use crate::{Failure, Numbers};

/// The events of a folder of captures.
pub(crate) struct RealEvents(Vec<Value>);

impl RealEvents {
    /// Reads every `.jsonl` file of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut files: Vec<_> = fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        files.sort();
        let mut events = Vec::new();
        for file in files {
            let text = fs::read_to_string(file)?;
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok());
            // An event in the form of events.k8s.io is the same event again, as another document.
            events.extend(lines.filter(|event: &Value| {
                event["apiVersion"] != "events.k8s.io/v1" && event["metadata"]["name"].is_string()
            }));
        }
        if events.is_empty() {
            return Err(format!("{} has no event in a .jsonl file", folder.display()).into());
        }
        Ok(Self(events))
    }

    /// The event with this number. From the second round on it has a name, uids and times of its
    /// own, so that only what real events have in common helps to compress them.
    pub(crate) fn event(&self, number: u64) -> Result<NewEvent, Failure> {
        let events = self.0.len() as u64;
        let mut event = self.0[(number % events) as usize].clone();
        if number >= events {
            renew(&mut event, number, number / events);
        }
        let seen = [&event["lastTimestamp"], &event["eventTime"]];
        let seen = seen
            .into_iter()
            .find_map(|time| time.as_str()?.parse::<Timestamp>().ok());
        NewEvent::of(
            &event,
            UnixMillis(seen.map_or(0, Timestamp::as_millisecond)),
        )
    }
}

fn renew(event: &mut Value, number: u64, round: u64) {
    let mut numbers = Numbers(number);
    let suffix = numbers.next();
    let name = event["metadata"]["name"].as_str().unwrap_or_default();
    let (name, _) = name.rsplit_once('.').unwrap_or((name, ""));
    event["metadata"]["name"] = format!("{name}.{suffix:016x}").into();
    event["metadata"]["uid"] = numbers.uid().into();
    // The uid of a node in events is its name, and stays.
    if let Value::String(uid) = &mut event["involvedObject"]["uid"]
        && uid.len() == 36
    {
        // All events about an object have one uid, which differs between rounds.
        let mix = |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
        *uid = Numbers(uid.bytes().fold(round, mix)).uid();
    }
    if event["involvedObject"]["resourceVersion"].is_string() {
        event["involvedObject"]["resourceVersion"] = numbers.below(90_000_000).to_string().into();
    }
    let later = SignedDuration::from_secs((round * 86_400 + numbers.below(80_000)).cast_signed());
    let created = event["metadata"]["creationTimestamp"].take();
    event["metadata"]["creationTimestamp"] = shifted(created, later);
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        event[field] = shifted(event[field].take(), later);
    }
}

/// A time in JSON, later by this much; anything else as it is.
fn shifted(time: Value, by: SignedDuration) -> Value {
    let parsed = time
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok());
    let shifted = parsed.and_then(|time| time.checked_add(by).ok());
    shifted.map_or(time, |time| time.to_string().into())
}
