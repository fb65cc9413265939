//! `tidings feeds`: shows and changes the feeds of a running archive.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use http::{Method, Request};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidings_cli::table::{Cell, Column, Look, Screen, Table};
use tidings_core::printable;
use tidings_feeds::{FeedStatus, ReceiverOptions, State};

use super::cluster::{
    ClusterFlags, CommandError, DONE, EXIT_CODES, FAILED, Server, finish, one_line,
};
use super::terminal::{self, ColorFlag};

/// Show the feeds of a running archive, and act on them.
///
/// A feed delivers every version of an archive's events to a receiver (tidings archive --feeds).
/// Its state is idle, delivering, retrying, refused, or off: then only its cursor is left. Whoever
/// may get the path /feeds of the archive sees the feeds, and whoever may post to it changes them.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings feeds --kubeconfig ./archive/kubeconfig
  tidings feeds check --kubeconfig ./archive/kubeconfig
  tidings feeds dead-letters loki --kubeconfig ./archive/kubeconfig
  tidings feeds dead-letters loki --retry --kubeconfig ./archive/kubeconfig
  tidings feeds skip loki --to now --kubeconfig ./archive/kubeconfig
  tidings feeds template es --feeds feeds.yaml > template.json
  tidings feeds convert --from kee config.yaml > feeds.yaml

