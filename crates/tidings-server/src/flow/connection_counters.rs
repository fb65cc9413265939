//! Metrics of connections: how many are open, and why the server ended others.

use crate::metrics::{Counter, Counters, Label, Text};

/// The reason why the server ended or refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Refused: connections with credentials hold all places of its peer.
    PeerLimit,
    /// Ended without credentials, because another connection needed its place.
    Room,
    /// Ended for lack of credentials: for too long, or after an answer over HTTP/2.
    Unauthenticated,
    /// Ended because it was idle.
    Idle,
    /// Ended because the client did not read an answer in time.
    Untaken,
}

impl Ending {
    const ALL: [Self; 5] = [
        Self::PeerLimit,
        Self::Room,
        Self::Unauthenticated,
        Self::Idle,
        Self::Untaken,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::PeerLimit => "peer-limit",
            Self::Room => "room",
            Self::Unauthenticated => "unauthenticated",
            Self::Idle => "idle",
            Self::Untaken => "untaken",
        }
    }
}

#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    ended: Counters<[Label; 1]>,
    resets: Counter,
    handshake_errors: Counter,
}

impl Default for ConnectionMetrics {
    fn default() -> Self {
        let ended = Counters::new(
            "tidings_connections_ended_total",
            "Connections that the server ended or refused, by reason.",
        );
        // All series are created here, so that each exists before its first count.
        for ending in Ending::ALL {
            ended.of([("reason", ending.name())]);
        }
        Self {
            ended,
            resets: Counter::default(),
            handshake_errors: Counter::default(),
        }
    }
}

impl ConnectionMetrics {
    /// Counts a connection that the server ended or refused.
    pub(crate) fn ended(&self, why: Ending) {
        self.ended.of([("reason", why.name())]).add(1);
    }

    /// Counts HTTP/2 streams that the server reset because the client did not read in time.
    pub(crate) fn reset(&self, streams: u64) {
        self.resets.add(streams);
    }

    /// Counts a TLS handshake that failed or took too long.
    pub(crate) fn handshake_failed(&self) {
        self.handshake_errors.add(1);
    }

    /// Appends the metrics. The numbers are open connections with and without credentials.
    pub(crate) fn write(&self, (with, without): (usize, usize), text: &mut Text) {
        let name = "tidings_connections";
        text.metric(
            name,
            "gauge",
            "Open connections, by whether a request on them has shown good credentials.",
        );
        text.sample(name, &[("authenticated", "true")], with);
        text.sample(name, &[("authenticated", "false")], without);
        text.family(&self.ended);
        text.single(
            "tidings_streams_reset_total",
            "counter",
            "HTTP/2 streams that the server reset because the client did not read an answer in time.",
            self.resets.get(),
        );
        text.single(
            "apiserver_tls_handshake_errors_total",
            "counter",
            "TLS handshakes that failed or took too long.",
            self.handshake_errors.get(),
        );
    }
}
