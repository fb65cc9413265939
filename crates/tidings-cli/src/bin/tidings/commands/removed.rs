//! Flags of former versions of `tidings serve` and `tidings archive`, and what holds now.

/// Every removed flag, with what replaces it or the bound that holds now.
const REMOVED: [(&str, &str); 45] = [
    (
        "--admission-control-config-file",
        "--event-rate-limit-config takes the Configuration that this file names",
    ),
    ("--archive-cache", "the cache has 32Mi"),
    (
        "--archive-waiting-memory",
        "pending versions of a cluster have 32Mi",
    ),
    (
        "--archive-waiting-refresh",
        "the archive is asked every 5s, or as often as --archive-refresh says if that is shorter",
    ),
    ("--audit-log-max-wait", "an answer waits for 5s at most"),
    (
        "--audit-log-maxage",
        "--audit-log-maxbackup limits the number of rotated files; a job can delete old ones",
    ),
    (
        "--audit-log-truncate-max-event-size",
        "longer lines than 100Ki have no body",
    ),
    (
        "--audit-log-unauthenticated-maxsize",
        "the file for unknown users has 10 MiB",
    ),
    ("--bookmark-interval", "bookmarks are sent every minute"),
    (
        "--etcd-password-file",
        "passwords are not sent: etcd must accept --etcd-certfile and --etcd-keyfile",
    ),
    (
        "--etcd-servers-overrides",
        "--etcd-servers takes the URLs of the etcd for events",
    ),
    (
        "--etcd-username",
        "passwords are not sent: etcd must accept --etcd-certfile and --etcd-keyfile",
    ),
    (
        "--event-rate-limit-core-only",
        "the limits hold for both API versions",
    ),
    (
        "--event-rate-limit-dry-run",
        "limits cannot be tried; without --event-rate-limit-config every event is accepted",
    ),
    ("--event-size-limit", "an event has at most 1536Ki"),
    ("--event-size-policy", "larger events get 413"),
    (
        "--field-selector",
        "fieldSelector in the file of --clusters selects events",
    ),
    (
        "--from-now",
        "fromNow: true in the file of --clusters lists no existing events",
    ),
    (
        "--max-connections",
        "10000 connections may be open, or as many as open files and the container's memory allow",
    ),
    ("--max-header-bytes", "a request's head has at most 64Ki"),
    (
        "--max-mutating-requests-inflight",
        "200 writes are served at once; others wait",
    ),
    ("--max-request-bytes", "a body has at most 3Mi"),
    (
        "--max-requests-inflight",
        "400 reads are served at once; others wait",
    ),
    ("--max-requests-inqueue", "6400 requests of a kind may wait"),
    (
        "--min-request-timeout",
        "a watch without a timeout lasts 30 to 60 minutes",
    ),
    (
        "--mirror-deletions",
        "mirrorDeletions: true in the file of --clusters deletes what ended",
    ),
    ("--namespace", "--namespaces says what is followed"),
    ("-n", "--namespaces says what is followed"),
    (
        "--namespaces-file",
        "--namespaces takes the names of namespaces",
    ),
    (
        "--objects-grace",
        "replaced files are kept for 24h for their readers",
    ),
    ("--request-timeout", "a request has one minute"),
    (
        "--request-wait-limit",
        "a request waits for a minute at most, and for a quarter of its timeout",
    ),
    ("--requestheader-allowed-names", CONFIG_MAP),
    ("--requestheader-client-ca-file", CONFIG_MAP),
    ("--requestheader-extra-headers-prefix", CONFIG_MAP),
    ("--requestheader-group-headers", CONFIG_MAP),
    ("--requestheader-uid-headers", CONFIG_MAP),
    ("--requestheader-username-headers", CONFIG_MAP),
    (
        "--selector",
        "labelSelector in the file of --clusters selects events",
    ),
    (
        "-l",
        "labelSelector in the file of --clusters selects events",
    ),
    (
        "--shutdown-grace-period",
        "running requests have 30s to finish",
    ),
    (
        "--table-continuation-rows",
        "pages of a Table after the first have up to 10000 rows",
    ),
    (
        "--timeline-read-limit",
        "about 8000 events are read for a picture",
    ),
    (
        "--timeline-session-duration",
        "a browser logs in again after 12h",
    ),
    (
        "--unauthenticated-connection-timeout",
        "a connection without credentials ends after 30s",
    ),
];

const CONFIG_MAP: &str =
    "the server must be allowed to read kube-system/extension-apiserver-authentication";

/// Those that only one verb had. A word that ends with a hyphen is the beginning of flags.
const OF_ARCHIVE: [&str; 9] = [
    "--namespace",
    "-n",
    "--selector",
    "-l",
    "--field-selector",
    "--mirror-deletions",
    "--from-now",
    "--objects-grace",
    "--requestheader-",
];
const OF_SERVE: [&str; 5] = [
    "--admission-control-config-file",
    "--archive-",
    "--etcd-",
    "--event-",
    "--namespaces-file",
];

/// What holds instead of a flag that a verb had; `None` for every other text.
pub(super) fn advice(verb: &str, flag: &str) -> Option<&'static str> {
    let is_of = |flags: &[&str]| {
        let mut flags = flags.iter();
        flags.any(|it| *it == flag || it.ends_with('-') && flag.starts_with(it))
    };
    let had = match verb {
        "serve" => !is_of(&OF_ARCHIVE),
        "archive" => !is_of(&OF_SERVE),
        _ => false,
    };
    let found = REMOVED.iter().find(|(removed, _)| had && *removed == flag);
    found.map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::super::Command;
    use super::*;

    /// Options that nobody would set are constants. Raise this only for one that somebody asked
    /// for.
    const OPTIONS_MAX: usize = 55;

    #[test]
    fn servers_have_few_options_and_none_that_was_removed() {
        let mut options = BTreeSet::new();
        for name in ["serve", "archive"] {
            let command = Command::command();
            let verb = command.find_subcommand(name).unwrap();
            let flags = verb.get_arguments().filter(|arg| arg.get_id() != "help");
            for flag in flags.filter_map(|arg| arg.get_long()) {
                let found = advice(name, &format!("--{flag}"));
                assert_eq!(found, None, "--{flag} was removed");
                options.insert(flag.to_owned());
            }
        }
        assert!(
            options.len() <= OPTIONS_MAX,
            "{}: {options:?}",
            options.len()
        );
    }
}
