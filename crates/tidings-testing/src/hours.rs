//! Hours of a controller's events, with the number of writes that each leads to. Tests run them in
//! compressed time, against a sink in memory and against API servers. client-go's numbers come from
//! `go test ./series-hour` in `benches/peers/client-go`, which runs client-go itself through the
//! same script.

use std::time::Duration;

/// Time after the hour in which client-go too ends every series.
pub const AFTERWARDS: Duration = Duration::from_secs(13 * 60);

/// What is recorded in a second: the number of the object and of the event's version, if anything.
pub type Seen = Option<(usize, usize)>;

/// An hour of recorded events.
pub struct Hour {
    /// Its description.
    pub name: &'static str,
    /// What is recorded in each second of the hour.
    pub seen: fn(usize) -> Seen,
    /// Number of creates and of patches that client-go sends.
    pub client_go: (usize, usize),
    /// Number of creates and of patches that we send.
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

/// Events about one object at an interval in seconds.
pub fn every(seconds: usize, second: usize) -> Seen {
    second.is_multiple_of(seconds).then_some((0, 1))
}

/// Every back-off of a kubelet: after 10 s, and then after twice the time up to 5 min.
fn back_off(second: usize) -> Seen {
    let (mut at, mut wait) = (0, 10);
    while at < second {
        at += wait;
        wait = (2 * wait).min(300);
    }
    (at == second).then_some((0, 1))
}
