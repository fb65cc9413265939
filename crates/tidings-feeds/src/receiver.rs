//! The receivers of feeds.

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::delivery::Reply;
use crate::encode::clickhouse::ClickHouse;
use crate::encode::elasticsearch::Elasticsearch;
use crate::encode::loki::Loki;
use crate::encode::otlp::Otlp;
use crate::encode::webhook::Webhook;
use crate::encode::{Encoder, Verdict};
use crate::exclusive::Exclusive;
use crate::file::{FileOptions, LineFile, print};
use crate::http::{Connection, Sender};
use crate::lines;
use crate::record::{Record, Source};
use crate::series::Series;

/// The receiver of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReceiverOptions {
    /// JSON Lines on standard output.
    Stdout,
    /// Metrics of events, which [`Feeds::event_metrics`](crate::Feeds::event_metrics) returns.
    Metrics,
    /// JSON Lines in a file.
    File(FileOptions),
    /// Requests over HTTP.
    Http(Box<Connection>, Form),
}

/// The form of a receiver that is reached over HTTP. Each has an encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// CloudEvents.
    Webhook(Webhook),
    /// Grafana Loki's push API.
    Loki(Loki),
    /// OpenTelemetry's logs.
    Otlp(Otlp),
    /// The bulk API of Elasticsearch and OpenSearch.
    Elasticsearch(Elasticsearch),
    /// A table of ClickHouse.
    ClickHouse(ClickHouse),
}

impl Form {
    /// Returns what is created at the receiver before the feed begins, such as a table, if the form
    /// has such a thing.
    pub fn template(&self) -> Option<String> {
        match self {
            Self::Elasticsearch(elasticsearch) => Some(format!("{:#}\n", elasticsearch.template())),
            Self::ClickHouse(clickhouse) => Some(clickhouse.template()),
            Self::Webhook(_) | Self::Loki(_) | Self::Otlp(_) => None,
        }
    }

    fn encoder(self) -> Box<dyn Encoder> {
        match self {
            Self::Webhook(webhook) => Box::new(webhook),
            Self::Loki(loki) => Box::new(loki),
            Self::Otlp(otlp) => Box::new(otlp),
            Self::Elasticsearch(elasticsearch) => Box::new(elasticsearch),
            Self::ClickHouse(clickhouse) => Box::new(clickhouse),
        }
    }
}

/// Takes records.
pub(crate) enum Receiver {
    Stdout,
    Metrics(Mutex<Series>),
    File(Exclusive<LineFile>),
    Http(Box<Sender>),
}

impl Receiver {
    pub(crate) fn new(options: ReceiverOptions) -> Self {
        match options {
            ReceiverOptions::Stdout => Self::Stdout,
            ReceiverOptions::Metrics => Self::Metrics(Mutex::default()),
            ReceiverOptions::File(options) => Self::File(Exclusive::new(LineFile::new(options))),
            ReceiverOptions::Http(connection, form) => {
                Self::Http(Box::new(Sender::new(*connection, form.encoder())))
            }
        }
    }

    /// How many records a request has at most.
    pub(crate) fn records_max(&self) -> usize {
        match self {
            Self::Stdout | Self::Metrics(_) | Self::File(_) => usize::MAX,
            Self::Http(sender) => sender.records_max(),
        }
    }

    /// Returns the metrics of events, if it counts them.
    pub(crate) fn event_metrics(&self) -> Option<String> {
        match self {
            Self::Metrics(series) => {
                let series = series.lock();
                Some(series.page())
            }
            _ => None,
        }
    }

    /// Sends records. `now` is the wall time.
    pub(crate) async fn send(&self, source: &Source, records: &[Record], now: Timestamp) -> Reply {
        let file = match self {
            Self::Http(sender) => return sender.send(source, records, now).await,
            Self::Metrics(series) => {
                let mut series = series.lock();
                for record in records {
                    series.count(&source.cluster, record);
                }
                return Reply::Judged(Verdict::Delivered, None);
            }
            Self::Stdout => None,
            Self::File(file) => Some(file),
        };
        let mut all = Vec::new();
        for record in records {
            lines::write(source, record, &mut all);
        }
        let written = if let Some(file) = file {
            file.run(move |file| file.append(&all)).await
        } else {
            let printed = tokio::task::spawn_blocking(move || print(&all)).await;
            printed.unwrap_or_else(|error| Err(std::io::Error::other(error)))
        };
        let verdict = match written {
            Ok(()) => Verdict::Delivered,
            // A file takes every record, or none.
            Err(error) => Verdict::Busy(error.to_string()),
        };
        Reply::Judged(verdict, None)
    }

    /// Waits until the writes to a file that began have ended.
    pub(crate) async fn settle(&self) {
        if let Self::File(file) = self {
            file.settle().await;
        }
    }

    /// Whether the writes to a file that began have ended.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::File(file) => file.is_settled(),
            _ => true,
        }
    }
}
