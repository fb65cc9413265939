//! Runs a script against a server, and measures its effect on the server and on other clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::OptionFuture;
use http::header::CONNECTION;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::script::{Act, Ask, AtOnce, Script};
use crate::clock;
use crate::error::{Result, fail};
use crate::http::{Answer, Client, Connection, HttpError};
use crate::process::Process;
use crate::servers::ApiServer;

/// The token of the measured requests, unless they have their own.
const TOKEN: &str = "admin-token";
/// The token of the neighbours. Their user is another one, because the bounds of an attacker hold
/// for all requests of its user.
const NEIGHBOUR: &str = "neighbour-token";
/// A server counts as idle when it used less than this processor time in this interval.
const REST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_micros(300));
/// Maximum number of such intervals to wait for a server to be idle.
const UNREST_MAX: u32 = 300;
/// The pause of a neighbour between two requests.
const PAUSE: Duration = Duration::from_millis(2);
/// Maximum time for the server to take all bytes of a script.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum time for an archive to catch up with its source.
const LEVEL: Duration = Duration::from_secs(60);
/// Time for which the messages of a live stream are collected.
const COLLECT: Duration = Duration::from_secs(2);
/// An answer counts as complete after this time without bytes.
const SILENCE: Duration = Duration::from_millis(300);

/// What a script did to the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// The status code of the last answer, or a word for what came instead.
    pub(super) said: String,
    /// Why an answer was missing or incomplete.
    pub(super) unanswered: Option<String>,
    /// Whether the server refused the preparation, so that nothing could be measured.
    pub(super) unprepared: bool,
    /// Processor time that the server used.
    pub(super) spent: Duration,
    /// Length in bytes of the longest error answer, with its headers.
    pub(super) error: u64,
    /// Length in bytes of the longest answer without an error.
    pub(super) answer: u64,
    /// How much memory the server needed beyond that before the script, in bytes.
    pub(super) memory: u64,
    /// Maximum resident memory of the server, in bytes.
    pub(super) resident: u64,
    /// The slowest answer to a neighbour, if there were any.
    pub(super) neighbours: Option<Duration>,
}

impl Outcome {
    /// Joins two rounds: the shorter processor time, and the maximum of everything else.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            said: self.said,
            unanswered: self.unanswered.or(other.unanswered),
            unprepared: self.unprepared || other.unprepared,
            spent: self.spent.min(other.spent),
            error: self.error.max(other.error),
            answer: self.answer.max(other.answer),
            memory: self.memory.max(other.memory),
            resident: self.resident.max(other.resident),
            neighbours: self.neighbours.into_iter().chain(other.neighbours).min(),
        }
    }
}

/// Runs a script on an idle server, with or without neighbours. If the server follows a source, the
/// preparation is sent to that.
pub(super) async fn carry_out(
    server: &ApiServer,
    source: Option<&ApiServer>,
    script: &Script,
    with_neighbours: bool,
) -> Result<Outcome> {
    let process = &server.program.process();
    let mut outcome = Outcome::default();
    let first = source.unwrap_or(server);
    exchange(&first.client, &script.before, &mut outcome).await?;
    if let Some(source) = source {
        let level = timeout(LEVEL, level(&source.client, &server.client)).await;
        let Ok(level) = level else {
            let seconds = LEVEL.as_secs();
            return fail(format!(
                "the archive is behind its source after {seconds} s"
            ));
        };
        level?;
    }
    outcome.unprepared = outcome.error > 0 || outcome.unanswered.is_some();
    if !outcome.unprepared {
        outcome = Outcome::default();
    }
    rest(process).await?;
    process.forget_peak()?;
    let (before, _) = process.memory()?;
    let spent = process.spent()?;
    if !outcome.unprepared {
        let with_neighbours = with_neighbours || matches!(script.act, Act::AtOnce(_));
        let street = with_neighbours.then(|| Street::open(&server.client));
        let street = OptionFuture::from(street).await.transpose()?;
        act(&server.client, &script.act, &mut outcome).await?;
        if let Some(street) = street {
            outcome.neighbours = Some(street.close().await?);
        }
    }
    rest(process).await?;
    outcome.spent = process.spent()?.since(&spent);
    (_, outcome.resident) = process.memory()?;
    outcome.memory = outcome.resident.saturating_sub(before);
    Ok(outcome)
}

impl Outcome {
    fn answer(&mut self, status: StatusCode, length: u64) {
        self.said = status.as_u16().to_string();
        if status.as_u16() < 400 {
            self.answer = self.answer.max(length);
        } else {
            self.error = self.error.max(length);
        }
    }

