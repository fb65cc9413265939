//! The flags that bound what clients may take up: requests, times, and the end.

use std::time::Duration;

use tidings_server::ApiOptions;

use super::values::{bytes, duration, duration_of_seconds};

/// What clients may take up. Names and defaults are kube-apiserver's, where it has such a flag.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits and times")]
pub(super) struct LimitFlags {
    /// Maximum of open connections of one peer, an IPv4 address or a /64 network of IPv6; 0 is no limit, for servers behind a proxy
    ///
    /// A new connection beyond it takes the place of the peer's oldest without credentials; if all have shown good ones, it is
    /// refused.
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    max_connections_per_peer: usize,
    /// A connection on which no request has shown good credentials ends after this, once nothing is asked on it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration_of_seconds)]
    unauthenticated_connection_timeout: Duration,
    /// So many reading requests are served at once, and watches that tell what there is; more wait for their turn. 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,
    /// So many writing requests are served at once; more wait for their turn. 0 is no limit
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// So many reading and so many writing requests wait, first come, first served; more get 429, with 0 at once
    ///
    /// kube-apiserver keeps users apart by priority and fairness; here all wait in one queue, system:masters, too.
    #[arg(long, value_name = "COUNT", default_value_t = 6400)]
    max_requests_inqueue: usize,
    /// A request waits no longer than this, nor than a quarter of its time, and gets 429 then
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    request_wait_limit: Duration,
    /// The longest body of a request, in bytes; Ki, Mi, k and M may follow. Longer ones get 413
    #[arg(long, value_name = "BYTES", default_value = "3Mi", value_parser = bytes)]
    max_request_bytes: usize,
    /// Longest line and headers of a request together, in bytes, from 8Ki to 1Mi; longer ones get 431
    ///
    /// Each connection may hold as much memory before its client has shown credentials. kube-apiserver takes 1Mi.
    #[arg(long, value_name = "BYTES", default_value = "64Ki", value_parser = header_bytes)]
    max_header_bytes: usize,
    /// Behind its first page, a Table asked for in pages of 500 rows or more, with no selector, has so many in a page. 0: as asked
    ///
    /// `kubectl get events` asks for 500 rows at a time and, after the first ten pages, no more than five times a second.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    table_continuation_rows: usize,
    /// A request other than a watch is given up after this
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_of_seconds)]
    request_timeout: Duration,
    /// Watches without a timeout of their own end after this to twice this
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration_of_seconds)]
    min_request_timeout: Duration,
    /// A watcher that allows bookmarks gets one this often
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_of_seconds)]
    bookmark_interval: Duration,
    /// After a signal, serve on for this long with /readyz failing, so that load balancers notice
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration)]
    shutdown_delay_duration: Duration,
    /// After that, requests that still run get this long to finish
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    shutdown_grace_period: Duration,
}

fn header_bytes(text: &str) -> Result<usize, String> {
    let accepted = |bytes: &usize| (8 << 10..=1 << 20).contains(bytes);
    let why = || format!("{text} is not from 8Ki to 1Mi");
    bytes(text).and_then(|bytes| Some(bytes).filter(accepted).ok_or_else(why))
}

impl LimitFlags {
    /// Sets what the flags say.
    pub(super) fn apply(self, options: &mut ApiOptions) {
        options.max_connections_per_peer = self.max_connections_per_peer;
        options.unauthenticated_connection_timeout = self.unauthenticated_connection_timeout;
        options.max_requests_inflight = self.max_requests_inflight;
        options.max_mutating_requests_inflight = self.max_mutating_requests_inflight;
        options.max_requests_inqueue = self.max_requests_inqueue;
        options.request_wait_limit = self.request_wait_limit;
        options.request_bytes_max = self.max_request_bytes;
        options.header_bytes_max = self.max_header_bytes;
        options.table_continuation_rows = self.table_continuation_rows;
        options.request_timeout = self.request_timeout;
        options.min_request_timeout = self.min_request_timeout;
        options.bookmark_interval = self.bookmark_interval;
        options.shutdown_delay = self.shutdown_delay_duration;
        options.shutdown_grace = self.shutdown_grace_period;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        limits: LimitFlags,
    }

    /// What `--help` says is what the library does.
    #[test]
    fn defaults_are_the_library_s() {
        let mut options = ApiOptions::default();
        Flags::parse_from(["serve"]).limits.apply(&mut options);
        assert_eq!(
            format!("{options:?}"),
            format!("{:?}", ApiOptions::default())
        );
        let flags = Flags::parse_from(["serve", "--shutdown-grace-period=5s"]);
        flags.limits.apply(&mut options);
        assert_eq!(options.shutdown_grace, Duration::from_secs(5));
        for (bytes, accepted) in [
            ("8Ki", true),
            ("8191", false),
            ("1Mi", true),
            ("2Mi", false),
        ] {
            let flag = format!("--max-header-bytes={bytes}");
            let parsed = Flags::try_parse_from(["serve", &flag]);
            assert_eq!(parsed.is_ok(), accepted, "{bytes}");
        }
    }
}
