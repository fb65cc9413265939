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
    let server = ApiServer::start_tidings(tidings, &["--archive", place.url()]).await?;
    let process = Process::new(server.process().ok_or(HostileError::Ended)?);
    let before = process.spent()?;
    let mut wrong = Vec::new();
    let clusters: Vec<String> = Forged::ALL.map(name).to_vec();
    let all = clusters
        .iter()
        .flat_map(|cluster| PATHS.map(|path| (cluster.as_str(), path)));
    let all = all.chain(PATHS.map(|path| (GOOD, path)));
    let asked = all.map(|(cluster, path)| {
        let client = &server.client;
        async move { (cluster, path, ask(client, cluster, path).await) }
    });
    let mut said = StatusCode::OK;
    for (cluster, path, answer) in join_all(asked).await {
        let expected = if cluster == GOOD {
            StatusCode::OK
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        match answer {
            Ok(status) if status == expected => said = said.max(status),
            Ok(status) => wrong.push(format!("{NAME}: {cluster}/{path}: answered {status}")),
            Err(error) => wrong.push(format!("{NAME}: {cluster}/{path}: {error}")),
        }
    }
    if !server.client.is_ready().await {
        wrong.push(format!("{NAME}: it is not ready any more"));
    }
    let spent = process.spent()?.since(&before);
    let (_, peak) = process.memory()?;
    if peak > MEMORY_MAX {
        let (peak, bound) = (bytes(peak), bytes(MEMORY_MAX));
        wrong.push(format!("{NAME}: memory of {peak}, bound {bound}"));
    }
    let row = [
        files.to_string(),
        said.as_u16().to_string(),
        format!("{} ms", millis(spent)),
        String::new(),
        String::new(),
        String::new(),
        bytes(peak),
        String::new(),
    ];
    writeln!(out, "{}", columns(NAME, row))?;
    Ok(wrong)
}
