//! What receivers get: requests of real events in each form, and what the answers mean.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod clickhouse;
mod elasticsearch;
mod events;
mod loki;
mod otlp;
mod receivers;
mod series;
mod templates;
mod verdicts;