{EXIT_CODES}"))]
pub(crate) struct Args {
    /// What is done
    #[arg(value_enum, default_value = "status")]
    action: Action,
    /// Name of the feed [default for status and check: all]; the file to convert
    name: Option<String>,
    /// Which program's configuration is converted: kee is kubernetes-event-exporter
    #[arg(long, value_enum, value_name = "PROGRAM")]
    from: Option<Origin>,
    /// File of feeds, whose template is printed without an archive
    #[arg(long, value_name = "FILE")]
    feeds: Option<PathBuf>,
    /// Send the feed's dead letters again
    #[arg(long, conflicts_with = "drop")]
    retry: bool,
    /// Delete the feed's dead letters
    #[arg(long)]
    drop: bool,
    /// Where the feed is moved to: now is the end of its backlog
    #[arg(long, value_enum, value_name = "PLACE")]
    to: Option<To>,
    /// Form of the output of status
    #[arg(long, short, value_name = "FORM", default_value = "table")]
    output: Form,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    cluster: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    /// Show states, backlogs and what became of versions
    Status,
    /// Send a test record through each feed to its receiver
    Check,
    /// Show the records that the receiver rejected
    DeadLetters,
    /// Move the feed to the end of its backlog; the receiver is told how many versions it lost
    Skip,
    /// Print what prepares the receiver: an index template or a table
    Template,
    /// Remove the cursors of a feed that is not in the file of feeds any more
    Remove,
    /// Print a configuration of another program as a file of feeds, and what is not taken over
    Convert,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Origin {
    /// kubernetes-event-exporter
    Kee,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum To {
    /// The end of the backlog
    Now,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Form {
    /// Rows
    Table,
    /// One JSON object per feed and cluster, a line each
    Json,
}

/// Shows or changes feeds.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(feeds(args).await)
}

async fn feeds(args: Args) -> Result<u8, CommandError> {
    let usage = |why: &str| Err(CommandError::Usage(why.to_owned()));
    let needs_name = !matches!(args.action, Action::Status | Action::Check);
    if needs_name && args.name.is_none() {
        return usage("know which feed is meant: give its name");
    }
    if args.to.is_some() != (args.action == Action::Skip) {
        return usage("skip versions: give skip with --to now, and --to with nothing else");
    }
    if (args.retry || args.drop) && args.action != Action::DeadLetters {
        return usage("use --retry or --drop: they are for dead-letters");
    }
    if args.from.is_some() != (args.action == Action::Convert) {
        return usage("convert a configuration: give convert with --from kee and a file");
    }
    if args.action == Action::Convert {
        let (_, mut out) = args.color.output();
        return convert(args.name.as_deref().unwrap_or_default(), &mut out);
    }
    if let Some(file) = &args.feeds {
        if args.action != Action::Template {
            return usage("use a file of feeds: --feeds is for template");
        }
        let (_, mut out) = args.color.output();
        return template(file, args.name.as_deref().unwrap_or_default(), &mut out);
    }
    let server = args.cluster.root().await?.server().await?;
    let name = args.name.as_deref().unwrap_or_default();
    let (screen, mut out) = args.color.output();
    match args.action {
        Action::Status => return status(&server, &args, screen, &mut out).await,
        Action::Check => return check(&server, name, &mut out).await,
        Action::DeadLetters if args.retry || args.drop => {
            let (what, done) = if args.retry {
                ("retry", "are sent again")
            } else {
                ("drop", "are deleted")
            };
            let answer: Letters<u64> = ask(&server, Method::POST, &[name, what]).await?;
            writeln!(out, "{} dead letters {done}", answer.dead_letters)?;
        }
        Action::DeadLetters => {
            let path = [name, "dead-letters"];
            let answer: Letters<Vec<Letter>> = ask(&server, Method::GET, &path).await?;
            let rows = answer.dead_letters.into_iter().map(|letter| {
                let of = [
                    letter.at,
                    letter.cluster,
                    letter.cause,
                    letter.id,
                    letter.why,
                ];
                of.map(|text| Cell::new(&text)).to_vec()
            });
            let headings = ["AT", "CLUSTER", "CAUSE", "ID", "WHY"];
            print(&headings, rows.collect(), screen, &mut out)?;
        }
        Action::Skip => {
            ask::<Value>(&server, Method::POST, &[name, "skip"]).await?;
            writeln!(out, "{name} is at the end of its backlog")?;
        }
        // It needs no server.
        Action::Convert => {}
        Action::Remove => {
            ask::<Value>(&server, Method::POST, &[name, "remove"]).await?;
            writeln!(out, "{name} is removed")?;
        }
        Action::Template => {
            let found: Template = ask(&server, Method::GET, &[name, "template"]).await?;
            return print_template(name, found.template, &mut out);
        }
    }
    out.flush()?;
    Ok(DONE)
}

/// Prints the index template or the table definition that a feed's receiver needs. The feed is the
/// one with this name in a file of feeds; no archive is asked.
fn template(file: &Path, name: &str, out: &mut dyn Write) -> Result<u8, CommandError> {
    let shown = file.display().to_string();
    let failed = |why: &dyn std::fmt::Display| {
        CommandError::Failed(format!("read {}: {why}", printable(&shown)))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    // There is no data folder that a feed must not write to.
    let feeds = tidings_cli::feeds::parse(&text, folder, file).map_err(|why| failed(&why))?;
    let mut feeds = feeds.into_iter();
    let Some(feed) = feeds.find(|feed| feed.name == name) else {
        return Err(failed(&format_args!("there is no feed {name:?}")));
    };
    let template = match feed.receiver {
        ReceiverOptions::Http(_, form) => form.template(),
        _ => None,
    };
    print_template(name, template, out)
}

fn print_template(
    name: &str,
    template: Option<String>,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let Some(template) = template else {
        let why = format!("print a template: the receiver of {name} needs none");
        return Err(CommandError::Failed(why));
    };
    out.write_all(template.as_bytes())?;
    out.flush()?;
    Ok(DONE)
}

/// Prints the feeds of a configuration, and to standard error what is not taken over.
fn convert(file: &str, out: &mut dyn Write) -> Result<u8, CommandError> {
    let failed = |why: &dyn std::fmt::Display| {
        CommandError::Failed(format!("convert {}: {why}", printable(file)))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    let converted = tidings_feeds::convert::convert(&text).map_err(|error| failed(&error))?;
    let mut errors = terminal::errors();
    out.write_all(converted.feeds.as_bytes())?;
    out.flush()?;
    for finding in &converted.findings {
        writeln!(errors, "{}", printable(&finding.to_string()))?;
    }
    Ok(DONE)
}

#[derive(Deserialize)]
struct All<T> {
    feeds: Vec<T>,
}

#[derive(Deserialize)]
struct Checked {
    feed: String,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Letters<T> {
    dead_letters: T,
}

#[derive(Deserialize)]
struct Letter {
    at: String,
    cluster: String,
    cause: String,
    id: String,
    why: String,
}

#[derive(Deserialize)]
struct Template {
    template: Option<String>,
}

/// Sends a request below `/feeds`.
async fn ask<T: DeserializeOwned>(
    server: &Server,
    method: Method,
    path: &[&str],
) -> Result<T, CommandError> {
    let mut uri = "/feeds".to_owned();
    for segment in path.iter().filter(|segment| !segment.is_empty()) {
        uri.push('/');
        uri.push_str(&super::objects::segment(segment));
    }
    let request = Request::builder().method(method).uri(uri);
    let request = request.header(http::header::ACCEPT, "application/json");
    let request = request.body(Vec::new());
    let request = request.map_err(|error| CommandError::Usage(error.to_string()))?;
    // It is not repeated: what it does might be done twice.
    let answer = server.client.request::<T>(request).await;
    answer.map_err(|error| CommandError::request("use the feeds of the archive", "events", error))
}

async fn status(
    server: &Server,
    args: &Args,
    screen: Screen,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let mut all: All<FeedStatus> = ask(server, Method::GET, &[]).await?;
    let is_wanted = |feed: &FeedStatus| args.name.as_ref().is_none_or(|name| *name == feed.feed);
    all.feeds.retain(is_wanted);
    match args.output {
        Form::Json => {
            for feed in &all.feeds {
                let line = serde_json::to_string(feed).map_err(io::Error::from)?;
                writeln!(out, "{line}")?;
            }
        }
        Form::Table => {
            let rows = all.feeds.iter().map(row).collect();
            let headings = [
                "CLUSTER",
                "FEED",
                "STATE",
                "BACKLOG",
                "AGE",
                "DELIVERED",
                "DEAD",
                "SKIPPED",
                "GONE",
                "WORDS",
            ];
            print(&headings, rows, screen, out)?;
        }
    }
    out.flush()?;
    let is_bad = |feed: &FeedStatus| matches!(feed.state, State::Refused | State::Retrying);
    Ok(if all.feeds.iter().any(is_bad) {
        FAILED
    } else {
        DONE
    })
}

fn row(feed: &FeedStatus) -> Vec<Cell> {
    let totals = &feed.totals;
    let look = match feed.state {
        State::Refused | State::Retrying => Look::Warning,
        _ => Look::Plain,
    };
    let state = Cell::new(feed.state.name()).look(look);
    let backlog = if feed.is_in_history {
        "history".to_owned()
    } else {
        feed.backlog_versions.to_string()
    };
    let numbers = [
        totals.delivered,
        totals.dead.values().sum(),
        totals.skipped,
        totals.gone,
    ];
    let mut cells = vec![Cell::new(&feed.cluster), Cell::new(&feed.feed), state];
    cells.push(Cell::new(&backlog));
    cells.push(Cell::new(&format!("{:.0}s", feed.backlog_seconds)));
    cells.extend(numbers.map(|number| Cell::new(&number.to_string())));
    let retry = feed.retry.iter().filter(|retry| !retry.words.is_empty());
    let retry = retry.map(|retry| format!("dead letters: {}", retry.words));
    let words = std::iter::once(feed.words.clone()).filter(|words| !words.is_empty());
    let words: Vec<_> = words.chain(retry).collect();
    cells.push(Cell::new(&words.join("; ")));
    cells
}

fn print(
    headings: &[&str],
    rows: Vec<Vec<Cell>>,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let columns = headings.iter().map(|name| match *name {
        "CLUSTER" | "FEED" | "ID" => Column::of_names(name),
        name => Column::new(name),
    });
    Table::new(columns.collect(), screen).print(rows.into_iter(), out)
}

async fn check(server: &Server, name: &str, out: &mut dyn Write) -> Result<u8, CommandError> {
    let all: All<Checked> = ask(server, Method::POST, &[name, "check"]).await?;
    let mut code = DONE;
    for Checked { feed, error } in all.feeds {
        match error {
            None => writeln!(out, "{feed}: the receiver took a test record")?,
            Some(why) => {
                code = FAILED;
                writeln!(out, "{feed}: {}", one_line(&why))?;
            }
        }
    }
    out.flush()?;
    Ok(code)
}
