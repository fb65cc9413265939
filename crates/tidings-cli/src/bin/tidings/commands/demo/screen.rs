//! The demo's output: log lines and a progress bar on standard error, results on standard output.

use std::fmt;
use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use tidings::Event;

/// The demo's screen. Clones share their state.
#[derive(Clone)]
pub(super) struct Screen {
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Screen {
    /// With a progress bar on a terminal.
    pub(super) fn new(quiet: bool) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} jobs done, {elapsed}");
            let bar = ProgressBar::new(0);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, quiet }
    }

    /// Logs an event as it happens.
    pub(super) fn event(&self, event: &Event) {
        if self.quiet {
            return;
        }
        let line = format!(
            "{:<8} {:<14} {:<14} {}",
            event.event_type(),
            event.reason(),
            event.regarding(),
            event.message()
        );
        match &self.bar {
            Some(bar) => bar.println(line),
            // Nothing can be done if the terminal is gone.
            None => drop(writeln!(std::io::stderr(), "{line}")),
        }
    }

    /// Moves the bar.
    pub(super) fn progress(&self, done: usize, all: usize) {
        if let Some(bar) = &self.bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Prints a line on standard output.
    pub(super) fn say(&self, line: fmt::Arguments<'_>) {
        self.print(&format!("{line}\n"));
    }

    /// Prints text on standard output.
    pub(super) fn print(&self, text: &str) {
        let print = || drop(std::io::stdout().write_all(text.as_bytes()));
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Prints an error.
    pub(super) fn fail(&self, error: &dyn std::error::Error) {
        self.finish();
        drop(writeln!(std::io::stderr(), "tidings demo: {error}"));
    }
}
