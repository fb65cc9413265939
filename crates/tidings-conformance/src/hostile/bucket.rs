//! A bucket whose content was changed by someone else: its reader must report what is damaged, stay
//! within its memory, and still answer for the other clusters.

use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use tidings_objects::{Filler, Forged, Place};

use super::at_once::RESIDENT_MAX;
use super::error::HostileError;
use super::table::{bytes, columns, millis};
use crate::http::{Client, HttpError};
use crate::process::Process;
use crate::servers::ApiServer;

/// The name of this kind in the list of kinds and in `--only`.
pub(super) const NAME: &str = "bucket: files, manifests and names that are not as they say";
/// Maximum memory of the reader, of which its caches are 64 MiB.
const MEMORY_MAX: u64 = 256 << 20;
/// Paths that are requested of each cluster.
const PATHS: [&str; 4] = [
    "api/v1/events?limit=500",
    "api/v1/namespaces/shop-1/events",
    "api/v1/events?fieldSelector=involvedObject.name=web-3",
    "counts",
];
/// A bucket of which nothing is wrong but that it has many files.
pub(super) const NAME_OF_MANY: &str = "bucket: lists of many files at once";
/// Files, and the versions of each.
const FILES_MANY: usize = 1_000;
const VERSIONS: u64 = 300;
/// How often each of these is asked at once.
const AT_ONCE: usize = 8;
const PATHS_OF_MANY: [&str; 5] = [
    "api/v1/events?limit=500",
    "api/v1/namespaces/shop-1/events?limit=500",
    "api/v1/events?fieldSelector=involvedObject.name=web-3&limit=500",
    "api/v1/events?order=newest&limit=500",
    "counts",
];
/// The cluster whose files are undamaged.
const GOOD: &str = "good";
const FOREIGN: [&str; 5] = [
    "good.bak/manifests/00000000000000000001.json",
    "good/manifests/999.json",
    "good/manifests/18446744073709551615.json",
    "good/events/notes.txt",
    "manifest/manifests/00000000000000000001.json",
];

fn name(forged: Forged) -> String {
    format!("{forged:?}").to_lowercase()
}

