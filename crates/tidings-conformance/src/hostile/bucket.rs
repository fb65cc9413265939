//! Buckets that cost their reader much: one whose content was changed by someone else, and one of
//! many files. The reader must report what is damaged, stay within its memory, and still answer for
//! the other clusters.

use std::io::Write;
use std::path::Path;

use futures::future::join_all;
use http::{Method, StatusCode};
use jiff::Timestamp;
use tidings_objects::{Filler, Forged, Place};

use super::report::{bytes, columns, millis};
use super::table::RESIDENT_MAX;
use crate::error::Result;
use crate::http::HttpError;
use crate::servers::ApiServer;

/// The cluster whose files are undamaged.
const GOOD: &str = "good";
const FOREIGN: [&str; 5] = [
    "good.bak/manifests/00000000000000000001.json",
    "good/manifests/999.json",
    "good/manifests/18446744073709551615.json",
    "good/events/notes.txt",
    "manifest/manifests/00000000000000000001.json",
];

/// A bucket and what is requested of its reader.
pub(super) struct Bucket {
    /// Its name in the list of kinds and in `--only`.
    pub(super) name: &'static str,
    is_forged: bool,
    /// Undamaged files, and the versions of each.
    files: u64,
    versions: u64,
    /// Paths that are requested of each cluster, each so often at once. The first reads every file.
    paths: &'static [&'static str],
    times: usize,
    /// Maximum resident memory of the reader, of which its caches are 64 MiB.
    memory_max: u64,
}

pub(super) const KINDS: [Bucket; 2] = [
    Bucket {
        name: "bucket: files, manifests and names that are not as they say",
        is_forged: true,
        files: 1,
        versions: 1_000,
        paths: &[
            "api/v1/events?limit=500",
            "api/v1/namespaces/shop-1/events",
            "api/v1/events?fieldSelector=involvedObject.name=web-3",
            "counts",
        ],
        times: 1,
        memory_max: 256 << 20,
    },
    Bucket {
        name: "bucket: lists of many files at once",
        is_forged: false,
        files: 1_000,
        versions: 300,
        paths: &[
            "api/v1/events?limit=500",
            "api/v1/namespaces/shop-1/events?limit=500",
            "api/v1/events?fieldSelector=involvedObject.name=web-3&limit=500",
            "api/v1/events?order=newest&limit=500",
            "counts",
        ],
        times: 8,
        memory_max: RESIDENT_MAX,
    },
];

fn name(forged: Forged) -> String {
    format!("{forged:?}").to_lowercase()
}

impl Bucket {
    async fn fill(&self, folder: &Path, damaged: usize) -> Result<Place> {
        let place = Place::create(&format!("file://{}", folder.display()))?;
        let mut good = Filler::new(&place, GOOD);
        let level = if self.is_forged { 0 } else { 3 };
        for file in 0..self.files {
            let versions = file * self.versions..(file + 1) * self.versions;
            good.add(level, versions.map(Filler::sample).collect())
                .await?;
        }
        good.finish(Timestamp::UNIX_EPOCH).await?;
        if self.is_forged {
            for forged in Forged::ALL {
                forged.put(&place, &name(forged), damaged).await?;
            }
            for name in FOREIGN {
                let file = folder.join(name);
                std::fs::create_dir_all(file.parent().unwrap_or(folder))?;
                std::fs::write(&file, "[".repeat(1 << 20))?;
            }
        }
        Ok(place)
    }

    /// Requests everything of a reader of such a bucket at once, with this number of damaged files
    /// of each kind. Returns what was wrong.
    pub(super) async fn judge(
        &self,
        tidings: &Path,
        damaged: usize,
        out: &mut impl Write,
    ) -> Result<Vec<String>> {
        let folder = tempfile::tempdir()?;
        let place = self.fill(folder.path(), damaged).await?;
        let mut clusters = vec![GOOD.to_owned()];
        if self.is_forged {
            clusters.extend(Forged::ALL.map(name));
        }
        let server = ApiServer::tidings(tidings, &["--archive", place.url()]).await?;
        let process = server.program.process();
        let before = process.spent()?;
        let paths = (0..self.times).flat_map(|_| self.paths);
        let asked = paths.flat_map(|path| clusters.iter().map(move |cluster| (cluster, *path)));
        let client = &server.client;
        let asked = asked.map(async |(cluster, path)| {
            let target = format!("/clusters/{cluster}/{path}");
            let request = client.request(Method::GET, &target, "", "");
            let status = async {
                let mut answer = client.send(request?).await?;
                answer.length().await?;
                Ok::<_, HttpError>(answer.status)
            };
            (cluster, path, status.await)
        });
        let (mut wrong, mut said, mut served) = (Vec::new(), StatusCode::OK, 0);
        for (cluster, path, answer) in join_all(asked).await {
            // A list of everything reads every file; what is damaged need not be read for others.
            let is_damaged = cluster != GOOD;
            let is_right = |status| match status {
                StatusCode::OK => !is_damaged || path != self.paths[0],
                StatusCode::INTERNAL_SERVER_ERROR => is_damaged,
                _ => false,
            };
            match answer {
                Ok(status) if is_right(status) => {
                    said = said.max(status);
                    served += usize::from(!is_damaged);
                }
                // It is told to come back.
                Ok(StatusCode::TOO_MANY_REQUESTS) => {}
                Ok(status) => wrong.push(format!("{cluster}/{path}: answered {status}")),
                Err(error) => wrong.push(format!("{cluster}/{path}: {error}")),
            }
        }
        if served == 0 {
            wrong.push("all are told to come back".to_owned());
        }
        if !server.client.is_ready().await {
            wrong.push("it is not ready any more".to_owned());
        }
        let spent = process.spent()?.since(&before);
        let (_, peak) = process.memory()?;
        if peak > self.memory_max {
            let (peak, bound) = (bytes(peak), bytes(self.memory_max));
            wrong.push(format!("memory of {peak}, bound {bound}"));
        }
        let mut row: [String; 8] = std::array::from_fn(|_| String::new());
        let size = if self.is_forged { damaged } else { 1_000 };
        row[0] = size.to_string();
        row[1] = said.as_u16().to_string();
        row[2] = format!("{} ms", millis(spent));
        row[6] = bytes(peak);
        writeln!(out, "{}", columns(self.name, row))?;
        let wrong = wrong.iter().map(|what| format!("{}: {what}", self.name));
        Ok(wrong.collect())
    }
}
