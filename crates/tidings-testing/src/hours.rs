//! The hours of a controller's life that are played in compressed time, and what each costs, for
//! the tests that play them against a sink in memory and against API servers. client-go's counts
//! come from `go test ./series-hour` in `benches/peers/client-go`, which runs client-go itself
//! through the same script.

use std::time::Duration;

/// Until client-go too has ended every series.
pub const AFTERWARDS: Duration = Duration::from_secs(13 * 60);

/// What is recorded in a second: about which object, in which version of it.
pub type Seen = Option<(usize, usize)>;

/// One hour.
pub struct Hour {
    /// What is said of it.
    pub name: &'static str,
    /// What is recorded in each of its seconds.
    pub seen: fn(usize) -> Seen,
    /// How many creates and patches that costs client-go.
    pub client_go: (usize, usize),
    /// And us.
    pub ours: (usize, usize),
}

/// Every hour that is played.
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

/// Each back-off of kubelet's: 10 s, doubling to 5 min.
fn back_off(second: usize) -> Seen {
    let (mut at, mut wait) = (0, 10);
    while at < second {
        at += wait;
        wait = (2 * wait).min(300);
    }
    (at == second).then_some((0, 1))
}
