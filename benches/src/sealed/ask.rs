//! Asks readers questions: each first of a reader that was just started, and then again. Measures
//! the time, and the number of requests to the storage.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidings_testing::process::{Process, peak_resident_bytes, resident_bytes};
use tidings_testing::s3::{BUCKET, S3Server};

use super::extent::{END, Extent, cluster};
use crate::serving::{Connection, Target};
use crate::showing::cluster::{Cluster, DAY, Said};
use crate::{Failure, Figure, Latencies, Numbers, now};

/// How often a question is repeated.
const AGAIN: u64 = 10;
/// Questions about one event choose from every 97th event of a cluster.
const ONE_OF: usize = 97;

/// Time by which each request to the storage is delayed.
const DELAY: Duration = Duration::from_millis(20);

const PERCENTILES: [&str; 2] = ["p50", "p99"];

/// How the questions are asked.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Asked {
    /// The folder of the S3 server
    folder: PathBuf,
    /// The program `tidings` that reads it
    #[arg(long)]
    tidings: PathBuf,
    /// Readers that are started for each question
    #[arg(long, default_value_t = 20)]
    rounds: u64,
}

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Object,
    Newest,
    Page,
    Month,
    Text,
    View,
}

const QUESTIONS: [(&str, Question); 6] = [
    ("object_newest_50", Question::Object),
    ("newest_50", Question::Newest),
    ("page_of_500", Question::Page),
    ("month_by_hour_and_reason", Question::Month),
    ("text_in_a_day", Question::Text),
    ("timeline_of_a_day_with_text", Question::View),
];

/// Asks every question, and prints figures.
pub(super) async fn ask(asked: &Asked, extent: Extent) -> Result<(), Failure> {
    let server = S3Server::start_far(&asked.folder, DELAY);
    let mut numbers = Numbers(11);
    for (name, question) in QUESTIONS {
        let (mut cold, mut warm) = (Latencies::default(), Latencies::default());
        let (mut requests, mut most, mut again, mut complete) = (0, 0, 0, 0);
        for _ in 0..asked.rounds {
            let mut reader = Reader::start(asked, &server).await?;
            let path = path(question, extent, &mut numbers);
            let before = reader.requests().await?;
            let (took, is_complete) = reader.ask(&path).await?;
            cold.push(took);
            complete += u64::from(is_complete);
            let first = reader.requests().await?;
            for _ in 0..AGAIN {
                warm.push(reader.ask(&path).await?.0);
            }
            again += reader.requests().await? - first;
            requests += first - before;
            most = most.max(first - before);
        }
        let share = asked.rounds.max(1) as f64;
        Figure::new(name)
            .times("cold_", &PERCENTILES, &mut cold)
            .times("warm_", &PERCENTILES, &mut warm)
            .with("requests", requests as f64 / share)
            .with("requests_max", most as f64)
            .with("requests_again", again as f64 / share)
            .with("complete", complete as f64 / share)
            .print();
    }
    memory(asked, extent, &server).await
}

/// Measures the memory of one reader that was asked every question about every cluster.
async fn memory(asked: &Asked, extent: Extent, server: &S3Server) -> Result<(), Failure> {
    let mut reader = Reader::start(asked, server).await?;
    let process = reader.process.id();
    let started = resident_bytes(process);
    let mut numbers = Numbers(13);
    for _ in 0..extent.clusters {
        for (_, question) in QUESTIONS {
            reader.ask(&path(question, extent, &mut numbers)).await?;
        }
    }
    Figure::new("memory")
        .with_bytes("started_bytes", started)
        .with_bytes("bytes", resident_bytes(process))
        .with_bytes("peak_bytes", peak_resident_bytes(process))
        .print();
    Ok(())
}

/// The path of a question, about a random cluster and time.
fn path(question: Question, extent: Extent, numbers: &mut Numbers) -> String {
    let number = numbers.below(extent.clusters);
    let cluster = cluster(number);
    let root = format!("/clusters/{cluster}");
    // A random range of this number of days within those of the archive.
    let mut range = |days: i64| {
        let days = days.min(extent.days) * DAY;
        let free = extent.days * DAY - days;
        let to = END - numbers.below(free.cast_unsigned()).cast_signed();
        (to - days, to)
    };
    let timeline = |name: &str, (from, to): (i64, i64), rest: &str| {
        format!("/timeline/api/{name}?cluster={cluster}&from={from}&to={to}{rest}")
    };
    match question {
        Question::Object => {
            let said = any(number, extent, numbers);
            let (namespace, kind, object) = (said.namespace, said.kind, said.object);
            format!(
                "{root}/api/v1/namespaces/{namespace}/events?order=newest&limit=50&fieldSelector=\
                 involvedObject.kind%3D{kind}%2CinvolvedObject.name%3D{object}"
            )
        }
        Question::Newest => format!("{root}/api/v1/events?order=newest&limit=50"),
        Question::Page => format!("{root}/api/v1/events?limit=500"),
        Question::Month => {
            let (from, to) = range(30);
            let time = |at| jiff::Timestamp::from_millisecond(at).unwrap_or_default();
            format!("{root}/counts?since={}&until={}", time(from), time(to))
        }
        Question::Text => timeline("events", range(1), "&limit=100&filter=no-such-text"),
        Question::View => timeline("view", range(1), "&filter=back-off"),
    }
}

/// A random event of a cluster.
fn any(cluster: u64, extent: Extent, numbers: &mut Numbers) -> Said {
    let events = || Cluster::new(cluster, extent.of_each(), extent.days, END);
    let at = numbers.below(extent.of_each() / ONE_OF as u64) as usize;
    let found = events().step_by(ONE_OF).nth(at);
    // There is always one, since a cluster has events.
    found.or_else(|| events().next()).unwrap_or_default()
}

/// A running `tidings serve --archive`, and a connection to it.
struct Reader {
    process: Process,
    connection: Connection,
    _data: tempfile::TempDir,
}

impl Reader {
    async fn start(asked: &Asked, server: &S3Server) -> Result<Self, Failure> {
        let data = tempfile::tempdir()?;
        let url = format!("s3://{BUCKET}/archive");
        let mut command = Command::new(&asked.tidings);
        command
            .args(["serve", "--secure-port=0", "--archive", &url])
            // Refreshes are switched off in effect, so that only the requests of the questions are
            // counted.
            .args(["--archive-refresh=24h", "--data-dir"])
            .arg(data.path())
            .envs(server.environment())
            .stderr(Stdio::null());
        let (process, kubeconfig) = Process::start_and_hear(&mut command)?;
        let target = Target::from_kubeconfig(kubeconfig.as_ref()).await?;
        Ok(Self {
            process,
            connection: target.connect().await?,
            _data: data,
        })
    }

    /// Asks a question. Returns the time until the answer, and whether that says that it is
    /// complete.
    async fn ask(&mut self, path: &str) -> Result<(Duration, bool), Failure> {
        let asked = now();
        let body = self.connection.read(path).await?;
        let took = asked.elapsed();
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        let complete = answer.and_then(|answer| answer["complete"].as_bool());
        Ok((took, complete.unwrap_or(true)))
    }

    /// The number of requests that the reader has sent to the storage.
    async fn requests(&mut self) -> Result<u64, Failure> {
        let body = self.connection.read("/metrics").await?;
        let text = String::from_utf8_lossy(&body);
        let lines = text.lines();
        let lines = lines.filter(|line| line.starts_with("tidings_objects_requests_total{"));
        let numbers = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        Ok(numbers.sum())
    }
}