    fn no_answer(&mut self, why: impl Into<String>) {
        "no answer".clone_into(&mut self.said);
        self.unanswered = Some(why.into());
    }
}

async fn act(client: &Client, act: &Act, seen: &mut Outcome) -> Result<()> {
    match act {
        Act::Requests(asks) => exchange(client, asks, seen).await,
        Act::Bytes(protocol, bytes) => {
            let stream = client.tunnel(*protocol).await?;
            let (mut reading, mut writing) = tokio::io::split(stream);
            // The server may end the connection at any moment.
            let sent = async { drop(writing.write_all(bytes).await) };
            let read = async {
                let mut piece = vec![0; 64 * 1024];
                let mut length = 0;
                while let Ok(Ok(more @ 1..)) = timeout(SILENCE, reading.read(&mut piece)).await {
                    length += more as u64;
                }
                length
            };
            // Bytes are sent and read at the same time, because a server whose answers nobody reads
            // may stop reading.
            let both = async { tokio::join!(sent, read) };
            if let Ok(((), length)) = timeout(PATIENCE, both).await {
                seen.answer = length;
                "sent".clone_into(&mut seen.said);
            } else {
                let seconds = PATIENCE.as_secs();
                seen.no_answer(format!("not all is taken within {seconds} s"));
            }
            Ok(())
        }
        Act::Connections(count, is_idle) => {
            let mut open = Vec::new();
            for _ in 0..*count {
                open.push(client.tunnel(None).await?);
                if !is_idle {
                    open.clear();
                }
            }
            if *is_idle {
                sleep(REST.0).await;
            }
            "done".clone_into(&mut seen.said);
            Ok(())
        }
        Act::AtOnce(asks) => at_once(client, asks, seen).await,
    }
}

/// Sends requests at the same time. The server must answer each, or tell it to come back later, and
/// must answer at least one.
async fn at_once(client: &Client, asks: &AtOnce, seen: &mut Outcome) -> Result<()> {
    let mut unread = JoinSet::new();
    for ask in &asks.unread {
        let (client, ask) = (client.clone(), ask.clone());
        unread.spawn(async move {
            let mut connection = client.connect().await?;
            let answer = connection.send(ask.request(TOKEN)?).await?;
            Ok::<_, HttpError>((connection, answer))
        });
    }
    let unread = unread.join_all().await;
    exchange(client, &asks.then, &mut Outcome::default()).await?;
    let mut read = JoinSet::new();
    for ask in &asks.read {
        let (client, ask) = (client.clone(), ask.clone());
        read.spawn(async move {
            let mut connection = client.connect().await?;
            send_over(&mut connection, &ask).await
        });
    }
    // Messages of streams are collected for a while.
    sleep(COLLECT).await;
    let unread = unread.into_iter().map(|sent| sent.map(|sent| (sent.1, 0)));
    // The connections of the unread answers stay open meanwhile.
    let answers: Vec<Sent> = unread.chain(read.join_all().await).collect();
    let mut served = 0;
    for sent in &answers {
        match sent
            .as_ref()
            .map(|(answer, length)| (answer.status, *length))
        {
            Ok((StatusCode::OK, length)) => {
                served += 1;
                seen.answer = seen.answer.max(length);
            }
            Ok((StatusCode::TOO_MANY_REQUESTS, length)) => seen.error = seen.error.max(length),
            Ok((other, _)) => seen.no_answer(format!("an answer is {other}")),
            Err(error) => seen.no_answer(chain(error)),
        }
    }
    if served == 0 {
        seen.no_answer("all are told to come back");
    }
    if seen.unanswered.is_none() {
        seen.said = format!("{served} 200");
    }
    Ok(())
}

async fn exchange(client: &Client, asks: &[Ask], seen: &mut Outcome) -> Result<()> {
    let mut connection = None;
    for ask in asks {
        match send(client, &mut connection, ask).await {
            Ok((answer, length)) => {
                seen.answer(answer.status, length + headers_length(&answer.headers));
                if ends_the_connection(&answer.headers) {
                    connection = None;
                }
            }
            Err(error @ (HttpError::Request(_) | HttpError::Connect(_))) => {
                return Err(error.into());
            }
            Err(error) => {
                seen.no_answer(chain(&error));
                connection = None;
            }
        }
    }
    Ok(())
}

/// An answer with the length of its body.
type Sent = std::result::Result<(Answer, u64), HttpError>;