async fn lay(folder: &Path, files: usize) -> Result<Place, String> {
    let place = Place::create(&format!("file://{}", folder.display()));
    let place = place.map_err(|error| error.to_string())?;
    let mut good = Filler::new(&place, GOOD);
    let versions = (0..1000).map(Filler::sample).collect();
    let filled = good.add(0, versions).await;
    filled.map_err(|error| error.to_string())?;
    let written = good.finish(Timestamp::UNIX_EPOCH).await;
    written.map_err(|error| error.to_string())?;
    for forged in Forged::ALL {
        let put = forged.put(&place, &name(forged), files).await;
        put.map_err(|error| error.to_string())?;
    }
    for name in FOREIGN {
        let file = folder.join(name);
        let parent = file.parent().unwrap_or(folder);
        let written = std::fs::create_dir_all(parent);
        let written = written.and_then(|()| std::fs::write(&file, "[".repeat(1 << 20)));
        written.map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(place)
}

async fn ask(client: &Client, cluster: &str, path: &str) -> Result<StatusCode, HttpError> {
    let request = Request::get(format!("/clusters/{cluster}/{path}"));
    let request = request.header("authorization", "Bearer admin-token");
    let mut answer = client.send(request.body(Full::<Bytes>::default())?).await?;
    answer.length().await?;
    Ok(answer.status)
}

/// Requests everything of a reader of such a bucket. Returns what was wrong.
pub(super) async fn judge(
    tidings: &Path,
    files: usize,
    out: &mut impl Write,
) -> Result<Vec<String>, HostileError> {
    let folder = tempfile::tempdir()?;
    let place = lay(folder.path(), files).await;
    let place = place.map_err(std::io::Error::other)?;
    let clusters: Vec<String> = Forged::ALL.map(name).to_vec();
    let all = clusters
        .iter()
        .flat_map(|cluster| PATHS.map(|path| (cluster.as_str(), path)));
    let all = all.chain(PATHS.map(|path| (GOOD, path)));
    let judged = Judged {
        name: NAME,
        size: files,
        memory_max: MEMORY_MAX,
    };
    judged.ask(tidings, &place, all.collect(), out).await
}

/// Asks a reader of many files at once; what is wrong.
pub(super) async fn judge_many(
    tidings: &Path,
    out: &mut impl Write,
) -> Result<Vec<String>, HostileError> {
    let folder = tempfile::tempdir()?;
    let place = lay_many(folder.path()).await;
    let place = place.map_err(std::io::Error::other)?;
    let all = (0..AT_ONCE).flat_map(|_| PATHS_OF_MANY.map(|path| (GOOD, path)));
    let judged = Judged {
        name: NAME_OF_MANY,
        size: FILES_MANY,
        memory_max: RESIDENT_MAX,
    };
    judged.ask(tidings, &place, all.collect(), out).await
}

async fn lay_many(folder: &Path) -> Result<Place, String> {
    let place = Place::create(&format!("file://{}", folder.display()));
    let place = place.map_err(|error| error.to_string())?;
    let mut good = Filler::new(&place, GOOD);
    for file in 0..FILES_MANY as u64 {
        let versions = file * VERSIONS..(file + 1) * VERSIONS;
        let added = good.add(3, versions.map(Filler::sample).collect());
        added.await.map_err(|error| error.to_string())?;
    }
    let written = good.finish(Timestamp::UNIX_EPOCH).await;
    written.map_err(|error| error.to_string())?;
    Ok(place)
}

/// What is judged, and its bound.
struct Judged {
    name: &'static str,
    size: usize,
    /// Maximum resident memory of the reader.
    memory_max: u64,
}

impl Judged {
    /// Asks a reader of a bucket for paths of its clusters, all at once; what is wrong.
    async fn ask(
        &self,
        tidings: &Path,
        place: &Place,
        all: Vec<(&str, &'static str)>,
        out: &mut impl Write,
    ) -> Result<Vec<String>, HostileError> {
        let name = self.name;
        let server = ApiServer::start_tidings(tidings, &["--archive", place.url()]).await?;
        let process = Process::new(server.process().ok_or(HostileError::Ended)?);
        let before = process.spent()?;
        let mut wrong = Vec::new();
        let asked = all.into_iter().map(|(cluster, path)| {
            let client = &server.client;
            async move { (cluster, path, ask(client, cluster, path).await) }
        });
        let (mut said, mut served) = (StatusCode::OK, 0);
        for (cluster, path, answer) in join_all(asked).await {
            // A list of everything reads every file; what is damaged need not be read for others.
            let is_damaged = cluster != GOOD;
            let is_right = |status| match status {
                StatusCode::OK => !is_damaged || path != PATHS[0],
                StatusCode::INTERNAL_SERVER_ERROR => is_damaged,
                _ => false,
            };
            match answer {
                Ok(status) if is_right(status) => {
                    said = said.max(status);
                    served += usize::from(cluster == GOOD);
                }
                // It is told to come back.
                Ok(StatusCode::TOO_MANY_REQUESTS) => {}
                Ok(status) => wrong.push(format!("{name}: {cluster}/{path}: answered {status}")),
                Err(error) => wrong.push(format!("{name}: {cluster}/{path}: {error}")),
            }
        }
        if served == 0 {
            wrong.push(format!("{name}: all are told to come back"));
        }
        if !server.client.is_ready().await {
            wrong.push(format!("{name}: it is not ready any more"));
        }
        let spent = process.spent()?.since(&before);
        let (_, peak) = process.memory()?;
        if peak > self.memory_max {
            let (peak, bound) = (bytes(peak), bytes(self.memory_max));
            wrong.push(format!("{name}: memory of {peak}, bound {bound}"));
        }
        let row = [
            self.size.to_string(),
            said.as_u16().to_string(),
            format!("{} ms", millis(spent)),
            String::new(),
            String::new(),
            String::new(),
            bytes(peak),
            String::new(),
        ];
        writeln!(out, "{}", columns(name, row))?;
        Ok(wrong)
    }
}
