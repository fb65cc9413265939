//! The least that durable storage can do: append records to a file, each with its length and a
//! checksum, many with one `fdatasync`. This log cannot be read, searched or compacted, and
//! compresses nothing.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use xxhash_rust::xxh3::xxh3_64;

use super::events::{Events, NewEvent};
use super::failure::Failure;
use super::figures::{LONE_WRITES, figure, with_amplification, with_burst, with_peak};
use super::load::{self, Target, Writes, burst, revisions};
use super::process::{bytes_written, disk_bytes};

const NAME: &str = "log";

/// Maximum number of events that wait, and that are written with one sync.
const QUEUE: usize = 1024;

type Append = (NewEvent, oneshot::Sender<Result<u64, String>>);

struct Log(mpsc::Sender<Append>);

impl Log {
    fn create(file: &Path) -> Result<Self, Failure> {
        let mut file = File::options().create_new(true).append(true).open(file)?;
        let (sender, mut receiver) = mpsc::channel::<Append>(QUEUE);
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || {
                let (mut waiting, mut bytes, mut revision) = (Vec::new(), Vec::new(), 0);
                // Takes all events that wait now.
                while receiver.blocking_recv_many(&mut waiting, QUEUE) > 0 {
                    bytes.clear();
                    let first = revision;
                    for (event, _) in &waiting {
                        revision += 1;
                        append(event, revision, &mut bytes);
                    }
                    let written = file.write_all(&bytes).and_then(|()| file.sync_data());
                    for (at, (_, answer)) in waiting.drain(..).enumerate() {
                        let result = written.as_ref().map_err(ToString::to_string);
                        // The caller may no longer wait for the answer.
                        let _ = answer.send(result.map(|()| first + at as u64 + 1));
                    }
                }
            })?;
        Ok(Self(sender))
    }
}

fn append(event: &NewEvent, revision: u64, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.extend([0; 12]);
    bytes.extend(revision.to_be_bytes());
    bytes.extend((event.key.len() as u16).to_be_bytes());
    bytes.extend(&event.key);
    bytes.extend(&event.value);
    let body = bytes.get(start + 12..).unwrap_or_default();
    let (len, checksum) = (
        (body.len() as u32).to_be_bytes(),
        xxh3_64(body).to_be_bytes(),
    );
    if let Some(head) = bytes.get_mut(start..start + 12) {
        head[..4].copy_from_slice(&len);
        head[4..].copy_from_slice(&checksum);
    }
}

impl Target for Log {
    async fn create(&self, event: NewEvent) -> Result<u64, Failure> {
        let (answer, answered) = oneshot::channel();
        self.0
            .send((event, answer))
            .await
            .map_err(|_| "the log has ended")?;
        Ok(answered.await??)
    }

    /// In a log an update is one more record.
    async fn update(&self, event: NewEvent, _: u64) -> Result<u64, Failure> {
        self.create(event).await
    }
}

/// Makes the writes of [`writes`](super::embedded::writes) in a log.
///
/// # Errors
/// The file cannot be written.
pub async fn log(folder: &Path, count: u64, updates: u64, writers: u64) -> Result<(), Failure> {
    let target = Arc::new(Log::create(&folder.join("log"))?);
    let events = Arc::new(Events::new(count));
    let (updates, process) = (updates.min(count), std::process::id());
    let none = revisions(0);
    let before = bytes_written(process);
    let created = burst(&target, &events, 0..count, writers, Writes::Creates, &none).await?;
    let bytes = disk_bytes(folder)? as f64 / count as f64;
    let payload = created.bytes;
    let updated = burst(
        &target,
        &events,
        0..updates,
        writers,
        Writes::Updates,
        &none,
    )
    .await?;
    let payload = payload + updated.bytes;
    let line = with_burst(
        figure(NAME, &format!("writes_{writers}")),
        created,
        "creates_",
    );
    let line = with_burst(line, updated, "updates_");
    let line = with_amplification(line, before, bytes_written(process), payload);
    with_peak(line)
        .with("events", count as f64)
        .with("disk_bytes_per_event", bytes)
        .print();
    let alone = Log::create(&folder.join("alone"))?;
    load::lone(
        &alone,
        &events,
        LONE_WRITES,
        figure(NAME, &format!("lone_{writers}")),
    )
    .await?
    .print();
    Ok(())
}