/// Sends a request and reads the answer and its length. As with every client, a connection that the
/// server has closed since the last answer is replaced by a new one.
async fn send(client: &Client, connection: &mut Option<Connection>, ask: &Ask) -> Sent {
    if let Some(open) = connection {
        match send_over(open, ask).await {
            Err(HttpError::Answer(_)) => {}
            answered => return answered,
        }
    }
    send_over(connection.insert(client.connect().await?), ask).await
}

async fn send_over(open: &mut Connection, ask: &Ask) -> Sent {
    let mut answer = open.send(ask.request(TOKEN)?).await?;
    let length = answer.length().await?;
    Ok((answer, length))
}

/// The texts of an error and its sources.
fn chain(error: &HttpError) -> String {
    let first: &(dyn std::error::Error + 'static) = error;
    let texts = std::iter::successors(Some(first), |error| error.source());
    texts
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// Whether an answer says that the server closes the connection.
fn ends_the_connection(headers: &HeaderMap) -> bool {
    headers
        .get(CONNECTION)
        .is_some_and(|value| value == "close")
}

fn headers_length(headers: &HeaderMap) -> u64 {
    let lengths = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    lengths.sum::<usize>() as u64
}

/// Waits until an archive has caught up with its source.
async fn level(source: &Client, archive: &Client) -> Result<()> {
    let list = "/api/v1/events?limit=1";
    let listed = source
        .call(Method::GET, list, "", "")
        .await?
        .success(list)?;
    let number = |version: &Value| version.as_str().and_then(|text| text.parse::<u64>().ok());
    let Some(version) = number(&listed["metadata"]["resourceVersion"]) else {
        return fail("the source's list has no resourceVersion");
    };
    loop {
        let coverage = archive.call(Method::GET, "/coverage", "", "").await?.json;
        let followed = number(&coverage["followed"][0]["resourceVersion"]);
        if followed.is_some_and(|followed| followed >= version) {
            return Ok(());
        }
        sleep(REST.0).await;
    }
}

/// Waits until the server is idle.
async fn rest(process: &Process) -> Result<()> {
    let mut before = process.spent()?;
    for _ in 0..UNREST_MAX {
        sleep(REST.0).await;
        let now = process.spent()?;
        if now.since(&before) < REST.1 {
            break;
        }
        before = now;
    }
    Ok(())
}

/// The neighbours: other clients that ask all the time. One asks for `/livez`, one for events, one
/// for the timeline's page.
struct Street {
    neighbours: JoinSet<Result<Duration>>,
    over: Arc<AtomicBool>,
}

impl Street {
    /// Starts the neighbours, and waits until each has had an answer.
    async fn open(client: &Client) -> Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let mut neighbours = JoinSet::new();
        for ask in [
            Ask::get("/livez", false),
            Ask::get("/api/v1/namespaces/neighbours/events?limit=1", true),
            Ask::get("/timeline/", false),
        ] {
            let mut connection = client.connect().await?;
            let (_, status) = ask_once(&mut connection, &ask).await?;
            if status != StatusCode::OK {
                return fail(format!("a neighbour was answered {status}"));
            }
            neighbours.spawn(neighbour(
                client.clone(),
                connection,
                ask,
                Arc::clone(&over),
            ));
        }
        Ok(Self { neighbours, over })
    }

    /// Stops the neighbours. Returns the slowest answer.
    async fn close(mut self) -> Result<Duration> {
        self.over.store(true, Ordering::Relaxed);
        let mut slowest = Duration::ZERO;
        while let Some(ended) = self.neighbours.join_next().await {
            slowest = slowest.max(ended??);
        }
        Ok(slowest)
    }
}

async fn neighbour(
    client: Client,
    mut connection: Connection,
    ask: Ask,
    over: Arc<AtomicBool>,
) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let waited = match ask_once(&mut connection, &ask).await {
            // The server ends a connection without credentials after a while, and may do so between
            // two requests.
            Err(HttpError::Answer(_)) => {
                connection = client.connect().await?;
                ask_once(&mut connection, &ask).await
            }
            waited => waited,
        };
        match waited {
            Ok((waited, StatusCode::OK)) => slowest = slowest.max(waited),
            Ok((_, status)) => return fail(format!("a neighbour was answered {status}")),
            Err(error) => return fail(format!("a neighbour was not answered: {error}")),
        }
        sleep(PAUSE).await;
    }
    Ok(slowest)
}

/// Sends a request. Returns the time until its answer was complete, and its status.
async fn ask_once(
    connection: &mut Connection,
    ask: &Ask,
) -> std::result::Result<(Duration, StatusCode), HttpError> {
    let request = ask.request(NEIGHBOUR)?;
    let started = clock::steady();
    let mut answer = connection.send(request).await?;
    answer.length().await?;
    Ok((started.elapsed(), answer.status))
}
