//! Every verb of the command, run as a program against real servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]
#![expect(
    clippy::too_many_lines,
    reason = "some tests are a long table or story"
)]

#[cfg(unix)]
mod aggregated;
mod all_clusters;
#[cfg(unix)]
mod among_many;
#[cfg(unix)]
mod archive;
mod connection;
mod deploy;
mod documents;
mod event_rate_limit;
mod events;
mod export;
#[cfg(unix)]
mod feeds;
mod help;
mod hour;
mod import;
#[cfg(unix)]
mod installed;
mod judges;
mod kube_apiserver;
mod mcp;
mod pictures;
mod rbac;
mod record;
#[cfg(all(unix, feature = "objects"))]
mod sealed;
mod serve;
mod support;
mod tables;
mod team;
mod terminal;
#[cfg(unix)]
mod timeline;
mod watch;
