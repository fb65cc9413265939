//! Hours of a controller in compressed time, with the number of writes of each, for tests against a
//! sink in memory and against API servers. client-go's counts come from `go test ./series-hour` in
//! `benches/peers/client-go`, which runs client-go itself through the same script.

use std::time::Duration;

/// Until client-go, too, has ended every series.
pub const AFTERWARDS: Duration = Duration::from_secs(13 * 60);

/// Recorded events of a second: the object and its version.
pub type Seen = Option<(usize, usize)>;

/// One hour.
pub struct Hour {
    /// Its description.
    pub name: &'static str,
    /// The recorded events of each second.
    pub seen: fn(usize) -> Seen,
    /// Creates and patches of client-go.
    pub client_go: (usize, usize),
    /// Our creates and patches.
    pub ours: (usize, usize),
}

/// All hours.
pub const HOURS: [Hour; 8] = [
    Hour {
        name: "every second",
        seen: |second| every(1, second),
        client_go: (1, 4),
        ours: (1, 3),
    },
    Hour {
        name: "every 10 seconds",
        seen: |second| every(10, second),
        client_go: (1, 4),
        ours: (1, 3),
    },
    Hour {
        name: "every 5 minutes",
        seen: |second| every(300, second),
        client_go: (1, 4),
        ours: (1, 3),
    },
    Hour {
        name: "every 7 minutes",
        seen: |second| every(420, second),
        client_go: (2, 6),
        ours: (1, 3),
    },
    Hour {
        name: "every 13 minutes",
        seen: |second| every(780, second),
        client_go: (5, 0),
        ours: (5, 0),
    },
    Hour {
        name: "back-off",
        seen: back_off,
        client_go: (1, 4),
        ours: (1, 3),
    },
    Hour {
        name: "rollouts",
        seen: |second| {
            let phase = second % 900;
            (phase < 30).then_some((phase / 3, 1))
        },
        client_go: (40, 80),
        ours: (40, 80),
    },
    Hour {
        name: "updated objects",
        seen: |second| second.is_multiple_of(30).then_some((0, second)),
        client_go: (120, 0),
        ours: (1, 3),
    },
];

/// About one object, at an interval in seconds.
pub fn every(seconds: usize, second: usize) -> Seen {
    second.is_multiple_of(seconds).then_some((0, 1))
}

/// Every back-off of a kubelet: 10 s, doubling to 5 min.
fn back_off(second: usize) -> Seen {
    let (mut at, mut wait) = (0, 10);
    while at < second {
        at += wait;
        wait = (2 * wait).min(300);
    }
    (at == second).then_some((0, 1))
}
