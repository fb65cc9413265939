//! Events captured on real clusters, as JSON Lines. They are repeated with other names, uids and
//! times until there are enough.

use std::fs;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tidings_store::UnixMillis;

use super::events::{NewEvent, Numbers};
use super::failure::Failure;

/// The events of a folder of captures.
pub(crate) struct RealEvents {
    events: Vec<Event>,
    /// Number of lines that are not a core/v1 event with a name and a namespace.
    pub(super) skipped: usize,
}

/// How repeated events get the uids of their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectUids {
    /// Each event has a uid of its own, so that no two values are alike.
    OfEachEvent,
    /// All events about an object have one uid, which differs between rounds.
    OfEachObject,
}

impl RealEvents {
    /// Reads every `.jsonl` file of a folder.
    ///
    /// # Errors
    /// A file cannot be read, or none has an event.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let mut files: Vec<_> = fs::read_dir(folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .collect();
        files.sort();
        let (mut events, mut skipped) = (Vec::new(), 0);
        for file in files {
            for line in fs::read_to_string(file)?.lines() {
                // An event in the form of events.k8s.io is the same event again, as another
                // document.
                let is_core = !line.contains("\"events.k8s.io/v1\"");
                match serde_json::from_str::<Event>(line) {
                    Ok(event) if is_core && event.metadata.name.is_some() => events.push(event),
                    _ => skipped += 1,
                }
            }
        }
        if events.is_empty() {
            return Err(format!("{} has no event in a .jsonl file", folder.display()).into());
        }
        Ok(Self { events, skipped })
    }

    /// Number of events before they are repeated.
    pub(crate) fn distinct(&self) -> usize {
        self.events.len()
    }

    /// The event with this number. From the second round on it has a name, uids and times of its
    /// own, so that only what real events have in common helps to compress them.
    pub(crate) fn event(&self, number: u64, objects: ObjectUids) -> Result<NewEvent, Failure> {
        let (round, at) = (
            number / self.events.len() as u64,
            number as usize % self.events.len(),
        );
        let mut event = self.events.get(at).cloned().ok_or("no such event")?;
        if round > 0 {
            renew(&mut event, number, round, objects);
        }
        let seen = event.last_timestamp.as_ref().map(|time| time.0);
        let seen = seen.or_else(|| event.event_time.as_ref().map(|time| time.0));
        let seen = UnixMillis(seen.map_or(0, Timestamp::as_millisecond));
        Ok(NewEvent::of(&event, seen))
    }
}

fn renew(event: &mut Event, number: u64, round: u64, objects: ObjectUids) {
    let mut numbers = Numbers(number);
    let suffix = format!("{:016x}", numbers.next());
    if let Some(name) = &mut event.metadata.name {
        let end = name.rfind('.').unwrap_or(name.len());
        name.truncate(end);
        name.push('.');
        name.push_str(&suffix);
    }
    event.metadata.uid = Some(numbers.uid());
    // The uid of a node in events is its name, and stays.
    if let Some(uid) = &mut event.involved_object.uid
        && uid.len() == 36
    {
        *uid = match objects {
            ObjectUids::OfEachEvent => numbers.uid(),
            ObjectUids::OfEachObject => {
                let mix = |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte));
                Numbers(uid.bytes().fold(round, mix)).uid()
            }
        };
    }
    if event.involved_object.resource_version.is_some() {
        event.involved_object.resource_version = Some(numbers.below(90_000_000).to_string());
    }
    let later = SignedDuration::from_secs((round * 86_400 + numbers.below(80_000)).cast_signed());
    let shift = |time: &mut Option<Time>| {
        if let Some(time) = time
            && let Ok(shifted) = time.0.checked_add(later)
        {
            time.0 = shifted;
        }
    };
    shift(&mut event.metadata.creation_timestamp);
    shift(&mut event.first_timestamp);
    shift(&mut event.last_timestamp);
    if let Some(time) = &mut event.event_time
        && let Ok(shifted) = time.0.checked_add(later)
    {
        time.0 = shifted;
    }
}
