//! The flags that limit clients: connections of one peer, and the shutdown.

use std::time::Duration;

use tidings_server::ApiOptions;

use tidings_cli::times::duration;

/// Limits of what clients may use. Names and defaults are kube-apiserver's where it has such a
/// flag.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Limits and timeouts")]
pub(crate) struct LimitFlags {
    /// Maximum open connections of one peer: an IPv4 address or an IPv6 /64 network. 0 means no
    /// limit, for servers behind a proxy
    ///
    /// Beyond it, a new connection replaces the peer's oldest one without credentials. If all of
    /// them have accepted credentials, the new connection is refused.
    #[arg(long, value_name = "COUNT", default_value_t = 2000)]
    max_connections_per_peer: usize,
    /// Time to continue serving after a signal, with /readyz failing, so that load balancers notice
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = duration)]
    shutdown_delay_duration: Duration,
}

impl LimitFlags {
    /// Applies the flags to the options.
    pub(crate) fn apply(self, options: &mut ApiOptions) {
        options.max_connections_per_peer = self.max_connections_per_peer;
        options.shutdown_delay = self.shutdown_delay_duration;
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
        let flags = Flags::parse_from(["serve", "--shutdown-delay-duration=5s"]);
        flags.limits.apply(&mut options);
        assert_eq!(options.shutdown_delay, Duration::from_secs(5));
    }
}
