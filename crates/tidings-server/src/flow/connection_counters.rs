//! Connections: how many there are, and why the server ended one.

use crate::metrics::{Counter, Counters, Label, Text};

/// Why the server ended a connection, or refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All places of its peer are held by connections with credentials: it was refused.
    PeerLimit,
    /// It had no credentials, and another needed its place.
    Room,
    /// It had no credentials for too long, or over HTTP/2 got an answer without them.
    Unauthenticated,
    /// Nothing was asked on it.
    Idle,
    /// An answer was not taken in time.
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
    handshake_errors: Counter,
}

impl Default for ConnectionMetrics {
    fn default() -> Self {
        let ended = Counters::default();
        // Each is there before the first time.
        for ending in Ending::ALL {
            ended.of([("reason", ending.name())]);
        }
        Self {
            ended,
            handshake_errors: Counter::default(),
        }
    }
}

impl ConnectionMetrics {
    /// The server ended a connection, or refused it.
    pub(crate) fn ended(&self, why: Ending) {
        self.ended.of([("reason", why.name())]).add(1);
    }

    /// A TLS handshake failed or took too long.
    pub(crate) fn handshake_failed(&self) {
        self.handshake_errors.add(1);
    }

    /// `with` credentials and `without` connections are open.
    pub(crate) fn write(&self, (with, without): (usize, usize), text: &mut Text) {
        let name = "tidings_connections";
        text.metric(
            name,
            "gauge",
            "Open connections, by whether a request on them has shown good credentials.",
        );
        text.sample(name, &[("authenticated", "true")], with);
        text.sample(name, &[("authenticated", "false")], without);
        text.family(
            "tidings_connections_ended_total",
            "Connections that the server ended or refused, by reason.",
            &self.ended,
        );
        text.single(
            "apiserver_tls_handshake_errors_total",
            "counter",
            "TLS handshakes that failed or took too long.",
            self.handshake_errors.get(),
        );
    }
}
