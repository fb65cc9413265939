//! Every verb of the command as a user runs it: the program, against servers that are real.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deploy;
mod documents;
mod events;
mod export;
mod help;
mod hour;
#[path = "../../../tidings/tests/recording/hour_script.rs"]
mod hour_script;
mod kube_apiserver;
mod pictures;
#[path = "../../../tidings-store/tests/support/port.rs"]
mod port;
mod rbac;
mod record;
mod support;
mod terminal;
mod watch;
