//! The least that durable storage can do: append records to a file, each with its length and a
//! checksum, many with one `fdatasync`. This log cannot be read, searched or compacted, and
//! compresses nothing.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tokio::sync::{mpsc, oneshot};
use xxhash_rust::xxh3::xxh3_64;

use super::events::NewEvent;
use super::target::{Sizes, Target, Written, disk_bytes};
use crate::Failure;

const NAME: &str = "log";

/// Maximum number of events that wait, and that are written with one sync.
const QUEUE: usize = 1024;

type Append = (NewEvent, oneshot::Sender<Result<u64, String>>);

struct Log(mpsc::Sender<Append>);

impl Log {
    fn create(file: &Path) -> Result<Self, Failure> {
        let mut file = File::options().create_new(true).append(true).open(file)?;
        let (sender, mut receiver) = mpsc::channel::<Append>(QUEUE);
        std::thread::spawn(move || {
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
                for (at, (_, answer)) in (1..).zip(waiting.drain(..)) {
                    let result = written.as_ref().map_err(ToString::to_string);
                    // The caller may no longer wait for the answer.
                    let _ = answer.send(result.map(|()| first + at));
                }
            }
        });
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
    let body = &bytes[start + 12..];
    let head = [
        &(body.len() as u32).to_be_bytes()[..],
        &xxh3_64(body).to_be_bytes(),
    ]
    .concat();
    bytes[start..start + 12].copy_from_slice(&head);
}

impl Target for Log {
    /// In a log an update is one more record.
    async fn put(&self, event: NewEvent, _: u64) -> Result<u64, Failure> {
        let (answer, answered) = oneshot::channel();
        self.0
            .send((event, answer))
            .await
            .map_err(|_| "the log has ended")?;
        Ok(answered.await??)
    }
}

/// Makes the writes in a log.
pub(super) async fn log(folder: &Path, sizes: Sizes) -> Result<(), Failure> {
    let log = Written::new(Log::create(&folder.join("log"))?, sizes.count, 0);
    let process = std::process::id();
    let figure = log.measure(NAME, sizes, process, async {}).await?;
    let records = sizes.count + sizes.updates;
    let bytes = disk_bytes(folder)? as f64 / records as f64;
    figure.with("disk_bytes_per_event", bytes).print();
    let alone = Log::create(&folder.join("alone"))?;
    Written::new(alone, sizes.count, 0).alone(NAME, sizes).await
}
