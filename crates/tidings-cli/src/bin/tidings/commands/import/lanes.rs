//! Lanes that create events: concurrently for different objects, one after the other for the same
//! object.
//!
//! Invariants: the events of an object are created in the order in which they were found. Waiting
//! events have at most [`WAITING_BYTES_MAX`] bytes of text, except a single larger event.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use futures::future::join_all;
use tidings_cli::capture::report::Outcome;
use tidings_cli::capture::{Event, Found, Note, Record};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::create::Creator;
use super::versions::Versions;

/// Events that are created in a cluster at the same time.
pub(super) const LANES: usize = 16;
/// Maximum events that wait in one lane.
const LANE_LENGTH: usize = 256;
/// Maximum text of the events that wait in all lanes, in bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Unit in which the waiting text is counted, in bytes.
const UNIT: usize = 1 << 10;
const UNITS: usize = WAITING_BYTES_MAX / UNIT;

/// An event that waits in a lane.
struct Waiting {
    place: String,
    event: Event,
    notes: Vec<Note>,
    _room: Option<OwnedSemaphorePermit>,
}

type Done = (String, Outcome, Vec<Note>);

/// The results of the reading thread, each with the name of its capture.
pub(super) type Finds = mpsc::Receiver<(Arc<str>, Found)>;

/// Creates all found events in `lanes` lanes, and passes each outcome to `tell`. With one lane, all
/// events are created in the order in which they were found.
pub(super) async fn create(
    creator: &Creator,
    found: Finds,
    lanes: usize,
    mut tell: impl FnMut(&str, &Outcome, &[Note]),
) {
    let (done, mut outcomes) = mpsc::channel(LANES);
    let (lanes, waiting): (Vec<_>, Vec<_>) = (0..lanes).map(|_| mpsc::channel(LANE_LENGTH)).unzip();
    let run = waiting
        .into_iter()
        .map(|waiting| lane(creator, waiting, done.clone()));
    let run = join_all(run);
    let told = async {
        while let Some((place, outcome, notes)) = outcomes.recv().await {
            tell(&place, &outcome, &notes);
        }
    };
    tokio::join!(distribute(creator, found, lanes, done), run, told);
}

/// Runs one lane: creates its events one after the other.
async fn lane(creator: &Creator, mut waiting: mpsc::Receiver<Waiting>, done: mpsc::Sender<Done>) {
    while let Some(next) = waiting.recv().await {
        let outcome = creator.create(next.event).await;
        // The receiver exists as long as the lanes.
        let _ = done.send((next.place, outcome, next.notes)).await;
    }
}

/// Puts each event into the lane of its object.
async fn distribute(
    creator: &Creator,
    mut found: Finds,
    lanes: Vec<mpsc::Sender<Waiting>>,
    done: mpsc::Sender<Done>,
) {
    let room = Arc::new(Semaphore::new(UNITS));
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let mut versions = Versions::default();
    while let Some((input, found)) = next(creator, &mut found).await {
        let (place, outcome) = match found {
            Found::Record(record) => {
                let Record {
                    place,
                    length,
                    event,
                    mut notes,
                    ..
                } = record;
                match event {
                    Ok(event) => {
                        if versions.add(&event) {
                            notes.push(Note::OtherVersion);
                        }
                        let place = format!("{input}:{place} {}/{}", event.namespace, event.name);
                        let units = (length / UNIT + 1).min(UNITS);
                        let units = u32::try_from(units).unwrap_or(u32::MAX);
                        // The semaphore is never closed.
                        let room = Arc::clone(&room).acquire_many_owned(units).await.ok();
                        let index = hasher.hash_one((&event.namespace, event.object()));
                        let lane = lanes.get(index as usize % lanes.len().max(1));
                        let waiting = Waiting {
                            place,
                            event,
                            notes,
                            _room: room,
                        };
                        if let Some(lane) = lane {
                            // The lanes end only after this sender is dropped.
                            let _ = lane.send(waiting).await;
                        }
                        continue;
                    }
                    Err(why) => (format!("{input}:{place}"), Outcome::Unreadable(why)),
                }
            }
            Found::Failed { place, why } => (format!("{input}:{place}"), Outcome::Failed(why)),
            Found::Nothing { what } => (input.to_string(), Outcome::Nothing(what)),
            _ => continue,
        };
        let _ = done.send((place, outcome, Vec::new())).await;
    }
}

/// The next result of the reading thread. After sending has stopped, reading stops, too; events
/// read already count as not sent.
async fn next(creator: &Creator, found: &mut Finds) -> Option<(Arc<str>, Found)> {
    if creator.stopped().is_some() {
        found.close();
    }
    tokio::select! {
        biased;
        next = found.recv() => next,
        // Standard input may be silent for a long time.
        () = creator.told_to_stop() => {
            found.close();
            found.recv().await
        }
    }
}
