//! The flags that limit clients: connections, requests, times, and the shutdown.

use std::time::Duration;

use tidings_server::ApiOptions;

use tidings_cli::times::{duration, duration_of_seconds};
use tidings_cli::values::bytes;

/// Limits of what clients may use. Names and defaults are kube-apiserver's where it has such a
/// flag.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits and timeouts")]
pub(crate) struct LimitFlags {
    /// Maximum open connections of one peer: an IPv4 address or an IPv6 /64 network. 0 means no
    /// limit, for servers behind a proxy
    ///
    /// Beyond it, a new connection replaces the peer's oldest one without credentials. If all of
    /// them have accepted credentials, the new connection is refused.
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    max_connections_per_peer: usize,
    /// Time after which a connection ends if no request on it had valid credentials and none is
    /// pending
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration_of_seconds)]
    unauthenticated_connection_timeout: Duration,
    /// Maximum concurrent read requests, including watches until they have sent their initial
    /// events; further ones wait in the queue. 0 means no limit
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: usize,
    /// Maximum concurrent write requests; further ones wait in the queue. 0 means no limit
    #[arg(long, value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: usize,
    /// Maximum queued requests of each kind: reads, writes, reviews of oneself, and at most 100
    /// logins. They are served in order of arrival; further ones get 429. 0 means no queue
    ///
    /// There is one queue for all users, including system:masters. kube-apiserver separates users
    /// by priority and fairness.
    #[arg(long, value_name = "COUNT", default_value_t = 6400)]
    max_requests_inqueue: usize,
    /// Maximum time in the queue, and at most a quarter of the request's timeout; after it a
    /// request gets 429
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration)]
    request_wait_limit: Duration,
    /// Maximum length of a request body in bytes, with an optional suffix Ki, Mi, k or M; longer
    /// ones get 413
    #[arg(long, value_name = "BYTES", default_value = "3Mi", value_parser = bytes)]
    max_request_bytes: usize,
    /// Maximum length of a request's line and headers in bytes, from 8Ki to 1Mi; longer ones get
    /// 431
    ///
    /// Each connection may take this much memory before its client has shown credentials.
    /// kube-apiserver accepts 1Mi.
    #[arg(long, value_name = "BYTES", default_value = "64Ki", value_parser = header_bytes)]
    max_header_bytes: usize,
    /// Rows in each page after the first, for Tables requested in pages of 500 rows or more without
    /// a selector. 0 means as many as requested
    ///
    /// `kubectl get events` requests pages of 500 rows, after the first ten at most five a second.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    table_continuation_rows: usize,
    /// Timeout of a request other than a watch
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_of_seconds)]
    request_timeout: Duration,
    /// Minimum lifetime of a watch that requests no timeout; the maximum is twice as long
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration_of_seconds)]
    min_request_timeout: Duration,
    /// Interval of bookmarks for watchers that allow them
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_of_seconds)]
    bookmark_interval: Duration,
    /// Time to continue serving after a signal, with /readyz failing, so that load balancers notice
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration)]
    shutdown_delay_duration: Duration,
    /// Time for running requests to finish after that
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    shutdown_grace_period: Duration,
}

fn header_bytes(text: &str) -> Result<usize, String> {
    let accepted = |bytes: &usize| (8 << 10..=1 << 20).contains(bytes);
    let why = || format!("{text} is not between 8Ki and 1Mi");
    bytes(text).and_then(|bytes| Some(bytes).filter(accepted).ok_or_else(why))
}

impl LimitFlags {
    /// Applies the flags to the options.
    pub(crate) fn apply(self, options: &mut ApiOptions) {
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

    /// The defaults that `--help` shows are those of the library.
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
